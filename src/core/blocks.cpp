// Blocks of Gram matrices: tiles of sums from a Source, finished while they are in the cache.
#include <algorithm>
#include <cmath>

#include "core.hpp"
#include "tiles.hpp"

namespace mercer {
namespace {

// Matrices larger than this are written past the caches: they would only push out the points.
constexpr double stream_above = 8e6;  // bytes

template <class T>
double mean_length(const Points<T>& X) {
  if (!X.sparse || X.n == 0) return static_cast<double>(X.d);
  return static_cast<double>(X.value.size()) / static_cast<double>(X.n);
}

template <class T>
int workers_for(const Points<T>& X, const Points<T>& Y) {
  return mercer::workers_for(X.n, Y.n, mean_length(X));
}

template <class T>
bool streams(Index n, Index m) {
  return static_cast<double>(n) * static_cast<double>(m) * sizeof(T) > stream_above;
}

// Tiles of a rectangular block, whose rows are `out_ld` apart; where `turned` is not null, its
// mirror image goes there.
template <class T>
void rectangle(const Recipe& recipe, Source<T>& from, const Points<T>& X, const Points<T>& Y,
               T* out, T* turned, Index out_ld, int workers, const Poll& poll) {
  Index n = X.n, m = Y.n;
  Index columns = std::min(from.columns, rounded_up(m, from.grain)), across = pieces_of(m, columns);
  Index rows = halved_until(enough_tasks(workers), from.rows, from.band,
                            [&](Index size) { return pieces_of(n, size) * across; });
  bool stream = streams<T>(n, m);
  TileLoop<T> tiles(recipe, from, X, Y, from.band, columns, workers);
  auto task = [&](Index number, int worker) {
    Index i = number / across * rows, j = number % across * columns;
    Index i_end = std::min(n, i + rows), j_end = std::min(m, j + columns);
    if (!turned) {
      tiles.sums(worker, i, i_end, j, j_end, [&](const Tile<T>& tile) {
        tiles.finish(tile, out + tile.i * out_ld + tile.j, out_ld, stream);
      });
      return;
    }
    tiles.values(worker, i, i_end, j, j_end, [&](const Tile<T>& tile) {
      copy(tile, out + tile.i * out_ld + tile.j, out_ld, stream);
      loops<T>().transpose(tile.values, tile.ld, tile.height, tile.width,
                           turned + tile.j * out_ld + tile.i, out_ld, stream);
    });
  };
  parallel(pieces_of(n, rows) * across, workers, task, poll);
}

// Square tiles on and above the diagonal; those above it are written twice.
template <class T>
void triangle(const Recipe& recipe, Source<T>& from, const Points<T>& X, T* out, int workers,
              const Poll& poll) {
  Index n = X.n, side = std::min(from.square, rounded_up(n, from.grain));
  Index across = pieces_of(n, side);
  bool stream = streams<T>(n, n);
  TileLoop<T> tiles(recipe, from, X, X, side, side, workers);
  auto task = [&](Index number, int worker) {
    // number = J(J + 1)/2 + I with I ≤ J.
    Index J = static_cast<Index>((std::sqrt(8.0 * static_cast<double>(number) + 1) - 1) / 2);
    while (J * (J + 1) / 2 > number) --J;
    while ((J + 1) * (J + 2) / 2 <= number) ++J;
    Index i = (number - J * (J + 1) / 2) * side, j = J * side;
    auto both = [&](const Tile<T>& tile) {
      copy(tile, out + i * n + j, n, stream);
      if (i == j) return;
      loops<T>().transpose(tile.values, tile.ld, tile.height, tile.width, out + j * n + i, n,
                           stream);
    };
    tiles.values(worker, i, std::min(n, i + side), j, std::min(n, j + side), both);
  };
  parallel(across * (across + 1) / 2, workers, task, poll);
  std::vector<T> diagonal(static_cast<std::size_t>(n));
  diag(recipe, X, diagonal.data());
  for (Index i = 0; i < n; ++i) out[i * n + i] = diagonal[i];
}

// Products that are there already, in the matrix that is to be completed.
template <class T>
class Given final : public Source<T> {
 public:
  Given(const T* matrix, Index m, bool symmetric) : matrix_(matrix), m_(m), symmetric_(symmetric) {
    this->grain = loops<T>().width;
    this->band = this->rows = this->square = 4 * this->grain;
    this->columns = 20 * this->grain;
  }
  void fill(int, Index i, Index rows, Index j, Index columns, T* sums, Index ld) override {
    for (Index r = 0; r < rows; ++r) {
      const T* from = matrix_ + (i + r) * m_ + j;
      std::copy(from, from + columns, sums + r * ld);
    }
    if (!symmetric_ || i != j) return;
    // A BLAS need not give the same bits on both sides of the diagonal.
    for (Index r = 0; r < rows; ++r) {
      for (Index c = 0; c < r; ++c) sums[r * ld + c] = sums[c * ld + r];
    }
  }

