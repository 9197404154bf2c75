"""The heaviest features, places and Shapley values against enumeration."""

from itertools import combinations
from math import factorial

import catalog
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose

from mercer import (
    RBF,
    SVC,
    Centered,
    ChiSquared,
    Constant,
    Expansion,
    Exponential,
    Graph,
    Intersection,
    KernelRidge,
    Laplacian,
    Linear,
    Matern,
    Mismatch,
    Normalized,
    On,
    PartialTree,
    Polynomial,
    ShortestPath,
    SparseKernelClassifier,
    Spectrum,
    Spline,
    Subsequence,
    SubsetTree,
    Subtree,
    TaggedTree,
    Tree,
    WeightedDegree,
    WeightedSubstrings,
    WeisfeilerLehman,
    explain,
)
from mercer.contributions import features, search
from mercer.contributions import shapley as shapley_values
from mercer.contributions.heavy import heaviest_features
from mercer.maps import explicit

GROWING = [
    (Subsequence(2, 0.5), catalog.words),
    (Subsequence(3, 0.9, [0.5, 0.0, 2.0]), catalog.words),
    (Subsequence(3, 1.0), catalog.sentences),
    (WeightedSubstrings(0.5), catalog.words),
    (WeightedSubstrings(weights=[1.0, 0.0, 3.0]), catalog.sentences),
    (SubsetTree(0.5), catalog.trees),
    (SubsetTree(1.0, leaves=True), catalog.trees),
    (PartialTree(0.5, 0.7), catalog.trees),
    (PartialTree(1.0, 1.0), catalog.trees),
]


def written_out(kernel, X, coef):
    """{name: weight} of all features, from the matrix of all of them."""
    found = explicit(kernel, X)
    weights = found.matrix.T @ coef
    return dict(zip(found.names(), weights, strict=True))


def random_expansion(kernel, points, seed=0, n=8):
    X = points(seed, n)
    coef = np.random.default_rng(seed).normal(size=n)
    return Expansion(kernel, X, coef)


@looped("kernel, points", GROWING)
def test_grown_features_are_all_features_each_once(kernel, points):
    f = random_expansion(kernel, points)
    expected = written_out(kernel, f.points, f.coef)
    text = all(isinstance(x, str) for x in f.points)
    V = np.column_stack([f.coef, np.ones(len(f.coef))])
    found = search.every(kernel.candidates(f.points, V), 1, 10**6)
    names = [kernel.candidate_name(one.key, text) for one in found]
    assert len(set(names)) == len(names)
    assert set(names) == set(expected)
    for name, one in zip(names, found, strict=True):
        assert_allclose(one.weight[0], expected[name], atol=1e-12)


@looped("kernel, points", GROWING)
def test_bounds_hold_for_all_that_a_candidate_grows_into(kernel, points):
    f = random_expansion(kernel, points)

    def check(candidate):
        upper, lower = candidate.upper, candidate.lower
        if candidate.weight is not None:
            assert (candidate.weight <= upper * (1 + 1e-12) + 1e-300).all()
            assert (-candidate.weight <= lower * (1 + 1e-12) + 1e-300).all()
        for grown in candidate.grown():
            if grown.weight is not None:
                assert (grown.weight <= upper * (1 + 1e-12) + 1e-300).all()
                assert (-grown.weight <= lower * (1 + 1e-12) + 1e-300).all()
            assert (grown.upper <= upper * (1 + 1e-12)).all()
            assert (grown.lower <= lower * (1 + 1e-12)).all()
            check(grown)

    for candidate in kernel.candidates(f.points, f.coef[:, None]):
        check(candidate)


def assert_heaviest(found, expected, n):
    """The n largest of the expected weights, whatever the order of equal ones."""
    sizes = sorted((abs(w) for w in expected.values() if w), reverse=True)[:n]
    assert_allclose([abs(weight) for _, weight in found], sizes, rtol=1e-9)
    assert len({name for name, _ in found}) == len(found)
    for name, weight in found:
        assert_allclose(weight, expected[name], rtol=1e-9)


