"""Every part of small strings, trees and graphs, by features written out in loops."""

from collections import Counter
from itertools import combinations, product

import naive_graphs
import numpy as np
import pytest
from looped import looped
from naive_strings import subsequence_features, windows
from naive_trees import partial_features, plain, subset_features, subtree_features
from numpy.testing import assert_allclose

from mercer import (
    GaussianProcessClassifier,
    Graph,
    KernelRidge,
    Mismatch,
    Normalized,
    PartialTree,
    ShortestPath,
    Spectrum,
    Subsequence,
    SubsetTree,
    Subtree,
    WeightedDegree,
    WeightedSubstrings,
    WeisfeilerLehman,
    explain,
)

WORDS = ["abcab", "bbcaa", "cabca", "aabbc", "caabb", "bcbca", "ab", "ccc"]
TREES = [
    "(S (A a) (B (A a) b))",
    "(S (A b) (B a b))",
    "(B (A a) (A a) b)",
    "(A a)",
    "(S (A a) (A b) b)",
    "(S b (B (A b) (A a)))",
]
GRAPHS = [
    ([(0, 1), (1, 2)], "CCO"),
    ([(0, 1), (1, 2), (2, 0)], "CCO"),
    ([(0, 1), (1, 2), (1, 3)], "CNOO"),
    ([(0, 1)], "CO"),
    ([], "N"),
    ([(0, 1), (1, 2), (2, 3), (3, 0)], "CCCN"),
]


# Features of one point, {name: φ}


def words_of(kind, weighted):
    """φ of words, each named after what it is; `weighted` has {word: φ}."""

    def features(s):
        return {f"{kind} {''.join(u)!r}": v for u, v in weighted(s).items()}

    return features


def spectrum(k):
    return words_of("substring", lambda s: Counter(windows(s, k)))


def all_substrings(decay):
    def weighted(s):
        found = Counter()
        for r in range(1, len(s) + 1):
            for u in windows(s, r):
                found[u] += decay ** (r / 2)
        return found

    return words_of("substring", weighted)


def near(k, m, alphabet):
    def weighted(s):
        return Counter(
            u
            for u in product(alphabet, repeat=k)
            for v in windows(s, k)
            if sum(a != b for a, b in zip(u, v, strict=True)) <= m
        )

    return words_of(f"substrings within {m} of", weighted)


def stretches(degree):
    def features(s):
        return {
            f"{s[i : i + r]!r} at {i}": np.sqrt(
                2 * (degree - r + 1) / (degree * (degree + 1))
            )
            for r in range(1, degree + 1)
            for i in range(len(s) - r + 1)
        }

    return features


def written(fragment):
    """(S (A a) B) of nested pairs, or of labels where a fragment ends."""
    if isinstance(fragment, str):
        return fragment
    label, parts = fragment
    inside = "".join(f" {written(part)}" for part in parts)
    return f"({label}{inside})" if parts else str(label)


def fragments(weighted):
    def features(tree):
        found = Counter()
        for fragment, value in weighted(plain(tree)).items():
            found[written(fragment)] += value
        return found

    return features


def with_weights(graph):
    return [(i, j, 1) for i, j in graph[0]], list(graph[1])


def pattern_name(pattern):
    if len(pattern) == 1:
        return pattern[0]
    inside = sorted(pattern_name(part) for _, part in pattern[1])
    return f"{pattern[0]}({', '.join(inside)})"


def patterns(iterations):
    def features(graph):
        return Counter(
            f"depth {depth}: {pattern_name(one)}"
            for depth in range(iterations + 1)
            for one in naive_graphs.patterns(with_weights(graph), depth)
        )

    return features


def paths(graph):
    D, labels = naive_graphs.distances(with_weights(graph)), graph[1]
    return Counter(
        f"{labels[i]} to {labels[j]} in {D[i][j]}"
        for i, j in product(range(len(labels)), repeat=2)
        if i != j and D[i][j] < naive_graphs.INF
    )


