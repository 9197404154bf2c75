"""Likelihoods from their definitions, as functions of free coordinates, in 40 digits.

θ is decoded here once more: log-odds against the last cell, means, lower Cholesky
factors with the logarithm of the diagonal. A gradient is a difference quotient with a
step of 1e-12, exact to 20 digits.
"""

import math
from itertools import pairwise, product

import mpmath as mp

DIGITS = 40
STEP = mp.mpf(10) ** -12


def gradient(f, theta):
    """∇f by differences, as floats."""
    with mp.workdps(DIGITS):
        theta = [mp.mpf(float(t)) for t in theta]
        slopes = []
        for j in range(len(theta)):
            ends = [[*theta[:j], theta[j] + s * STEP, *theta[j + 1 :]] for s in (1, -1)]
            slopes.append(float((f(ends[0]) - f(ends[1])) / (2 * STEP)))
        return slopes


def value(f, theta):
    """f(θ), as a float."""
    with mp.workdps(DIGITS):
        return float(f([mp.mpf(float(t)) for t in theta]))


def shares(odds):
    """Probabilities from their log-odds against the last."""
    powers = [mp.e**o for o in odds] + [mp.mpf(1)]
    return [p / sum(powers) for p in powers]


def log_normal(x, mean, covariance):
    """ln N of the entries of x that are not NaN."""
    seen = [j for j, number in enumerate(x) if not math.isnan(number)]
    if not seen:
        return mp.mpf(0)
    e = mp.matrix([mp.mpf(float(x[j])) - mean[j] for j in seen])
    part = mp.matrix([[covariance[i, j] for j in seen] for i in seen])
    square = (e.T * part**-1 * e)[0]
    return -(square + mp.log(mp.det(part)) + len(seen) * mp.log(2 * mp.pi)) / 2


def normals(theta, k, d, form):
    """The means and covariances of k densities."""
    theta = list(theta)
    means = [[theta.pop(0) for _ in range(d)] for _ in range(k)]
    covariances = []
    for a in range(k):
        if form == "tied" and a:
            covariances.append(covariances[0])
            continue
        factor = mp.zeros(d)
        if form == "spherical":
            deviation = mp.e ** theta.pop(0)
        for i in range(d):
            if form == "spherical":
                factor[i, i] = deviation
            elif form == "diag":
                factor[i, i] = mp.e ** theta.pop(0)
            else:
                for j in range(i + 1):
                    entry = theta.pop(0)
                    factor[i, j] = mp.e**entry if i == j else entry
        covariances.append(factor * factor.T)
    assert not theta
    return means, covariances


def mixture(x, k, d, form):
    """θ -> ln Σₖ weights[k] N(x | k)."""

    def log_likelihood(theta):
        weights = shares(theta[: k - 1])
        means, covariances = normals(theta[k - 1 :], k, d, form)
        return mp.log(sum(w * mp.e ** log_normal(x, m, c)
                          for w, m, c in zip(weights, means, covariances,
                                             strict=True)))  # fmt: skip

    return log_likelihood


def chain(codes, S):
    """θ -> ln start[x₁] Π transition[xₜ₋₁, xₜ]."""

    def log_likelihood(theta):
        if not len(codes):
            return mp.mpf(0)
        rows = [shares(theta[i : i + S - 1]) for i in range(0, len(theta), S - 1)]
        moves = pairwise(codes)
        return mp.log(rows[0][codes[0]]) + sum(mp.log(rows[1 + a][b]) for a, b in moves)

    return log_likelihood


def hidden_chain(observed, k, emission):
    """θ -> ln of the sum over all kᵀ paths; emission(θ's rest) -> p(x, state)."""

    def log_likelihood(theta):
        if not len(observed):
            return mp.mpf(0)
        odds = [theta[i : i + k - 1] for i in range(0, (k + 1) * (k - 1), k - 1)]
        start, *moves = [shares(row) for row in odds] if k > 1 else [[1], [1]]
        density = emission(theta[(k + 1) * (k - 1) :])
        total = mp.mpf(0)
        for path in product(range(k), repeat=len(observed)):
            weight = start[path[0]] * density(observed[0], path[0])
            for t in range(1, len(path)):
                weight *= moves[path[t - 1]][path[t]] * density(observed[t], path[t])
            total += weight
        return mp.log(total)

    return log_likelihood


def symbols(k, S):
    """The emission of codes by k distributions over S symbols."""

    def emission(theta):
        rows = [shares(theta[a * (S - 1) : (a + 1) * (S - 1)]) for a in range(k)]
        return lambda code, state: rows[state][code]

    return emission


def vectors(k, d, form):
    """The emission of vectors by k Gaussian densities."""

    def emission(theta):
        means, covariances = normals(theta, k, d, form)
        return lambda x, s: mp.e ** log_normal(x, means[s], covariances[s])

    return emission