@looped("kernel, points", GROWING)
def test_heaviest_features_are_those_of_enumeration(kernel, points):
    for seed in range(3):
        f = random_expansion(kernel, points, seed)
        expected = written_out(kernel, f.points, f.coef)
        [found] = heaviest_features(f, 7)
        assert_heaviest(found, expected, 7)


@looped(
    "kernel, points",
    [
        (Spectrum(2), catalog.words),
        (Normalized(Subsequence(2)) + 0.5 * Spectrum(2), catalog.words),
        (3 * Normalized(SubsetTree(0.5)), catalog.trees),
        (TaggedTree(WeightedSubstrings(0.5)), catalog.trees),
        (On(1, Normalized(Subsequence(2))) + On(1, Spectrum(1)), catalog.records),
        (Spectrum(1) * WeightedDegree(2), catalog.words),
        (WeisfeilerLehman(2), catalog.graphs),
        (Polynomial(3), catalog.vectors),
    ],
)
def test_heaviest_features_of_an_algebra_are_those_of_enumeration(kernel, points):
    f = random_expansion(kernel, points)
    [found] = heaviest_features(f, 5)
    expected = written_out(kernel, f.points, f.coef)
    # Two terms of a sum may have features of one name.
    sizes = sorted((abs(w) for w in explicit_weights(f)), reverse=True)[:5]
    assert_allclose([abs(weight) for _, weight in found], sizes, rtol=1e-9)
    assert {name for name, _ in found} <= set(expected)


def explicit_weights(f):
    return explicit(f.kernel, f.points).matrix.T @ f.coef


def test_heaviest_features_of_a_centred_kernel_are_less_their_mean():
    X = catalog.vectors(0, 8)
    kernel = Centered(Polynomial(2), X)
    f = Expansion(kernel, X, np.random.default_rng(0).normal(size=8))
    [found] = heaviest_features(f, 4)
    sizes = sorted(abs(explicit_weights(f)), reverse=True)[:4]
    assert_allclose([abs(weight) for _, weight in found], sizes, rtol=1e-9)


def test_a_search_that_takes_too_long_says_so(monkeypatch):
    monkeypatch.setattr(search, "MOST_EXPANDED", 3)
    f = random_expansion(Subsequence(3, 0.9), catalog.words)
    with pytest.raises(ValueError, match="cannot yet tell which 5 are the heaviest"):
        heaviest_features(f, 5)


@looped("kernel, points", GROWING)
def test_heaviest_parts_of_a_point_are_those_of_enumeration(
    kernel, points, monkeypatch
):
    X = points(1, 8)
    machine = KernelRidge(kernel=kernel).fit(X, np.arange(8.0) - 3)
    new = points(2, 4)
    every = explain(machine, new, n=10**6)
    monkeypatch.setattr(features, "MOST_ENUMERATED", 0)
    monkeypatch.setattr(features, "FEWEST", 1)
    few = explain(machine, new, n=3)
    monkeypatch.undo()
    for whole, part in zip(every, few, strict=True):
        listed = [p for p in part.parts if p.name != "rest"]
        sizes = sorted((abs(p.value) for p in whole.parts), reverse=True)
        assert len(listed) == min(3, len(sizes))
        assert_allclose([abs(p.value) for p in listed], sizes[: len(listed)], rtol=1e-9)
        assert_allclose(
            part.bias + sum(p.value for p in part.parts), whole.total, atol=1e-9
        )


# Places


def strings(seed, n=6, size=12, letters="abc"):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), size)) for _ in range(n)]


def explained(kernel, X, new):
    machine = KernelRidge(kernel=kernel).fit(X, np.arange(len(X)) - 1.5)
    return explain(machine, [new], by="features", n=10**6)[0]


