// The solver of SVMs for Python: types of arrays, the lock, signals.
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "bind.hpp"
#include "bounds.hpp"
#include "class_pairs.hpp"
#include "kept.hpp"
#include "matrix_sum.hpp"
#include "rows.hpp"
#include "simplex.hpp"
#include "smo.hpp"

using namespace nanobind::literals;

namespace mercer {
namespace {

std::string word(Status status) {
  switch (status) {
    case Status::optimal:
      return "optimal";
    case Status::max_iter:
      return "max_iter";
    case Status::time_limit:
      return "time_limit";
    case Status::stopped:
      return "stopped";
    case Status::imprecise:
      return "imprecise";
    default:
      return "stalled";
  }
}

// The longest range of points that no variable is of, if it is worth a call of its own.
std::pair<Index, Index> longest_without(std::span<const std::int32_t> points, Index n) {
  constexpr Index worthwhile = 256;
  if (points.empty()) return {0, 0};
  std::vector<char> has(static_cast<std::size_t>(n + 1), 0);
  for (auto point : points) has[point] = 1;
  has[n] = 1;
  std::pair<Index, Index> longest{0, 0};
  for (Index i = 0, begin = 0; i <= n; ++i) {
    if (!has[i]) continue;
    if (i - begin > longest.second - longest.first) longest = {begin, i};
    begin = i + 1;
  }
  return longest.second - longest.first < worthwhile ? std::pair<Index, Index>{0, 0} : longest;
}

// The arguments of a solve that do not depend on where the rows come from.
struct ProgramArrays {
  Vector<double> target, lower, upper, tube;
  Vector<std::int32_t> point;
  Vector<std::uint8_t> group;
  Options options;
  nb::object watch;
};

// `value` holds the start and takes the solution, `function` takes Kβ. Without a scratch, it is
// what the last solve left.
template <class T>
Result run(Rows<T>& rows, const ProgramArrays& given, ResultVector<double> value,
           ResultVector<double> function, Scratch<T>* own = nullptr, const Known& known = {}) {
  std::size_t m = given.target.shape(0);
  auto fits = [&](const auto& array) { return array.shape(0) == m || array.shape(0) == 0; };
  check(given.lower.shape(0) == m && given.upper.shape(0) == m && value.shape(0) == m &&
            fits(given.tube) && fits(given.point) && fits(given.group) &&
            extent(function.shape(0)) == rows.size() &&
            (given.point.shape(0) == m || extent(m) == rows.size()),
        "smo needs arrays of one length, and a point for each variable.");
  for (std::int32_t point : view(given.point)) {
    check(point >= 0 && point <= rows.size(), "smo needs 0 <= point <= n.");
  }
  for (std::uint8_t group : view(given.group)) check(group <= 1, "smo needs groups 0 and 1.");
  Program program{view(given.target), view(given.lower), view(given.upper),
                  view(given.tube),   view(given.point), view(given.group)};
  Watch watch;
  if (!given.watch.is_none()) {
    watch = [&](const Progress& progress) {
      WithLock lock;
      return nb::cast<bool>(given.watch(progress));
    };
  }
  WithoutLock unlocked;
  std::optional<Inherited<T>> memory;
  if (!own) own = &memory.emplace(given.options.cache_bytes).scratch;
  Result result =
      solve<T>(rows, program, given.options, {value.data(), m}, watch, poll, *own, known);
  std::copy(result.value.begin(), result.value.end(), value.data());
  std::copy(result.function.begin(), result.function.end(), function.data());
  result.value = {};
  result.function = {};
  return result;
}

// The function fill(rows, columns, out) writes K[rows, columns] to out, columns being None for all.
template <class T>
CallbackRows<T> rows_of(const Vector<T>& diagonal, const nb::callable& function) {
  auto fill = [&function, n = diagonal.shape(0)](std::span<const Index> which, bool among, T* out) {
    WithLock lock;
    std::vector<Index> index(which.begin(), which.end());
    nb::ndarray<nb::numpy, Index, nb::ndim<1>> rows(index.data(), {index.size()}, nb::none());
    nb::ndarray<nb::numpy, T, nb::ndim<2>> values(out, {which.size(), among ? which.size() : n},
                                                  nb::none());
    if (among) {
      function(rows, rows, values);
    } else {
      function(rows, nb::none(), values);
    }
  };
  auto values = view(diagonal);
  return CallbackRows<T>({values.begin(), values.end()}, std::move(fill));
}

// The problems of `solve_pairs`, wherever its kernel values come from.
struct PairProgramArrays {
  Matrix<Index> pairs;
  Vector<double> target, lower, upper, totals;
  bool grouped, bias;
  Options options;
};

// Of every pair, one after another.
struct PairOutcomes {
  std::vector<std::uint8_t> indefinite, unfit, limited, late;
  std::vector<Index> iterations, rows, hits;
  std::vector<double> seconds, moved, tidied, missed;

