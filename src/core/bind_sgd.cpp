// Stochastic gradient steps for Python: types of arrays, the lock.
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "sgd.hpp"

using namespace nanobind::literals;

namespace mercer {

void bind_sgd(nb::module_& m) {
  m.def(
      "sgd_steps",
      [](const std::string& loss, double parameter, Matrix<double> gram, Matrix<double> target,
         Vector<double> weight, Vector<double> rate, double reg, double norm, double tiny,
         Output<double> values, Output<double> added, Output<double> scales,
         ResultVector<double> scale, ResultVector<double> square, ResultVector<double> last) {
        const std::size_t q = target.shape(0), b = target.shape(1);
        const auto fits = [&](const auto& rows) {
          return rows.shape(0) == q && rows.shape(1) == b;
        };
        check(gram.shape(0) == b && gram.shape(1) == b, "sgd_steps needs gram (b, b).");
        check(fits(values) && fits(added) && fits(scales), "sgd_steps needs arrays (q, b).");
        check(weight.shape(0) == b && rate.shape(0) == b, "sgd_steps needs weight, rate (b,).");
        check(scale.shape(0) == q && square.shape(0) == q && last.shape(0) == q,
              "sgd_steps needs scale, square, last (q,).");
        const Visits visits{static_cast<Index>(b),
                            static_cast<Index>(q),
                            gram.data(),
                            target.data(),
                            weight.data(),
                            rate.data(),
                            reg,
                            norm,
                            values.data(),
                            added.data(),
                            scales.data(),
                            scale.data(),
                            square.data(),
                            last.data()};
        const LossSlope slope = LossSlope::of(loss, parameter);
        WithoutLock unlocked;
        return sgd_steps(slope, visits, tiny);
      },
      "loss"_a, "parameter"_a, "gram"_a, "target"_a, "weight"_a, "rate"_a, "reg"_a, "norm"_a,
      "tiny"_a, "values"_a, "added"_a, "scales"_a, "scale"_a, "square"_a, "last"_a);
}

}  // namespace mercer
