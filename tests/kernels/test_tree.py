"""Subtree, SubsetTree, PartialTree, TaggedTree against enumeration and recursion."""

import ast
import math
from functools import cache

import naive_trees as naive
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, cross_val_score
from strategies import nested_trees

from mercer.data.trees import Tree, tag
from mercer.kernels.algebra import Normalized
from mercer.kernels.substring import WeightedSubstrings
from mercer.kernels.tree import PartialTree, SubsetTree, Subtree, TaggedTree
from mercer.kernels.ways import PairFunction
from mercer.machines.svm import SVC
from mercer.native import threads

few = settings(max_examples=25, deadline=None)
shares = st.sampled_from([1.0, 0.5, 0.3, 1e-3, 1e-200])
N = 30_000
APPLE = "(NP (D the) (N apple))"
TREES = [
    APPLE,
    "(NP (D the) (N pear))",
    "(S (NP (D the) (N apple)) (VP (V falls)))",
    "(S (NP (D a) (N (N green) (N apple))) (VP (V falls) (ADV down)))",
    "(A (A (A (A a a) a) (A a a)) (A a (A a)))",
    "(A (B C D) E)",
    "(A (B D C) E E (B C))",
    "apple",
]
KERNELS = [
    (SubsetTree(0.4), naive.subset_features(0.4)),
    (SubsetTree(0.7, leaves=True), naive.subset_features(0.7, leaves=True)),
    (Subtree(0.4), naive.subtree_features(0.4)),
    (Subtree(0.7, leaves=True), naive.subtree_features(0.7, leaves=True)),
    (PartialTree(0.4, 0.6), naive.partial_features(0.4, 0.6)),
    (PartialTree(1.0, 1.0), naive.partial_features(1.0, 1.0)),
]
on_kernels = looped("kernel, features", KERNELS)


# Values


@looped("decay", [1.0, 0.5, 0.1])
def test_an_apple_with_itself(decay):
    assert_allclose(SubsetTree(decay).value(APPLE, APPLE),
                    2 * decay + decay * (1 + decay) ** 2, rtol=1e-14)  # fmt: skip
    assert_allclose(Subtree(decay).value(APPLE, APPLE), 2 * decay + decay**3)


def test_an_apple_has_six_subset_trees():
    assert SubsetTree(1.0).value(APPLE, APPLE) == 6
    assert sorted(SubsetTree(1.0).feature_names([APPLE])) == sorted(
        [
            "(D the)",
            "(N apple)",
            "(NP D N)",
            "(NP (D the) N)",
            "(NP D (N apple))",
            APPLE,
        ]
    )


def test_an_apple_and_a_pear_share_the_article_and_the_phrase():
    assert SubsetTree(1.0).value(APPLE, "(NP (D the) (N pear))") == 3
    assert Subtree(1.0).value(APPLE, "(NP (D the) (N pear))") == 1
    assert PartialTree(1.0, 1.0).value("(A b)", "(A c)") == 1
    assert_allclose(PartialTree(0.5, 0.3).value("(A b)", "(A b)"),
                    0.5 * 0.09 + 0.5 * (0.09 + 0.09 * 0.5 * 0.09))  # fmt: skip


@on_kernels
def test_kernels_sum_over_all_fragments(kernel, features):
    expected = [[naive.by_fragments(features)(x, y) for y in TREES] for x in TREES]
    assert_allclose(kernel(TREES), expected, rtol=1e-12)
    assert_allclose(kernel.diag(TREES), np.diag(expected), rtol=1e-12)
    assert_allclose(kernel(TREES[2:5], TREES), expected[2:5], rtol=1e-12)


@given(nested_trees(), nested_trees(), shares, st.booleans())
@few
def test_subset_trees_are_those_of_the_definition(x, y, decay, leaves):
    k = naive.by_fragments(naive.subset_features(decay, leaves))
    kernel = SubsetTree(decay, leaves)
    assert_allclose(kernel.value(x, y), k(x, y), rtol=1e-12)
    if not leaves:
        assert_allclose(kernel.value(x, y), naive.subset_tree(decay)(x, y), rtol=1e-12)


