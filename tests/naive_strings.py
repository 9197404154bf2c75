"""Kernels of strings by their definitions: every substring, every subsequence.

Sequences are strings or tuples; each function takes two of them.
"""

import math
from collections import Counter
from itertools import combinations, product


def subsequence_features(s, length, decay):
    """{u: Σ decay^l(i) over the i with s(i) = u}, |u| = length."""
    phi = Counter()
    for i in combinations(range(len(s)), length):
        phi[tuple(s[k] for k in i)] += decay ** (i[-1] - i[0] + 1)
    return phi


def subsequence(s, t, length, decay):
    return inner(
        subsequence_features(s, length, decay), subsequence_features(t, length, decay)
    )


def gap_weighted(s, t, length, decay):
    """The same by the recurrence of the paper, with whole tables and whole numbers.

    K'[p][i][j] of the first i and j tokens, and k of the given length; exact where
    decay is a Fraction.
    """
    one = decay**0
    before = [[one] * (len(t) + 1) for _ in range(len(s) + 1)]
    for _ in range(length - 1):
        table = [[0 * one] * (len(t) + 1) for _ in range(len(s) + 1)]
        for i in range(1, len(s) + 1):
            inner_sum = 0 * one
            for j in range(1, len(t) + 1):
                inner_sum *= decay
                if s[i - 1] == t[j - 1]:
                    inner_sum += decay**2 * before[i - 1][j - 1]
                table[i][j] = decay * table[i - 1][j] + inner_sum
        before = table
    return sum(
        decay**2 * before[i][j]
        for i in range(len(s))
        for j in range(len(t))
        if s[i] == t[j]
    )


def windows(s, length):
    return [tuple(s[i : i + length]) for i in range(len(s) - length + 1)]


def spectrum(s, t, length):
    return inner(Counter(windows(s, length)), Counter(windows(t, length)))


def substrings(s, t, weight):
    """Σ over all substrings u of weight(|u|) #u(s) #u(t)."""
    longest = min(len(s), len(t))
    return sum(weight(r) * spectrum(s, t, r) for r in range(1, longest + 1))


def mismatch(s, t, k, m, alphabet):
    def near(x):
        return {
            u: sum(
                sum(a != b for a, b in zip(u, v, strict=True)) <= m
                for v in windows(x, k)
            )
            for u in product(alphabet, repeat=k)
        }

    return inner(near(s), near(t))


def weighted_degree(s, t, degree, weights=None):
    if weights is None:
        weights = [
            2 * (degree - r + 1) / (degree * (degree + 1)) for r in range(1, degree + 1)
        ]
    return sum(
        w * sum(a == b for a, b in zip(windows(s, r), windows(t, r), strict=False))
        for r, w in enumerate(weights, 1)
    )


def edit_distance(s, t):
    row = list(range(len(t) + 1))
    for i, a in enumerate(s, 1):
        above, row = row, [i]
        for j, b in enumerate(t, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


def edit_similarity(s, t, gamma):
    return math.exp(-gamma * edit_distance(s, t))


def inner(phi, psi):
    return sum(value * psi[u] for u, value in phi.items() if u in psi)
