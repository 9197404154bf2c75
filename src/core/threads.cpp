#include "threads.hpp"

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace mercer {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto between_polls = std::chrono::milliseconds(50);

struct Job {
  Job(Index count, const std::function<void(Index, int)>& what) : tasks(count), work(what) {}

  Index tasks;
  const std::function<void(Index, int)>& work;
  std::atomic<Index> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr error;

  // False when there is nothing left to do.
  bool one(int worker) {
    if (failed.load(std::memory_order_relaxed)) return false;
    Index task = next.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks) return false;
    try {
      work(task, worker);
    } catch (...) {
      fail(std::current_exception());
    }
    return true;
  }

  void fail(std::exception_ptr what) {
    std::lock_guard lock(mutex);
    if (!error) error = what;
    failed = true;
  }
};

class Pool {
 public:
  // Only the first caller gets the pool.
  bool enter() { return !busy_.exchange(true, std::memory_order_acquire); }
  void leave() { busy_.store(false, std::memory_order_release); }

  void run(Job& job, int helpers, const Poll& poll) {
    {
      std::lock_guard lock(mutex_);
      try {
        for (; size_ < helpers; ++size_) {
          std::thread([this, worker = size_ + 1] { serve(worker); }).detach();
        }
      } catch (const std::system_error&) {
        // The system grants no more threads: those at hand will do.
      }
      job_ = &job;
      wanted_ = helpers;
      ++round_;
    }
    wake_.notify_all();
    auto polled = Clock::now();
    auto ask = [&] {
      if (!poll || job.failed || Clock::now() - polled < between_polls) return;
      try {
        poll();
      } catch (...) {
        job.fail(std::current_exception());
      }
      polled = Clock::now();
    };
    while (job.one(0)) ask();
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // a thread that wakes only now finds nothing
    while (!done_.wait_for(lock, between_polls, [&] { return running_ == 0; })) {
      lock.unlock();
      ask();
      lock.lock();
    }
  }

 private:
  void serve(int worker) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      Job* job = job_;
      if (!job || worker > wanted_) continue;
      ++running_;
      lock.unlock();
      while (job->one(worker)) {
      }
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::atomic<bool> busy_{false};
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::uint64_t round_ = 0;
  Job* job_ = nullptr;
  int wanted_ = 0, running_ = 0, size_ = 0;
};

// Never destroyed: its threads outlive every destructor at the end of the process. A forked child
// has none of them and perhaps locked mutexes, so it forgets the pool and makes another.
std::atomic<Pool*> the_pool{nullptr};

Pool& pool() {
  Pool* present = the_pool.load(std::memory_order_acquire);
  if (present) return *present;
  [[maybe_unused]] static const int once =
      pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr); });
  Pool* made = new Pool;
  if (the_pool.compare_exchange_strong(present, made)) return *made;
  delete made;
  return *present;
}

int count_in(const char* variable) {
  const char* text = std::getenv(variable);
  int count = text ? std::atoi(text) : 0;
  return count > 0 ? count : 0;
}

// Processors granted by one control group's files, or 0 if it sets no limit.
double quota(const std::string& folder, bool unified) {
  double share = 0, period = 0;
  if (unified) {
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> share >> period)) return 0;  // the word "max" fails here too
  } else {
    std::ifstream of_share(folder + "/cpu.cfs_quota_us"), of_period(folder + "/cpu.cfs_period_us");
    if (!(of_share >> share) || !(of_period >> period)) return 0;
  }
  return share > 0 && period > 0 ? share / period : 0;
}

int granted() {
  double least = 0;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    std::stringstream fields(line);
    std::string number, controllers, path;
    std::getline(fields, number, ':');
    std::getline(fields, controllers, ':');
    std::getline(fields, path);
    bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    // A limit on any group above holds as well; inside a container only the root may be visible.
    for (;; path = path.substr(0, path.rfind('/'))) {
      if (path == "/") path.clear();
      double here = quota(root + path, unified);
      if (here > 0) least = least > 0 ? std::min(least, here) : here;
      if (path.empty()) break;
    }
  }
  return static_cast<int>(std::ceil(least));
}

int usable() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) count = CPU_COUNT(&allowed);
#endif
  int limit = granted();
  if (limit > 0) count = std::min(count, limit);
  int asked = count_in("MERCER_NUM_THREADS");
  if (asked == 0) asked = count_in("OMP_NUM_THREADS");
  if (asked > 0) count = std::min(count, asked);
  return std::max(count, 1);
}

std::atomic<int>& setting() {
  static std::atomic<int> count{usable()};
  return count;
}

thread_local int of_caller = 0;  // 0: as for all

}  // namespace

int threads() {
  return of_caller > 0 ? std::min(of_caller, setting().load()) : setting().load();
}

int limit_threads(int count) {
  return std::exchange(of_caller, std::max(count, 0));
}

void set_threads(int count) {
  setting() = std::max(count, 1);
}

void parallel(Index tasks, int workers, const std::function<void(Index, int)>& work,
              const Poll& poll) {
  if (tasks <= 0) return;
  Job job(tasks, work);
  int helpers = static_cast<int>(std::min<Index>(workers, tasks)) - 1;
  Pool* shared = helpers > 0 ? &pool() : nullptr;
  if (shared && shared->enter()) {
    try {
      shared->run(job, helpers, poll);
    } catch (...) {
      shared->leave();
      throw;
    }
    shared->leave();
  } else {
    auto polled = Clock::now();
    while (job.one(0)) {
      if (poll && Clock::now() - polled >= between_polls) {
        poll();
        polled = Clock::now();
      }
    }
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace mercer
