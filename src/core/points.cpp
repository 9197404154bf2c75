// Packing points: dense panels, sparse rows, norms.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "core.hpp"
#include "threads.hpp"
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace mercer {

void welcome_large_pages([[maybe_unused]] void* storage, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  madvise(storage, bytes, MADV_HUGEPAGE);  // only advice: its failure changes nothing
#endif
}

void release_pages([[maybe_unused]] void* storage, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_FREE)
  constexpr std::uintptr_t page = 4096;
  auto first = (reinterpret_cast<std::uintptr_t>(storage) + page - 1) / page * page;
  auto last = (reinterpret_cast<std::uintptr_t>(storage) + bytes) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_FREE);
#endif
}

namespace {

// Below this share of non-zeros a sweep over sparse rows beats full tiles: on AVX2 it took 0.58 of
// their time at a share of 0.2, growing in proportion; the crossing itself is extrapolated.
constexpr double sparse_below = 0.33;
// Points of fewer coordinates are not searched for zeros.
constexpr Index sparse_from = 48;
constexpr Index widest = 64;  // no panel is wider

Index panels_of(Index n, Index width) {
  return (n + width - 1) / width;
}

template <class T>
bool finite(T x) {
  return x - x == 0;
}

int workers_for(Index n, Index d) {
  return static_cast<double>(n) * static_cast<double>(d) < 1e6 ? 1 : threads();
}

// Fills norms, largest and finite, panel by panel or row by row.
template <class T>
void measure(Points<T>& points) {
  const auto& native = loops<T>();
  Index width = native.width, panels = panels_of(points.n, width);
  points.norms.assign(static_cast<std::size_t>((panels + 1) * width), T{0});
  auto one_panel = [&](Index p, int) {
    if (points.dense) {
      native.self(Recipe{}, points.panels.data() + p * width * points.d, points.d,
                  points.norms.data() + p * width, nullptr);
      return;
    }
    for (Index i = p * width; i < std::min(points.n, (p + 1) * width); ++i) {
      points.norms[i] = native.self_of_row(Recipe{}, points.value.data() + points.start[i],
                                           points.start[i + 1] - points.start[i], nullptr);
    }
  };
  parallel(panels, workers_for(points.n, points.d), one_panel, {});
  points.largest = 0;
  for (T norm : points.norms) {
    if (norm > points.largest) points.largest = norm;
  }
}

// Rows of points given by panels.
template <class T>
void add_rows(Points<T>& points) {
  Index width = loops<T>().width, n = points.n, d = points.d, panels = panels_of(n, width);
  int workers = workers_for(n, d);
  points.start.assign(static_cast<std::size_t>(n + 1), 0);
  auto count = [&](Index p, int) {
    const T* x = points.panels.data() + p * width * d;
    std::array<std::int32_t, widest> found{};
    for (Index t = 0; t < d; ++t) {
      for (Index r = 0; r < width; ++r) found[r] += x[t * width + r] != 0;
    }
    for (Index r = 0; r < std::min(width, n - p * width); ++r) {
      points.start[p * width + r + 1] = found[r];
    }
  };
  parallel(panels, workers, count, {});
  for (Index i = 0; i < n; ++i) points.start[i + 1] += points.start[i];
  points.column.resize(static_cast<std::size_t>(points.start[n]));
  points.value.resize(static_cast<std::size_t>(points.start[n]));
  auto copy = [&](Index p, int) {
    for (Index i = p * width; i < std::min(n, (p + 1) * width); ++i) {
      const T* x = points.panels.data() + p * width * d + i % width;
      // Written without a branch: whether a number is zero cannot be predicted.
      Index k = points.start[i], end = points.start[i + 1];
      for (Index t = 0; k < end; ++t) {
        points.column[k] = static_cast<std::int32_t>(t);
        points.value[k] = x[t * width];
        k += x[t * width] != 0;
      }
    }
  };
  parallel(panels, workers, copy, {});
}

template <class T>
void add_panels(Points<T>& points) {
  Index width = loops<T>().width, d = points.d;
  points.panels.assign(static_cast<std::size_t>(panels_of(points.n, width) * width * d), T{0});
  for (Index i = 0; i < points.n; ++i) {
    T* x = points.panels.data() + i / width * d * width + i % width;
    for (Index k = points.start[i]; k < points.start[i + 1]; ++k) {
      x[points.column[k] * width] = points.value[k];
    }
  }
  points.dense = true;
}

}  // namespace

