// The nearest points: tiles of kernel values, read once while they are in the cache.
#include "nearest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sources.hpp"
#include "threads.hpp"

namespace mercer {
namespace {

constexpr Index slack = 16;  // numbers beyond the columns of a tile that its readers may touch
constexpr Index group = 16;  // scores that are looked at together

Index rounded_up(Index n, Index grain) { return (n + grain - 1) / grain * grain; }

// The `most` least scores so far, a heap with the worst on top. Points come in the order of their
// numbers, so that of equal scores the first ones stay.
struct Best {
  using Entry = std::pair<double, Index>;
  std::vector<Entry> heap;

  void offer(double score, Index j, Index most) {
    if (std::isnan(score)) score = std::numeric_limits<double>::infinity();
    if (static_cast<Index>(heap.size()) < most) {
      heap.emplace_back(score, j);
      std::push_heap(heap.begin(), heap.end());
    } else if (score < heap.front().first) {
      std::pop_heap(heap.begin(), heap.end());
      heap.back() = {score, j};
      std::push_heap(heap.begin(), heap.end());
    }
  }
};

// One row of a tile: most groups hold nothing near enough, which one comparison each tells.
template <class T>
void look(const T* value, const T* half, Index width, Index j, Index own, Index most, Best& best) {
  for (Index c = 0; c < width; c += group) {
    T score[group];
    for (Index l = 0; l < group; ++l) score[l] = half[c + l] - value[c + l];
    if (static_cast<Index>(best.heap.size()) == most) {
      T limit = static_cast<T>(best.heap.front().first);
      int any = 0;
      for (Index l = 0; l < group; ++l) any |= score[l] < limit;
      if (!any) continue;
    }
    Index end = std::min(group, width - c);
    for (Index l = 0; l < end; ++l) {
      if (j + c + l != own) best.offer(static_cast<double>(score[l]), j + c + l, most);
    }
  }
}

// Several sums at once, so that they need not wait for each other.
template <class T, class Term>
double sum(const T* x, const T* y, Index d, Term term) {
  constexpr Index lanes = 8;
  double part[lanes] = {};
  Index t = 0;
  for (; t + lanes <= d; t += lanes) {
    for (Index l = 0; l < lanes; ++l) {
      part[l] += term(static_cast<double>(x[t + l]), static_cast<double>(y[t + l]));
    }
  }
  for (Index l = 0; t < d; ++t, ++l) {
    part[l] += term(static_cast<double>(x[t]), static_cast<double>(y[t]));
  }
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

template <class T>
double sum_of(Part part, const T* x, const T* y, Index d) {
  switch (part) {
    case Part::product: return sum(x, y, d, [](double a, double b) { return a * b; });
    case Part::square: return sum(x, y, d, [](double a, double b) { return (a - b) * (a - b); });
    default: return sum(x, y, d, [](double a, double b) { return std::abs(a - b); });
  }
}

}  // namespace

// Few rows are shared out by runs of columns too, each with its best; the best of all runs follow.
template <class T>
void nearest(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, const T* half,
             Index count, const Index* own, double* score, Index* index, const Poll& poll) {
  if (X.n == 0 || Y.n == 0 || count == 0) return;
  const auto& native = loops<T>();
  Index n = X.n, m = Y.n;
  int workers = static_cast<double>(n) * static_cast<double>(m) * (X.d + 16.0) < 1e6 ? 1 : threads();
  auto from = source(recipe, X, Y, workers);
  Index columns = std::min(from->columns, rounded_up(m, from->grain)), ld = columns + slack;
  std::vector<T> halves(static_cast<std::size_t>(rounded_up(m, columns) + slack), T{0});
  std::copy(half, half + m, halves.begin());
  Index rows = from->rows, runs = 1;
  auto tasks = [&] { return (n + rows - 1) / rows * runs; };
  while (workers > 1 && rows > from->band && tasks() < 4 * workers) {
    rows = rounded_up(rows / 2, from->band);
  }
  while (workers > 1 && tasks() < 4 * workers && runs * columns < m) runs *= 2;
  Index run = rounded_up((m + runs - 1) / runs, columns);
  std::vector<Best> best(static_cast<std::size_t>(n * runs));
  std::vector<Buffer<T>> tiles(static_cast<std::size_t>(workers));
  auto task = [&](Index number, int worker) {
    Index i0 = number / runs * rows, i1 = std::min(n, i0 + rows);
    Index part = number % runs, j0 = part * run, j1 = std::min(m, j0 + run);
    auto& tile = tiles[worker];
    if (tile.empty()) {
      tile.resize(static_cast<std::size_t>(rounded_up(std::min(n, from->band), from->grain) * ld));
    }
    for (Index j = j0; j < j1; j += columns) {
      Index width = std::min(columns, j1 - j);
      for (Index i = i0; i < i1; i += from->band) {
        Index height = std::min(from->band, i1 - i);
        from->fill(worker, i, height, j, width, tile.data(), ld);
        native.finish(recipe, tile.data(), ld, height, width,
                      from->products ? X.norms.data() + i : nullptr,
                      from->products ? Y.norms.data() + j : nullptr, tile.data(), ld, false);
        for (Index r = 0; r < height; ++r) {
          look(tile.data() + r * ld, halves.data() + j, width, j, own ? own[i + r] : -1, count,
               best[static_cast<std::size_t>((i + r) * runs + part)]);
        }
      }
    }
  };
  parallel(tasks(), workers, task, poll);
  for (Index i = 0; i < n; ++i) {
    auto& all = best[static_cast<std::size_t>(i * runs)].heap;
    for (Index part = 1; part < runs; ++part) {
      auto& more = best[static_cast<std::size_t>(i * runs + part)].heap;
      all.insert(all.end(), more.begin(), more.end());
    }
    std::sort(all.begin(), all.end());
    for (Index c = 0; c < count; ++c) {
      score[i * count + c] = all[static_cast<std::size_t>(c)].first;
      index[i * count + c] = all[static_cast<std::size_t>(c)].second;
    }
    all = {};
  }
}

template <class T>
void pair_sums(Part part, const T* x, Index n, const T* y, Index d, const Index* index, Index count,
               double* out, const Poll& poll) {
  constexpr Index rows = 64;
  int workers = static_cast<double>(n) * static_cast<double>(count) * (d + 16.0) < 1e6 ? 1 : threads();
  auto task = [&](Index number, int) {
    for (Index i = number * rows; i < std::min(n, (number + 1) * rows); ++i) {
      for (Index c = i * count; c < (i + 1) * count; ++c) {
        out[c] = sum_of(part, x + i * d, y + index[c] * d, d);
      }
    }
  };
  parallel((n + rows - 1) / rows, workers, task, poll);
}

template void nearest(const Recipe&, const Points<float>&, const Points<float>&, const float*, Index,
                      const Index*, double*, Index*, const Poll&);
template void nearest(const Recipe&, const Points<double>&, const Points<double>&, const double*,
                      Index, const Index*, double*, Index*, const Poll&);
template void pair_sums(Part, const float*, Index, const float*, Index, const Index*, Index, double*,
                        const Poll&);
template void pair_sums(Part, const double*, Index, const double*, Index, const Index*, Index,
                        double*, const Poll&);

}  // namespace mercer
