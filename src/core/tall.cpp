// Products of tall arrays with few columns.
#include "tall.hpp"

#include <algorithm>

namespace mercer {

template <class T>
void tall_times(const T* M, Index n, Index p, const T* W, Index q, double* out) {
  // Columns one after another, padded to whole vectors of any instruction set.
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  const Index ld = (p + line - 1) / line * line;
  Buffer<T> turned(static_cast<std::size_t>(q * ld));
  std::fill(turned.begin(), turned.end(), T{0});
  for (Index j = 0; j < p; ++j) {
    for (Index c = 0; c < q; ++c) turned[c * ld + j] = W[j * q + c];
  }
  loops<T>().tall_times(M, n, p, turned.data(), ld, q, out);
}

template <class T>
void tall_pull(const T* M, Index n, Index p, const T* V, Index q, double* sums) {
  loops<T>().tall_pull(M, n, p, V, q, sums);
}

#define MERCER_INSTANTIATE(T)                                                 \
  template void tall_times(const T*, Index, Index, const T*, Index, double*); \
  template void tall_pull(const T*, Index, Index, const T*, Index, double*);
MERCER_INSTANTIATE(float)
MERCER_INSTANTIATE(double)

}  // namespace mercer