@given(nested_trees(), nested_trees(), shares, st.booleans())
@few
def test_subtrees_are_those_of_the_definition(x, y, decay, leaves):
    k = naive.by_fragments(naive.subtree_features(decay, leaves))
    assert_allclose(Subtree(decay, leaves).value(x, y), k(x, y), rtol=1e-12)


@given(nested_trees(), nested_trees(), st.sampled_from([1.0, 0.5, 1e-3]),
       st.sampled_from([1.0, 0.5, 1e-3]))  # fmt: skip
@few
def test_partial_trees_are_those_of_the_definition(x, y, decay, gap):
    k = naive.by_fragments(naive.partial_features(decay, gap))
    value = PartialTree(decay, gap).value(x, y)
    assert_allclose(value, k(x, y), rtol=1e-12)
    assert_allclose(value, naive.partial_tree(decay, gap)(x, y), rtol=1e-12)


@looped("gap", [1.0, 0.9, 0.2])
def test_wide_nodes_are_compared_by_their_matching_children(gap):
    # 60 × 45 children of which few match: the sum over matches only, against the sum
    # over all pairs (by prepending children that match everywhere).
    rng = np.random.default_rng(3)
    one = ("R", *rng.permutation([f"x{i}" for i in range(40)] + ["a"] * 20))
    other = ("R", *rng.permutation([f"y{i}" for i in range(40)] + ["a"] * 5))
    ends = np.zeros((len(one), len(other)))  # sequences that end in this pair
    for i in range(1, len(one)):
        for j in range(1, len(other)):
            if one[i] == other[j]:
                p, q = np.indices((i, j))
                before = ends[:i, :j] * gap ** (i - p - 1.0 + j - q - 1)
                ends[i, j] = gap**2 * (0.5 * gap**2) * (1 + before.sum())
    roots = 0.5 * (gap**2 + ends.sum())
    leaves = 0.5 * gap**2 * 20 * 5
    assert_allclose(PartialTree(0.5, gap).value(one, other), roots + leaves, rtol=1e-12)


def test_a_leaf_is_not_an_inner_node_of_the_same_name():
    assert SubsetTree(1.0).value("(A B)", "(A (B c))") == 1  # (A B) is in both
    assert Subtree(1.0).value("(A B)", "(A (B c))") == 0


def test_labels_need_not_be_words():
    words, numbers = "(A (B c) (B d))", (1, (2, 3), (2, None))
    for kernel, _ in KERNELS:
        assert kernel.value(words, words) == kernel.value(numbers, numbers)
    assert SubsetTree().value(("𝒳", ("🌲", "🍎")), "(𝒳 (🌲 🍎))") > 0


# Features


@on_kernels
def test_features_give_the_kernel(kernel, features):
    F = kernel.features(TREES)
    assert_allclose((F @ F.T).toarray(), kernel(TREES), rtol=1e-12)
    assert F.shape[1] == len(kernel.feature_names(TREES))
    assert (F.sum(axis=0) > 0).all()


@on_kernels
def test_features_are_the_fragments_by_name(kernel, features):
    names = kernel.feature_names(TREES)
    assert len(set(names)) == len(names)
    for tree, row in zip(TREES, kernel.features(TREES).toarray(), strict=True):
        expected = {named(f): w for f, w in features(naive.plain(tree)).items()}
        found = {n: w for n, w in zip(names, row, strict=True) if w}
        assert found == pytest.approx(expected)


def named(fragment):
    """A fragment in bracket text; a label, or (label, parts)."""
    if isinstance(fragment, str):
        return fragment
    label, parts = fragment
    inside = " ".join([label, *map(named, parts)])
    return f"({inside})" if parts else label


