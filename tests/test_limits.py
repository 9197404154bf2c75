"""Points without end are refused; time follows the points, not what is asked for."""

import catalog
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose

from mercer.data.checks import describe
from mercer.data.graphs import Graph
from mercer.data.trees import MANY_NODES, Tree, tag
from mercer.kernels.algebra import Normalized
from mercer.kernels.base import Kernel
from mercer.kernels.coordinate import Anova
from mercer.kernels.explicit import GaussianSeries
from mercer.kernels.graph import ShortestPath, WeisfeilerLehman
from mercer.kernels.operators import Constant
from mercer.kernels.string import Subsequence, WeightedDegree
from mercer.kernels.substring import Mismatch, Spectrum
from mercer.kernels.tree import PartialTree, SubsetTree, Subtree, TaggedTree
from mercer.kernels.vector import Linear, Polynomial
from mercer.machines.ridge import KernelRidge
from mercer.machines.svm import SVC

WORDS = ["abcabc", "acbabc", "", "abab"]
HUGE = [10**9, 2**31, 2**63, 2**64, 10**30]


def shared(kind, *label, first="A"):
    """2⁶⁰ leaves in 61 objects."""
    part = kind([first])
    for _ in range(60):
        part = kind([*label, part, part])
    return part


def own(*label, times=1):
    part = list(label)
    part.extend([part] * times)
    return part


ENDLESS = {
    "a list that contains itself": own("A"),
    "twice": own("A", times=2),
    "unlabelled": own(times=2),
    "shared tuples": shared(tuple),
    "shared lists": shared(list),
    "a tree of shared tuples": shared(tuple, "A"),
    "a tree of shared lists": shared(list, "A"),
    "shared numbers": shared(list, first=1.0),
    "a token": ["x", shared(tuple)],
    "a node": ([(0, shared(tuple))], None),
    "a label": ([(0, 1)], [shared(tuple), 1]),
}


# Trees


@looped("name", ENDLESS)
@looped(
    "read",
    [
        Tree,
        tag,
        lambda x: Subtree()([x]),
        lambda x: SubsetTree()([x, x]),
        lambda x: PartialTree()([x]),
        lambda x: TaggedTree(Spectrum(2))([x]),
        lambda x: KernelRidge(kernel=SubsetTree()).fit([x, "(A)"], [0, 1]),
    ],
)
def test_a_tree_without_end_is_refused(read, name):
    with pytest.raises((ValueError, TypeError)):
        read(ENDLESS[name])


def test_the_error_says_what_is_wrong():
    with pytest.raises(ValueError, match="contains itself"):
        Tree(own("A"))
    with pytest.raises(ValueError, match="nodes; this one has more"):
        Tree(shared(tuple, "A"))
    with pytest.raises(ValueError, match="parts, counted as often as they occur"):
        Tree((shared(tuple),))


def test_a_tree_may_share_its_parts_and_be_deep():
    part = ("A", "b")
    for _ in range(14):
        part = ("A", part, part)
    assert Tree(part).size == 3 * 2**14 - 1 > MANY_NODES
    deep = ["A"]
    for _ in range(2 * MANY_NODES):
        deep = ["A", deep]
    assert Tree(deep).depth == 2 * MANY_NODES + 1


class Growing:
    """A foreign tree whose children are made anew whenever they are asked for."""

    def label(self):
        return "A"

    def __iter__(self):
        return iter([Growing(), Growing()])


def test_a_foreign_tree_that_grows_for_ever_is_refused(monkeypatch):
    monkeypatch.setattr("mercer.data.trees.MOST_NODES", 20_000)
    with pytest.raises(ValueError, match="nodes; this one has more"):
        Tree(Growing())


# Points of any kind


def parameters(kernel):
    for value in vars(kernel).values():
        yield value
        if isinstance(value, Kernel):
            yield from parameters(value)


def without_functions():
    """Entries whose kernel has no function: what that does is its author's."""
    return [
        entry
        for entry in catalog.all_kernels
        if "function " not in repr(list(parameters(entry.values[0])))
    ]


@looped("kernel, points", without_functions())
def test_points_without_end_are_refused(kernel, points):
    for bad in ENDLESS.values():
        for X in (list(bad), [bad, bad]):
            try:
                K = kernel.resolve(X)(X)
            except (ValueError, TypeError, KeyError, IndexError):
                continue
            # A constant is that of any objects at all.
            assert isinstance(kernel, Constant) and K.shape == (len(X), len(X))