  explicit PairOutcomes(const std::vector<PairOutcome>& all) {
    for (const PairOutcome& one : all) {
      indefinite.push_back(one.indefinite);
      unfit.push_back(one.status == Status::imprecise || one.status == Status::stalled);
      limited.push_back(one.status == Status::max_iter);
      late.push_back(one.status == Status::time_limit);
      iterations.push_back(one.iterations);
      rows.push_back(one.rows);
      hits.push_back(one.hits);
      seconds.push_back(one.seconds);
      moved.push_back(one.moved);
      tidied.push_back(one.tidied);
      missed.push_back(one.missed);
    }
  }
};

// An array of a struct's numbers, which keeps the struct alive.
template <class To, auto member>
auto array_of(nb::handle_t<PairOutcomes> self) {
  const auto& numbers = nb::cast<const PairOutcomes&>(self).*member;
  return nb::ndarray<nb::numpy, const To, nb::ndim<1>>(reinterpret_cast<const To*>(numbers.data()),
                                                       {numbers.size()}, self);
}

// Pair k's β and Kβ come after those of the pairs before it, in `value` and `function`.
template <class T>
PairOutcomes solve_pairs(Classes<T>& classes, Index n_classes, const PairProgramArrays& given,
                         ResultVector<double> value, ResultVector<double> function) {
  PairPrograms all;
  Index needed = 0, count = extent(given.pairs.shape(0));
  check(given.pairs.shape(1) == 2, "solve_pairs needs pairs of classes.");
  for (Index k = 0; k < count; ++k) {
    Index a = given.pairs.data()[2 * k], b = given.pairs.data()[2 * k + 1];
    check(a >= 0 && b >= 0 && a < n_classes && b < n_classes,
          "solve_pairs needs pairs of classes.");
    all.pairs.emplace_back(a, b);
    needed += classes.size(a) + classes.size(b);
  }
  for (const auto* numbers : {&given.target, &given.lower, &given.upper}) {
    check(extent(numbers->shape(0)) == needed, "solve_pairs needs a number for each variable.");
  }
  check(extent(value.shape(0)) == needed && extent(function.shape(0)) == needed &&
            extent(given.totals.shape(0)) == 2 * count,
        "solve_pairs needs two totals for each pair, and room for its results.");
  all.target = view(given.target);
  all.lower = view(given.lower);
  all.upper = view(given.upper);
  all.totals = view(given.totals);
  all.value = view(value);
  all.function = view(function);
  all.grouped = given.grouped;
  all.bias = given.bias;
  WithoutLock unlocked;
  return PairOutcomes(solve<T>(classes, all, given.options, poll));
}

template <class T>
PairOutcomes solve_pairs_of_points(const Recipe& recipe, nb::list packed,
                                   const Originals& originals, Vector<Index> origin,
                                   const PairProgramArrays& program, ResultVector<double> value,
                                   ResultVector<double> function) {
  std::vector<const Points<T>*> classes;
  std::vector<std::span<const Index>> origins;
  Index at = 0;
  for (nb::handle item : packed) {
    const auto& points = nb::cast<const Points<T>&>(item);
    check(at + points.n <= extent(origin.shape(0)), "solve_pairs needs the place of each point.");
    classes.push_back(&points);
    origins.emplace_back(origin.data() + at, static_cast<std::size_t>(points.n));
    at += points.n;
  }
  check(!classes.empty(), "solve_pairs needs points.");
  Index count = extent(classes.size());
  PointClasses<T> source(recipe, std::move(classes), &originals, std::move(origins));
  return solve_pairs<T>(source, count, program, value, function);
}

PairOutcomes solve_pairs_of_matrix(Matrix<double> matrix, Vector<Index> sizes,
                                   Vector<Index> members, const PairProgramArrays& program,
                                   ResultVector<double> value, ResultVector<double> function) {
  Index n = extent(matrix.shape(0)), at = 0;
  check(matrix.shape(0) == matrix.shape(1), "solve_pairs needs a square matrix.");
  for (std::size_t i = 0; i < members.shape(0); ++i) {
    check(members.data()[i] >= 0 && members.data()[i] < n, "solve_pairs needs 0 <= point < n.");
  }
  std::vector<std::span<const Index>> classes;
  for (std::size_t c = 0; c < sizes.shape(0); ++c) {
    Index size = sizes.data()[c];
    check(size >= 0 && at + size <= extent(members.shape(0)), "solve_pairs needs all members.");
    classes.emplace_back(members.data() + at, static_cast<std::size_t>(size));
    at += size;
  }
  Index count = extent(classes.size());
  MatrixClasses<double> source(matrix.data(), n, std::move(classes));
  return solve_pairs<double>(source, count, program, value, function);
}

// The sum, the arrays that its matrices are in, and the memory for its rows.
class HeldSum {
 public:
  HeldSum(nb::list matrices, double cache_bytes)
      : matrices_(arrays(matrices)),
        sum_(pointers(), extent(matrices_[0].shape(0))),
        memory_(cache_bytes) {
    constexpr std::size_t beyond = 8;  // a working set reads whole vectors
    std::size_t n = matrices_[0].shape(0);
    all().resize(n * n + beyond);
    memory_.scratch.cache_bytes = static_cast<double>(all().size() * sizeof(double));
  }

