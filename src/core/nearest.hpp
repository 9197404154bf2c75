// The nearest of many points in the feature space of a kernel, without a matrix of distances.
#pragma once

#include "core.hpp"

namespace mercer {

// For each point xᵢ the `count` points yⱼ of least score[i·count + c] = half[j] - k(xᵢ, yⱼ), from the
// least on, equal ones by their number index[i·count + c]. With half = k(y, y)/2 this is the order of
// the distances. Where own is given, xᵢ is the point own[i] of Y, and is not its own neighbour. A
// score that is NaN counts as infinite. count ≤ the number of points that may be chosen.
template <class T>
void nearest(const Recipe&, const Points<T>& X, const Points<T>& Y, const T* half, Index count,
             const Index* own, double* score, Index* index, const Poll& = {});

// out[i·count + c] = Σₜ part(xᵢₜ, yⱼₜ) for j = index[i·count + c], in double, part being product,
// square or absolute; x and y row by row. Equal points give equal sums.
template <class T>
void pair_sums(Part part, const T* x, Index n, const T* y, Index d, const Index* index, Index count,
               double* out, const Poll& = {});

}  // namespace mercer