@looped(
    "kernel",
    [
        Spectrum(3),
        Spectrum(2, [1.0, 0.5]),
        WeightedSubstrings(0.5),
        Subsequence(3, 0.5),
        Normalized(Subsequence(2, 0.5)),
    ],
)
def test_the_word_of_a_part_is_at_its_places(kernel):
    X = strings(0)
    explanation = explained(kernel, X, X[0])
    gappy = "Subsequence" in repr(kernel)
    for part in explanation.parts:
        word = part.name.split("'")[1]
        assert part.places
        assert_allclose(sum(place.share for place in part.places), 1)
        for place in part.places:
            assert "".join(X[0][i] for i in place.items) == word
            consecutive = range(place.items[0], place.items[0] + len(word))
            assert gappy or place.items == tuple(consecutive)
        if not gappy:
            starts = [i for i in range(12) if X[0].startswith(word, i)]
            assert [place.items[0] for place in part.places] == starts


def test_stretches_are_at_the_place_that_their_name_says():
    X = strings(0)
    for part in explained(WeightedDegree(3), X, X[1]).parts:
        word, place = part.name.split(" at ")
        [found] = part.places
        assert found.items[0] == int(place)
        assert "".join(X[1][i] for i in found.items) == word.strip("'")


def test_words_of_a_mismatch_kernel_are_near_their_places():
    X = strings(0)
    for part in explained(Mismatch(3, 1, "abc"), X, X[1]).parts:
        word = part.name.split("'")[1]
        for place in part.places:
            there = [X[1][i] for i in place.items]
            assert sum(a != b for a, b in zip(there, word, strict=True)) <= 1


TREES = ["(S (A a) (B (A a) b))", "(S (A b) (B a b))", "(B (A a) (A a) b)", "(A a)"]


@looped("kernel", [SubsetTree(0.5), SubsetTree(1.0, leaves=True)])
def test_fragments_are_at_their_nodes(kernel):
    tree = Tree(TREES[0])
    for part in explained(kernel, TREES, TREES[0]).parts:
        labels = part.name.replace("(", "").replace(")", "").split()
        assert part.places
        for place in part.places:
            assert [tree.labels[v] for v in place.items] == labels


def test_partial_fragments_are_at_their_nodes_and_shares_follow_the_gaps():
    tree = Tree("(S a b a)")
    explanation = explained(PartialTree(1.0, 0.5), [tree, "(S a)", "(S b a)"], tree)
    parts = {part.name: part for part in explanation.parts}
    for part in parts.values():
        labels = part.name.replace("(", "").replace(")", "").split()
        for place in part.places:
            assert [tree.labels[v] for v in place.items] == labels
    both = {place.items: place.share for place in parts["(S a)"].places}
    assert both == {(0, 1): 0.5, (0, 3): 0.5}


def test_complete_subtrees_and_tags_are_at_their_nodes():
    tree = Tree(TREES[0])
    for part in explained(Subtree(1.0, leaves=True), TREES, TREES[0]).parts:
        for place in part.places:
            root = place.items[0]
            assert place.items == tuple(range(root, root + len(place.items)))
            assert tree.labels[root] == part.name.strip("(").split()[0].strip(")")
    for part in explained(TaggedTree(Spectrum(1)), TREES, TREES[0]).parts:
        token = part.name.split("'")[1]
        for place in part.places:
            [node] = place.items
            assert token == ")" or tree.labels[node] == token[1:]


def test_patterns_are_at_their_atoms_and_bonds():
    nitro = Graph([(0, 1), (1, 2), (1, 3)], "CNOO", edge_labels="-==")
    other = Graph([(0, 1), (1, 2)], "CCO", edge_labels="--")
    machine = KernelRidge(kernel=WeisfeilerLehman(2)).fit([nitro, other], [1.0, -1.0])
    [explanation] = explain(machine, [nitro], n=100)
    parts = {part.name: part for part in explanation.parts}
    [place] = parts["depth 1: N(-:C, =:O, =:O)"].places
    assert set(place.items) == {0, 1, 2, 3} and place.items[0] == 1
    assert place.edges == (0, 1, 2)
    oxygens = parts["depth 1: O(=:N)"].places
    assert [place.items for place in oxygens] == [(2, 1), (3, 1)]
    assert [place.edges for place in oxygens] == [(1,), (2,)]
    assert [place.items for place in parts["depth 0: C"].places] == [(0,)]


