// The nearest of many points in the feature space of a kernel, without a matrix of distances.
#pragma once

#include "core.hpp"

namespace mercer {

// Points as they were given: n rows of d numbers; or, sparse, row i in column/value[start[i],
// start[i + 1]), columns ascending.
template <class T>  // float or double
struct DenseArray {
  Index n, d;
  const T* value;
};
template <class T>
struct SparseArray {
  Index n, d;
  const Index* start;
  const std::int32_t* column;
  const T* value;
};

// For each point xᵢ the `count` points yⱼ with the least key[i·count + c], from the least on, equal
// ones by their number index[i·count + c]. The key of a pair is computed from x and y in double, in
// one order of summation: Σₜ part(xₜ, yₜ) where the part of `exact` is square or absolute, and for
// a kernel of the product k(x, x) - 2 k(x, y) + k(y, y).
//
// Keys are computed where k(X, Y) by `recipe` does not rule the point out: the caller vouches that
// a key ≤ z implies half[j] - k(xᵢ, yⱼ) ≤ base[i] + factor·z, or that it is no number. Where own is
// given, xᵢ is the point own[i] of Y, and is not its own neighbour. A key that is NaN counts as
// infinite. count ≤ the number of points that may be chosen.
template <class T, class Rows>
void nearest(const Recipe& recipe, const Points<T>& X, const Points<T>& Y, const T* half,
             const double* base, double factor, const Recipe& exact, const Rows& x, const Rows& y,
             Index count, const Index* own, double* key, Index* index, const Poll& = {});

// out[i·count + c] = Σₜ part(xᵢₜ, yⱼₜ) for j = index[i·count + c], in double and in the order of
// summation of `nearest`, part being product, square or absolute.
template <class Rows>
void pair_sums(Part part, const Rows& X, const Rows& Y, const Index* index, Index count,
               double* out, const Poll& = {});

}  // namespace mercer