namespace {

// rows(i, height, worker) are `height` rows from row i on, one after another.
template <class T, class RowsOf>
Points<T> of_panels(Index n, Index d, RowsOf&& rows) {
  Points<T> points;
  points.n = n;
  points.d = d;
  points.dense = true;
  Index width = loops<T>().width, panels = panels_of(n, width);
  points.panels.resize(static_cast<std::size_t>(panels * width * d));
  std::vector<Index> zeros(static_cast<std::size_t>(panels));
  auto pack = [&](Index p, int worker) {
    Index i = p * width, height = std::min(width, n - i);
    zeros[p] = loops<T>().pack(rows(i, height, worker), height, d, points.panels.data() + i * d);
  };
  parallel(panels, workers_for(n, d), pack, {});
  points.finite = std::all_of(zeros.begin(), zeros.end(), [](Index count) { return count >= 0; });
  double all = static_cast<double>(n) * static_cast<double>(d);
  double share = 1 - static_cast<double>(std::accumulate(zeros.begin(), zeros.end(), Index{0})) /
                         std::max(1.0, all);
  // Infinity times an absent zero would be lost, so only finite points may become sparse.
  if (points.finite && d >= sparse_from && d <= std::numeric_limits<std::int32_t>::max() &&
      share < sparse_below) {
    add_rows(points);
    points.sparse = true;
  }
  measure(points);
  return points;
}

}  // namespace

template <class T>
Points<T> Points<T>::of_dense(const T* x, Index n, Index d) {
  return of_panels<T>(n, d, [&](Index i, Index, int) { return x + i * d; });
}

template <class T>
Points<T> Points<T>::of_rows(Index n, Index d, const std::function<void(Index, T*)>& row) {
  std::vector<std::vector<T>> some(static_cast<std::size_t>(threads()));
  return of_panels<T>(n, d, [&](Index i, Index height, int worker) {
    auto& own = some[static_cast<std::size_t>(worker)];
    own.resize(static_cast<std::size_t>(height * d));
    for (Index r = 0; r < height; ++r) row(i + r, own.data() + r * d);
    return static_cast<const T*>(own.data());
  });
}

template <class T>
template <class I>
Points<T> Points<T>::of_csr(const I* start, const I* column, const T* value, Index n, Index d) {
  Points points;
  points.n = n;
  points.d = d;
  points.sparse = true;
  Index count = n > 0 ? static_cast<Index>(start[n]) : 0;
  points.start.assign(1, 0);
  points.start.reserve(static_cast<std::size_t>(n + 1));
  points.column.reserve(static_cast<std::size_t>(count));
  points.value.reserve(static_cast<std::size_t>(count));
  std::vector<Index> order;
  for (Index i = 0; i < n; ++i) {
    Index first = start[i], last = start[i + 1];
    if (first < 0 || last < first || last > count) {
      throw std::invalid_argument("CSR matrix is malformed: indptr does not ascend from 0.");
    }
    order.resize(static_cast<std::size_t>(last - first));
    std::iota(order.begin(), order.end(), first);
    auto by_column = [&](Index a, Index b) { return column[a] < column[b]; };
    if (!std::is_sorted(order.begin(), order.end(), by_column)) {
      std::stable_sort(order.begin(), order.end(), by_column);
    }
    for (std::size_t k = 0; k < order.size();) {
      Index t = static_cast<Index>(column[order[k]]);
      if (t < 0 || t >= d) {
        throw std::invalid_argument("CSR matrix is malformed: row " + std::to_string(i) +
                                    " has column " + std::to_string(t) + " of " +
                                    std::to_string(d) + ".");
      }
      T sum = value[order[k]];
      for (++k; k < order.size() && static_cast<Index>(column[order[k]]) == t; ++k) {
        sum += value[order[k]];
      }
      if (sum != 0) {
        points.column.push_back(static_cast<std::int32_t>(t));
        points.value.push_back(sum);
        points.finite = points.finite && mercer::finite(sum);
      }
    }
    points.start.push_back(static_cast<Index>(points.value.size()));
  }
  // Nearly full rows are better off as panels, which then take no more room.
  double cells = static_cast<double>(n) * static_cast<double>(d);
  if (static_cast<double>(points.value.size()) > sparse_below * cells) {
    add_panels(points);
    points.sparse = false;
    points.start.clear();
    points.column = {};
    points.value = {};
  }
  measure(points);
  return points;
}

