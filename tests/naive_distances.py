"""Distances and the kernel of a distance, in loops over plain numbers."""

from functools import cache


def manhattan(x, y):
    return sum(abs(a - b) for a, b in zip(x, y, strict=True))


def chebyshev(x, y):
    return max((abs(a - b) for a, b in zip(x, y, strict=True)), default=0.0)


def euclidean(x, y):
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) ** 0.5


def edit(s, t):
    @cache
    def d(i, j):
        if i == 0 or j == 0:
            return i + j
        change = d(i - 1, j - 1) + (s[i - 1] != t[j - 1])
        return min(d(i - 1, j) + 1, d(i, j - 1) + 1, change)

    return d(len(s), len(t))


def from_distance(d, o, power=1.0):
    """k(x, y) = ½ (d(x, o)² + d(y, o)² - d(x, y)²), with d^power for d."""

    def square(x, y):
        return d(x, y) ** (2 * power)

    return lambda x, y: (square(x, o) + square(y, o) - square(x, y)) / 2


def medoid(d, X, weight=None, power=1.0):
    """The point with the least weighted sum of squared distances, the first of them."""
    weight = [1.0] * len(X) if weight is None else list(weight)
    spread = {
        i: sum(w * d(x, y) ** (2 * power) for w, y in zip(weight, X, strict=True))
        for i, x in enumerate(X)
        if weight[i] > 0
    }
    return X[min(spread, key=lambda i: spread[i])]
