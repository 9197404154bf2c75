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

}  // namespace mercer
