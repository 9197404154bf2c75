// Sparse rows of features and coordinate descent on them for Python: types of arrays, the lock,
// signals.
#include <nanobind/stl/tuple.h>

#include <optional>

#include "bind.hpp"
#include "features.hpp"

using namespace nanobind::literals;

namespace mercer {
void bind_features(nb::module_& m) {
  class_of<DescentState>(m, "DescentState").def(nb::init<Index>(), "variables"_a);
  class_of<SparseRows>(m, "SparseRows")
      .def(
          "__init__",
          [](SparseRows* self, Vector<std::int32_t> begin, Vector<std::int32_t> column,
             Vector<double> entry, Index width) {
            check(begin.shape(0) > 0 && begin(0) == 0, "SparseRows needs rows in order.");
            for (std::size_t t = 0; t + 1 < begin.shape(0); ++t) {
              check(begin(t) <= begin(t + 1), "SparseRows needs rows in order.");
            }
            check(column.shape(0) == entry.shape(0) &&
                      static_cast<std::size_t>(begin(begin.shape(0) - 1)) == entry.shape(0),
                  "SparseRows needs a column for every entry.");
            for (std::size_t e = 0; e < column.shape(0); ++e) {
              check(column(e) >= 0 && column(e) < width, "SparseRows needs columns below width.");
            }
            new (self) SparseRows(view(begin), view(column), view(entry), width);
          },
          "begin"_a, nb::arg("column").noconvert(), nb::arg("entry").noconvert(), "width"_a,
          nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
      .def_prop_ro("size", &SparseRows::size)
      .def_prop_ro("width", &SparseRows::width)
      .def_prop_ro("entries", &SparseRows::entries)
      .def(
          "times",
          [](const SparseRows& rows, Vector<std::int32_t> index, Vector<double> w,
             ResultVector<double> out, bool magnitudes) {
            check(extent(w.shape(0)) == rows.width() && out.shape(0) == index.shape(0),
                  "A product needs a weight for every column and a place for every row.");
            check_places(index, rows.size());
            WithoutLock unlocked;
            times(rows, view(index), view(w), view(out), magnitudes, poll);
          },
          "index"_a, "w"_a, "out"_a, "magnitudes"_a = false)
      .def(
          "pull",
          [](const SparseRows& rows, Vector<std::int32_t> index, Vector<double> v,
             ResultVector<double> out, bool magnitudes) {
            check(extent(out.shape(0)) == rows.width() && v.shape(0) == index.shape(0),
                  "A product needs a number for every row and a place for every column.");
            check_places(index, rows.size());
            WithoutLock unlocked;
            pull(rows, view(index), view(v), view(out), magnitudes, poll);
          },
          "index"_a, "v"_a, "out"_a, "magnitudes"_a = false)
      .def(
          "weighted",
          [](const SparseRows& rows, Vector<std::int32_t> index, Vector<double> weight,
             Output<double> out) {
            check(extent(out.shape(0)) == rows.width() && extent(out.shape(1)) == rows.width() &&
                      weight.shape(0) == index.shape(0),
                  "A product needs a weight for every row and a place for all pairs of columns.");
            check_places(index, rows.size());
            WithoutLock unlocked;
            weighted(rows, view(index), view(weight),
                     std::span(out.data(), out.shape(0) * out.shape(1)), poll);
          },
          "index"_a, "weight"_a, "out"_a)
      .def(
          "squares",
          [](const SparseRows& rows, ResultVector<double> out) {
            check(extent(out.shape(0)) == rows.size(), "Squares need a place for every row.");
            WithoutLock unlocked;
            squares(rows, view(out), poll);
          },
          "out"_a)
      .def(
          "descend",
          [](const SparseRows& rows, Vector<std::int32_t> place, Vector<double> target,
             Vector<double> low, Vector<double> high, Vector<double> tube,
             Vector<std::uint8_t> group, Vector<double> total, Vector<double> square, double sigma,
             ResultVector<double> beta, ResultVector<double> w, ResultVector<double> rho,
             DescentState& state, double tol, std::int64_t work) {
            const std::size_t n = beta.shape(0), groups = total.shape(0);
            check(place.shape(0) == n || (place.shape(0) == 0 && extent(n) == rows.size()),
                  "Descent needs a row for every variable.");
            check_places(place, rows.size());
            check(target.shape(0) == n && low.shape(0) == n && high.shape(0) == n &&
                      state.order.size() == n && extent(square.shape(0)) == rows.size() &&
                      extent(w.shape(0)) == rows.width(),
                  "Descent needs a number of each kind for every variable, row and column.");
            check(tube.shape(0) == 0 || tube.shape(0) == n,
                  "Descent needs a tube for every variable.");
            check(rho.shape(0) == groups &&
                      (group.shape(0) == n || (group.shape(0) == 0 && groups < 2)),
                  "Descent needs a level for every total, and a group for every variable.");
            for (std::size_t t = 0; t < group.shape(0); ++t) {
              check(group(t) < groups, "Descent needs a total for every group.");
            }
            FeatureQuadratic problem{view(place), view(target), view(low),
                                     view(high),  view(tube),   view(group),
                                     view(total), view(square), sigma};
            Descended found;
            {
              WithoutLock unlocked;
              found =
                  descend(rows, problem, view(beta), view(w), view(rho), state, tol, work, poll);
            }
            return std::tuple(found.violation, found.complete, found.read);
          },
          "place"_a, "target"_a, "low"_a, "high"_a, "tube"_a, "group"_a, "total"_a, "square"_a,
          "sigma"_a, "beta"_a, "w"_a, "rho"_a, "state"_a, "tol"_a, "work"_a);
}

}  // namespace mercer
