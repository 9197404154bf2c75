// The nearest points for Python: types of arrays, the lock, signals.
#include "bind.hpp"
#include "kdtree.hpp"
#include "nearest.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

template <class T>
DenseArray<T> rows_of(const Matrix<T>& X) {
  return {static_cast<Index>(X.shape(0)), static_cast<Index>(X.shape(1)), X.data()};
}

// A CSR matrix of d columns.
template <class T>
struct Csr {
  Vector<Index> start;
  Vector<std::int32_t> column;
  Vector<T> value;
  Index d;
};

template <class T>
SparseArray<T> rows_of(const Csr<T>& X) {
  Index n = static_cast<Index>(X.start.shape(0)) - 1;
  Index entries = static_cast<Index>(X.value.shape(0));
  const Index* start = X.start.data();
  check(n >= 0 && static_cast<Index>(X.column.shape(0)) == entries && start[0] == 0 &&
            start[n] == entries,
        "Sparse rows need start (n + 1,) from 0 to the number of entries.");
  for (Index i = 0; i < n; ++i)
    check(start[i] <= start[i + 1], "Sparse rows need start to ascend.");
  for (Index k = 0; k < entries; ++k) {
    check(X.column.data()[k] >= 0 && X.column.data()[k] < X.d, "Sparse rows need 0 <= column < d.");
  }
  return {n, X.d, start, X.column.data(), X.value.data()};
}

template <class Rows>
void sums_of_pairs(const Recipe& recipe, const Rows& X, const Rows& Y, const Matrix<Index>& index,
                   Output<double>& out) {
  Index count = static_cast<Index>(index.shape(1));
  check(X.d == Y.d && static_cast<Index>(index.shape(0)) == X.n && out.shape(0) == index.shape(0) &&
            out.shape(1) == index.shape(1),
        "pair_sums needs (n, d), (m, d), and index and out (n, count).");
  check(
      recipe.part == Part::product || recipe.part == Part::square || recipe.part == Part::absolute,
      "pair_sums takes the parts product, square and absolute.");
  WithoutLock unlocked;
  for (Index c = 0; c < X.n * count; ++c) {
    check(index.data()[c] >= 0 && index.data()[c] < Y.n, "pair_sums needs 0 <= index < m.");
  }
  pair_sums(recipe.part, X, Y, index.data(), count, out.data(), poll);
}

// How a point is ruled out without its key.
template <class T>
struct Screen {
  const Recipe& recipe;
  const Points<T>&X, &Y;
  Vector<T>& half;
  Vector<double>& base;
  double factor;
};

template <class T, class Rows>
void search(const Screen<T>& screen, const Recipe& exact, const Rows& x, const Rows& y,
            Vector<Index>& own, Output<double>& key, Output<Index>& index) {
  const auto& [recipe, X, Y, half, base, factor] = screen;
  Index n = static_cast<Index>(index.shape(0)), count = static_cast<Index>(index.shape(1));
  check(X.d == Y.d && n == X.n && x.n == n && y.n == Y.n && x.d == y.d && x.d == X.d &&
            key.shape(0) == index.shape(0) && key.shape(1) == index.shape(1) &&
            static_cast<Index>(half.shape(0)) == Y.n && static_cast<Index>(base.shape(0)) == n &&
            (own.shape(0) == 0 || static_cast<Index>(own.shape(0)) == n) &&
            count <= Y.n - (own.shape(0) != 0),
        "nearest needs points of one dimension, half (m,), base (n,), own (n,) or (0,), and key "
        "and index (n, count).");
  check(exact.part == Part::product || exact.part == Part::square || exact.part == Part::absolute,
        "nearest takes the parts product, square and absolute.");
  WithoutLock unlocked;
  nearest(recipe, X, Y, half.data(), base.data(), factor, exact, x, y, count,
          own.shape(0) ? own.data() : nullptr, key.data(), index.data(), poll);
}

