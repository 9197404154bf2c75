// Variables within bounds whose sum is fixed: what rounding took off a bound, or left over of the
// sum, is put right.
#pragma once

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

}  // namespace mercer
