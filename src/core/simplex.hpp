// Small quadratic programs over weights: with one sum fixed, and on the simplex.
#pragma once

#include <span>
#include <vector>

#include "core.hpp"

namespace mercer {

// x of min ½ xᵀAx - pullᵀx with rowᵀx = 0, A symmetric and positive definite, row not 0.
std::vector<double> constrained_minimum(std::span<const double> A, std::span<const double> pull,
                                        std::span<const double> row);

// min ½ (x - start)ᵀH(x - start) + slopeᵀ(x - start), x ≥ 0, Σx = 1, H symmetric and positive
// definite, start on the simplex.
std::vector<double> simplex_minimum(std::span<const double> H, std::span<const double> slope,
                                    std::span<const double> start, const Poll&);

}  // namespace mercer