template <class T>
Points<T> Points<T>::take(std::span<const Index> which, bool only_rows) const {
  return take(*this, *this, which, only_rows);
}

template <class T>
Points<T> Points<T>::take(const Points& first, const Points& second, std::span<const Index> which,
                          bool only_rows) {
  Points points;
  Index width = loops<T>().width, d = first.d;
  // Where a point is: in which set, and its number there.
  auto at = [&](Index i) -> std::pair<const Points&, Index> {
    if (i < first.n) return {first, i};
    return {second, i - first.n};
  };
  points.n = static_cast<Index>(which.size());
  points.d = d;
  points.sparse = first.sparse && second.sparse;
  // One set may be rows alone and the other panels alone: then panels, made of either.
  points.dense = (first.dense && second.dense && !(points.sparse && only_rows)) || !points.sparse;
  points.finite = first.finite && second.finite;
  points.largest = std::max(first.largest, second.largest);
  Index panels_taken = panels_of(points.n, width);
  points.norms.assign(static_cast<std::size_t>((panels_taken + 1) * width), T{0});
  for (Index i = 0; i < points.n; ++i) {
    auto [from, k] = at(which[i]);
    points.norms[i] = from.norms[k];
  }
  if (points.sparse) {
    points.start.assign(1, 0);
    for (Index i : which) {
      auto [from, k] = at(i);
      points.column.insert(points.column.end(), from.column.begin() + from.start[k],
                           from.column.begin() + from.start[k + 1]);
      points.value.insert(points.value.end(), from.value.begin() + from.start[k],
                          from.value.begin() + from.start[k + 1]);
      points.start.push_back(static_cast<Index>(points.value.size()));
    }
  }
  if (points.dense) {
    points.panels.resize(static_cast<std::size_t>(panels_taken * width * d));
    auto one_panel = [&](Index p, int) {
      T* to = points.panels.data() + p * width * d;
      for (Index r = 0; r < width; ++r) {
        Index i = p * width + r;
        if (i >= points.n) {
          for (Index t = 0; t < d; ++t) to[t * width + r] = 0;
          continue;
        }
        auto [from, k] = at(which[i]);
        if (!from.dense) {
          for (Index t = 0; t < d; ++t) to[t * width + r] = 0;
          for (Index c = from.start[k]; c < from.start[k + 1]; ++c) {
            to[from.column[c] * width + r] = from.value[c];
          }
          continue;
        }
        const T* x = from.panels.data() + k / width * d * width + k % width;
        for (Index t = 0; t < d; ++t) to[t * width + r] = x[t * width];
      }
    };
    parallel(panels_taken, workers_for(10 * points.n, d), one_panel, {});
  }
  return points;
}

template <class T>
Points<T> Points<T>::as_sparse() const {
  Points points = *this;
  if (points.start.empty()) add_rows(points);
  points.sparse = true;
  return points;
}

Points<double> widened(const Points<float>& X) {
  if (!X.dense) {
    std::vector<Index> column(X.column.begin(), X.column.end());
    std::vector<double> value(X.value.begin(), X.value.end());
    return Points<double>::of_csr(X.start.data(), column.data(), value.data(), X.n, X.d);
  }
  Index width = loops<float>().width;
  std::vector<double> rows(static_cast<std::size_t>(X.n * X.d));
  for (Index i = 0; i < X.n; ++i) {
    const float* x = X.panels.data() + i / width * X.d * width + i % width;
    for (Index t = 0; t < X.d; ++t) rows[i * X.d + t] = x[t * width];
  }
  return Points<double>::of_dense(rows.data(), X.n, X.d);
}

template struct Points<float>;
template struct Points<double>;
template Points<float> Points<float>::of_csr(const std::int32_t*, const std::int32_t*, const float*,
                                             Index, Index);
template Points<float> Points<float>::of_csr(const std::int64_t*, const std::int64_t*, const float*,
                                             Index, Index);
template Points<double> Points<double>::of_csr(const std::int32_t*, const std::int32_t*,
                                               const double*, Index, Index);
template Points<double> Points<double>::of_csr(const std::int64_t*, const std::int64_t*,
                                               const double*, Index, Index);

}  // namespace mercer
