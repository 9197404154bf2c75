// Variables within bounds whose sum is fixed: what rounding took off a bound, or left over of the
// sum, is put right.
#pragma once

#include <cstdint>
#include <span>

namespace mercer {

// A value within a relative `slack` of a bound is set to it. At 0 the slack is a share of the other
// bound, or of the largest value if that is less: all values may be tiny, and none of them 0.
void snap(std::span<double> value, std::span<const double> lower, std::span<const double> upper,
          double slack);

// Makes Σ value = total without an error where that can be: what rounding left over is taken off
// free variables, from a large one to the smallest, whose last digits are finer and finer. Returns
// what is still missed, where a bound has finer digits than all of them.
double balance(std::span<double> value, std::span<const double> lower,
               std::span<const double> upper, double total);

// Σ values - total, without an error but the last rounding.
double exact_excess(std::span<const double> values, double total);

// A program of `smo.hpp` whose variables are its points, of one group, at a β within finite bounds.
struct BoxPoint {
  std::span<const double> beta, function, target, lower, upper;
  std::span<const double> tube;  // empty: 0
};

// The largest slope down and the least slope up of all variables; the sum and the number of the
// slopes of those that are free.
struct BoxEnds {
  double down, up, of_free;
  std::int64_t n_free;
};
BoxEnds ends(const BoxPoint&);

// What the objectives of `BoxQP.bracket` are made of, by the names it has.
struct BoxSums {
  double square = 0, linear = 0, loss = 0, weight = 0, losing = 0, size = 0, losses = 0;
};
BoxSums sums(const BoxPoint&, double level, double rounding);

// How far F = Kβ can be off: by its terms, each `entry_error` units of `largest`, which are as many
// as β has, or were added one after another with Σ|Δβ| = `moved`.
struct BoxErrors {
  double entry_error, largest, moved;
};

// What `BoxQP` has to say of β, which is put right first (`snap`, `balance`), by the names it has.
struct BoxVerdict {
  double level, violation, primal, dual, objective_error, rounding;
  bool settled;  // whether F is that of β, but for `rounding`
};
// `total` NaN: no sum is fixed.
BoxVerdict judge(std::span<double> beta, const BoxPoint&, double total, const BoxErrors&);

}  // namespace mercer