def as_graphs(some):
    return [Graph(edges, labels) for edges, labels in some]


CASES = [
    (Spectrum(2), list, WORDS, spectrum(2)),
    (Subsequence(2, 0.5), list, WORDS,
     words_of("subsequence", lambda s: subsequence_features(s, 2, 0.5))),
    (WeightedSubstrings(0.5), list, WORDS, all_substrings(0.5)),
    (Mismatch(2, 1, "abc"), list, WORDS, near(2, 1, "abc")),
    (WeightedDegree(3), list, WORDS, stretches(3)),
    (SubsetTree(0.5), list, TREES, fragments(subset_features(0.5))),
    (SubsetTree(0.7, leaves=True), list, TREES, fragments(subset_features(0.7, True))),
    (Subtree(0.5), list, TREES, fragments(subtree_features(0.5))),
    (PartialTree(0.5, 0.7), list, TREES, fragments(partial_features(0.5, 0.7))),
    (WeisfeilerLehman(2), as_graphs, GRAPHS, patterns(2)),
    (ShortestPath(), as_graphs, GRAPHS, paths),
]  # fmt: skip


def length(phi):
    return np.sqrt(sum(value**2 for value in phi.values())) or 1.0


def enumerated(features, given, coef, x, normalized):
    """{name: Σᵢ coefᵢ φ(xᵢ) φ(x)} of all features of x."""
    # Points without features are alike: of length 0, they are not divided by it.
    none = {"nothing": 1.0} if normalized else {}
    *rows, own = (features(one) or none for one in [*given, x])
    sizes = [length(row) if normalized else 1.0 for row in [*rows, own]]
    return {
        name: sum(
            c * row.get(name, 0.0) / size * value / sizes[-1]
            for c, row, size in zip(coef, rows, sizes, strict=False)
        )
        for name, value in own.items()
    }


@pytest.mark.parametrize("normalized", [False, True])
@looped("kernel, points, given, features", CASES)
def test_parts_are_those_of_enumeration(kernel, points, given, features, normalized):
    kernel = Normalized(kernel) if normalized else kernel
    X, y = points(given), np.arange(len(given)) % 3
    machines = [
        KernelRidge(alpha=1.0, kernel=kernel).fit(X, y - 1.3),
        GaussianProcessClassifier(1.0 * kernel, optimizer=None).fit(X, y),
    ]
    for machine in machines:
        coef = machine.expansion_.coef.reshape(len(X), -1).T
        found = explain(machine, X, by="features", n=10**6)
        for i, explanations in enumerate(found):
            some = explanations if isinstance(explanations, list) else [explanations]
            for explanation, column in zip(some, coef, strict=True):
                expected = enumerated(features, given, column, given[i], normalized)
                parts = {part.name: part.value for part in explanation.parts}
                assert set(parts) <= set(expected)
                for name, value in expected.items():
                    assert_allclose(parts.get(name, 0.0), value, atol=1e-12)
                assert_allclose(
                    explanation.bias + sum(parts.values()), explanation.total, atol=1e-9
                )


def test_letters_have_the_shares_of_enumeration():
    decay = 0.5
    machine = KernelRidge(kernel=Subsequence(2, decay)).fit(WORDS, np.arange(8.0))
    coef = machine.expansion_.coef
    for x, explanation in zip(
        WORDS, explain(machine, WORDS, by="items", n=100), strict=True
    ):
        shares = np.zeros(len(x))
        for i, j in combinations(range(len(x)), 2):
            weight = sum(
                c * subsequence_features(s, 2, decay).get((x[i], x[j]), 0.0)
                for c, s in zip(coef, WORDS, strict=True)
            )
            shares[[i, j]] += weight * decay ** (j - i + 1) / 2
        found = {int(part.name.split()[-1]): part.value for part in explanation.parts}
        for i, value in enumerate(shares + machine.expansion_.bias / len(x)):
            assert_allclose(found.get(i, 0.0), value, atol=1e-12)
