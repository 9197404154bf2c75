// The nearest centroid of each point, for k-means on explicit features.
#pragma once

#include "core.hpp"

namespace mercer {

// Points s_i x_i and k centroids mu_c. What is compared is the squared distance less |s_i x_i|^2,
//   s_i <x_i, product_c> + offset_c + (own_c where c is the cluster of the point),
// product_c being -2 mu_c, offset_c = |mu_c|^2, infinite where there is no such centroid.
struct Centroids {
  Index k, d;
  const double *product, *offset, *own;  // (k, d), (k,), (k,)
  const double* moved;  // (k,): how far each centroid went since the last call, at most; null: all
                        // points are looked at
  double most;          // the largest |mu_c|^2
  double rounding;      // distances count from this times |s_i x_i|^2 + most on
};

// upper_i is at least the distance from the own centroid, lower_i at most that from any other one,
// both of the last call. A point whose bounds tell that it stays is not looked at (Hamerly, SDM
// 2010). label is the cluster of each point before, and after.
struct Assignment {
  Index n;
  const double *x, *scale, *square;  // (n, d), (n,) or null for 1, (n,): |s_i x_i|^2
  Index* label;
  double *upper, *lower;
};

void nearest_centroids(const Centroids& centroids, const Assignment& points, const Poll& poll);

}  // namespace mercer