def test_paths_are_at_their_ends():
    chain = Graph([(0, 1), (1, 2), (2, 3)], "CCCO")
    machine = KernelRidge(kernel=ShortestPath()).fit(
        [chain, Graph([(0, 1)], "CO")], [1, 0]
    )
    [explanation] = explain(machine, [chain], n=100)
    parts = {part.name: part for part in explanation.parts}
    places = {place.items for place in parts["C to C in 1"].places}
    assert places == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert [place.items for place in parts["O to C in 3"].places] == [(3, 0)]


def test_labelled_paths_are_at_their_ends():
    chain = Graph([(0, 1), (1, 2)], "CCO", edge_labels="-=")
    machine = KernelRidge(kernel=ShortestPath()).fit([chain, Graph([], "N")], [1, 0])
    [explanation] = explain(machine, [chain], n=100)
    places = {p.name: [place.items for place in p.places] for p in explanation.parts}
    assert places["C to O in 2: - ="] == [(0, 2)]
    assert places["O to C in 1: ="] == [(2, 1)]
    assert_allclose(sum(explanation.items.values()), explanation.total)


def test_tags_of_sorted_trees_are_at_the_nodes_of_the_tree():
    tree = Tree("(S b (A c a))")
    explanation = explained(TaggedTree(Spectrum(1), sort=True), [tree, "(S a)"], tree)
    for part in explanation.parts:
        token = part.name.split("'")[1]
        for place in part.places:
            [node] = place.items
            assert token == ")" or tree.labels[node] == token[1:]


def test_monomials_are_at_their_columns():
    X = catalog.vectors(0, 8)
    machine = KernelRidge(kernel=Polynomial(3)).fit(X, X[:, 0])
    [explanation] = explain(machine, X[:1], n=100)
    assert len(explanation.parts) == 20
    for part in explanation.parts:
        columns = {int(piece[1]) for piece in part.name.split("*") if piece != "1"}
        assert {i for place in part.places for i in place.items} == columns


def test_products_are_at_the_places_of_both_factors():
    X = strings(0)
    explanation = explained(Spectrum(2) * WeightedDegree(1), X, X[1])
    for part in explanation.parts:
        left, right = part.name.split("*")
        word = left.split("'")[1]
        letter, at = right.split(" at ")
        for place in part.places:
            assert int(at) in place.items
            assert "".join(X[1][i] for i in place.items[:2]) == word
            assert X[1][int(at)] == letter.strip("'")


def test_items_of_a_field_name_the_field():
    records = catalog.records(1, 10)
    kernel = On(1, Spectrum(1)) + On([0, 2], Linear())
    machine = KernelRidge(kernel=kernel).fit(records, np.arange(10.0))
    [explanation] = explain(machine, records[3:4], n=100)
    letters = {item for item in explanation.items if item[0] == 1}
    assert letters == {(1, i) for i in range(len(records[3][1]))}


# Shapley values


def shapley(game, d):
    """The average gain of each player over all orders, by subsets."""
    values = np.zeros(d)
    for j in range(d):
        others = [i for i in range(d) if i != j]
        for size in range(d):
            weight = factorial(size) * factorial(d - size - 1) / factorial(d)
            for chosen in combinations(others, size):
                gain = game({*chosen, j}) - game(set(chosen))
                values[j] += weight * gain
    return values


@looped(
    "kernel, d",
    [
        (RBF(0.3), 1),
        (RBF(0.3), 8),
        (Laplacian(0.3), 7),
        (Matern(float("inf"), 1.5), 4),
        (Exponential(2.0), 5),
        (ChiSquared(0.4), 6),
        (Spline(), 3),
        (RBF(0.3) ** 2, 4),
        (2 * RBF(0.3) * Laplacian(0.1) + Constant(3.0), 5),
    ],
)
def test_shapley_values_of_products_are_those_of_all_subsets(kernel, d):
    rng = np.random.default_rng(d)
    X, coef = np.abs(rng.normal(size=(6, d))), rng.normal(size=6)
    z = np.abs(rng.normal(size=d))

    def game(chosen):
        # A coordinate that is left out agrees with every point: the factor is k(0, 0).
        values = []
        for x in X:
            a, b = x.copy(), x.copy()
            a[list(chosen)] = z[list(chosen)]
            if kernel in (Exponential(2.0), Spline()):
                out = [j for j in range(d) if j not in chosen]
                a[out] = b[out] = 0.0
            values.append(kernel.value(a, b))
        return coef @ values

    machine = ridge_of(kernel, X, coef)
    [explanation] = explain(machine, z[None], by="coordinates", n=d)
    found = {part.name: part.value for part in explanation.parts}
    expected = shapley(game, d)
    assert_allclose([found[f"x{j}"] for j in range(d)], expected, atol=1e-12)
    assert_allclose(explanation.bias, game(set()), atol=1e-12)


