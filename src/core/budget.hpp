// Stochastic gradient steps with a budget of terms, one of which leaves when they are too many.
#pragma once

#include <string_view>

#include "sgd.hpp"

namespace mercer {

enum class Removal { oldest, smallest, merge };
Removal removal_of(std::string_view name);

// b visits in their order, for q outputs, on `room` slots for terms, one more than the budget; m of
// them are taken. Arrays have a row for each visit or slot. Terms of given points have the numbers
// of these as source, merged ones -1.
struct BudgetVisits {
  Index b, q, room, d;
  const double* gram;           // (b, b): kernel values of the points visited
  double* across;               // (b, room): those with the slots; on return too
  const double* target;         // (b, q)
  const double *weight, *rate;  // (b,)
  const Index* place;           // (b,): the numbers of the points
  double reg, norm;
  bool average;
  Removal removal;
  double *coef, *total;  // (room, q): the terms of w and of the sum of all w so far
  double* square;        // (q,): |w|^2
  double* matrix;        // (room, room): kernel values of the slots
  Index *age, *source;   // (room,)
  // To merge, the kernel is exp(-gamma |x - y|^2) + offset:
  double gamma, offset;
  const double* points;  // (b, d)
  double* slots;         // (room, d)
  double* values;        // (b, q): f before each step, on return
  Index m, steps;        // on return too
};

void budget_steps(const LossSlope& loss, BudgetVisits& visits, const Poll& = {});

}  // namespace mercer
