// The dual of the SVM family and its solver.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core.hpp"

namespace mercer {

// min ½ βᵀKβ - Σ targetₜ βₜ + Σ tubeₜ |βₜ|,  lowerₜ ≤ βₜ ≤ upperₜ,  Σβ given (in each group).
//
// Variable t stands for point point[t] (empty: point t; a point n of n stands for none, with k = 0:
// the one such variable takes up whatever the others sum to); βₜ enters f = Σ βₜ k(x_point(t), ·), the sum
// over the variables of a point. A pair of variables moves by (+δ, -δ) and stays within its group,
// so the sum over each group stays what it is at the start.
struct Program {
  std::span<const double> target, lower, upper;
  std::span<const double> tube;           // empty: 0
  std::span<const std::int32_t> point;    // empty: the identity
  std::span<const std::uint8_t> group;    // empty: one group; otherwise 0 or 1
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
  double moved = 0;              // Σ|β - β before| over the rounds
  double violation = 0;          // the largest over the groups
  double objective = 0;
  Index iterations = 0, rounds = 0, rows = 0, hits = 0;
  bool indefinite = false;  // a pair was met along which the problem is not convex
  Status status = Status::optimal;
};

// Few points, or points whose kernel costs little: the matrix is made at once, and every round is
// about all the variables.
inline bool is_small(Index n, double cost) { return n <= 512 || (n <= 2048 && cost <= 64); }

// Memory that one solve may hand on to the next: what was touched before costs nothing.
template <class T>
struct Scratch {
  RowBuffer<T> all, square, matrix, rows;
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

// The dual of one class against another, for many pairs of classes at once.
//
// Points of class c count upper[c][i] at most; in a pair those of its first class are positive.
template <class T>
struct Duels {
  Recipe recipe;
  std::vector<const Points<T>*> classes;
  std::vector<std::span<const double>> upper;  // per class
  std::vector<std::pair<Index, Index>> pairs;
  Options options;
  const Originals* originals = nullptr;
  std::vector<std::span<const Index>> origin;  // per class: which of the originals its points are
};

// β and Kβ at the points of both classes, and what is to be said of them.
struct Duel {
  Result result;
  double level = 0;  // the gradient on the free variables, or the middle of what it may be
  double primal = 0, dual = 0, square = 0, seconds = 0;  // square: βᵀKβ
  double weight = 0;  // Σ|β|, and the bounds of all points that have a loss
  Index free = 0, bound = 0;  // variables other than 0
};

template <class T>
std::vector<Duel> solve(const Duels<T>&, const Poll&);

}  // namespace mercer