 private:
  const T* matrix_;
  Index m_;
  bool symmetric_;
};

// The rows j .. j + height of v as `times` reads them: columns one after another if there are few,
// rows of whole vectors if many. Of many columns only those with a number other than 0 are there.
template <class T>
struct Factor {
  bool by_column;
  Index ld;
  std::vector<Index> used;  // the columns of v; empty for all of them
  Buffer<T> values;

  Factor(const T* v, Index q, Index j, Index height, bool skip_zeros) : by_column(q <= 4) {
    std::vector<Index> columns;
    for (Index c = 0; c < q; ++c) {
      bool zero = skip_zeros && !by_column;
      for (Index r = j; zero && r < j + height; ++r) zero = v[r * q + c] == 0;
      if (!zero) columns.push_back(c);
    }
    Index count = static_cast<Index>(columns.size());
    ld = by_column ? rounded_up(height, 64) : rounded_up(count, 64 / static_cast<Index>(sizeof(T)));
    values.assign(static_cast<std::size_t>((by_column ? count : height) * ld), T{0});
    for (Index r = 0; r < height; ++r) {
      for (Index c = 0; c < count; ++c) {
        values[by_column ? c * ld + r : r * ld + c] = v[(j + r) * q + columns[c]];
      }
    }
    if (count < q) used = std::move(columns);
    width = count;
  }

