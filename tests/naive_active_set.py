"""The slow twin of the active-set method: every system of equations solved anew.

Nocedal and Wright, Numerical Optimization (2006), section 16.5, for one sum that is
kept and variables between bounds.
"""

import numpy as np

SMALL = 1e-10  # what counts as 0


def minimiser(problem):
    """β of min ½ βᵀKβ - targetᵀβ within the bounds, Σβ being that of the start."""
    K = np.asarray(problem.gram.dense(), dtype=float)
    beta, (low, high) = problem.sign * problem.start(), problem.bounds
    for _ in range(100 * len(K)):
        free = np.flatnonzero((beta > low) & (beta < high))
        while len(free) and _move(K, problem.target, beta, low, high, free):
            free = free[(beta[free] > low[free]) & (beta[free] < high[free])]
        gradient = K @ beta - problem.target
        up = np.where(beta < high, gradient, np.inf)
        down = np.where(beta > low, gradient, -np.inf)
        i, j = int(np.argmin(up)), int(np.argmax(down))
        if down[j] - up[i] < SMALL:
            return beta
        # The two that violate most become free, if only by a little.
        step = min(1e-6, high[i] - beta[i], beta[j] - low[j])
        beta[i] += step
        beta[j] -= step
    raise AssertionError("it does not end")


def _move(K, target, beta, low, high, free):
    """Takes free variables to equal slopes; True where a bound came first."""
    f = len(free)
    system = np.ones((f + 1, f + 1))
    system[:f, :f], system[f, f] = K[np.ix_(free, free)], 0.0
    wanted = np.append(-(K @ beta - target)[free], 0.0)
    step = np.linalg.lstsq(system, wanted, rcond=1e-13)[0][:f]
    ends = np.where(step > 0, high[free], low[free])
    moves = np.abs(step) > 1e-14
    rooms = np.full(f, np.inf)
    rooms[moves] = (ends[moves] - beta[free][moves]) / step[moves]
    part = min(1.0, rooms.min())
    met = rooms <= part
    beta[free] = np.where(met, ends, beta[free] + part * step)
    return bool(met.any())
