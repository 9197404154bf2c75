"""Stochastic gradient steps as the papers state them: w by its coefficients, in loops.

Nothing is kept from step to step but the coefficients; every value of f and every norm
is computed anew from the whole kernel matrix.
"""

import numpy as np


def walk(K, target, loss, rates, *, order=None, weight=None, reg=0.0, norm=np.inf):
    """The coefficients before each step and after the last, and f before each step."""
    order = range(len(K)) if order is None else order
    weight = np.ones(len(rates)) if weight is None else weight
    coef, path, values = np.zeros(len(K)), [], []
    for i, eta, share in zip(order, rates, weight, strict=True):
        path.append(coef.copy())
        values.append(coef @ K[i])
        slope = float(loss.slope(np.array(target[i]), np.array(values[-1])))
        coef = (1 - 2 * reg * eta) * coef
        coef[i] -= eta * share * slope
        length = np.sqrt(coef @ K @ coef)
        if length > norm:
            coef = coef * (norm / length)
    return np.array([*path, coef]), np.array(values)


def walk_with_budget(K, target, loss, rates, budget, removal, reg=0.0, norm=np.inf):
    """{point: coefficient} after a pass with at most so many terms."""
    terms, age = {}, {}
    for i, eta in zip(range(len(K)), rates, strict=True):
        f = sum(c * K[i, j] for j, c in terms.items())
        slope = float(loss.slope(np.array(target[i]), np.array(f)))
        terms = {j: (1 - 2 * reg * eta) * c for j, c in terms.items()}
        if slope:
            terms[i], age[i] = -eta * slope, i
        if len(terms) > budget:
            others = [j for j in terms if j != i]
            sizes = {j: abs(terms[j]) * np.sqrt(K[j, j]) for j in others}
            del terms[min(others, key=(age if removal == "oldest" else sizes).get)]
        square = sum(
            a * b * K[i, j] for i, a in terms.items() for j, b in terms.items()
        )
        if square > norm**2:
            terms = {j: c * norm / np.sqrt(square) for j, c in terms.items()}
    return terms


def walk_with_merging(X, target, loss, rates, budget, gamma, reg=0.0):
    """[(point, coefficient)] after a pass in which terms are merged; w of one output.

    The smallest of the older terms, or the newest, and another of its sign become one
    at h a + (1 - h) b, on a fine grid of h that is refined around the best.
    """

    def k(x, y):
        return np.exp(-gamma * np.sum((x - y) ** 2))

    def lost(one, other, h):
        """‖a φ(x) + b φ(y) - c φ(z)‖² for the best c, at z = h x + (1 - h) y; z; c."""
        (x, a), (y, b) = one, other
        z = h * x + (1 - h) * y
        c = a * k(x, z) + b * k(y, z)
        return a * a + b * b + 2 * a * b * k(x, y) - c * c, z, c

    terms, age = [], []
    for i, eta in enumerate(rates):
        f = sum(c * k(x, X[i]) for x, c in terms)
        slope = float(loss.slope(np.array(target[i]), np.array(f)))
        terms = [(x, (1 - 2 * reg * eta) * c) for x, c in terms]
        if slope:
            terms.append((X[i], -eta * slope))
            age.append(i)
        if len(terms) <= budget:
            continue
        sizes = [abs(c) for _, c in terms[:-1]]
        alike = [s for s, size in enumerate(sizes) if size <= min(sizes) * (1 + 1e-9)]
        smallest = min(alike, key=age.__getitem__)
        pairs = []
        for s in (smallest, len(terms) - 1):
            for t in range(len(terms)):
                if t != s and terms[s][1] * terms[t][1] > 0:
                    a, b = abs(terms[s][1]), abs(terms[t][1])
                    pairs.append((lost(terms[s], terms[t], a / (a + b))[0], s, t))
        if not pairs:
            del terms[smallest], age[smallest]
            continue
        _, s, t = min(pairs)
        low, high = 0.0, 1.0
        for _ in range(12):
            grid = np.linspace(low, high, 41)
            best = int(np.argmin([lost(terms[s], terms[t], h)[0] for h in grid]))
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, 40)]
            if high - low < 1e-7:
                break
        _, z, c = lost(terms[s], terms[t], (low + high) / 2)
        last = max(age[s], age[t])
        terms = [term for r, term in enumerate(terms) if r not in (s, t)] + [(z, c)]
        age = [old for r, old in enumerate(age) if r not in (s, t)] + [last]
    return terms


def features_walk(features, target, loss, rates, reg=0.0, norm=np.inf):
    """w itself, for an explicit feature map; before each step and after the last."""
    w, path = np.zeros(features.shape[1]), []
    for phi, y, eta in zip(features, target, rates, strict=True):
        path.append(w)
        slope = float(loss.slope(np.array(y), np.array(w @ phi)))
        w = (1 - 2 * reg * eta) * w - eta * slope * phi
        w = w * min(1, norm / max(np.linalg.norm(w), 1e-300))
    return np.array([*path, w])


def perceptron(K, side, passes):
    """The number of mistakes at each point, signed by its side."""
    coef = np.zeros(len(K))
    for i in list(range(len(K))) * passes:
        if side[i] * (coef @ K[i]) <= 0:
            coef[i] += side[i]
    return coef
