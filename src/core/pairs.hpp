// Work on pairs of sequences, trees or graphs, shared among threads and ended by Ctrl-C even in the
// midst of a pair.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

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

// A block of n × m pairs of structures: rows are structures 0 to n - 1, columns those after them;
// or, where there are n in all, rows and columns are the same, and the block is symmetric.
// `diagonal` has the pairs of each structure with itself alone. A task has so many columns of one
// row, from a multiple of that number on.
class PairBlock {
 public:
  static PairBlock of(Index n, Index structures, Index columns_per_task) {
    PairBlock block(n == structures ? n : structures - n, n == structures, n == structures ? 0 : n);
    for (Index i = 0; i < n; ++i) {
      for (Index j = block.symmetric_ ? i : 0, next; j < block.m_; j = next) {
        next = std::min((j / columns_per_task + 1) * columns_per_task, block.m_);
        block.pieces_.push_back({i, j, next});
      }
    }
    return block;
  }
  static PairBlock diagonal(Index structures) {
    PairBlock block(structures, false, 0);
    block.is_diagonal_ = true;
    for (Index i = 0; i < structures; ++i) block.pieces_.push_back({i, i, i + 1});
    return block;
  }

  // Fills `out` with values, on so many threads: start(worker, row) makes compare(structure, value,
  // failure) for one task of that row, which says whether there is a value. Returns the first
  // failure in the order of rows and columns, for any number of threads; what comes after it may be
  // left out.
  template <class Failure, class Start>
  Failure fill(double* out, int workers, const Start& start, const Poll& poll) const {
    std::atomic<Index> failed{std::numeric_limits<Index>::max()};
    std::mutex mutex;
    Failure first;
    auto work = [&](Index task, int worker) {
      if (task > failed.load()) return;
      const Piece& piece = pieces_[static_cast<std::size_t>(task)];
      auto&& compare = start(worker, piece.row);
      for (Index j = piece.from; j < piece.to; ++j) {
        double value = 0;
        Failure failure{piece.row, j};
        if (!compare(shift_ + j, value, failure)) {
          std::lock_guard lock(mutex);
          if (task < failed.load()) {
            failed = task;
            first = failure;
          }
          return;
        }
        put(out, piece.row, j, value);
      }
    };
    parallel(static_cast<Index>(pieces_.size()), workers, work, poll);
    return first;
  }

 private:
  // Some columns of one row.
  struct Piece {
    Index row, from, to;
  };

  PairBlock(Index m, bool symmetric, Index shift) : m_(m), symmetric_(symmetric), shift_(shift) {}

  void put(double* out, Index i, Index j, double value) const {
    if (is_diagonal_) {
      out[i] = value;
      return;
    }
    out[i * m_ + j] = value;
    if (symmetric_) out[j * m_ + i] = value;
  }

  Index m_;
  bool symmetric_;
  Index shift_;  // which structure column 0 is
  bool is_diagonal_ = false;
  std::vector<Piece> pieces_;
};

}  // namespace mercer
