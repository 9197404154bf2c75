// Quadratics with an L1 penalty, the models that L1-penalised expansions are made of:
//
//   minimise over c   ½ cᵀHc + linear part + reg ‖c‖₁,   H symmetric, p × p.
//
// `gradient` is that of the part without the penalty. Both functions move `coef` and `gradient`
// together, never raise the objective, and return the largest violation of the optimality
// conditions.
#pragma once

#include <span>

#include "core.hpp"

namespace mercer {

// One coordinate after another to its best value, at most `sweeps` times through all of them, or
// until the largest violation met in a sweep is at most tol. One without curvature goes to 0.
double l1_sweeps(const double* H, std::span<double> gradient, std::span<double> coef, double reg,
                 double tol, Index sweeps, const Poll& poll = {});

// To the minimum for the signs that coef has, stopping at the first that would change; a
// coefficient that comes to 0 leaves, the one that violates most joins; at most `steps` times or
// until the violation is at most tol.
double l1_faces(const double* H, std::span<double> gradient, std::span<double> coef, double reg,
                double tol, Index steps, const Poll& poll = {});

}  // namespace mercer
