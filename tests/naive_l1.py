"""Slow twins of the compiled quadratics with an L1 penalty."""

from itertools import product

import numpy as np


def objective(H, linear, coef, reg):
    """½ cᵀHc + linearᵀc + reg ‖c‖₁."""
    return coef @ H @ coef / 2 + linear @ coef + reg * np.abs(coef).sum()


def sweeps(H, gradient, coef, reg, tol, times):
    """Each coordinate in turn to its best value; the largest violation last met."""
    worst = 0.0
    for _ in range(times):
        worst = 0.0
        for j in range(len(coef)):
            worst = max(worst, violation(gradient[j], coef[j], reg))
            target = H[j, j] * coef[j] - gradient[j]
            best = np.sign(target) * max(abs(target) - reg, 0.0)
            best = best / H[j, j] if H[j, j] > 0 else 0.0
            gradient += (best - coef[j]) * H[j]
            coef[j] = best
        if worst <= tol:
            break
    return worst


def violation(gradient, c, reg):
    return max(abs(gradient) - reg, 0.0) if c == 0 else abs(gradient + reg * np.sign(c))


def least(H, linear, reg):
    """The least objective, over the minima of all patterns of signs."""
    found = 0.0  # of coef = 0
    for signs in product((-1, 0, 1), repeat=len(linear)):
        sign = np.array(signs, dtype=float)
        used = sign != 0
        coef = np.zeros(len(linear))
        right = -(linear + reg * sign)[used]
        coef[used] = np.linalg.lstsq(H[np.ix_(used, used)], right, rcond=None)[0]
        if (coef * sign >= 0).all():
            found = min(found, objective(H, linear, coef, reg))
    return found
