"""Kernels on trees: how many fragments two trees share, each fading with its size.

Subtree       a node with everything below it
SubsetTree    whole productions: of every node in it all children or none
PartialTree   any nodes, joined as they are in the tree
TaggedTree    a string kernel on the bracket text

Points are `Tree`s, or what makes one: bracket text, nested tuples. Collins and Duffy,
NIPS 14 (2001); Vishwanathan and Smola, NIPS 15 (2002); Moschitti, ECML 2006.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from mercer import _core
from mercer.data.checks import describe
from mercer.data.points import Points, as_points, objects
from mercer.data.trees import Tree, ordered, tag_tokens
from mercer.kernels.base import BLOCK_MB, Kernel, Rule, check_kernels, closed
from mercer.kernels.candidates import Fragment, PartialFragments, SubsetFragments
from mercer.kernels.checks import Range, is_finite
from mercer.kernels.counts import Columns, VocabularyKernel
from mercer.kernels.fragments import Fragments, Shapes, names, numbered
from mercer.kernels.occurrences import (
    Place,
    fragment_text,
    partial_places,
    subset_places,
)
from mercer.kernels.ways import dense

MOST_PAIRS = 10_000_000  # of matching nodes in two trees


class MatchingNodes(Kernel):
    """k(x, y) = Σ C(v, w) over the nodes v of x and w of y that match.

    C(v, w) is made of the C of their children, so every matching pair of nodes is
    looked at once, and no other pair ever. Fill in `_native` and `_fragments`.
    """

    @abstractmethod
    def _native(self, logarithm: bool) -> _core.TreeRule:
        """C as the parameters of the native core."""

    def _leaf(self) -> float:
        """What a leaf by itself counts."""
        return 0.0

    @abstractmethod
    def _fragments(self, shapes: Shapes) -> Fragments:
        """The fragments rooted at each shape."""

    @abstractmethod
    def candidates(self, X: Points, V: np.ndarray) -> Any:
        """Beginnings of fragments u, which know their sums Vᵀφ_u and bounds."""

    def candidate_name(self, key: Fragment, text: bool) -> str:
        """What `feature_names` calls a fragment."""
        return fragment_text(key)

    @abstractmethod
    def candidate_places(self, x: Any, key: Fragment, most: int) -> list[Place]:
        """The nodes of each place of a fragment in a point, and what it counts."""

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self._block(_Forest(self, X, Y), logarithm=False)

    def diag(self, X: Points) -> np.ndarray:
        return self._diag(_Forest(self, X), logarithm=False)

    def log(self, X: Points, Y: Points | None = None) -> np.ndarray | None:
        return self._block(_Forest(self, X, Y), logarithm=True)

    def log_diag(self, X: Points) -> np.ndarray | None:
        return self._diag(_Forest(self, X), logarithm=True)

    def features(self, X: Points) -> sp.csr_array:
        """Φ, (n, p), a column for every fragment of the trees; `feature_names` says.

        Refused where there are more than a million of them.
        """
        shapes = Shapes(trees_of(self, X))
        return shapes.counts() @ self._fragments(shapes).matrix()

    def feature_names(self, X: Points) -> list[str]:
        """The fragment of each column of `features(X)`, such as (NP (D the) N)."""
        return names(self._fragments(Shapes(trees_of(self, X))).keys)

    def _block(self, forest: _Forest, logarithm: bool) -> np.ndarray:
        out = np.zeros(forest.shape)
        if not out.size:
            return out
        rule = self._native(logarithm)
        refusal = _core.tree_block(forest.packed, rule, forest.n, out)
        if refusal is not None:
            other = forest.named(refusal.column + forest.shift)
            self._refuse(forest.named(refusal.row), other, refusal)
        if self._leaf():
            left, right = forest.leaf_counts
            out = _plus(out, self._leaf() * dense(left @ right.T), logarithm)
        return out

    def _diag(self, forest: _Forest, logarithm: bool) -> np.ndarray:
        out = np.zeros(len(forest.trees))
        refusal = _core.tree_diag(forest.packed, self._native(logarithm), out)
        if refusal is not None:
            self._refuse(forest.named(refusal.row), "itself", refusal)
        if self._leaf():
            counts, _ = forest.leaf_counts
            squares = np.asarray(counts.multiply(counts).sum(axis=1)).ravel()
            out = _plus(out, self._leaf() * squares, logarithm)
        return out

    def _refuse(self, one: str, other: str, refusal: _core.Refusal) -> None:
        pairs, log_value = refusal.pairs, refusal.log_value
        if pairs > MOST_PAIRS:
            raise ValueError(
                f"{type(self).__name__} compares the matching nodes of two trees, at "
                f"most {MOST_PAIRS:,} pairs; {one} and {other} have {pairs:,.0f}. Cut "
                "the trees, tell labels apart, or use Subtree, which needs no pairs."
            )
        raise ValueError(
            f"{self} of {one} and {other}, which have {pairs:,.0f} matching pairs of "
            f"nodes, is about 1e{log_value / math.log(10):+.0f}: no float64 holds it. "
            f"Normalized({self}) does without it; or lower decay."
        )


@dataclass
class SubsetTree(MatchingNodes):
    """k(x, y) = Σ C(v, w) over nodes with equal productions, C = λ Π (1 + C(vₖ, wₖ)).

    vₖ and wₖ are the k-th children, and C = 0 for different productions (a label and
    the labels of all children) and for leaves. A fragment has of every node either
    all children or none, and counts λ^(number of its nodes that have them).

    Parameters
    ----------
    decay : λ, 0 < λ ≤ 1
    leaves : whether a leaf by itself, a word, is a fragment too, which counts λ

    Examples
    --------
    >>> from mercer import SubsetTree
    >>> k = SubsetTree(decay=1)
    >>> k.value("(NP (D the) (N apple))", "(NP (D the) (N pear))")
    3.0
    """

    smooth = Range.share("decay")

    decay: float = 0.4
    leaves: bool = False

    def __post_init__(self) -> None:
        check_share(self, "decay", self.decay)
        check_choice(self, "leaves", self.leaves)

    def _native(self, logarithm: bool) -> _core.TreeRule:
        return _core.TreeRule(False, float(self.decay), 1.0, MOST_PAIRS, logarithm)

    def _leaf(self) -> float:
        return float(self.decay) if self.leaves else 0.0

    def _fragments(self, shapes: Shapes) -> Fragments:
        return Fragments.subset(shapes, math.sqrt(self.decay), self.leaves)

    def candidates(self, X: Points, V: np.ndarray) -> SubsetFragments:
        trees = trees_of(self, X)
        return SubsetFragments(trees, math.sqrt(self.decay), bool(self.leaves), V)

    def candidate_places(self, x: Any, key: Fragment, most: int) -> list[Place]:
        return subset_places(trees_of(self, [x])[0], key)[:most]

    def rule(self) -> Rule:
        return Rule(
            True,
            "⟨φ(x), φ(y)⟩, where φ counts every fragment of a tree, times √λ for each "
            "of its productions",
        )


@dataclass
class PartialTree(MatchingNodes):
    """k(x, y) = Σ C(v, w) over nodes with equal labels, C = μ (λ² + Σ λ^(a + b) Π C).

    The inner sum is over sequences of children of v and as long ones of w, which span
    a and b children from the first to the last, the product over the children in them.
    A fragment is any set of nodes that hang together: each counts μ, and λ² or
    λ^(span) on either side for its children.

    Parameters
    ----------
    decay : μ, 0 < μ ≤ 1
    gap : λ, 0 < λ ≤ 1

    Examples
    --------
    >>> from mercer import PartialTree
    >>> k = PartialTree(decay=1, gap=1)
    >>> k.value("(A (B) (C))", "(A (B))")
    3.0
    """

    smooth = Range.share("decay", "gap")

    decay: float = 0.4
    gap: float = 0.4

    def __post_init__(self) -> None:
        check_share(self, "decay", self.decay)
        check_share(self, "gap", self.gap)

    def _native(self, logarithm: bool) -> _core.TreeRule:
        decay, gap = float(self.decay), float(self.gap)
        return _core.TreeRule(True, decay, gap, MOST_PAIRS, logarithm)

    def _fragments(self, shapes: Shapes) -> Fragments:
        return Fragments.partial(shapes, math.sqrt(self.decay), float(self.gap))

    def candidates(self, X: Points, V: np.ndarray) -> PartialFragments:
        trees = trees_of(self, X)
        return PartialFragments(trees, math.sqrt(self.decay), float(self.gap), V)

    def candidate_places(self, x: Any, key: Fragment, most: int) -> list[Place]:
        return partial_places(trees_of(self, [x])[0], key, float(self.gap), most)

    def rule(self) -> Rule:
        return Rule(
            True,
            "⟨φ(x), φ(y)⟩, where φ sums over the places of every fragment √μ for each "
            "node and λ^(span of its children)",
        )


@dataclass
class Subtree(VocabularyKernel):
    """k(x, y) = Σ λ^size(s) · (how often s is in x) · (in y), over complete subtrees s.

    A complete subtree is a node with everything below it, its size the number of its
    nodes that have children. The time is linear in the trees, whatever they share.

    Parameters
    ----------
    decay : λ, 0 < λ ≤ 1
    leaves : whether a leaf by itself, a word, is a subtree too, which counts λ

    Examples
    --------
    >>> from mercer import Subtree
    >>> k = Subtree(decay=1)
    >>> k.value("(S (A a) (B b))", "(S (A a) (B c))")
    1.0
    """

    smooth = Range.share("decay")

    decay: float = 0.4
    leaves: bool = False

    def __post_init__(self) -> None:
        check_share(self, "decay", self.decay)
        check_choice(self, "leaves", self.leaves)

    def columns(self, X: Points) -> Columns:
        shapes = Shapes(trees_of(self, X))
        chosen = np.flatnonzero((shapes.sizes > 0) | self.leaves)
        weights = math.sqrt(self.decay) ** np.maximum(shapes.sizes[chosen], 1)
        matrix = (shapes.counts()[:, chosen] * weights).tocsr()
        return Columns(matrix, lambda: names(shapes.keys, chosen))

    def rule(self) -> Rule:
        return Rule(
            True, "⟨φ(x), φ(y)⟩, where φ counts every complete subtree, times √λ^size"
        )


@dataclass
class TaggedTree(Kernel):
    """k(x, y) = kernel(tag(x), tag(y)), a string kernel on trees written as strings.

    The tag of a tree is (A (B (C) (D)) (E)), here in tokens '(A', '(B', '(C', ')', ...,
    so that no label is cut in two; the time is that of the string kernel, which may be
    linear. Substrings that open with a bracket and end with the one that closes it are
    the complete subtrees.

    Parameters
    ----------
    kernel : compares sequences of tokens
    sort : children in a fixed order, so that only what is below a node matters

    Examples
    --------
    >>> from mercer import Spectrum, TaggedTree
    >>> TaggedTree(Spectrum(2)).value("(A (B) (C))", "(A (B) (D))")
    3.0
    >>> TaggedTree(Spectrum(2), sort=True).value("(A (B) (C))", "(A (C) (B))")
    5.0
    """

    kernel: Kernel
    sort: bool = False

    def __post_init__(self) -> None:
        check_kernels(self, self.kernel)
        check_choice(self, "sort", self.sort)

    def _tags(self, X: Points) -> list[tuple[Hashable, ...]]:
        trees = trees_of(self, X)
        return [tag_tokens(ordered(tree) if self.sort else tree) for tree in trees]

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self.kernel(self._tags(X), None if Y is None else self._tags(Y))

    def diag(self, X: Points) -> np.ndarray:
        return self.kernel.diag(self._tags(X))

    def matmul(
        self,
        X: Points,
        Y: Points | None,
        V: npt.ArrayLike,
        *,
        block_mb: float = BLOCK_MB,
    ) -> np.ndarray:
        right = None if Y is None else self._tags(Y)
        return self.kernel.matmul(self._tags(X), right, V, block_mb=block_mb)

    def log(self, X: Points, Y: Points | None = None) -> np.ndarray | None:
        return self.kernel.log(self._tags(X), None if Y is None else self._tags(Y))

    def log_diag(self, X: Points) -> np.ndarray | None:
        return self.kernel.log_diag(self._tags(X))

    def features(self, X: Points) -> sp.csr_array:
        """Φ of the tags, where the string kernel has one."""
        return self._explicit().features(self._tags(X))

    def feature_names(self, X: Points) -> list[str]:
        """Of each column of `features(X)`, such as "substring ('(the', ')', ')')"."""
        return self._explicit().feature_names(self._tags(X))

    def _explicit(self) -> Any:
        if not hasattr(self.kernel, "features"):
            raise TypeError(
                f"TaggedTree has the features of its string kernel; {self.kernel} "
                "has none. Use Spectrum, WeightedSubstrings or Subsequence."
            )
        return self.kernel

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> TaggedTree:
        kernel = self.kernel.resolve(self._tags(X), weight)
        return self if kernel is self.kernel else TaggedTree(kernel, self.sort)

    def rule(self) -> Rule:
        return closed(self, "a Gram matrix of trees is that of their tags")


class _Forest:
    """The trees of X, then those of Y, with their labels numbered."""

    def __init__(self, kernel: Kernel, X: Points, Y: Points | None = None) -> None:
        self.trees = trees_of(kernel, X)
        self.n = len(self.trees)
        self.two_sets = Y is not None
        if self.two_sets:
            self.trees += trees_of(kernel, Y)
        m = len(self.trees) - self.n if self.two_sets else self.n
        self.shape = self.n, m
        self.shift = self.n if self.two_sets else 0

    @cached_property
    def packed(self) -> _core.Forest:
        return _core.Forest(self._labels, self._arity, self._start)

    @cached_property
    def leaf_counts(self) -> tuple[sp.csr_array, sp.csr_array]:
        """How often each label is that of a leaf: in trees of X, and of Y."""
        leaves = self._arity == 0
        owners = np.repeat(np.arange(len(self.trees)), np.diff(self._start))
        rows = owners[leaves]
        columns = self._labels[leaves]
        shape = len(self.trees), int(columns.max(initial=-1)) + 1
        counts = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
        return counts[: self.n], counts[self.shift :]

    def named(self, i: int) -> str:
        if i < self.n:
            return f"tree {i} of X" if self.two_sets else f"tree {i}"
        return f"tree {i - self.n} of Y"

    @cached_property
    def _labels(self) -> np.ndarray:
        return numbered(chain.from_iterable(tree.labels for tree in self.trees))

    @cached_property
    def _arity(self) -> np.ndarray:
        nodes = chain.from_iterable(tree.arity for tree in self.trees)
        return np.fromiter(nodes, dtype=np.int32)

    @cached_property
    def _start(self) -> np.ndarray:
        return np.cumsum([0, *(tree.size for tree in self.trees)], dtype=np.int64)


def trees_of(kernel: Kernel, X: Points) -> list[Tree]:
    """The points of X as trees."""
    trees = []
    for i, x in enumerate(objects(as_points(X))):
        try:
            trees.append(x if isinstance(x, Tree) else Tree(x))
        except (TypeError, ValueError) as error:
            what = describe(x)
            raise type(error)(
                f"{type(kernel).__name__} compares trees; point {i} is {what}. {error}"
            ) from error
    return trees


def check_share(kernel: Kernel, name: str, number: Any) -> None:
    """Refuse anything but a number in (0, 1]."""
    if not (is_finite(number) and 0 < number <= 1):
        raise ValueError(
            f"{type(kernel).__name__} needs 0 < {name} ≤ 1; got {name}={number!r}."
        )


def check_choice(kernel: Kernel, name: str, choice: object) -> None:
    """Refuse anything but True and False."""
    if not isinstance(choice, bool | np.bool_):
        raise TypeError(
            f"{type(kernel).__name__} needs {name}=True or False; got {choice!r}."
        )


def _plus(values: np.ndarray, more: np.ndarray, logarithm: bool) -> np.ndarray:
    if not logarithm:
        return values + more
    with np.errstate(divide="ignore"):
        return np.logaddexp(values, np.log(more))
