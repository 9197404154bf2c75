"""Vector kernels as they are defined: two loops over points, float64 throughout."""

import itertools
import math

import numpy as np


def part_of(name, x, y):
    """The list of part(xₜ, yₜ)."""
    if name == "product":
        return [a * b for a, b in zip(x, y, strict=True)]
    if name == "square":
        return [(a - b) ** 2 for a, b in zip(x, y, strict=True)]
    if name == "absolute":
        return [abs(a - b) for a, b in zip(x, y, strict=True)]
    if name == "minimum":
        return [np.minimum(a, b) for a, b in zip(x, y, strict=True)]
    assert name == "chi2"
    return [
        (a - b) ** 2 / (a + b) if (a, b) != (0, 0) else 0.0
        for a, b in zip(x, y, strict=True)
    ]


def anova(x, y, order, cumulative):
    """Σ over the sets S of `order` coordinates of Π_{t in S} xₜ yₜ."""
    z = [a * b for a, b in zip(x, y, strict=True)]
    orders = range(1, order + 1) if cumulative else [order]
    return sum(math.prod(s) for r in orders for s in itertools.combinations(z, r))


def entry(recipe, x, y):
    """k(x, y)."""
    if recipe.part == "anova":
        s = anova(x, y, recipe.degree, recipe.cumulative)
    else:
        s = sum(part_of(recipe.part, x, y))
    if recipe.finish == "identity":
        return s
    if recipe.finish == "power":
        return (recipe.scale * s + recipe.offset) ** recipe.degree
    return np.exp(recipe.scale * s)


def block(recipe, X, Y):
    """K[i, j] = k(xᵢ, yⱼ)."""
    X, Y = np.asarray(X, float), np.asarray(Y, float)
    with np.errstate(all="ignore"):
        rows = [[entry(recipe, x, y) for y in Y] for x in X]
    return np.array(rows, float).reshape(len(X), len(Y))
