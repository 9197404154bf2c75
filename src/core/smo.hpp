// The dual of the SVM family and its solver.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core.hpp"

namespace mercer {

// min ½ βᵀKβ - Σ targetₜ βₜ + Σ tubeₜ |βₜ|,  lowerₜ ≤ βₜ ≤ upperₜ,  Σβ given (in each group).
//
// Variable t stands for point point[t] (empty: point t; a point n of n stands for none, with k = 0:
// the one such variable takes up whatever the others sum to); βₜ enters f = Σ βₜ k(x_point(t), ·),
// the sum over the variables of a point. A pair of variables moves by (+δ, -δ) and stays within its
// group, so the sum over each group stays what it is at the start.
struct Program {
  std::span<const double> target, lower, upper;
  std::span<const double> tube;         // empty: 0
  std::span<const std::int32_t> point;  // empty: the identity
  std::span<const std::uint8_t> group;  // empty: one group; otherwise 0 or 1
};

struct Options {
  double tol = 1e-3;
  double cache_bytes = 256e6;
  Index max_iter = 10'000'000;  // pair steps
  double time_limit = 0;        // seconds; 0: none
  Index working_set = 0;        // 0: chosen by size
  bool demanding = false;       // end as imprecise where rows in single precision do not serve
  // Whether Kβ is needed in double at all support vectors, as for the objectives, or only where it
  // decides about the violation.
  bool objectives = true;
};

// sums[j] += Σᵣ factor[r] rows[r][j] for j < n.
template <class T>
void add_all(std::span<const T* const> rows, std::span<const double> factor, Index n, double* sums);

// What a watcher sees after a round; it returns true to stop.
struct Progress {
  Index round, iterations, rows, support;
  double violation, objective, gap, seconds;
};
using Watch = std::function<bool(const Progress&)>;

enum class Status { optimal, max_iter, time_limit, stopped, stalled, imprecise };

struct Result {
  std::vector<double> value;  // β
  // Kβ at every point. Where `checked`, it was summed in double, once more and from β alone, at
  // every point with a free variable and at those near enough to their condition that the rounding
  // of the rows might hide a violation; where `complete`, at every point whose coefficient is not 0
  // too. Elsewhere it is as precise as the rows.
  std::vector<double> function;
  bool checked = false, complete = true;
  double moved = 0;      // Σ|β - β before| over the rounds
  double violation = 0;  // the largest over the groups
  double objective = 0;
  Index iterations = 0, rounds = 0, rows = 0, hits = 0;
  bool indefinite = false;  // a pair was met along which the problem is not convex
  Status status = Status::optimal;
};

// Few points, or points whose kernel costs little: the matrix is made at once, and every round is
// about all the variables.
inline bool is_small(Index n, double cost) {
  return n <= 512 || (n <= 2048 && cost <= 64);
}

// Memory that one solve may hand on to the next: what was touched before costs nothing, and many
// tiny problems would take longer to ask for memory than to be solved.
template <class T>
struct Scratch {
  RowBuffer<T> all, square, matrix, rows;
  Buffer<T> gradient, up, down, diagonal;  // of a working set
  std::vector<double> beta, lower, upper, tube;
  std::vector<double> slope_up, slope_down, coef, factor;
  std::vector<Index> order, everything, points;
  std::vector<std::pair<Index, double>> changes;
  std::vector<const T*> of_rows;
};

// Rows of the last solve that ended, for the next one: new memory would take a tenth of the time of
// a fit. The system may take the pages back whenever it needs them.
template <class T>
class Inherited {
 public:
  Inherited();
  ~Inherited();
  Inherited(const Inherited&) = delete;
  Inherited& operator=(const Inherited&) = delete;
  Scratch<T> scratch;
};

// Until the violation is below tol, with kernel values in double where the rows have them. Throws
// std::domain_error where K has a NaN or an infinity.
template <class T>
Result solve(Rows<T>& rows, const Program&, const Options&, std::span<const double> start,
             const Watch&, const Poll&, Scratch<T>&);

// Where the kernel values of points in classes come from.
template <class T>
struct Classes {
  virtual ~Classes() = default;
  virtual Index size(Index c) const = 0;
  virtual double cost() const = 0;
  // The rows of the points of two classes, one after the other.
  virtual std::unique_ptr<Rows<T>> rows(Index a, Index b, const Poll&) const = 0;
  // Makes what many small problems share, if it takes no more than so many bytes.
  virtual void prepare(double /*bytes*/, int /*workers*/, const Poll&) {}
};

// Of a compiled kernel, on points that are packed class by class.
template <class T>
class PointClasses final : public Classes<T> {
 public:
  // `origin` is, for each class, which of the originals its points are.
  PointClasses(const Recipe&, std::vector<const Points<T>*> classes, const Originals*,
               std::vector<std::span<const Index>> origin);
  Index size(Index c) const override { return classes_[c]->n; }
  double cost() const override;
  std::unique_ptr<Rows<T>> rows(Index a, Index b, const Poll&) const override;
  void prepare(double bytes, int workers, const Poll&) override;

 private:
  Recipe recipe_;
  std::vector<const Points<T>*> classes_;
  const Originals* originals_;
  std::vector<std::span<const Index>> origin_;
  std::vector<Buffer<T>> own_;  // K of each class, or empty
};

// From the matrix of all points, n × n; `members` are those of each class.
template <class T>
class MatrixClasses final : public Classes<T> {
 public:
  MatrixClasses(const T* matrix, Index n, std::vector<std::span<const Index>> members)
      : matrix_(matrix), n_(n), members_(std::move(members)) {}
  Index size(Index c) const override { return static_cast<Index>(members_[c].size()); }
  double cost() const override { return 1; }
  std::unique_ptr<Rows<T>> rows(Index a, Index b, const Poll&) const override;

 private:
  const T* matrix_;
  Index n_;
  std::vector<std::span<const Index>> members_;
};

// Problems of two classes each: the variables of one pair after those of another, and in a pair
// those of the second class after those of the first.
struct PairPrograms {
  std::vector<std::pair<Index, Index>> pairs;
  std::span<const double> target, lower, upper;
  std::span<const double> totals;     // two for each pair: of all its variables, or of either class
  bool grouped = false;               // whether either class has a total of its own
  bool bias = true;                   // without one there is no total
  std::span<double> value, function;  // β and Kβ, written here
};

struct PairOutcome {
  bool indefinite = false;
  Status status = Status::optimal;
  Index iterations = 0, rows = 0, hits = 0;
  double seconds = 0;
};

// What rounding left is tidied up: β that is a hair from a bound is at it, and sums are exact.
template <class T>
std::vector<PairOutcome> solve(Classes<T>&, const PairPrograms&, const Options&, const Poll&);

}  // namespace mercer
