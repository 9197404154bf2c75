// Work on pairs of sequences, shared among threads and ended by Ctrl-C even in the midst of a pair.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "strings.hpp"
#include "threads.hpp"

namespace mercer {

// Whether to stop: long loops ask every millisecond or so. On the thread that called, asking also
// polls, where a single pair takes long; what poll throws goes out from there and stops the others.
class Stop {
 public:
  explicit Stop(const Poll& poll) : poll_(poll) {}
  bool asked() {
    if (poll_ && std::this_thread::get_id() == caller_) {
      auto now = std::chrono::steady_clock::now();
      if (now - polled_ >= std::chrono::milliseconds(50)) {
        polled_ = now;
        poll();
      }
    }
    return stopped_.load(std::memory_order_relaxed);
  }
  void poll() {
    try {
      if (poll_) poll_();
    } catch (...) {
      stopped_ = true;
      throw;
    }
  }

 private:
  const Poll& poll_;
  std::atomic<bool> stopped_{false};
  std::thread::id caller_ = std::this_thread::get_id();
  std::chrono::steady_clock::time_point polled_ = std::chrono::steady_clock::now();
};

// Calls row(i, from, worker) for every point i of X: the entries (i, j), j >= from, are to be made.
// Longest sequences first, so that no thread is left with a long one at the end.
template <class Row>
void each_row(const Sequences& X, bool symmetric, Stop& stop, const Row& row) {
  std::vector<Index> order(static_cast<std::size_t>(X.n));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return X.size(a) > X.size(b); });
  parallel(
      X.n, threads(),
      [&](Index task, int worker) {
        Index i = order[static_cast<std::size_t>(task)];
        row(i, symmetric ? i : 0, worker);
      },
      [&] { stop.poll(); });
}

}  // namespace mercer
