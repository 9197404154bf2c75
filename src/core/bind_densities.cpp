// Densities for Python: types of arrays, the lock, signals.
#include "bind.hpp"
#include "densities.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

using Stack = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Factors = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Squares = nb::ndarray<double, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

DiagonalNormals normals_of(const Matrix<double>& mean, const Matrix<double>& deviation) {
  check(mean.shape(0) == deviation.shape(0) && mean.shape(1) == deviation.shape(1),
        "Normals need as many deviations as means.");
  return {extent(mean.shape(0)), extent(mean.shape(1)), mean.data(), deviation.data()};
}

Runs runs_of(const Vector<Index>& offsets, std::size_t rows) {
  Index count = extent(offsets.shape(0)) - 1;
  bool sorted = count >= 0 && offsets.data()[0] == 0 && offsets.data()[count] == extent(rows);
  for (Index r = 0; sorted && r < count; ++r) {
    sorted = offsets.data()[r] <= offsets.data()[r + 1];
  }
  check(sorted, "Runs need offsets from 0 to the number of rows, never falling.");
  return {count, offsets.data()};
}

HiddenChain chain_of(const Vector<double>& start, const Matrix<double>& move, std::size_t k) {
  check(start.shape(0) == k && move.shape(0) == k && move.shape(1) == k,
        "A hidden chain needs a start (k), moves (k, k) and log densities (n, k).");
  return {extent(k), start.data(), move.data()};
}

bool is(const auto& array, std::size_t height, std::size_t width) {
  return array.shape(0) == height && array.shape(1) == width;
}

bool is(const Stack& array, Index runs, std::size_t height, std::size_t width) {
  return extent(array.shape(0)) == runs && array.shape(1) == height && array.shape(2) == width;
}

}  // namespace

void bind_densities(nb::module_& m) {
  m.def(
      "log_densities",
      [](Matrix<double> mean, Matrix<double> deviation, Matrix<double> rows, Output<double> out) {
        DiagonalNormals normals = normals_of(mean, deviation);
        check(rows.shape(1) == mean.shape(1) && is(out, rows.shape(0), mean.shape(0)),
              "log_densities needs means and deviations (k, d), rows (n, d) and out (n, k).");
        WithoutLock unlocked;
        log_densities(normals, rows.data(), extent(rows.shape(0)), out.data(), poll);
      },
      "mean"_a, "deviation"_a, "rows"_a, "out"_a);
  m.def(
      "full_log_densities",
      [](Matrix<double> mean, Factors factor, Matrix<double> rows, Output<double> out) {
        std::size_t k = mean.shape(0), d = mean.shape(1);
        check(factor.shape(0) == k && factor.shape(1) == d && factor.shape(2) == d &&
                  rows.shape(1) == d && is(out, rows.shape(0), k),
              "full_log_densities needs means (k, d), factors (k, d, d), rows (n, d), out (n, k).");
        FullNormals normals{extent(k), extent(d), mean.data(), factor.data()};
        WithoutLock unlocked;
        log_densities(normals, rows.data(), extent(rows.shape(0)), out.data(), poll);
      },
      "mean"_a, "factor"_a, "rows"_a, "out"_a);
  m.def(
      "scatter",
      [](Matrix<double> mean, Matrix<double> rows, Vector<Index> offsets, Matrix<double> answers,
         Stack first, Squares second) {
        Runs runs = runs_of(offsets, rows.shape(0));
        std::size_t k = mean.shape(0), d = mean.shape(1);
        check(rows.shape(1) == d && is(answers, rows.shape(0), k) && is(first, runs.count, k, d) &&
                  extent(second.shape(0)) == runs.count && second.shape(1) == k &&
                  second.shape(2) == d && second.shape(3) == d,
              "scatter needs means (k, d), rows (n, d), answers (n, k), first (runs, k, d) and "
              "second (runs, k, d, d).");
        WithoutLock unlocked;
        scatter(mean.data(), extent(k), extent(d), rows.data(), runs, answers.data(), first.data(),
                second.data(), poll);
      },
      "mean"_a, "rows"_a, "offsets"_a, "answers"_a, "first"_a, "second"_a);
  m.def(
      "moments",
      [](Matrix<double> mean, Matrix<double> deviation, Matrix<double> rows, Vector<Index> offsets,
         Matrix<double> answers, Stack first, Stack second) {
        DiagonalNormals normals = normals_of(mean, deviation);
        Runs runs = runs_of(offsets, rows.shape(0));
        std::size_t k = mean.shape(0), d = mean.shape(1);
        check(rows.shape(1) == d && is(answers, rows.shape(0), k) && is(first, runs.count, k, d) &&
                  is(second, runs.count, k, d),
              "moments needs means and deviations (k, d), rows (n, d), answers (n, k), first and "
              "second (runs, k, d).");
        WithoutLock unlocked;
        moments(normals, rows.data(), runs, answers.data(), first.data(), second.data(), poll);
      },
      "mean"_a, "deviation"_a, "rows"_a, "offsets"_a, "answers"_a, "first"_a, "second"_a);
  m.def(
      "shares",
      [](Output<double> logs, ResultVector<double> sums) {
        check(sums.shape(0) == logs.shape(0), "shares needs logs (n, k) and sums (n).");
        WithoutLock unlocked;
        shares(logs.data(), extent(logs.shape(0)), extent(logs.shape(1)), sums.data(), poll);
      },
      "logs"_a, "sums"_a);
  m.def(
      "likelihood",
      [](Vector<double> start, Matrix<double> move, Matrix<double> logs, Vector<Index> offsets,
         ResultVector<double> out) {
        HiddenChain chain = chain_of(start, move, logs.shape(1));
        Runs runs = runs_of(offsets, logs.shape(0));
        check(extent(out.shape(0)) == runs.count, "likelihood needs a number for each run.");
        WithoutLock unlocked;
        likelihood(chain, logs.data(), runs, out.data(), poll);
      },
      "start"_a, "move"_a, "logs"_a, "offsets"_a, "out"_a);
  m.def(
      "forward_backward",
      [](Vector<double> start, Matrix<double> move, Matrix<double> logs, Vector<Index> offsets,
         ResultVector<double> out, Output<double> answers, Stack moves) {
        HiddenChain chain = chain_of(start, move, logs.shape(1));
        Runs runs = runs_of(offsets, logs.shape(0));
        std::size_t k = logs.shape(1);
        check(extent(out.shape(0)) == runs.count && is(answers, logs.shape(0), k) &&
                  is(moves, runs.count, k, k),
              "forward_backward needs a number for each run, answers (n, k), moves (runs, k, k).");
        WithoutLock unlocked;
        forward_backward(chain, logs.data(), runs, out.data(), answers.data(), moves.data(), poll);
      },
      "start"_a, "move"_a, "logs"_a, "offsets"_a, "out"_a, "answers"_a, "moves"_a);
}

}  // namespace mercer
