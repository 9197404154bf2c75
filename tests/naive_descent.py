"""Descent on features by the definitions: all slopes computed, one variable moved."""

import numpy as np


def best(problem, t, beta, rho, sigma, Phi):
    """The value of variable t at which the augmented objective is least, by its kinks.

    ½‖Φᵀβ‖² - targetᵀβ + tube|β| - ρᵀ(sums - total) + σ/2 ‖sums - total‖².
    """
    low, high = (float(ends[t]) for ends in problem.bounds)
    tube = 0.0 if problem.tube is None else float(problem.tube[t])
    rest = np.array(beta, dtype=float)
    rest[t] = 0.0
    member = 0 if problem.group is None else int(problem.group[t])
    sums = 0.0
    curvature = float(Phi[t] @ Phi[t])
    slope = float(Phi[t] @ (Phi.T @ rest)) - float(problem.target[t])
    if problem.total is not None:
        own = slice(None) if problem.group is None else problem.group == member
        total = float(np.atleast_1d(problem.total)[member])
        sums = float(rest[own].sum()) - total
        slope += sigma * sums - float(rho[member])
        curvature += sigma
    candidates = [low, high, min(max(0.0, low), high)]
    if curvature > 0:
        for side in (-1.0, 1.0):
            b = -(slope + side * tube) / curvature
            if side * b >= 0:
                candidates.append(min(max(b, low), high))
    cost = [curvature * b * b / 2 + slope * b + tube * abs(b) for b in candidates]
    return candidates[int(np.argmin(cost))]
