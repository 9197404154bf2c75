// Stochastic gradient steps over a block of points whose kernel values are at hand.
#pragma once

#include <string_view>

#include "core.hpp"

namespace mercer {

// A loss l(y, f) and its parameter: epsilon, delta or q, where it has one.
struct LossSlope {
  enum class Kind {
    hinge,
    perceptron,
    squared_hinge,
    logistic,
    squared,
    epsilon_insensitive,
    huber,
    quantile
  };
  Kind kind;
  double parameter;

  static LossSlope of(std::string_view name, double parameter);
  double at(double y, double f) const;  // dl/df
};

// b visits in their order, for q outputs side by side; arrays of q rows of length b.
// w = scale (w0 + sum_j added_j phi(x_j)) with w0 as it was before the block.
struct Visits {
  Index b, q;
  const double* gram;             // (b, b), symmetric
  const double* target;           // (q, b)
  const double *weight, *rate;    // (b,)
  double reg, norm;               // shrink by 1 - 2 reg rate, then project on |w| <= norm
  double* values;                 // (q, b): w0 at the points; on return f before each step
  double *added, *scales;         // (q, b); scales_j is the scale before step j
  double *scale, *square, *last;  // (q,): in the end; |w|^2, before and after; see below
};

// Makes the steps and returns how many: a scale below `tiny` ends the block early. The
// step that made it so is not in `added`: `last` holds it as it is, and else 0.
Index sgd_steps(const LossSlope& loss, const Visits& visits, double tiny);

}  // namespace mercer
