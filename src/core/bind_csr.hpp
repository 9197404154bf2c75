// Sparse rows from Python, checked once.
#pragma once

#include "bind.hpp"
#include "explicit_rows.hpp"

namespace mercer {

template <class T, class I>
Vectors<T, I> checked_csr(Vector<I> start, Vector<I> column, Vector<T> value, Index d) {
  check(start.shape(0) > 0 && column.shape(0) == value.shape(0) && d >= 0,
        "CSR matrix is malformed: indptr, indices and data do not fit together.");
  const Index n = extent(start.shape(0)) - 1;
  for (Index i = 0; i < n; ++i) {
    check(start.data()[i] >= 0 && start.data()[i] <= start.data()[i + 1],
          "CSR matrix is malformed: indptr decreases.");
  }
  check(extent(start.data()[n]) <= extent(value.shape(0)),
        "CSR matrix is malformed: indptr, indices and data do not fit together.");
  for (I k : view(column)) {
    check(k >= 0 && static_cast<Index>(k) < d,
          "CSR matrix is malformed: a column is out of range.");
  }
  return {n, d, value.data(), start.data(), column.data()};
}

}  // namespace mercer
