"""Neighbours and densities by their definitions, in loops: too slow to be wrong."""

import math


def nearest(k, X, Y, count, own=False):
    """[(half, number), ...] of the least k(y, y)/2 - k(x, y), a list for each x."""
    rows = []
    for i, x in enumerate(X):
        scores = [
            (k(y, y) / 2 - k(x, y), j) for j, y in enumerate(Y) if not (own and i == j)
        ]
        rows.append(sorted(scores)[:count])
    return rows


def pair_sum(part, x, y):
    """Σₜ part(xₜ, yₜ)."""
    parts = {
        "product": lambda a, b: a * b,
        "square": lambda a, b: (a - b) ** 2,
        "absolute": lambda a, b: abs(a - b),
    }
    return math.fsum(parts[part](a, b) for a, b in zip(x, y, strict=True))


def left_out(density, points):
    """The mean of ln p(x), p the density of the points at other places than x."""
    total = 0.0
    for x in points:
        others = [y for y in points if y != x]
        total += math.log(sum(density(x, y) for y in others) / len(others))
    return total / len(points)
