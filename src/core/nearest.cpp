// The nearest points: tiles of kernel values, read once while they are in the cache.
#include "nearest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ranking.hpp"
#include "tiles.hpp"

namespace mercer {
namespace {

constexpr Index group = 16;  // scores that are looked at together

template <class T, class Term>
double sum(const DenseArray<T>& X, Index i, const DenseArray<T>& Y, Index j, Term term) {
  const T *x = X.value + i * X.d, *y = Y.value + j * Y.d;
  double part[lanes] = {};
  Index t = 0;
  for (; t + lanes <= X.d; t += lanes) {
    for (Index l = 0; l < lanes; ++l) {
      part[l] += term(static_cast<double>(x[t + l]), static_cast<double>(y[t + l]));
    }
  }
  for (Index l = 0; t < X.d; ++t, ++l) {
    part[l] += term(static_cast<double>(x[t]), static_cast<double>(y[t]));
  }
  return total(part);
}

// Where both points are 0 there is nothing to add.
template <class T, class Term>
double sum(const SparseArray<T>& X, Index i, const SparseArray<T>& Y, Index j, Term term) {
  double part[lanes] = {};
  Index k = X.start[i], l = Y.start[j], k_end = X.start[i + 1], l_end = Y.start[j + 1];
  while (k < k_end || l < l_end) {
    bool left = l == l_end || (k < k_end && X.column[k] <= Y.column[l]);
    bool right = k == k_end || (l < l_end && Y.column[l] <= X.column[k]);
    double x = left ? static_cast<double>(X.value[k]) : 0.0;
    double y = right ? static_cast<double>(Y.value[l]) : 0.0;
    part[(left ? X.column[k] : Y.column[l]) % lanes] += term(x, y);
    k += left;
    l += right;
  }
  return total(part);
}

template <class Rows>
double sum_of(Part part, const Rows& X, Index i, const Rows& Y, Index j) {
  switch (part) {
    case Part::product:
      return sum(X, i, Y, j, Times{});
    case Part::square:
      return sum(X, i, Y, j, Squared{});
    default:
      return sum(X, i, Y, j, Apart{});
  }
}

// eˣ within two units in the last place, by the same steps everywhere: x = m ln 2 + r and the
// series of eʳ.
double fixed_exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.79) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0;
  double m = std::floor(x * 1.4426950408889634 + 0.5);
  double r = (x - m * 6.93147180369123816490e-01) - m * 1.90821492927058770002e-10;
  double series = 1;
  for (int k = 13; k > 0; --k) series = 1 + r * series / k;
  return std::ldexp(series, static_cast<int>(m));
}

double finished(const Recipe& recipe, double s) {
  if (recipe.finish == Finish::identity) return s;
  if (recipe.finish == Finish::exp) return fixed_exp(recipe.scale * s);
  double base = recipe.scale * s + recipe.offset, result = 1;
  for (Index k = recipe.degree; k > 0; k >>= 1) {
    if (k & 1) result = result * base;
    if (k > 1) base = base * base;
  }
  return result;
}

// By what the points are ranked: the sum of squares or of absolute differences, of which a distance
// is made; or the squared distance of a kernel of the product.
template <class Rows>
class Keys {
 public:
  Keys(const Recipe& recipe, const Rows& X, const Rows& Y) : recipe_(recipe), X_(X), Y_(Y) {
    if (recipe.part != Part::product) return;
    for (Index i = 0; i < X.n; ++i) across_.push_back(value(X, i, X, i));
    for (Index j = 0; j < Y.n; ++j) down_.push_back(value(Y, j, Y, j));
  }
  double operator()(Index i, Index j) const {
    if (recipe_.part != Part::product) return sum_of(recipe_.part, X_, i, Y_, j);
    double between = value(X_, i, Y_, j);
    // Rounding can leave -1e-17 here; sqrt would turn it into NaN.
    return std::max(0.0, (across_[i] - between) + (down_[j] - between));
  }

 private:
  double value(const Rows& A, Index i, const Rows& B, Index j) const {
    return finished(recipe_, sum_of(Part::product, A, i, B, j));
  }
  Recipe recipe_;
  const Rows &X_, &Y_;
  std::vector<double> across_, down_;
};

// One row of a tile: most groups hold nothing near enough, which one comparison each tells. What
// is near enough, or not a number, gets its key.
template <class T, class Key>
void look(const T* value, const T* half, Index width, Index j, Index own, Index most, double base,
          double factor, const Key& key, Best& best) {
  constexpr T infinite = std::numeric_limits<T>::infinity();
  auto limit = [&] {
    if (static_cast<Index>(best.heap.size()) < most) return infinite;
    double bound = base + factor * best.heap.front().first;
    if (!(bound < static_cast<double>(std::numeric_limits<T>::max()))) return infinite;
    return std::nextafter(static_cast<T>(bound), infinite);
  };
  T most_score = limit();
  for (Index c = 0; c < width; c += group) {
    T score[group];
    int any = 0;
    for (Index l = 0; l < group; ++l) {
      score[l] = half[c + l] - value[c + l];
      any |= !(score[l] > most_score);
    }
    if (!any) continue;
    Index end = std::min(group, width - c);
    for (Index l = 0; l < end; ++l) {
      if (score[l] > most_score || j + c + l == own) continue;
      if (best.offer(key(j + c + l), j + c + l, most)) most_score = limit();
    }
  }
}

}  // namespace

