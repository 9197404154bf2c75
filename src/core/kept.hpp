// Memory for kernel rows that one solve leaves for the next: memory that was never touched would
// take a tenth of the time of a fit.
//
// After a solve at most its `cache_bytes` are kept, both precisions together, or up to twice as
// many where its cache was so large, for two working sets. The system may take the pages whenever
// it needs them (MADV_FREE, on Linux): what is kept then is address space. A solve with a smaller
// cache gives back what is more than that; so does an allocation of the core that is refused,
// before it tries again; and so does a call of `release_kept`.
#pragma once

#include <cstddef>

#include "smo.hpp"

namespace mercer {

// The scratch of one solve, with what was kept.
template <class T>
class Inherited {
 public:
  explicit Inherited(double cache_bytes);
  ~Inherited();
  Inherited(const Inherited&) = delete;
  Inherited& operator=(const Inherited&) = delete;
  Scratch<T> scratch;

 private:
  double cache_bytes_;
};

std::size_t kept_bytes();
std::size_t release_kept();  // returns how many bytes that were

}  // namespace mercer