  void weigh(Vector<double> weights, bool at_once) {
    check(extent(weights.shape(0)) == sum_.count(), "A sum of matrices needs a weight for each.");
    sum_.weigh(view(weights));
    WithoutLock unlocked;
    if (at_once) sum_.make_all(all().data(), poll);
  }

  Result solve(const ProgramArrays& program, ResultVector<double> value,
               ResultVector<double> function) {
    Scratch<double>& scratch = memory_.scratch;
    struct Swap {  // the solver's name for the matrix that it reads
      Scratch<double>& of;
      explicit Swap(Scratch<double>& scratch) : of(scratch) { of.all.swap(of.rows); }
      ~Swap() { of.all.swap(of.rows); }
    } swap(scratch);
    RowsOfSum rows(sum_);
    return run<double>(rows, program, value, function, &scratch);
  }

  void move(Vector<double> beta) {
    check(extent(beta.shape(0)) == sum_.size(), "A sum of matrices needs a number for each point.");
    WithoutLock unlocked;
    sum_.move(view(beta), poll);
  }

  void images(Output<double> out) const {
    check(extent(out.shape(0)) == sum_.count() && extent(out.shape(1)) == sum_.size(),
          "A sum of matrices needs room for as many images.");
    std::copy(sum_.images().begin(), sum_.images().end(), out.data());
  }

  void among(Vector<Index> points, Output<double> out) {
    check(out.shape(0) == points.shape(0) && out.shape(1) == points.shape(0),
          "A sum of matrices needs room for all pairs of points.");
    for (Index i : view(points)) check(i >= 0 && i < sum_.size(), "There is no such point.");
    WithoutLock unlocked;
    sum_.among(view(points), all().data(), out.data());
  }

  Index made() const {
    auto missing = sum_.missing();
    return sum_.size() - extent(static_cast<std::size_t>(
                             std::count(missing.begin(), missing.end(), std::uint8_t{1})));
  }
  double moved() const { return sum_.moved(); }
  Index additions() const { return sum_.additions(); }

 private:
  RowBuffer<double>& all() { return memory_.scratch.rows; }

  static std::vector<Matrix<double>> arrays(nb::list matrices) {
    std::vector<Matrix<double>> all;
    for (nb::handle one : matrices) all.push_back(nb::cast<Matrix<double>>(one));
    check(!all.empty(), "A sum of matrices needs one of them.");
    for (const auto& one : all) {
      check(one.shape(0) == one.shape(1) && one.shape(0) == all[0].shape(0),
            "A sum of matrices needs square ones of one size.");
    }
    return all;
  }
  std::vector<const double*> pointers() const {
    std::vector<const double*> all;
    for (const auto& one : matrices_) all.push_back(one.data());
    return all;
  }