// Few rows are shared out by runs of columns too, each with its best; the best of all runs follow.
template <class T, class Rows>
void nearest(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, const T* half,
             const double* base, double factor, const Recipe& exact, const Rows& x, const Rows& y,
             Index count, const Index* own, double* key, Index* index, const Poll& poll) {
  if (X.n == 0 || Y.n == 0 || count == 0) return;
  Index n = X.n, m = Y.n;
  int workers = workers_for(n, m, static_cast<double>(X.d));
  auto from = source(recipe, X, Y, workers);
  Keys<Rows> keys(exact, x, y);
  Index columns = std::min(from->columns, rounded_up(m, from->grain));
  std::vector<T> halves(static_cast<std::size_t>(rounded_up(m, columns) + tile_slack), T{0});
  std::copy(half, half + m, halves.begin());
  Index runs = 1, enough = enough_tasks(workers);
  auto tasks = [&](Index size) { return pieces_of(n, size) * runs; };
  Index rows = halved_until(enough, from->rows, from->band, tasks);
  while (tasks(rows) < enough && runs * columns < m) runs *= 2;
  // Ctrl-C is asked for between two tasks: they must not be long, as far as memory allows.
  double steps = static_cast<double>(rows) * static_cast<double>(m) * (X.d + 16.0);
  while (steps > 4e8 * static_cast<double>(runs) && runs * columns < m &&
         n * runs * (count + 4) < (Index{1} << 21)) {
    runs *= 2;
  }
  Index run = rounded_up(pieces_of(m, runs), columns);
  std::vector<Best> best(static_cast<std::size_t>(n * runs));
  TileLoop<T> tiles(recipe, *from, X, Y, from->band, columns, workers);
  auto task = [&](Index number, int worker) {
    Index i0 = number / runs * rows, part = number % runs, j0 = part * run;
    auto search = [&](const Tile<T>& tile) {
      for (Index i = tile.i; i < tile.i + tile.height; ++i) {
        look(
            tile.row(i - tile.i), halves.data() + tile.j, tile.width, tile.j, own ? own[i] : -1,
            count, base[i], factor, [&](Index c) { return keys(i, c); },
            best[static_cast<std::size_t>(i * runs + part)]);
      }
    };
    tiles.values(worker, i0, std::min(n, i0 + rows), j0, std::min(m, j0 + run), search);
  };
  parallel(tasks(rows), workers, task, poll);
  for (Index i = 0; i < n; ++i) {
    auto& all = best[static_cast<std::size_t>(i * runs)].heap;
    for (Index part = 1; part < runs; ++part) {
      auto& more = best[static_cast<std::size_t>(i * runs + part)].heap;
      all.insert(all.end(), more.begin(), more.end());
    }
    std::sort(all.begin(), all.end());
    for (Index c = 0; c < count; ++c) {
      key[i * count + c] = all[static_cast<std::size_t>(c)].first;
      index[i * count + c] = all[static_cast<std::size_t>(c)].second;
    }
    all = {};
  }
}

template <class Rows>
void pair_sums(Part part, const Rows& X, const Rows& Y, const Index* index, Index count,
               double* out, const Poll& poll) {
  constexpr Index rows = 64;
  Index n = X.n;
  int workers = workers_for(n, count, static_cast<double>(X.d));
  auto task = [&](Index number, int) {
    for (Index i = number * rows; i < std::min(n, (number + 1) * rows); ++i) {
      for (Index c = i * count; c < (i + 1) * count; ++c) {
        out[c] = sum_of(part, X, i, Y, index[c]);
      }
    }
  };
  parallel(pieces_of(n, rows), workers, task, poll);
}

#define MERCER_NEAREST_OF(T, Rows)                                                             \
  template void nearest(const Recipe&, const Points<T>&, const Points<T>&, const T*,           \
                        const double*, double, const Recipe&, const Rows&, const Rows&, Index, \
                        const Index*, double*, Index*, const Poll&);
MERCER_NEAREST_OF(float, DenseArray<float>)
MERCER_NEAREST_OF(double, DenseArray<float>)
MERCER_NEAREST_OF(double, DenseArray<double>)
MERCER_NEAREST_OF(float, SparseArray<float>)
MERCER_NEAREST_OF(double, SparseArray<float>)
MERCER_NEAREST_OF(double, SparseArray<double>)

#define MERCER_PAIR_SUMS_OF(Rows)                                                       \
  template void pair_sums(Part, const Rows&, const Rows&, const Index*, Index, double*, \
                          const Poll&);
MERCER_PAIR_SUMS_OF(DenseArray<float>)
MERCER_PAIR_SUMS_OF(DenseArray<double>)
MERCER_PAIR_SUMS_OF(SparseArray<float>)
MERCER_PAIR_SUMS_OF(SparseArray<double>)

}  // namespace mercer
