// Coordinate descent on explicit features for Python: types of arrays, the lock, signals.
#include <nanobind/stl/tuple.h>

#include "bind.hpp"
#include "features.hpp"

using namespace nanobind::literals;

namespace mercer {

void bind_features(nb::module_& m) {
  m.def(
      "descend_features",
      [](Vector<std::int32_t> begin, Vector<std::int32_t> column, Vector<double> entry,
         Vector<double> target, Vector<double> low, Vector<double> high, Vector<double> tube,
         Vector<std::uint8_t> group, Vector<double> total, Vector<double> square, double sigma,
         ResultVector<double> beta, ResultVector<double> w, ResultVector<double> rho,
         ResultVector<std::int32_t> order, ResultVector<double> shrunk, double tol,
         std::int64_t work, std::uint64_t seed) {
        const std::size_t n = beta.shape(0), p = w.shape(0), groups = total.shape(0);
        check(begin.shape(0) == n + 1 && target.shape(0) == n && low.shape(0) == n &&
                  high.shape(0) == n && square.shape(0) == n && order.shape(0) == n,
              "Descent needs a row and a number of each kind for every variable.");
        check(tube.shape(0) == 0 || tube.shape(0) == n, "Descent needs a tube for every variable.");
        check(
            rho.shape(0) == groups && (group.shape(0) == n || (group.shape(0) == 0 && groups < 2)),
            "Descent needs a level for every total, and a group for every variable.");
        for (std::size_t t = 0; t < n; ++t) {
          check(begin(t) >= 0 && begin(t) <= begin(t + 1) && order(t) >= 0 &&
                    static_cast<std::size_t>(order(t)) < n,
                "Descent needs rows in order.");
        }
        check(column.shape(0) == entry.shape(0) &&
                  (n == 0 || static_cast<std::size_t>(begin(n)) <= entry.shape(0)),
              "Descent needs a column for every entry.");
        for (std::size_t e = 0; e < column.shape(0); ++e) {
          check(column(e) >= 0 && static_cast<std::size_t>(column(e)) < p,
                "Descent needs columns of w.");
        }
        for (std::size_t t = 0; t < group.shape(0); ++t) {
          check(group(t) < groups, "Descent needs a total for every group.");
        }
        check(shrunk.shape(0) == 2 && shrunk(0) >= 0 && shrunk(0) <= static_cast<double>(n),
              "Descent needs how many variables take part, and the slope allowed.");
        Shrunk state{static_cast<Index>(shrunk(0)), shrunk(1)};
        FeatureQuadratic problem{{view(begin), view(column), view(entry)},
                                 view(target),
                                 view(low),
                                 view(high),
                                 view(tube),
                                 view(group),
                                 view(total),
                                 view(square),
                                 sigma};
        Descended found;
        {
          WithoutLock unlocked;
          found = descend(problem, view(beta), view(w), view(rho), view(order), state, tol, work,
                          seed, poll);
        }
        shrunk(0) = static_cast<double>(state.active);
        shrunk(1) = state.allowed;
        return std::tuple(found.violation, found.complete, found.read);
      },
      "begin"_a, "column"_a, "entry"_a, "target"_a, "low"_a, "high"_a, "tube"_a, "group"_a,
      "total"_a, "square"_a, "sigma"_a, "beta"_a, "w"_a, "rho"_a, "order"_a, "shrunk"_a, "tol"_a,
      "work"_a, "seed"_a);
}

}  // namespace mercer
