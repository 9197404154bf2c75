// Coordinate descent for Python: types of arrays, the lock, signals.
#include "bind.hpp"
#include "l1.hpp"

using namespace nanobind::literals;

namespace mercer {

void bind_l1(nb::module_& m) {
  auto define = [&](const char* name, auto minimise) {
    m.def(
        name,
        [minimise](Matrix<double> H, ResultVector<double> gradient, ResultVector<double> coef,
                   double reg, double tol, Index steps) {
          const std::size_t p = coef.shape(0);
          check(H.shape(0) == p && H.shape(1) == p && gradient.shape(0) == p,
                "A quadratic needs H (p, p), gradient (p,) and coef (p,).");
          WithoutLock unlocked;
          return minimise(H.data(), std::span(gradient.data(), p), std::span(coef.data(), p), reg,
                          tol, steps, poll);
        },
        "H"_a, "gradient"_a, "coef"_a, "reg"_a, "tol"_a, "steps"_a);
  };
  define("l1_sweeps", l1_sweeps);
  define("l1_faces", l1_faces);
}

}  // namespace mercer
