// What the machines of all pairs of classes say of new points, without a column for each pair.
#pragma once

#include "core.hpp"

namespace mercer {

// n points sorted by class: class c has those from first[c] to first[c + 1]. A point of class c
// takes part in k - 1 problems; rival[p·(k - 1) + r] is its coefficient in that with the r-th of
// the other classes, and turned[r·n + p] the same. bias has an entry for each pair (i, j), i < j,
// in order.
struct ClassPairs {
  Index classes = 0, n = 0;
  const Index* first = nullptr;
  const double *rival = nullptr, *turned = nullptr, *bias = nullptr;
};

// From K (m × n), the kernel values of m points with the n: how many of its problems each class
// wins, won (m × k), and the sum of its values, sum (m × k); a value of 0 is for the first class of
// the pair if `zero_is_first`, else for the second. The values themselves, (m × pairs), if asked
// for.
void votes(const ClassPairs&, const double* K, Index m, bool zero_is_first, double* won,
           double* sum, double* values, const Poll& = {});

}  // namespace mercer
