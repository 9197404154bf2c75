// Products with a tile of a symmetric matrix and with its mirror image, from one reading of it.
#include <algorithm>
#include <vector>

#include "core.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index task_rows = 512;  // whose sums over columns have a place of their own
constexpr Index few = 3;          // so many vectors go one after another, over long rows

// Rows and columns of what is read several times while it is in the L2 cache, and summed in T.
struct Band {
  Index rows, columns;
};
constexpr Band squarish = {256, 256}, lengthy = {32, 2048};

// v as the loops want to read it: its rows padded to whole vectors of any instruction set, or, for
// few columns, the columns one after another.
template <class T>
struct Laid {
  Index ld;
  Buffer<T> values;

  Laid(const T* v, Index rows, Index q) {
    constexpr Index line = 64 / static_cast<Index>(sizeof(T));
    ld = q <= few ? rows : (q + line - 1) / line * line;
    values.assign(static_cast<std::size_t>(q <= few ? q * rows : rows * ld), T{0});
    for (Index i = 0; i < rows; ++i) {
      for (Index c = 0; c < q; ++c) values[q <= few ? c * ld + i : i * ld + c] = v[i * q + c];
    }
  }
  const T* row(Index i) const { return values.data() + i * ld; }
  const T* column(Index c) const { return values.data() + c * ld; }
};

}  // namespace

template <class T>
void both_ways(const T* tile, Index ld, Index n, Index m, const T* v_rows, const T* v_columns,
               Index q, double* of_rows, double* of_columns, const Poll& poll) {
  if (n == 0 || m == 0 || q == 0) return;
  const auto& native = loops<T>();
  Index tasks = (n + task_rows - 1) / task_rows;
  std::vector<double> partial(static_cast<std::size_t>(of_columns ? tasks * m * q : 0), 0.0);
  Laid<T> down(v_rows, n, q), across(v_columns, m, q);
  auto one = [&](const T* from, Index i, Index height, Index j, Index width, Index c,
                 double* columns) {
    double sums[lengthy.rows] = {};
    T totals[lengthy.columns] = {};
    native.cross(from, ld, height, width, across.column(c) + j, down.column(c) + i, sums, totals);
    for (Index k = 0; k < height; ++k) of_rows[(i + k) * q + c] += sums[k];
    for (Index k = 0; columns && k < width; ++k) {
      columns[(j + k) * q + c] += static_cast<double>(totals[k]);
    }
  };
  auto band = [&](Index i, Index height, Index j, Index width, double* columns) {
    const T* from = tile + i * ld + j;
    if (q <= few) {
      for (Index c = 0; c < q; ++c) one(from, i, height, j, width, c, columns);
      return;
    }
    native.times(from, ld, height, width, across.row(j), across.ld, false, q, of_rows + i * q);
    if (columns) {
      native.times_transposed(from, ld, height, width, down.row(i), down.ld, q, columns + j * q);
    }
  };
  const Band size = q <= few ? lengthy : squarish;
  auto task = [&](Index number, int) {
    double* columns = of_columns ? partial.data() + number * m * q : nullptr;
    Index end = std::min(n, (number + 1) * task_rows);
    for (Index i = number * task_rows; i < end; i += size.rows) {
      for (Index j = 0; j < m; j += size.columns) {
        band(i, std::min(size.rows, end - i), j, std::min(size.columns, m - j), columns);
      }
    }
  };
  bool small = static_cast<double>(n) * static_cast<double>(m) * static_cast<double>(q) < 1e5;
  parallel(tasks, small ? 1 : threads(), task, poll);
  for (Index t = 0; of_columns && t < tasks; ++t) {
    for (Index k = 0; k < m * q; ++k) of_columns[k] += partial[t * m * q + k];
  }
}

#define MERCER_INSTANTIATE(T)                                                                \
  template void both_ways(const T*, Index, Index, Index, const T*, const T*, Index, double*, \
                          double*, const Poll&);
MERCER_INSTANTIATE(float)
MERCER_INSTANTIATE(double)

}  // namespace mercer
