// Points as rows of numbers, dense or sparse, that are read one at a time in any order.
#pragma once

#include <algorithm>

#include "core.hpp"

namespace mercer {

// One row: products with weights, and its multiples added to them.
template <class T, class I>
struct Row {
  const T* value;
  const I* column;  // null: all of them
  Index count;

  Index place(Index k) const { return column ? static_cast<Index>(column[k]) : k; }

  double product(const double* w) const {
    constexpr Index lanes = 8;  // sums side by side, so that they need not wait for each other
    double sum[lanes] = {};
    Index k = 0;
    if (column) {
      for (; k < count; ++k) sum[0] += static_cast<double>(value[k]) * w[column[k]];
    } else {
      for (; k + lanes <= count; k += lanes) {
        for (Index l = 0; l < lanes; ++l) sum[l] += static_cast<double>(value[k + l]) * w[k + l];
      }
      for (; k < count; ++k) sum[0] += static_cast<double>(value[k]) * w[k];
    }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  }
  void add(double factor, double* w) const {
    if (column) {
      for (Index k = 0; k < count; ++k) w[column[k]] += factor * static_cast<double>(value[k]);
    } else {
      for (Index k = 0; k < count; ++k) w[k] += factor * static_cast<double>(value[k]);
    }
  }

  // The same for q weights of each column, side by side.
  void products(const double* w, Index q, double* sums) const {
    if (q == 1) {
      *sums = product(w);
      return;
    }
    std::fill_n(sums, q, 0.0);
    for (Index k = 0; k < count; ++k) {
      const double x = static_cast<double>(value[k]), *row = w + place(k) * q;
      for (Index c = 0; c < q; ++c) sums[c] += x * row[c];
    }
  }
  void add(const double* factor, Index q, double* w) const {
    if (q == 1) return add(*factor, w);
    for (Index k = 0; k < count; ++k) {
      const double x = static_cast<double>(value[k]);
      double* row = w + place(k) * q;
      for (Index c = 0; c < q; ++c) row[c] += x * factor[c];
    }
  }
};

template <class T, class I>
struct Vectors {
  Index n = 0, d = 0;
  const T* value = nullptr;
  const I* start = nullptr;  // row i is column/value[start[i], start[i + 1]); null: dense
  const I* column = nullptr;

  Row<T, I> row(Index i) const {
    if (!start) return {value + i * d, nullptr, d};
    const Index first = static_cast<Index>(start[i]);
    return {value + first, column + first, static_cast<Index>(start[i + 1]) - first};
  }

  // Rows that are visited in random order have to come from memory in time.
  void prefetch(Index i) const {
    constexpr Index most = 512;  // bytes; the processor sees by itself how a long row goes on
    const Row<T, I> x = row(i);
    prefetch(x.value, std::min<Index>(x.count * static_cast<Index>(sizeof(T)), most));
    if (x.column)
      prefetch(x.column, std::min<Index>(x.count * static_cast<Index>(sizeof(I)), most));
  }

 private:
  static void prefetch(const void* from, Index bytes) {
    if (bytes == 0) return;
    const char* first = static_cast<const char*>(from);
    for (Index k = 0; k < bytes; k += 64) __builtin_prefetch(first + k);
    __builtin_prefetch(first + bytes - 1);  // a row need not begin where a cache line does
  }
};

// How many visits ahead rows are prefetched.
constexpr Index visits_ahead = 16;

}  // namespace mercer
