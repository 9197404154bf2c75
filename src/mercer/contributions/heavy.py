"""The heaviest features of f = ⟨w, φ(·)⟩: those with the largest |wⱼ|."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mercer.contributions.features import (
    inside_centered,
    inside_normalized,
    names_of_field,
)
from mercer.contributions.models import OnPoints
from mercer.contributions.search import heaviest
from mercer.data.points import Points, as_points, objects
from mercer.data.points import field as field_of
from mercer.kernels.algebra import Centered, Conformal, Normalized, On, Pullback
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Scaled, Sum
from mercer.kernels.tree import TaggedTree
from mercer.kernels.vector import is_vectors
from mercer.maps import FeatureExpansion, explicit

Weighted = list[tuple[str, float]]  # names and weights, the heaviest first


def heaviest_features(
    f: Any, n: int, columns: Sequence[str] | None = None
) -> list[Weighted]:
    """For each output of an expansion, its n features with the largest |weight|.

    Of features that grow (subsequences, substrings of all lengths, fragments of trees)
    only beginnings are looked at whose bound is high enough.

    Parameters
    ----------
    columns : names for the coordinates of vectors; None for those of the points
    """
    if isinstance(f, FeatureExpansion):
        weights = f.coef.reshape(len(f.keys), f.n_outputs)
        return [_sorted(list(f.names), column, n) for column in weights.T]
    model = OnPoints(f.points, f.coef.reshape(len(f.coef), f.n_outputs))
    return _of(f.kernel, model, n, columns)


def _of(
    kernel: Kernel, model: OnPoints, n: int, columns: Sequence[str] | None
) -> list[Weighted]:
    rule = _RULES.get(type(kernel))
    if rule is not None:
        return rule(kernel, model, n, columns)
    if hasattr(kernel, "candidates"):
        return _searched(kernel, model, n)
    found = explicit(kernel, model.points, columns)
    weights = np.asarray(found.matrix.T @ model.coef)
    names = found.names()
    return [_sorted(names, column, n) for column in weights.T]


def _sorted(names: Sequence[str], weights: np.ndarray, n: int) -> Weighted:
    order = np.argsort(-np.abs(weights), kind="stable")[:n]
    return [(names[j], float(weights[j])) for j in order.tolist() if weights[j]]


def _searched(kernel: Any, model: OnPoints, n: int) -> list[Weighted]:
    text = all(isinstance(x, str) for x in objects(as_points(model.points)))
    out = []
    for column in model.coef.T:
        candidates = kernel.candidates(model.points, column[:, None])
        found = heaviest(candidates, n, lambda w: float(w[0]), "top_features")
        some = [
            (kernel.candidate_name(one.key, text), float(one.sums[0])) for one in found
        ]
        out.append(_first(some, n))
    return out


def _first(some: Weighted, n: int) -> Weighted:
    return sorted(some, key=lambda pair: (-abs(pair[1]), pair[0]))[:n]


# The algebra


def _sum(
    kernel: Sum, model: OnPoints, n: int, columns: Sequence[str] | None
) -> list[Weighted]:
    left = _of(kernel.left, model, n, columns)
    right = _of(kernel.right, model, n, columns)
    return [_first(a + b, n) for a, b in zip(left, right, strict=True)]


def _scaled(
    kernel: Scaled, model: OnPoints, n: int, columns: Sequence[str] | None
) -> list[Weighted]:
    root = np.sqrt(float(kernel.factor))
    return _of(kernel.kernel, model.times(root), n, columns)


def _conformal(
    kernel: Conformal, model: OnPoints, n: int, columns: Sequence[str] | None
) -> list[Weighted]:
    factors = kernel._factor(model.points)[:, None]
    return _of(kernel.kernel, model.times(factors), n, columns)


def _normalized(
    kernel: Normalized, model: OnPoints, n: int, columns: Sequence[str] | None
) -> list[Weighted]:
    inner, nothing = inside_normalized(kernel, model)
    found = _of(kernel.kernel, inner, n, columns)
    return [
        _first([*some, ("nothing", weight)], n) if weight else some
        for some, weight in zip(found, nothing.tolist(), strict=True)
    ]


def _centered(
    kernel: Centered, model: OnPoints, n: int, columns: Sequence[str] | None
) -> list[Weighted]:
    return _of(kernel.kernel, inside_centered(kernel, model), n, columns)


def _on(
    kernel: On, model: OnPoints, n: int, columns: Sequence[str] | None
) -> list[Weighted]:
    X, where = model.points, kernel.field
    part = field_of(X, where)
    names = names_of_field(kernel, X, part, columns) if is_vectors(part) else None
    inner = _of(kernel.kernel, OnPoints(part, model.coef), n, names)
    if names is not None:
        return inner
    return [[(f"{name} of {where}", w) for name, w in some] for some in inner]


def _moved(
    image: Callable[[Any], Callable[[Points], Points]],
) -> Callable[..., list[Weighted]]:
    def rule(
        kernel: Any, model: OnPoints, n: int, columns: Sequence[str] | None
    ) -> list[Weighted]:
        return _of(kernel.kernel, model.moved(image(kernel)), n, None)

    return rule


_RULES: dict[type[Kernel], Callable[..., list[Weighted]]] = {
    Sum: _sum,
    Scaled: _scaled,
    Conformal: _conformal,
    Normalized: _normalized,
    Centered: _centered,
    On: _on,
    Pullback: _moved(lambda kernel: kernel._image),
    TaggedTree: _moved(lambda kernel: kernel._tags),
}