@looped("name", ENDLESS)
def test_machines_refuse_points_without_end(name):
    for X in (list(ENDLESS[name]), [ENDLESS[name]] * 2):
        with pytest.raises((ValueError, TypeError)):
            SVC().fit(X, [0, 1, 0][: len(X)])


def test_a_description_is_short_whatever_it_describes():
    for bad in ENDLESS.values():
        assert len(describe(bad)) < 80
    assert describe([1, 2]) == "a list ([1, 2])"
    assert describe(1.5) == "a float (1.5)"


def test_nodes_and_labels_that_share_their_parts_are_refused():
    with pytest.raises(ValueError, match="nodes of a graph are small"):
        Graph([(0, shared(tuple))])
    with pytest.raises(ValueError, match="labels of a graph are small"):
        ShortestPath()([ENDLESS["a label"]])


# Lengths and degrees


@pytest.mark.parametrize("huge", HUGE)
def test_what_is_longer_than_the_strings_contributes_nothing(huge):
    for kernel in (Spectrum(huge), Subsequence(huge), Mismatch(huge, 1, "a")):
        assert_allclose(kernel(WORDS), 0)
        assert_allclose(kernel(WORDS, WORDS[:2]), 0)
        assert_allclose(kernel.diag(WORDS), 0)
        assert kernel.features(WORDS).shape == (4, 0)
        assert kernel.feature_names(WORDS) == []
    assert np.isneginf(Subsequence(huge).log(WORDS)).all()
    assert np.isfinite(Normalized(Subsequence(huge))(WORDS)).all()


@looped("huge", HUGE)
def test_a_large_degree_weighs_the_lengths_that_there_are(huge):
    kernel = WeightedDegree(huge)
    weights = [2 * (huge - r + 1) / (huge * (huge + 1)) for r in range(1, 7)]
    assert_allclose(kernel(WORDS), WeightedDegree(6, weights)(WORDS), rtol=1e-14)
    features = kernel.features(WORDS)
    assert_allclose((features @ features.T).toarray(), kernel(WORDS), rtol=1e-12)


@pytest.mark.parametrize(
    "short, long",
    [
        (Spectrum(3, [1, 2, 3]), Spectrum(500, [1, 2, 3] + [0] * 497)),
        (Subsequence(6, 0.5, [1] * 6), Subsequence(500, 0.5, [1] * 500)),
        (WeightedDegree(6, [1] * 6), WeightedDegree(500, [1] * 500)),
    ],
)
def test_weights_of_lengths_that_no_string_has_change_nothing(short, long):
    assert_allclose(short(WORDS), long(WORDS), rtol=1e-14)
    assert_allclose(short.features(WORDS).toarray(), long.features(WORDS).toarray())
    assert short.feature_names(WORDS) == long.feature_names(WORDS)


@looped("huge", HUGE)
def test_huge_numbers_are_refused_or_followed_by_the_data(huge):
    X = np.random.default_rng(0).normal(size=(4, 3))
    assert_allclose(Anova(huge, cumulative=True)(X), Anova(3, cumulative=True)(X))
    graph = Graph([(0, 1), (1, 2)])
    for call in (
        lambda: Mismatch(huge).resolve(WORDS),
        lambda: Mismatch(huge, 1, "abc"),
        lambda: GaussianSeries(0.5, huge)(X),
        lambda: Polynomial(huge).features(X),
        lambda: Polynomial(huge).ordered_features(X),
        lambda: Polynomial(huge, 1, 0).features(X[:, :1]),
        lambda: WeisfeilerLehman(huge)([graph, graph]),
    ):
        with pytest.raises(ValueError, match=r"Lower|smaller|at most|≤"):
            call()


@pytest.mark.parametrize("huge", [2**63, 2**64, 10**400])
def test_exponents_do_not_wrap_round(huge):
    for call in (lambda: Polynomial(huge), lambda: Linear() ** huge):
        with pytest.raises(ValueError, match="≤ 9,007,199,254,740,992"):
            call()
    assert_allclose(Polynomial(2**53, 1e-3, 0)([[1.0]]), 0)