def test_too_many_fragments_are_refused_with_their_number():
    comb = "(A a (A a " * 15 + "(A a)" + "))" * 15
    assert SubsetTree().features([comb]).shape == (1, 30 + 31)  # ending above, below
    with pytest.raises(ValueError, match=r"about 2\.1e\+11 fragments; at most 1,000"):
        SubsetTree().features([full(6)])
    with pytest.raises(ValueError, match="fragments; at most 1,000,000"):
        PartialTree().feature_names([("A", *"bcdefghijklmnopqrstuvw")])


def test_features_of_deep_trees_go_without_their_names():
    deep = Tree("(A " * N + "B" + ")" * N)
    assert Subtree().features([deep]).shape == (1, N)
    with pytest.raises(ValueError, match="used without their names"):
        Subtree().feature_names([deep])


# Size


def chain(n, name="x{}"):
    """A path of n nodes with n different labels, and a leaf."""
    return Tree("".join(f"({name.format(i)} " for i in range(n)) + "w" + ")" * n)


def test_trees_may_be_very_deep():
    deep, half = chain(N), chain(N // 2)
    # Fragments of a path are its n (n + 1) / 2 pieces.
    assert SubsetTree(1.0).value(deep, deep) == N * (N + 1) / 2
    # The last node of the shorter path has another child.
    m = N // 2 - 1
    assert SubsetTree(1.0).value(deep, half) == m * (m + 1) / 2
    assert Subtree(1.0).value(deep, deep) == N
    assert_allclose(Subtree(0.5).value(deep, deep), 1, rtol=1e-12)
    pieces = sum((N + 1 - r) * 0.25 ** (r + 1) for r in range(200))
    assert_allclose(PartialTree(1.0, 0.5).value(deep, deep), pieces, rtol=1e-11)
    for kernel in (SubsetTree(1.0), Subtree(1e-3), PartialTree()):
        assert_array_equal(Normalized(kernel)([deep]), 1)


def test_trees_may_be_very_wide():
    wide = Tree(("A", *map(str, range(N))))
    same = Tree(("A", *"b" * N))
    assert SubsetTree(0.5).value(wide, wide) == SubsetTree(0.5).value(same, same) == 0.5
    assert_allclose(Subtree(0.5).value(wide, wide), 0.5, rtol=1e-15)
    assert Subtree(1.0, leaves=True).value(same, same) == N**2 + 1
    assert SubsetTree(1.0, leaves=True).value(same, same) == N**2 + 1
    # ends(n) = λ²μλ² (1 + Σ ends(m) λ^(2 (n - m - 1))): a sequence of children
    factor, ends, sums, total = 0.5**2 * 0.25, 0.0, 0.0, 0.0
    for _ in range(N):
        sums = sums * 0.25 + ends
        ends = factor * (1 + sums)
        total += ends
    assert_allclose(PartialTree(1.0, 0.5).value(wide, wide), 0.25 + total + N * 0.25,
                    rtol=1e-10)  # fmt: skip


def test_too_many_matching_pairs_are_refused_with_their_number():
    path = Tree("(A " * 4000 + "A" + ")" * 4000)
    with pytest.raises(ValueError, match=r"10,000,000 pairs; tree 1 and tree 1 have 16,"
                       r"000,000\. .*Subtree"):  # fmt: skip
        SubsetTree()([APPLE, path])
    with pytest.raises(ValueError, match="tree 0 of X and tree 1 of Y have 16,008,001"):
        PartialTree()([path], [APPLE, path])
    with pytest.raises(ValueError, match="tree 2 and itself have 16"):
        PartialTree().diag([APPLE, APPLE, path])
    assert Subtree(1.0).value(path, path) == 4000
    allowed = Tree("(A " * 3000 + "A" + ")" * 3000)
    assert SubsetTree(0.4).value(allowed, allowed) > 3000


def full(depth, leaf="a"):
    for _ in range(depth):
        leaf = ("A", leaf, leaf)
    return leaf


def test_values_that_overflow_are_refused_and_their_cosines_are_exact():
    tree = full(12)
    with pytest.raises(ValueError, match=r"matching pairs of nodes, is about 1e\+\d+"):
        SubsetTree(1.0)([tree])
    with pytest.raises(ValueError, match=r"Normalized\(SubsetTree\(decay=1\.0"):
        SubsetTree(1.0).diag([tree])
    other = full(12, "b")
    exact = {}
    for name, x, y in [("xx", tree, tree), ("xy", tree, other), ("yy", other, other)]:
        exact[name] = exact_subset_tree(Tree(x), Tree(y))
    assert exact["xy"] > 10**308
    expected = exact["xy"] / math.isqrt(exact["xx"] * exact["yy"])
    K = Normalized(SubsetTree(1.0))([tree, other, APPLE])
    assert_allclose(K[0, 1], expected, rtol=1e-11)
    assert_array_equal(np.diag(K), 1)
    assert_array_equal(K[2, :2], 0)
    assert_allclose(SubsetTree(1.0).log([tree], [other]), int_log(exact["xy"]))


def exact_subset_tree(x, y):
    """k at λ = 1 in whole numbers, over the different subtrees of full trees."""

    @cache
    def common(v, w):
        if not (v.children and w.children):
            return 0
        below = [
            (a.label, b.label) for a, b in zip(v.children, w.children, strict=True)
        ]
        if any(a != b for a, b in below):
            return 0
        pairs = zip(v.children, w.children, strict=True)
        return math.prod(1 + common(a, b) for a, b in pairs)

    def levels(tree):
        """Its different subtrees, one for each height, and how often they are there."""
        found, many = [], 1
        while tree.children:
            found.append((tree, many))
            tree, many = tree.children[0], 2 * many
        return found

    return sum(m * n * common(v, w) for v, m in levels(x) for w, n in levels(y))


def int_log(number):
    shift = max(number.bit_length() - 60, 0)
    return math.log(number >> shift) + shift * math.log(2)


def test_values_that_underflow_keep_exact_cosines():
    x, y = "(A b b)", "(A b c)"
    tiny = PartialTree(1e-200, 1e-100)
    assert tiny.value(x, y) == 0
    # Only single nodes count: A with A, b with b.
    assert_allclose(Normalized(tiny)([x, y])[0, 1], 3 / math.sqrt(5 * 3), rtol=1e-12)
    least = 5e-324
    cosine = Normalized(SubsetTree(least)).value(APPLE, "(NP (D the) (N pear))")
    assert_allclose(cosine, 2 / 3, rtol=1e-12)


def test_a_tree_without_fragments_is_like_another_and_like_no_other():
    points = ["apple", "pear", APPLE]
    for kernel in (SubsetTree(), Subtree()):
        assert_array_equal(kernel(points)[:2], 0)
        K = Normalized(kernel)(points)
        assert_array_equal(K, [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
        assert_array_equal(Normalized(kernel).diag(points), 1)
        assert_array_equal(Normalized(kernel)(points, points[2:]), K[:, 2:])


@on_kernels
def test_cosines_are_those_of_the_values(kernel, features):
    K = kernel(TREES[:7])
    lengths = np.sqrt(np.diag(K))
    expected = K / np.outer(lengths, lengths)
    assert_allclose(Normalized(kernel)(TREES[:7]), expected, rtol=1e-12)
    V = np.arange(14.0).reshape(7, 2)
    assert_allclose(Normalized(kernel).matmul(TREES[:7], None, V), expected @ V)


# One tree against many: rows by the dozen have a way of their own


@pytest.mark.parametrize("decay", [1.0, 0.3, 1e-200, 5e-324])
def test_many_trees_compare_as_two_do(decay):
    # Most words are in few trees, some productions in all; words stand at all depths.
    rng = np.random.default_rng(5)
    words = ["a", "b", *(f"w{i}" for i in range(60))]

    def grown(depth):
        if depth == 0 or rng.random() < 0.2:
            return ("P", words[int(len(words) * rng.random() ** 3)])
        if rng.random() < 0.1:
            return (f"Q{rng.integers(9)}", grown(depth - 1), "x", grown(depth - 1))
        return ("P", grown(depth - 1), grown(depth - 1))

    X = [Tree(grown(4)) for _ in range(150)]
    kernel, k = SubsetTree(decay), naive.subset_tree(decay)
    K = kernel(X)
    assert_array_equal(K, K.T)
    for i in (0, 40, 149):
        assert_allclose(K[i, ::5], [k(X[i], y) for y in X[::5]], rtol=1e-12)
    # Few rows are compared pair by pair.
    assert_allclose(K[:7], kernel(X[:7], X), rtol=1e-12)
    assert_allclose(kernel(X[20:60], X[50:]), K[20:60, 50:], rtol=1e-12)
    logs = np.concatenate([kernel.log(X[:7], X), kernel.log(X[7:14], X)])
    assert_allclose(kernel.log(X[:14], X), logs, rtol=1e-12, atol=1e-12)


def test_large_trees_are_compared_in_spans_as_pairs_are():
    X = [Tree("(A " * m + f"(A (B b) (C {m % 3}))" + ")" * m) for m in range(380, 420)]
    X[20] = Tree(full(11))  # overflows with itself alone
    rows = [X[0], X[20], X[39]]
    pairs = SubsetTree(1.0).log(rows, X)
    assert_allclose(SubsetTree(1.0).log(X)[[0, 20, 39]], pairs, rtol=1e-12)
    assert_allclose(SubsetTree(1.0).log(X, rows).T, pairs, rtol=1e-12)
    with pytest.raises(ValueError, match="tree 20 and tree 20, which have 2,095"):
        SubsetTree(1.0)(X)


# Threads


def test_the_matrix_does_not_depend_on_the_number_of_threads():
    many = [tree for i in range(12) for tree in (*TREES, f"(S (A {i}) (B c))")]
    before = threads.threads()
    try:
        results = []
        for count in (1, 3):
            threads.set_threads(count)
            results.append([kernel(many) for kernel, _ in KERNELS])
            with pytest.raises(ValueError, match="tree 1 and tree 1, which have 2,095"):
                SubsetTree(1.0)([APPLE, full(11), full(11), APPLE])
    finally:
        threads.set_threads(before)
    for one, other in zip(*results, strict=True):
        assert_array_equal(one, other)


# Tags


def balanced_substrings(s, t):
    """Common substrings that open with a bracket and end with the one that closes it.

    Each is worth ½ for every node that has something inside; single nodes nothing.
    """

    def found(tokens):
        for start, token in enumerate(tokens):
            depth, size = 0, 0
            for end in range(start, len(tokens)) if token != ")" else ():
                opens = tokens[end] != ")"
                size += opens and tokens[end + 1] != ")"
                depth += 1 if opens else -1
                if depth == 0:
                    yield tokens[start : end + 1], size
                    break

    return sum(
        0.5**size for a, size in found(s) for b, _ in found(t) if a == b and size
    )


@given(nested_trees(), nested_trees())
@few
def test_balanced_substrings_of_tags_are_the_subtrees(x, y):
    kernel = TaggedTree(PairFunction(balanced_substrings, psd=True))
    assert_allclose(kernel.value(x, y), Subtree(0.5).value(x, y), rtol=1e-12)


@given(nested_trees(), nested_trees())
@few
def test_balanced_columns_of_tags_count_the_subtrees(x, y):
    kernel = TaggedTree(WeightedSubstrings(1.0))
    columns = [
        ast.literal_eval(name.removeprefix("substring "))
        for name in kernel.feature_names([x, y])
    ]
    chosen = [len(tokens) > 2 and _closes(tokens) for tokens in columns]
    counts = kernel.features([x, y]).toarray()[:, chosen]
    assert_array_equal(counts @ counts.T, Subtree(1.0)([x, y]))


def _closes(tokens) -> bool:
    """Whether the last bracket, and none before it, closes the first."""
    depth = np.cumsum([-1 if token == ")" else 1 for token in tokens])
    return bool((depth[:-1] > 0).all() and depth[-1] == 0)


def test_a_tagged_tree_without_a_map_says_so():
    kernel = TaggedTree(PairFunction(balanced_substrings))
    with pytest.raises(TypeError, match="has the features of its string kernel"):
        kernel.features([APPLE])


def test_sorted_tags_forget_the_order_of_children():
    tokens = PairFunction(lambda s, t: float(s == t), psd=True)
    one, other = "(A (B c d) E)", "(A E (B d c))"
    assert TaggedTree(tokens).value(one, other) == 0
    assert TaggedTree(tokens, sort=True).value(one, other) == 1
    assert tag(one, sort=True) == tag(other, sort=True)


def test_a_tagged_tree_is_as_valid_as_its_string_kernel():
    assert TaggedTree(PairFunction(balanced_substrings, psd=True)).psd is True
    assert TaggedTree(PairFunction(balanced_substrings)).psd is None


# Points and machines


@on_kernels
def test_points_may_come_in_any_form(kernel, features):
    K = kernel(TREES)
    trees = [Tree(tree) for tree in TREES]
    column = pd.DataFrame({"tree": trees})["tree"]
    for points in (trees, np.array(trees, dtype=object), column, np.array(TREES)):
        assert_array_equal(kernel(points), K)


@looped(
    "point, words",
    [
        (1.5, r"SubsetTree compares trees; point 1 is a float \(1\.5\)\. A tree is"),
        ("(A (B", r"point 1 is a str \('\(A \(B'\)\. The bracket here is never closed"),
    ],
)
def test_a_point_that_is_no_tree_is_named(point, words):
    with pytest.raises((TypeError, ValueError), match=words):
        SubsetTree()([APPLE, point])


@looped("kernel", [SubsetTree, PartialTree, Subtree])
@looped("decay", [0, -0.5, 1.5, math.nan, math.inf, "a"])
def test_decay_is_a_share(kernel, decay):
    with pytest.raises(ValueError, match=f"{kernel.__name__} needs 0 < decay ≤ 1"):
        kernel(decay)


def test_other_parameters_are_checked():
    with pytest.raises(ValueError, match="PartialTree needs 0 < gap ≤ 1; got gap=2"):
        PartialTree(0.5, 2)
    with pytest.raises(TypeError, match="leaves=True or False; got 1"):
        Subtree(0.5, 1)
    with pytest.raises(TypeError, match="sort=True or False; got 'yes'"):
        TaggedTree(SubsetTree(), "yes")


def test_trees_go_through_model_selection():
    rng = np.random.default_rng(0)
    words = ["apple", "pear", "plum", "fig"]
    X, y = [], []
    for i in range(40):
        phrase = ("NP", ("D", "the"), ("N", words[rng.integers(4)]))
        order = (phrase, ("V", "falls")) if i % 2 else (("V", "falls"), phrase)
        X.append(Tree(("S", *order)))
        y.append(i % 2)
    X = np.array(X, dtype=object)
    machine = SVC(kernel=Normalized(SubsetTree()))
    assert cross_val_score(machine, X, y, cv=4).mean() == 1
    search = GridSearchCV(machine, {"kernel__kernel__decay": [0.1, 0.5]}, cv=4)
    assert search.fit(X, y).score(X, y) == 1
    assert search.best_estimator_.kernel.kernel.decay == 0.1