def ridge_of(kernel, X, coef):
    """A machine whose f is Σ coefᵢ k(xᵢ, ·)."""
    machine = KernelRidge(kernel=kernel).fit(X, coef)
    machine.expansion_ = Expansion(kernel, X, coef)
    return machine


def test_shapley_values_of_additive_kernels_are_their_terms():
    rng = np.random.default_rng(0)
    X, coef, z = np.abs(rng.normal(size=(5, 3))), rng.normal(size=5), np.ones((1, 3))
    for kernel, expected in (
        (Linear(), coef @ (X * z)),
        (Intersection(), coef @ np.minimum(X, z)),
    ):
        machine = ridge_of(kernel, X, coef)
        [explanation] = explain(machine, z, by="coordinates")
        found = {part.name: part.value for part in explanation.parts}
        assert_allclose([found[f"x{j}"] for j in range(3)], expected)
        assert explanation.bias == 0


def test_shapley_values_of_a_record_are_those_of_its_fields():
    records, rng = catalog.records(1, 6), np.random.default_rng(0)
    coef = rng.normal(size=6)
    kernel = On(1, Normalized(Spectrum(1))) * On([0, 2], RBF(0.5))
    machine = ridge_of(kernel, records, coef)
    x = catalog.records(2, 3)[2]
    [explanation] = explain(machine, [x], by="coordinates")

    def game(chosen):
        values = []
        for record in records:
            a = [x[j] if j in chosen else record[j] for j in range(3)]
            values.append(kernel.value(tuple(a), record))
        return coef @ values

    found = {part.name: part.value for part in explanation.parts}
    assert_allclose([found[str(j)] for j in range(3)], shapley(game, 3), atol=1e-12)


def test_shapley_values_that_would_take_too_long_are_refused(monkeypatch):
    monkeypatch.setattr(shapley_values, "MOST_WORK", 10)
    X = catalog.vectors(0, 8)
    machine = KernelRidge(kernel=RBF(0.5)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match='Use by="points", fewer columns'):
        explain(machine, X[:1])


def test_many_coordinates_add_up():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 101))
    machine = SVC(kernel=RBF(0.01)).fit(X, np.arange(20) % 2)
    [explanation] = explain(machine, X[:1], n=101)
    parts = sum(part.value for part in explanation.parts)
    assert_allclose(explanation.bias + parts, machine.decision_function(X[:1])[0])


def test_top_features_have_a_list_for_each_pair_of_classes():
    X = ["aab", "aaab", "bba", "bbba", "ccc", "cccc"]
    machine = SVC(kernel=Spectrum(2), C=10).fit(X, [0, 0, 1, 1, 2, 2])
    top = machine.top_features(2)
    assert top.outputs == ("0 against 1", "0 against 2", "1 against 2")
    assert [row.output for row in top] == [name for name in top.outputs for _ in "12"]
    assert top.of("0 against 2")[0].weight * (top[2].name != "substring 'cc'") >= 0
    assert "0 against 1" in str(top) and "<table>" in top._repr_html_()
    with pytest.raises(ValueError, match="no output '0'"):
        top.of("0")


def test_top_features_of_a_sparse_machine_are_the_selected_ones():
    X = strings(0, 40, 8, "ab")
    y = ["aab" in x for x in X]
    machine = SparseKernelClassifier(10.0, kernel=Spectrum(3), on="features").fit(X, y)
    names = [row.name for row in machine.top_features(3)]
    assert names == [name for name, _ in machine.selected_features()[:3]]
