// Tall products and products in whole numbers for Python: types of arrays, the lock.
#include <nanobind/stl/optional.h>

#include "bind.hpp"
#include "tall.hpp"
#include "whole.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

template <class T>
void bind_products(nb::module_& m) {
  m.def(
      "tall_times",
      [](Matrix<T> M, Matrix<T> W, Output<double> out) {
        check(M.shape(1) == W.shape(0) && out.shape(0) == M.shape(0) && out.shape(1) == W.shape(1),
              "tall_times needs (n, p), (p, q) and (n, q).");
        WithoutLock unlocked;
        tall_times(M.data(), extent(M.shape(0)), extent(M.shape(1)), W.data(), extent(W.shape(1)),
                   out.data());
      },
      nb::arg("M").noconvert(), nb::arg("W").noconvert(), nb::arg("out").noconvert());
  m.def(
      "tall_pull",
      [](Matrix<T> M, Matrix<T> V, Output<double> sums) {
        check(
            M.shape(0) == V.shape(0) && sums.shape(0) == V.shape(1) && sums.shape(1) == M.shape(1),
            "tall_pull needs (n, p), (n, q) and (q, p).");
        WithoutLock unlocked;
        tall_pull(M.data(), extent(M.shape(0)), extent(M.shape(1)), V.data(), extent(V.shape(1)),
                  sums.data());
      },
      nb::arg("M").noconvert(), nb::arg("V").noconvert(), nb::arg("sums").noconvert());
  m.def(
      "tall_squares",
      [](Matrix<T> M, std::optional<Vector<T>> h, Output<double> sums) {
        check(sums.shape(0) == M.shape(1) && sums.shape(1) == M.shape(1) &&
                  (!h || h->shape(0) == M.shape(0)),
              "tall_squares needs (n, p), (n,) or None, and (p, p).");
        WithoutLock unlocked;
        tall_squares(M.data(), extent(M.shape(0)), extent(M.shape(1)), h ? h->data() : nullptr,
                     sums.data());
      },
      nb::arg("M").noconvert(), nb::arg("h").noconvert().none(), nb::arg("sums").noconvert());
}

}  // namespace

void bind_tall(nb::module_& m) {
  bind_products<float>(m);
  bind_products<double>(m);
  class_of<WholePoints>(m, "WholePoints").def_prop_ro("shape", [](const WholePoints& points) {
    return nb::make_tuple(points.m, points.d);
  });
  m.def(
      "whole_points",
      [](Matrix<double> Y, double step) {
        check(step > 0, "whole_points needs step > 0.");
        WithoutLock unlocked;
        return WholePoints::of(Y.data(), extent(Y.shape(0)), extent(Y.shape(1)), step);
      },
      nb::arg("Y").noconvert(), "step"_a);
  m.def(
      "whole_block",
      [](const Recipe& recipe, Matrix<double> X, const WholePoints& Y, Output<double> out,
         ResultVector<bool> done) {
        check(extent(X.shape(1)) == Y.d && out.shape(0) == X.shape(0) &&
                  extent(out.shape(1)) == Y.m && done.shape(0) == X.shape(0),
              "whole_block needs (n, d), points of d coordinates, (n, m) and (n,).");
        check(recipe.part == Part::product || recipe.part == Part::square,
              "whole_block needs the part product or square.");
        WithoutLock unlocked;
        whole_block(recipe, X.data(), extent(X.shape(0)), Y, out.data(), done.data(), poll);
      },
      "recipe"_a, nb::arg("X").noconvert(), "Y"_a, nb::arg("out").noconvert(),
      nb::arg("done").noconvert());
}

}  // namespace mercer
