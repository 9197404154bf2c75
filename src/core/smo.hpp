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
// the one such variable takes up whatever the others sum to); βₜ enters f = Σ βₜ k(x_point(t), ·),
// the sum over the variables of a point. A pair of variables moves by (+δ, -δ) and stays within its
// group, so the sum over each group stays what it is at the start.
struct Program {
  std::span<const double> target, lower, upper;
  std::span<const double> tube;         // empty: 0
  std::span<const std::int32_t> point;  // empty: the identity
  std::span<const std::uint8_t> group;  // empty: one group; otherwise 0 or 1
};

// What is known at the start: F = Kβ at every point, of a β that may be another one. Empty:
// nothing.
struct Known {
  std::span<const double> beta, function;
  double moved = 0;  // Σ|Δβ| over all that F was added up of
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
  // Whether F is summed anew in double where rows in single precision do not serve: what is added
  // to it from there on is small, and so is what its rounding does.
  bool refines = false;
  // Whether a sample of the points may show how far F is off, where no objectives are asked for.
  bool samples = false;
  // Whether the active-set method has its turns in working sets of many points too.
  bool free_steps = false;
  // Whether the start is likely to be near the optimum, as that at another C is.
  bool near = false;
};

// What the callback of a solve is given after each round; it returns true to stop.
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
  // What F may be off by, where it was summed at the extreme slopes and at a sample alone.
  double sampled_error = 0;
  double moved = 0;      // Σ|β - β before| over the rounds
  Index additions = 0;   // how many of these differences are not 0
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
  double cache_bytes = 0;                  // that the cache of `rows` may take; 0 without one
  Buffer<T> gradient, up, down, diagonal;  // of a working set
  std::vector<double> beta, lower, upper, tube;
  std::vector<double> slope_up, slope_down, slope, coef, factor;
  std::vector<Index> order, everything, points;
  std::vector<std::pair<Index, double>> changes;
  std::vector<std::pair<double, Index>> ups, downs;
  std::vector<const T*> of_rows;
};

// Until the violation is below tol, with kernel values in double where the rows have them. Throws
// std::domain_error where K has a NaN or an infinity.
template <class T>
Result solve(Rows<T>& rows, const Program&, const Options&, std::span<const double> start,
             const Watch&, const Poll&, Scratch<T>&, const Known& = {});

}  // namespace mercer
