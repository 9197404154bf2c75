// Nearest centroids for Python: types of arrays, the lock.
#include <nanobind/stl/optional.h>

#include <optional>

#include "bind.hpp"
#include "clusters.hpp"

using namespace nanobind::literals;

namespace mercer {

void bind_clusters(nb::module_& m) {
  m.def(
      "nearest_centroids",
      [](Matrix<double> X, std::optional<Vector<double>> scale, Vector<double> square,
         Matrix<double> product, Vector<double> offset, Vector<double> own,
         std::optional<Vector<double>> moved, double most, double rounding,
         ResultVector<Index> label, ResultVector<double> upper, ResultVector<double> lower) {
        const std::size_t n = X.shape(0), d = X.shape(1), k = offset.shape(0);
        check(product.shape(0) == k && product.shape(1) == d && own.shape(0) == k &&
                  (!moved || moved->shape(0) == k),
              "nearest_centroids needs product (k, d) and offset, own, moved (k,).");
        check(square.shape(0) == n && label.shape(0) == n && upper.shape(0) == n &&
                  lower.shape(0) == n && (!scale || scale->shape(0) == n),
              "nearest_centroids needs scale, square, label, upper, lower (n,).");
        for (Index c : view(label)) {
          check(c >= 0 && c < extent(k), "nearest_centroids needs 0 <= label < k.");
        }
        const Centroids centroids{extent(k),     extent(d),  product.data(),
                                  offset.data(), own.data(), moved ? moved->data() : nullptr,
                                  most,          rounding};
        const Assignment points{extent(n),     X.data(),     scale ? scale->data() : nullptr,
                                square.data(), label.data(), upper.data(),
                                lower.data()};
        WithoutLock unlocked;
        nearest_centroids(centroids, points, poll);
      },
      nb::arg("X").noconvert(), "scale"_a.none(), "square"_a, "product"_a, "offset"_a, "own"_a,
      "moved"_a.none(), "most"_a, "rounding"_a, "label"_a, "upper"_a, "lower"_a);
}

}  // namespace mercer
