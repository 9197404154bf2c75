// Stochastic gradient steps for Python: types of arrays, the lock.
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "budget.hpp"
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
  m.def(
      "budget_steps",
      [](const std::string& loss, double parameter, Matrix<double> gram, Output<double> across,
         Matrix<double> target, Vector<double> weight, Vector<double> rate, Vector<Index> place,
         double reg, double norm, bool average, const std::string& removal, Output<double> coef,
         Output<double> total, ResultVector<double> square, Output<double> matrix,
         ResultVector<Index> age, ResultVector<Index> source, double gamma, double offset,
         Matrix<double> points, Output<double> slots, Output<double> values, Index taken,
         Index steps) {
        const std::size_t b = target.shape(0), q = target.shape(1), room = coef.shape(0);
        const std::size_t d = slots.shape(1);
        const auto is = [](const auto& array, std::size_t rows, std::size_t columns) {
          return array.shape(0) == rows && array.shape(1) == columns;
        };
        check(is(gram, b, b) && is(across, b, room) && is(values, b, q) && weight.shape(0) == b &&
                  rate.shape(0) == b && place.shape(0) == b,
              "budget_steps needs gram (b, b), across (b, room), values (b, q), and weight, rate "
              "and place (b,).");
        check(room > 0 && coef.shape(1) == q && is(total, room, q) && is(matrix, room, room) &&
                  square.shape(0) == q && age.shape(0) == room && source.shape(0) == room &&
                  taken >= 0 && taken < extent(room),
              "budget_steps needs coef and total (room, q), matrix (room, room), square (q,), age "
              "and source (room,), one of them free.");
        const Removal way = removal_of(removal);
        check(way != Removal::merge || (is(points, b, d) && slots.shape(0) == room),
              "budget_steps needs points (b, d) and slots (room, d) to merge.");
        BudgetVisits visits{
            extent(b),     extent(q),     extent(room),
            extent(d),     gram.data(),   across.data(),
            target.data(), weight.data(), rate.data(),
            place.data(),  reg,           norm,
            average,       way,           coef.data(),
            total.data(),  square.data(), matrix.data(),
            age.data(),    source.data(), gamma,
            offset,        points.data(), way == Removal::merge ? slots.data() : nullptr,
            values.data(), taken,         steps};
        const LossSlope slope = LossSlope::of(loss, parameter);
        {
          WithoutLock unlocked;
          budget_steps(slope, visits, poll);
        }
        return nb::make_tuple(visits.m, visits.steps);
      },
      "loss"_a, "parameter"_a, "gram"_a, "across"_a, "target"_a, "weight"_a, "rate"_a, "place"_a,
      "reg"_a, "norm"_a, "average"_a, "removal"_a, "coef"_a, "total"_a, "square"_a, "matrix"_a,
      "age"_a, "source"_a, "gamma"_a, "offset"_a, "points"_a, "slots"_a, "values"_a, "taken"_a,
      "steps"_a);
}

}  // namespace mercer
