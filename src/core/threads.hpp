// A small thread pool. Work is handed out one task at a time, in order; results must not depend on
// which thread does which task.
#pragma once

#include <functional>

#include "core.hpp"

namespace mercer {

// How many threads a computation may use: by default the processors this process may run on, its
// share of processor time (control groups), and MERCER_NUM_THREADS or else OMP_NUM_THREADS,
// whichever is least.
int threads();
void set_threads(int count);  // at least 1

// The most that computations of the calling thread may use, whatever others may; 0 for no such
// limit. Returns what it was.
int limit_threads(int count);

// Calls work(task, worker) for task = 0, ..., tasks - 1, at most `workers` at once; two calls at
// the same time have different 0 <= worker < workers. The calling thread works too, and asks `poll`
// between tasks. The first exception of work or poll ends the rest and is thrown here. While one
// thread is in here, another one that calls works alone. After a fork the child has a pool of its
// own.
void parallel(Index tasks, int workers, const std::function<void(Index task, int worker)>& work,
              const Poll& poll);

}  // namespace mercer
