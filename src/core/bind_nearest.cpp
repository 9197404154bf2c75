// The nearest points for Python: types of arrays, the lock, signals.
#include "bind.hpp"
#include "nearest.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

template <class T>
void bind_for(nb::module_& m) {
  m.def(
      "nearest",
      [](const Recipe& recipe, const Points<T>& X, const Points<T>& Y, Vector<T> half,
         Vector<Index> own, Output<double> score, Output<Index> index) {
        Index n = static_cast<Index>(index.shape(0)), count = static_cast<Index>(index.shape(1));
        check(X.d == Y.d && n == X.n && score.shape(0) == index.shape(0) &&
                  score.shape(1) == index.shape(1) && static_cast<Index>(half.shape(0)) == Y.n &&
                  (own.shape(0) == 0 || static_cast<Index>(own.shape(0)) == n) &&
                  count <= Y.n - (own.shape(0) != 0),
              "nearest needs points of one dimension, half (m,), own (n,) or (0,), and score and "
              "index (n, count).");
        nb::gil_scoped_release release;
        nearest<T>(recipe, X, Y, half.data(), count, own.shape(0) ? own.data() : nullptr,
                   score.data(), index.data(), poll);
      },
      "recipe"_a, "X"_a, "Y"_a, "half"_a, "own"_a, "score"_a, "index"_a);
  m.def(
      "pair_sums",
      [](const Recipe& recipe, Matrix<T> X, Matrix<T> Y, Matrix<Index> index, Output<double> out) {
        Index n = static_cast<Index>(index.shape(0)), count = static_cast<Index>(index.shape(1));
        Index m = static_cast<Index>(Y.shape(0)), d = static_cast<Index>(X.shape(1));
        check(X.shape(1) == Y.shape(1) && index.shape(0) == X.shape(0) &&
                  out.shape(0) == index.shape(0) && out.shape(1) == index.shape(1),
              "pair_sums needs (n, d), (m, d), and index and out (n, count).");
        check(recipe.part == Part::product || recipe.part == Part::square ||
                  recipe.part == Part::absolute,
              "pair_sums takes the parts product, square and absolute.");
        nb::gil_scoped_release release;
        for (Index c = 0; c < n * count; ++c) {
          check(index.data()[c] >= 0 && index.data()[c] < m, "pair_sums needs 0 <= index < m.");
        }
        pair_sums<T>(recipe.part, X.data(), n, Y.data(), d, index.data(), count, out.data(), poll);
      },
      "recipe"_a, "X"_a, "Y"_a, "index"_a, "out"_a);
}

}  // namespace

void bind_nearest(nb::module_& m) {
  bind_for<float>(m);
  bind_for<double>(m);
}

}  // namespace mercer
