// Stochastic gradient steps for Python: types of arrays, the lock.
#include <nanobind/stl/string.h>

#include <variant>

#include "bind.hpp"
#include "bind_csr.hpp"
#include "budget.hpp"
#include "keys.hpp"
#include "sgd.hpp"
#include "sgd_features.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

// Rows of features, checked once; the arrays have to live as long.
struct ExplicitRows {
  std::variant<Vectors<double, std::int32_t>, Vectors<double, std::int64_t>> rows;

  Index size() const {
    return std::visit([](const auto& X) { return X.n; }, rows);
  }
  Index width() const {
    return std::visit([](const auto& X) { return X.d; }, rows);
  }
};

using Sums = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

SumRows sum_rows(const Sums& sums, Index m, Index q) {
  check(sums.shape(0) == 3 && extent(sums.shape(1)) == m && extent(sums.shape(2)) == q,
        "sgd_steps needs sums (3, m, q).");
  double* raw = sums.data();
  return {m, q, raw, raw + m * q, raw + 2 * m * q};
}

// The same of points: what belongs to one of them stands together.
SumRows point_sums(const Sums& sums, Index n, Index q) {
  check(extent(sums.shape(0)) == n && sums.shape(1) == 3 && extent(sums.shape(2)) == q,
        "sgd_steps needs sums of points (n, 3, q).");
  double* raw = sums.data();
  return {n, 3 * q, raw, raw + q, raw + 2 * q};
}

template <class I>
void bind_csr(nb::class_<ExplicitRows>& rows) {
  rows.def(
      "__init__",
      [](ExplicitRows* self, Vector<I> start, Vector<I> column, Vector<double> value, Index d) {
        new (self) ExplicitRows{checked_csr<double, I>(start, column, value, d)};
      },
      nb::arg("start").noconvert(), nb::arg("column").noconvert(), nb::arg("value").noconvert(),
      "d"_a, nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>());
}

void bind_rows(nb::module_& m) {
  auto rows = class_of<ExplicitRows>(m, "ExplicitRows");
  rows.def(
      "__init__",
      [](ExplicitRows* self, Matrix<double> X) {
        const Index n = extent(X.shape(0)), d = extent(X.shape(1));
        new (self) ExplicitRows{Vectors<double, std::int32_t>{n, d, X.data()}};
      },
      nb::arg("X").noconvert(), nb::keep_alive<1, 2>());
  bind_csr<std::int32_t>(rows);
  bind_csr<std::int64_t>(rows);
  rows.def(
      "keys",
      [](const ExplicitRows& self, Matrix<double> target, ResultVector<std::uint64_t> keys) {
        check(extent(target.shape(0)) == self.size() && extent(keys.shape(0)) == self.size(),
              "keys needs target (n, q) and keys (n,).");
        WithoutLock unlocked;
        std::visit(
            [&](const auto& X) {
              row_keys(X, target.data(), extent(target.shape(1)), keys.data(), poll);
            },
            self.rows);
      },
      "target"_a, "keys"_a);
  rows.def(
      "sgd_steps",
      [](const ExplicitRows& self, const std::string& loss, double parameter, Vector<Index> place,
         Matrix<double> target, Vector<double> weight, Vector<double> rate, Vector<double> diagonal,
         double reg, double norm, double root, bool average, double smallest, Sums w, Sums bias,
         Sums mine, ResultVector<double> scale, ResultVector<double> past,
         ResultVector<double> square, Output<double> values, ResultVector<double> shrunk,
         ResultVector<double> summed) {
        const std::size_t b = place.shape(0), q = target.shape(1);
        const Index n = self.size();
        check(extent(diagonal.shape(0)) == n, "sgd_steps needs diagonal (n,).");
        check(target.shape(0) == b && weight.shape(0) == b && rate.shape(0) == b &&
                  values.shape(0) == b && values.shape(1) == q,
              "sgd_steps needs weight and rate (b,), target and values (b, q).");
        for (const auto& each : {scale, past, square, shrunk, summed}) {
          check(each.shape(0) == q, "sgd_steps needs a number for each output.");
        }
        for (Index i : view(place)) check(i >= 0 && i < n, "sgd_steps needs 0 <= place < n.");
        const FeatureVisits visits{extent(b),
                                   extent(q),
                                   place.data(),
                                   target.data(),
                                   weight.data(),
                                   rate.data(),
                                   diagonal.data(),
                                   reg,
                                   norm,
                                   root,
                                   average,
                                   smallest,
                                   sum_rows(w, self.width(), extent(q)),
                                   sum_rows(bias, 1, extent(q)),
                                   point_sums(mine, n, extent(q)),
                                   scale.data(),
                                   past.data(),
                                   square.data(),
                                   values.data(),
                                   shrunk.data(),
                                   summed.data()};
        const LossSlope slope = LossSlope::of(loss, parameter);
        WithoutLock unlocked;
        std::visit([&](const auto& X) { sgd_feature_steps(slope, X, visits); }, self.rows);
      },
      "loss"_a, "parameter"_a, "place"_a, "target"_a, "weight"_a, "rate"_a, "diagonal"_a, "reg"_a,
      "norm"_a, "root"_a, "average"_a, "smallest"_a, "w"_a, "bias"_a, "mine"_a, "scale"_a, "past"_a,
      "square"_a, "values"_a, "shrunk"_a, "summed"_a);
}

}  // namespace

void bind_sgd(nb::module_& m) {
  bind_rows(m);
  m.def(
      "ascending",
      [](Vector<std::uint64_t> keys, ResultVector<Index> places) {
        check(keys.shape(0) == places.shape(0), "ascending needs a place for each key.");
        WithoutLock unlocked;
        ascending(view(keys), places.data());
      },
      "keys"_a, "places"_a);
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
