// Stochastic gradient steps with w on the columns of an explicit map, one visit after another.
#pragma once

#include "explicit_rows.hpp"
#include "sgd.hpp"

namespace mercer {

// m rows of q numbers each, from one to the next `step`: w = scale · raw, and the sum of all w
// before, fixed + past · raw - late. Those of the points are visited in random order: what belongs
// to a point had better stand together.
struct SumRows {
  Index m, step;
  double *raw, *late, *fixed;
};

// b visits in their order, for q outputs side by side.
struct FeatureVisits {
  Index b, q;
  const Index* place;                    // (b,): which row of X
  const double *target, *weight, *rate;  // (b, q), (b,), (b,)
  const double* diagonal;                // (n,): k(x, x)
  double reg, norm;                      // as in `Visits`
  double root;                           // the feature of the constant; 0 for none
  bool average;                          // whether the sum of all w grows
  double smallest;                       // a scale below this is multiplied out
  SumRows w, bias, mine;                 // rows of the columns, of the constant, of the points
  double *scale, *past, *square;         // (q,)
  double* values;                        // (b, q), out: f before each step
  double *shrunk, *summed;               // (q,), out: see below
};

// Makes the steps. Where scales were multiplied out, rows of coefficients that are not here become
// fixed += summed · raw - late, late = 0, raw *= shrunk; shrunk is 1 where they were not.
template <class I>
void sgd_feature_steps(const LossSlope& loss, const Vectors<double, I>& X,
                       const FeatureVisits& visits);

}  // namespace mercer