  Index width;  // columns held
};

}  // namespace

// The rounding error of ‖x‖² + ‖y‖² - 2⟨x, y⟩ is some eps·(‖x‖² + ‖y‖²), however near x and y are.
// Under an exponential, exp(scale·s), |scale| times it is the relative error of the entry, which
// may be a few times 1e-5 (float) or 1e-11 (double). Other finishes show the distance itself, whose
// relative error would have no bound: there the differences are always taken. So they are for short
// points, where they cost nothing, and where a norm is infinite.
template <class T>
bool direct(const Recipe& recipe, Index d, double largest) {
  constexpr Index short_points = 64;
  constexpr double tolerated = sizeof(T) == 4 ? 2e-5 : 1e-11;
  if (recipe.finish != Finish::exp || d <= short_points) return true;
  double error =
      std::abs(recipe.scale) * largest * 4 * static_cast<double>(std::numeric_limits<T>::epsilon());
  return !(error <= tolerated);
}

template <class T>
void block(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, T* out, const Poll& poll) {
  if (X.n == 0 || Y.n == 0) return;
  int workers = workers_for(X, Y);
  auto from = source(recipe, X, Y, workers);
  rectangle<T>(recipe, *from, X, Y, out, nullptr, Y.n, workers, poll);
}

template <class T>
void block_both_ways(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, T* out,
                     T* turned, Index ld, const Poll& poll) {
  if (X.n == 0 || Y.n == 0) return;
  int workers = workers_for(X, Y);
  auto from = source(recipe, X, Y, workers);
  rectangle(recipe, *from, X, Y, out, turned, ld, workers, poll);
}

template <class T>
void block(const Recipe& recipe, const Points<T>& X, T* out, const Poll& poll) {
  if (X.n == 0) return;
  int workers = workers_for(X, X);
  auto from = source(recipe, X, X, workers);
  triangle(recipe, *from, X, out, workers, poll);
}

template <class T>
void complete(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, bool symmetric,
              T* matrix, const Poll& poll) {
  if (X.n == 0 || Y.n == 0) return;
  int workers = workers_for(X, Y);
  Given<T> from(matrix, Y.n, symmetric);
  from.products = recipe.part == Part::square;
  if (symmetric) {
    triangle(recipe, from, X, matrix, workers, poll);
  } else {
    rectangle<T>(recipe, from, X, Y, matrix, nullptr, Y.n, workers, poll);
  }
}

template <class T>
void product(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, const T* v, Index q,
             double* out, const Poll& poll) {
  const auto& native = loops<T>();
  Index n = X.n, m = Y.n;
  std::fill(out, out + n * q, 0.0);
  if (n == 0 || m == 0 || q == 0) return;
  int workers = workers_for(X, Y);
  auto from = source(recipe, X, Y, workers);
  Index columns = std::min(from->columns, rounded_up(m, from->grain));
  std::vector<Factor<T>> factors;
  for (Index j = 0; j < m; j += columns) {
    // 0 times NaN or infinity is NaN, which must not be skipped.
    factors.emplace_back(v, q, j, std::min(columns, m - j), X.finite && Y.finite);
  }
  // Few rows are shared out by runs of columns too, whose sums are added in order. The runs do not
  // depend on the number of threads, the rows of a task may: a row's sums are its own.
  Index run = n <= 1024 ? rounded_up(8192, columns) : rounded_up(m, columns);
  Index runs = pieces_of(m, run);
  Index rows = halved_until(4 * workers, from->rows, from->band,
                            [&](Index size) { return pieces_of(n, size) * runs; });
  std::vector<double> partial(static_cast<std::size_t>(runs > 1 ? runs * n * q : 0), 0.0);
  TileLoop<T> tiles(recipe, *from, X, Y, from->band, columns, workers);
  std::vector<std::vector<double>> parts(static_cast<std::size_t>(workers));
  auto task = [&](Index number, int worker) {
    Index i0 = number / runs * rows, j0 = number % runs * run;
    double* sums = runs > 1 ? partial.data() + number % runs * n * q : out;
    auto multiply = [&](const Tile<T>& tile) {
      // Padding may hold NaN (0 · inf), which a zero of v would not take away.
      Index padded = std::min(tile.ld, rounded_up(tile.width, tile_slack));
      for (Index r = 0; r < tile.height; ++r) {
        std::fill(tile.row(r) + tile.width, tile.row(r) + padded, T{0});
      }
      const auto& factor = factors[static_cast<std::size_t>(tile.j / columns)];
      auto times = [&](Index width, double* to) {
        native.times(tile.values, tile.ld, tile.height, tile.width, factor.values.data(), factor.ld,
                     factor.by_column, width, to);
      };
      if (factor.used.empty() && factor.width == q) return times(q, sums + tile.i * q);
      auto& part = parts[worker];
      part.assign(static_cast<std::size_t>(tile.height * factor.width), 0.0);
      times(factor.width, part.data());
      for (Index r = 0; r < tile.height; ++r) {
        for (Index c = 0; c < factor.width; ++c) {
          sums[(tile.i + r) * q + factor.used[c]] += part[r * factor.width + c];
        }
      }
    };
    tiles.values(worker, i0, std::min(n, i0 + rows), j0, std::min(m, j0 + run), multiply);
  };
  parallel(pieces_of(n, rows) * runs, workers, task, poll);
  for (Index r = 0; runs > 1 && r < runs; ++r) {
    for (Index k = 0; k < n * q; ++k) out[k] += partial[r * n * q + k];
  }
}

// A task is a run of columns with the rows above it; what it adds to the rows has a place of its
// own, so that the order of the sums is always the same.
template <class T>
void symmetric_product(const Recipe& recipe, const Points<T>& X, const T* v, double* out,
                       const Poll& poll) {
  constexpr Index most_runs = 64;
  Index n = X.n;
  std::fill(out, out + n, 0.0);
  if (n == 0) return;
  int workers = workers_for(X, X);
  auto from = source(recipe, X, X, workers);
  // Whole bands: a source may have laid out its rows in them.
  Index grain = std::max(from->grain, from->band);
  Index run = rounded_up(pieces_of(n, most_runs), grain), runs = pieces_of(n, run);
  Index columns = std::min(from->columns, rounded_up(run, from->grain));
  std::vector<double> above(static_cast<std::size_t>(runs * n), 0.0);
  TileLoop<T> tiles(recipe, *from, X, X, from->band, columns, workers);
  std::vector<Buffer<T>> totals(static_cast<std::size_t>(workers));
  auto task = [&](Index number, int worker) {
    Index J = runs - 1 - number;  // long ones first
    Index j0 = J * run, j1 = std::min(n, j0 + run);
    double* sums = above.data() + J * n;
    auto multiply = [&](const Tile<T>& tile) {
      auto& of_columns = totals[worker];
      of_columns.assign(static_cast<std::size_t>(tile.width), T{0});
      loops<T>().cross(tile.values, tile.ld, tile.height, tile.width, v + tile.j, v + tile.i,
                       sums + tile.i, of_columns.data());
      // The rows of the run itself meet all of its columns, those above it stand for both halves.
      for (Index c = 0; tile.i < j0 && c < tile.width; ++c) {
        out[tile.j + c] += static_cast<double>(of_columns[c]);
      }
    };
    for (Index j = j0; j < j1; j += columns) {
      Index end = std::min(j1, j + columns);
      tiles.values(worker, 0, j0, j, end, multiply);
      tiles.values(worker, j0, j1, j, end, multiply);
    }
  };
  parallel(runs, workers, task, poll);
  for (Index J = 0; J < runs; ++J) {
    for (Index i = 0; i < std::min(n, (J + 1) * run); ++i) out[i] += above[J * n + i];
  }
}

double entry_error(const Recipe& recipe, double terms, double largest, bool differences) {
  double degree = static_cast<double>(recipe.degree), scale = std::abs(recipe.scale);
  if (recipe.part == Part::anova) return 2 * degree * (terms + 2) + 4;
  if (recipe.part == Part::product) {
    if (recipe.finish == Finish::identity) return terms + 1;
    if (recipe.finish == Finish::power) return degree * (terms + 4);
    return scale * largest * (terms + 1) + 4;
  }
  // t exp(-t) is below 0.4, whatever t.
  if (differences) return 0.4 * (terms + 3) + 4;
  return 4 * scale * largest * (terms + 4) + 4;
}

void PointSums::sum(std::span<const Index> which, std::span<const double> factor, bool themselves,
                    std::span<const Index> others, double* sums) {
  Points<double> X = take_(which);
  if (themselves) {
    symmetric_product<double>(recipe_, X, factor.data(), sums, poll_);
    sums += X.n;
  }
  if (others.empty()) return;
  product<double>(recipe_, take_(others), X, factor.data(), 1, sums, poll_);
}

template <class T>
WorstError<T> worst_error(const Recipe& recipe, const Points<T>& X) {
  bool gaussian = recipe.part == Part::square && recipe.finish == Finish::exp;
  if (recipe.part != Part::product && !gaussian) return {};
  Index terms = X.sparse ? 0 : X.d;
  for (Index i = 0; X.sparse && i < X.n; ++i) terms = std::max(terms, X.start[i + 1] - X.start[i]);
  bool differences = direct(recipe, X, X);
  if (!(gaussian && differences)) {
    // Two coordinates are rounded in every product.
    return {entry_error(recipe, static_cast<double>(terms + 2), X.largest, differences)};
  }
  if (X.sparse) terms *= 2;  // a difference has the nonzeros of both
  // Rounded points move ‖x - y‖ by ε(‖x‖ + ‖y‖)/2, and √t exp(-t) is below 0.43.
  return {entry_error(recipe, static_cast<double>(terms), X.largest, differences),
          0.86 * std::sqrt(std::abs(recipe.scale)), X.norms};
}

template <class T>
void diag(const Recipe& recipe, const Points<T>& X, T* out) {
  const auto& native = loops<T>();
  if (X.n == 0) return;
  Buffer<T> sums(static_cast<std::size_t>(rounded_up(X.n, native.width) + tile_slack));
  Buffer<T> scratch(static_cast<std::size_t>(native.scratch(recipe)));
  if (X.dense) {
    for (Index i = 0; i < X.n; i += native.width) {
      native.self(recipe, X.panels.data() + i * X.d, X.d, sums.data() + i, scratch.data());
    }
  } else {
    for (Index i = 0; i < X.n; ++i) {
      sums[i] = native.self_of_row(recipe, X.value.data() + X.start[i], X.start[i + 1] - X.start[i],
                                   scratch.data());
    }
  }
  native.finish(recipe, sums.data(), 0, 1, X.n, nullptr, nullptr, out, 0, false);
}

namespace {

template <class T>
std::vector<T> diagonal_of(const Recipe& recipe, const Points<T>& X) {
  std::vector<T> values(static_cast<std::size_t>(X.n));
  diag(recipe, X, values.data());
  return values;
}

}  // namespace

template <class T>
RowFacts<T> facts_of(const Recipe& recipe, const Points<T>& X, const Poll& poll,
                     const Originals* originals) {
  PointSums::Take take;
  if (originals) {
    take = [originals](std::span<const Index> which) { return originals->take(which); };
  } else if constexpr (sizeof(T) == 8) {
    take = [&X](std::span<const Index> which) { return X.take(which); };
  }
  return {mean_length(X),
          entry_error(recipe, std::sqrt(mean_length(X)), X.largest, direct(recipe, X, X)),
          worst_error(recipe, X),
          take ? std::make_unique<PointSums>(recipe, std::move(take), poll) : nullptr};
}

template <class T>
VectorRows<T>::VectorRows(const Recipe& recipe, const Points<T>& points, Poll poll,
                          const Originals* originals)
    : Rows<T>(diagonal_of(recipe, points), facts_of(recipe, points, poll, originals)),
      recipe_(recipe),
      points_(points),
      poll_(std::move(poll)) {}

// A task is a run of columns with all the rows: no other task adds to its sums, and while it runs
// the rows stay in the caches.
template <class T>
void add_rows_of(const Recipe& recipe, const Points<T>& X, const Points<T>& Y,
                 const Additions<T>& additions, double* sums, const Poll& poll) {
  if (X.n == 0 || Y.n == 0) return;
  int workers = workers_for(X, Y);
  auto from = source(recipe, X, Y, workers);
  Index m = Y.n;
  Index columns =
      halved_until(enough_tasks(workers), std::min(from->columns, rounded_up(m, from->grain)),
                   from->grain, [&](Index size) { return pieces_of(m, size); });
  bool stream = streams<T>(X.n, m);
  TileLoop<T> tiles(recipe, *from, X, Y, from->band, columns, workers);
  std::vector<std::vector<const T*>> rows(static_cast<std::size_t>(workers));
  auto task = [&](Index number, int worker) {
    auto& row = rows[worker];
    auto add = [&](const Tile<T>& tile) {
      row.clear();
      for (Index r = 0; r < tile.height; ++r) {
        row.push_back(tile.row(r));
        // As in the symmetric block: one value for k(x, x), wherever it stands.
        Index own = additions.own[tile.i + r] - tile.j;
        if (own >= 0 && own < tile.width) tile.row(r)[own] = additions.value[tile.i + r];
        T* keep = additions.keep[tile.i + r];
        if (!keep) continue;
        copy(Tile<T>{tile.row(r), tile.ld, 0, 1, 0, tile.width}, keep + tile.j, 0, stream);
      }
      loops<T>().add_rows(sums + tile.j, row.data(), additions.factor.data() + tile.i, tile.height,
                          0, tile.width);
    };
    Index j = number * columns;
    tiles.values(worker, 0, X.n, j, std::min(m, j + columns), add);
  };
  parallel(pieces_of(m, columns), workers, task, poll);
}

template <class T>
void VectorRows<T>::add(std::span<const Index> which, std::span<const double> factor,
                        std::span<T* const> keep, double* sums) {
  std::vector<T> value;
  for (Index i : which) value.push_back(this->diagonal()[i]);
  add_rows_of<T>(recipe_, points_.take(which, by_products(recipe_, points_, points_)), points_,
                 {factor, keep, which, value}, sums, poll_);
}

template <class T>
double VectorRows<T>::cost_on(const Points<T>& points) {
  return mean_length(points);
}

template <class T>
void VectorRows<T>::among(std::span<const Index> which, std::span<T> out) {
  block(recipe_, points_.take(which), out.data(), poll_);
}

#define MERCER_BLOCKS_OF(T)                                                                       \
  template bool direct<T>(const Recipe&, Index, double);                                          \
  template void block(const Recipe&, const Points<T>&, const Points<T>&, T*, const Poll&);        \
  template void block(const Recipe&, const Points<T>&, T*, const Poll&);                          \
  template void block_both_ways(const Recipe&, const Points<T>&, const Points<T>&, T*, T*, Index, \
                                const Poll&);                                                     \
  template void complete(const Recipe&, const Points<T>&, const Points<T>&, bool, T*,             \
                         const Poll&);                                                            \
  template void product(const Recipe&, const Points<T>&, const Points<T>&, const T*, Index,       \
                        double*, const Poll&);                                                    \
  template void symmetric_product(const Recipe&, const Points<T>&, const T*, double*,             \
                                  const Poll&);                                                   \
  template void diag(const Recipe&, const Points<T>&, T*);                                        \
  template WorstError<T> worst_error(const Recipe&, const Points<T>&);                            \
  template RowFacts<T> facts_of(const Recipe&, const Points<T>&, const Poll&, const Originals*);  \
  template void add_rows_of(const Recipe&, const Points<T>&, const Points<T>&,                    \
                            const Additions<T>&, double*, const Poll&);                           \
  template class VectorRows<T>;

MERCER_BLOCKS_OF(float)
MERCER_BLOCKS_OF(double)

}  // namespace mercer