template <class T, class R>  // the precisions of the points to search and of those given
void bind_search(nb::module_& m) {
  m.def(
      "nearest",
      [](const Recipe& recipe, const Points<T>& X, const Points<T>& Y, Vector<T> half,
         Vector<double> base, double factor, const Recipe& exact, Matrix<R> x, Matrix<R> y,
         Vector<Index> own, Output<double> key, Output<Index> index) {
        search<T>({recipe, X, Y, half, base, factor}, exact, rows_of(x), rows_of(y), own, key,
                  index);
      },
      "recipe"_a, "X"_a, "Y"_a, "half"_a, "base"_a, "factor"_a, "exact"_a, "x"_a, "y"_a, "own"_a,
      "key"_a, "index"_a);
  m.def(
      "nearest_csr",
      [](const Recipe& recipe, const Points<T>& X, const Points<T>& Y, Vector<T> half,
         Vector<double> base, double factor, const Recipe& exact, Vector<Index> x_start,
         Vector<std::int32_t> x_column, Vector<R> x_value, Vector<Index> y_start,
         Vector<std::int32_t> y_column, Vector<R> y_value, Vector<Index> own, Output<double> key,
         Output<Index> index) {
        Csr<R> x{x_start, x_column, x_value, X.d}, y{y_start, y_column, y_value, X.d};
        search<T>({recipe, X, Y, half, base, factor}, exact, rows_of(x), rows_of(y), own, key,
                  index);
      },
      "recipe"_a, "X"_a, "Y"_a, "half"_a, "base"_a, "factor"_a, "exact"_a, "x_start"_a,
      "x_column"_a, "x_value"_a, "y_start"_a, "y_column"_a, "y_value"_a, "own"_a, "key"_a,
      "index"_a);
}

template <class T>
void bind_sums(nb::module_& m) {
  m.def(
      "pair_sums",
      [](const Recipe& recipe, Matrix<T> X, Matrix<T> Y, Matrix<Index> index, Output<double> out) {
        sums_of_pairs(recipe, rows_of(X), rows_of(Y), index, out);
      },
      "recipe"_a, "X"_a, "Y"_a, "index"_a, "out"_a);
  m.def(
      "pair_sums_csr",
      [](const Recipe& recipe, Vector<Index> x_start, Vector<std::int32_t> x_column,
         Vector<T> x_value, Vector<Index> y_start, Vector<std::int32_t> y_column, Vector<T> y_value,
         Index d, Matrix<Index> index, Output<double> out) {
        Csr<T> x{x_start, x_column, x_value, d}, y{y_start, y_column, y_value, d};
        sums_of_pairs(recipe, rows_of(x), rows_of(y), index, out);
      },
      "recipe"_a, "x_start"_a, "x_column"_a, "x_value"_a, "y_start"_a, "y_column"_a, "y_value"_a,
      "d"_a, "index"_a, "out"_a);
}

template <class T>
void bind_tree(nb::module_& m, nb::class_<KdTree>& tree) {
  m.def(
      "kd_tree",
      [](Matrix<T> points) {
        check(points.shape(0) > 0 && points.shape(1) > 0, "kd_tree needs points (n, d).");
        WithoutLock unlocked;
        return KdTree(rows_of(points), poll);
      },
      "points"_a);
  tree.def(
      "nearest",
      [](const KdTree& tree, const Recipe& recipe, Matrix<T> X, Vector<Index> own,
         Output<double> key, Output<Index> index) {
        Index n = extent(X.shape(0)), count = extent(index.shape(1));
        check(extent(X.shape(1)) == tree.dimension() && extent(index.shape(0)) == n &&
                  key.shape(0) == index.shape(0) && key.shape(1) == index.shape(1) &&
                  (own.shape(0) == 0 || extent(own.shape(0)) == n) && count > 0 &&
                  count <= tree.size() - (own.shape(0) != 0),
              "nearest needs points of one dimension, own (n,) or (0,), and key and index "
              "(n, count).");
        check(recipe.part == Part::square || recipe.part == Part::absolute,
              "A k-d tree takes the parts square and absolute.");
        WithoutLock unlocked;
        return tree.nearest(recipe.part, rows_of(X), count, own.shape(0) ? own.data() : nullptr,
                            key.data(), index.data(), poll);
      },
      "recipe"_a, "X"_a, "own"_a, "key"_a, "index"_a);
}

}  // namespace

void bind_nearest(nb::module_& m) {
  bind_search<float, float>(m);
  bind_search<double, float>(m);
  bind_search<double, double>(m);
  bind_sums<float>(m);
  bind_sums<double>(m);
  auto tree = class_of<KdTree>(m, "KdTree");
  tree.def_prop_ro(
      "shape", [](const KdTree& tree) { return nb::make_tuple(tree.size(), tree.dimension()); });
  tree.def_prop_ro("nbytes", &KdTree::bytes);
  bind_tree<float>(m, tree);
  bind_tree<double>(m, tree);
}

}  // namespace mercer
