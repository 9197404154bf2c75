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


# In floating point, a number at a time


def log_sum(logs):
    """ln Σ e^log; -inf for none, or where all are."""
    top = max(logs, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(math.exp(log - top) for log in logs))


def logarithm(p):
    return math.log(p) if p > 0 else -math.inf


def passes(logs, start, moves):
    """ln p(x), P(state at t | x) and expected moves of one sequence, in logarithms.

    logs[t][s] is ln p(x_t | state s). Rabiner (1989), equations 19 to 27 and 37.
    """
    T, states = len(logs), range(len(start))
    A = [[logarithm(p) for p in row] for row in moves]
    alpha, beta = [], []
    for t in range(T):
        ahead = [
            log_sum([alpha[-1][i] + A[i][j] for i in states])
            if t
            else logarithm(start[j])
            for j in states
        ]
        alpha.append([ahead[j] + logs[t][j] for j in states])
    for t in range(T - 1, -1, -1):
        after = [
            log_sum([A[i][j] + logs[t + 1][j] + beta[0][j] for j in states])
            if t < T - 1
            else 0.0
            for i in states
        ]
        beta.insert(0, after)
    total = log_sum(alpha[-1]) if T else 0.0
    answers = [[0.0 for _ in states] for _ in range(T)]
    expected = [[0.0 for _ in states] for _ in states]
    if total == -math.inf:
        return total, answers, expected
    for t in range(T):
        answers[t] = [math.exp(alpha[t][s] + beta[t][s] - total) for s in states]
        for i, j in product(states, states) if t else ():
            logs_of_pair = alpha[t - 1][i] + A[i][j] + logs[t][j] + beta[t][j]
            expected[i][j] += math.exp(logs_of_pair - total)
    return total, answers, expected


def diagonal_logs(x, mean, deviation):
    """ln N of the entries of x that are not NaN, of independent coordinates."""
    return -math.fsum(
        ((a - m) / s) ** 2 / 2 + math.log(s) + math.log(2 * math.pi) / 2
        for a, m, s in zip(x, mean, deviation, strict=True)
        if not math.isnan(a)
    )


def diagonal_moments(rows, answers, mean, deviation):
    """Σ answers · z and Σ answers · z² by coordinate; E z = 0 and E z² = 1 for NaN."""
    first, second = [], []
    for j, (m, s) in enumerate(zip(mean, deviation, strict=True)):
        z = [(x[j] - m) / s for x in rows]
        pairs = [(0.0, 1.0) if math.isnan(each) else (each, each * each) for each in z]
        first.append(math.fsum(a * p for a, (p, _) in zip(answers, pairs, strict=True)))
        second.append(
            math.fsum(a * q for a, (_, q) in zip(answers, pairs, strict=True))
        )
    return first, second


def full_moments(rows, answers, mean):
    """Σ answers · e and Σ answers · eeᵀ, e = x - mean."""
    residuals = [[a - m for a, m in zip(x, mean, strict=True)] for x in rows]
    d = range(len(mean))
    weighted = list(zip(answers, residuals, strict=True))
    return (
        [math.fsum(a * e[i] for a, e in weighted) for i in d],
        [[math.fsum(a * e[i] * e[j] for a, e in weighted) for j in d] for i in d],
    )


def spread_out(rows, k, weight, draw):
    """Places of k centres, each drawn by weight times its distance² to those before."""
    chosen = [draw(weight)]
    while len(chosen) < k:
        near = [
            w * min(sum((a - b) ** 2 for a, b in zip(x, rows[c], strict=True))
                    for c in chosen)
            for x, w in zip(rows, weight, strict=True)
        ]  # fmt: skip
        chosen.append(draw(near if any(near) else weight))
    return chosen
