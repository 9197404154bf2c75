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

template <class T>
void tall_squares(const T* M, Index n, Index p, const T* h, double* sums) {
  const auto& native = loops<T>();
  const Index width = native.width, panels = (p + width - 1) / width;
  // Rows in pieces of about one size: what is added to all sums costs the same for a short one.
  const Index pieces = std::max<Index>(1, (n + 2 * native.steps - 1) / (2 * native.steps));
  const Index most = (n + pieces - 1) / pieces;
  const auto room = static_cast<std::size_t>(panels * width * most);
  Buffer<T> right(room), left(h ? room : 0);
  for (Index first = 0; first < n; first += most) {
    const Index steps = std::min(most, n - first);
    for (Index j = 0; j < p; j += width) {
      const Index columns = std::min(width, p - j);
      for (Index t = 0; t < steps; ++t) {
        const T* from = M + (first + t) * p + j;
        T* to = right.data() + j * steps + t * width;
        std::copy_n(from, columns, to);
        std::fill(to + columns, to + width, T{0});
        if (!h) continue;
        T* scaled = left.data() + j * steps + t * width;
        for (Index k = 0; k < width; ++k) scaled[k] = h[first + t] * to[k];
      }
    }
    native.squares(h ? left.data() : right.data(), right.data(), steps, p, sums);
  }
}

#define MERCER_INSTANTIATE(T)                                                 \
  template void tall_times(const T*, Index, Index, const T*, Index, double*); \
  template void tall_pull(const T*, Index, Index, const T*, Index, double*);  \
  template void tall_squares(const T*, Index, Index, const T*, double*);
MERCER_INSTANTIATE(float)
MERCER_INSTANTIATE(double)

}  // namespace mercer