  std::vector<Matrix<double>> matrices_;
  MatrixSum sum_;
  Inherited<double> memory_;
};

void check_bounds(const ResultVector<double>& value, const Vector<double>& lower,
                  const Vector<double>& upper) {
  check(value.shape(0) == lower.shape(0) && value.shape(0) == upper.shape(0),
        "Each variable needs a lower and an upper bound.");
}

BoxPoint point_of(const Vector<double>& beta, const Vector<double>& function,
                  const Vector<double>& target, const Vector<double>& lower,
                  const Vector<double>& upper, const Vector<double>& tube) {
  for (const auto* numbers : {&function, &target, &lower, &upper}) {
    check(numbers->shape(0) == beta.shape(0), "Each variable needs its numbers.");
  }
  check(tube.shape(0) == beta.shape(0) || tube.shape(0) == 0, "Each variable needs its tube.");
  return {view(beta), view(function), view(target), view(lower), view(upper), view(tube)};
}

void check_square(const Matrix<double>& A, const Vector<double>& first,
                  const Vector<double>& second) {
  check(A.shape(0) == A.shape(1) && A.shape(0) == first.shape(0) && A.shape(0) == second.shape(0),
        "A quadratic program needs a square matrix and vectors of its side.");
}

void put(const std::vector<double>& found, ResultVector<double>& out) {
  check(out.shape(0) == found.size(), "A quadratic program needs room for its solution.");
  std::copy(found.begin(), found.end(), out.data());
}

template <class T>
void bind_of(nb::module_& m) {
  m.def(
      "solve_pairs",
      [](const Recipe& recipe, const Points<T>&, nb::list classes, const Originals& originals,
         Vector<Index> origin, const PairProgramArrays& program, ResultVector<double> value,
         ResultVector<double> function) {
        return solve_pairs_of_points<T>(recipe, classes, originals, origin, program, value,
                                        function);
      },
      "recipe"_a, "like"_a, "classes"_a, "originals"_a, "origin"_a, "program"_a, "value"_a,
      "function"_a);
  m.def(
      "smo",
      [](const Recipe& recipe, const Points<T>& X, const Originals& originals,
         const ProgramArrays& program, ResultVector<double> value, ResultVector<double> function) {
        VectorRows<T> rows(recipe, X, poll, &originals);
        return run<T>(rows, program, value, function);
      },
      "recipe"_a, "X"_a, "originals"_a, "program"_a, "value"_a, "function"_a);
  m.def(
      "smo_dense",
      [](Matrix<T> matrix, const ProgramArrays& program, ResultVector<double> value,
         ResultVector<double> function) {
        check(matrix.shape(0) == matrix.shape(1), "smo_dense needs a square matrix.");
        DenseRows<T> rows(matrix.data(), extent(matrix.shape(0)));
        return run<T>(rows, program, value, function);
      },
      "matrix"_a, "program"_a, "value"_a, "function"_a);
  m.def(
      "smo_held",
      [](Matrix<T> matrix, const Recipe& recipe, const Points<T>& X, const Originals& originals,
         const ProgramArrays& program, ResultVector<double> value, ResultVector<double> function,
         Vector<double> before, double moved) {
        check(matrix.shape(0) == matrix.shape(1) && extent(matrix.shape(0)) == X.n,
              "smo_held needs a matrix of all points.");
        check(before.shape(0) == 0 || before.shape(0) == value.shape(0),
              "smo_held needs a number before for each variable, or none.");
        HeldRows<T> rows(matrix.data(), recipe, X, Poll(poll), &originals,
                         longest_without(view(program.point), X.n));
        ProgramArrays given(program);
        given.options.samples = true;
        Known known{view(before), {function.data(), function.shape(0)}, moved};
        return run<T>(rows, given, value, function, nullptr, known);
      },
      "matrix"_a, "recipe"_a, "X"_a, "originals"_a, "program"_a, "value"_a, "function"_a,
      "before"_a, "moved"_a);
  m.def(
      "smo_callback",
      [](Vector<T> diagonal, nb::callable fill, const ProgramArrays& program,
         ResultVector<double> value, ResultVector<double> function) {
        CallbackRows<T> rows = rows_of<T>(diagonal, fill);
        return run<T>(rows, program, value, function);
      },
      "diagonal"_a, "fill"_a, "program"_a, "value"_a, "function"_a);
}

}  // namespace

void bind_smo(nb::module_& m) {
  class_of<ProgramArrays>(m, "Program", "What is to be solved, and how.")
      .def(
          "__init__",
          [](ProgramArrays* self, Vector<double> target, Vector<double> lower, Vector<double> upper,
             Vector<double> tube, Vector<std::int32_t> point, Vector<std::uint8_t> group,
             double tol, double cache_bytes, Index max_iter, double time_limit, Index working_set,
             bool demanding, bool refines, bool objectives, bool free_steps, bool near,
             nb::object watch) {
            new (self) ProgramArrays{target,
                                     lower,
                                     upper,
                                     tube,
                                     point,
                                     group,
                                     {tol, cache_bytes, max_iter, time_limit, working_set,
                                      demanding, objectives, refines, false, free_steps, near},
                                     std::move(watch)};
          },
          "target"_a, "lower"_a, "upper"_a, "tube"_a, "point"_a, "group"_a, "tol"_a,
          "cache_bytes"_a, "max_iter"_a, "time_limit"_a, "working_set"_a, "demanding"_a,
          "refines"_a, "objectives"_a, "free_steps"_a, "near"_a, "watch"_a.none());
  class_of<PairProgramArrays>(m, "PairProgram", "The problems of many pairs of classes.")
      .def(
          "__init__",
          [](PairProgramArrays* self, Matrix<Index> pairs, Vector<double> target,
             Vector<double> lower, Vector<double> upper, Vector<double> totals, bool grouped,
             bool bias, double tol, double cache_bytes, Index max_iter, double time_limit,
             bool demanding, bool free_steps, bool near) {
            new (self) PairProgramArrays{pairs,
                                         target,
                                         lower,
                                         upper,
                                         totals,
                                         grouped,
                                         bias,
                                         {tol, cache_bytes, max_iter, time_limit, 0, demanding,
                                          true, false, false, free_steps, near}};
          },
          "pairs"_a, "target"_a, "lower"_a, "upper"_a, "totals"_a, "grouped"_a, "bias"_a, "tol"_a,
          "cache_bytes"_a, "max_iter"_a, "time_limit"_a, "demanding"_a, "free_steps"_a, "near"_a);
  class_of<Progress>(m, "SolverProgress", "Where a solve is after a round.")
      .def_ro("round", &Progress::round)
      .def_ro("iterations", &Progress::iterations)
      .def_ro("rows", &Progress::rows)
      .def_ro("support", &Progress::support)
      .def_ro("violation", &Progress::violation)
      .def_ro("objective", &Progress::objective)
      .def_ro("gap", &Progress::gap)
      .def_ro("seconds", &Progress::seconds);
  class_of<Result>(m, "SolverResult", "How a solve ended.")
      .def_prop_ro("status", [](const Result& result) { return word(result.status); })
      .def_ro("indefinite", &Result::indefinite)
      .def_ro("violation", &Result::violation)
      .def_ro("objective", &Result::objective)
      .def_ro("iterations", &Result::iterations)
      .def_ro("rounds", &Result::rounds)
      .def_ro("rows", &Result::rows)
      .def_ro("hits", &Result::hits)
      .def_ro("checked", &Result::checked)
      .def_ro("complete", &Result::complete)
      .def_ro("sampled_error", &Result::sampled_error)
      .def_ro("moved", &Result::moved)
      .def_ro("additions", &Result::additions);
  class_of<PairOutcomes>(m, "PairOutcomes", "How the solves of many pairs ended, an array each.")
      .def_prop_ro("indefinite", &array_of<bool, &PairOutcomes::indefinite>)
      .def_prop_ro("unfit", &array_of<bool, &PairOutcomes::unfit>)
      .def_prop_ro("limited", &array_of<bool, &PairOutcomes::limited>)
      .def_prop_ro("late", &array_of<bool, &PairOutcomes::late>)
      .def_prop_ro("iterations", &array_of<Index, &PairOutcomes::iterations>)
      .def_prop_ro("rows", &array_of<Index, &PairOutcomes::rows>)
      .def_prop_ro("hits", &array_of<Index, &PairOutcomes::hits>)
      .def_prop_ro("seconds", &array_of<double, &PairOutcomes::seconds>)
      .def_prop_ro("moved", &array_of<double, &PairOutcomes::moved>)
      .def_prop_ro("tidied", &array_of<double, &PairOutcomes::tidied>)
      .def_prop_ro("missed", &array_of<double, &PairOutcomes::missed>);
  class_of<HeldSum>(m, "MatrixSum",
                    "Σₘ dₘ Kₘ of matrices in memory, its rows made when they are read.")
      .def(nb::init<nb::list, double>(), "matrices"_a, "cache_bytes"_a)
      .def("weigh", &HeldSum::weigh, "weights"_a, "at_once"_a)
      .def("solve", &HeldSum::solve, "program"_a, "value"_a, "function"_a)
      .def("move", &HeldSum::move, "beta"_a)
      .def("images", &HeldSum::images, "out"_a)
      .def("among", &HeldSum::among, "points"_a, "out"_a)
      .def_prop_ro("made", &HeldSum::made)
      .def_prop_ro("moved", &HeldSum::moved)
      .def_prop_ro("additions", &HeldSum::additions);
  m.def("solve_pairs_of_matrix", &solve_pairs_of_matrix, "matrix"_a, "sizes"_a, "members"_a,
        "program"_a, "value"_a, "function"_a);
  m.def(
      "snap",
      [](ResultVector<double> value, Vector<double> lower, Vector<double> upper, double slack) {
        check_bounds(value, lower, upper);
        snap(view(value), view(lower), view(upper), slack);
      },
      "value"_a, "lower"_a, "upper"_a, "slack"_a);
  m.def(
      "balance",
      [](ResultVector<double> value, Vector<double> lower, Vector<double> upper, double total) {
        check_bounds(value, lower, upper);
        return balance(view(value), view(lower), view(upper), total);
      },
      "value"_a, "lower"_a, "upper"_a, "total"_a);
  m.def(
      "judge_box",
      [](ResultVector<double> beta, Vector<double> function, Vector<double> target,
         Vector<double> lower, Vector<double> upper, Vector<double> tube, double total,
         double entry_error, double largest, double moved) {
        BoxPoint point = point_of(Vector<double>(beta), function, target, lower, upper, tube);
        BoxVerdict found = judge(view(beta), point, total, {entry_error, largest, moved});
        return nb::make_tuple(found.settled, found.level, found.violation, found.primal, found.dual,
                              found.objective_error, found.rounding);
      },
      "beta"_a, "function"_a, "target"_a, "lower"_a, "upper"_a, "tube"_a, "total"_a,
      "entry_error"_a, "largest"_a, "moved"_a);
  m.def(
      "exact_excess",
      [](Vector<double> values, double total) { return exact_excess(view(values), total); },
      "values"_a, "total"_a);
  m.def(
      "box_ends",
      [](Vector<double> beta, Vector<double> function, Vector<double> target, Vector<double> lower,
         Vector<double> upper, Vector<double> tube) {
        BoxEnds found = ends(point_of(beta, function, target, lower, upper, tube));
        return nb::make_tuple(found.down, found.up, found.of_free, found.n_free);
      },
      "beta"_a, "function"_a, "target"_a, "lower"_a, "upper"_a, "tube"_a);
  m.def(
      "box_sums",
      [](Vector<double> beta, Vector<double> function, Vector<double> target, Vector<double> lower,
         Vector<double> upper, Vector<double> tube, double level, double rounding) {
        BoxSums all = sums(point_of(beta, function, target, lower, upper, tube), level, rounding);
        return nb::make_tuple(all.square, all.linear, all.loss, all.weight, all.losing, all.size,
                              all.losses);
      },
      "beta"_a, "function"_a, "target"_a, "lower"_a, "upper"_a, "tube"_a, "level"_a, "rounding"_a);
  m.def(
      "constrained_minimum",
      [](Matrix<double> A, Vector<double> pull, Vector<double> row, ResultVector<double> out) {
        check_square(A, pull, row);
        put(constrained_minimum({A.data(), A.size()}, view(pull), view(row)), out);
      },
      "A"_a, "pull"_a, "row"_a, "out"_a);
  m.def(
      "simplex_minimum",
      [](Matrix<double> H, Vector<double> slope, Vector<double> start, ResultVector<double> out) {
        check_square(H, slope, start);
        std::vector<double> found;
        {
          WithoutLock unlocked;
          found = simplex_minimum({H.data(), H.size()}, view(slope), view(start), poll);
        }
        put(found, out);
      },
      "H"_a, "slope"_a, "start"_a, "out"_a);
  bind_of<float>(m);
  bind_of<double>(m);
  m.def("kept_bytes", &kept_bytes, "Memory that the last solve left for the next.");
  m.def("release_kept", &release_kept, "Gives it back; returns how many bytes that were.");
}

}  // namespace mercer
