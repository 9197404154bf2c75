// Stochastic gradient steps over a block of points whose kernel values are at hand.
#pragma once

#include <algorithm>
#include <cmath>
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

inline double LossSlope::at(double y, double f) const {
  const double z = y * f, r = f - y;
  switch (kind) {
    case Kind::hinge:
      return z < 1 ? -y : 0.0;
    case Kind::perceptron:
      return z <= 0 ? -y : 0.0;
    case Kind::squared_hinge:
      return -2 * y * std::max(0.0, 1 - z);
    case Kind::logistic:
      return -y / (1 + std::exp(z));  // e^z may be infinite: then 0, as it should be
    case Kind::squared:
      return 2 * r;
    case Kind::epsilon_insensitive:
      return std::abs(r) > parameter ? std::copysign(1.0, r) : 0.0;
    case Kind::huber:
      return std::clamp(r, -parameter, parameter);
    case Kind::quantile:
      return r < 0 ? -parameter : (r > 0 ? 1 - parameter : 0.0);
  }
  return 0.0;
}

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
