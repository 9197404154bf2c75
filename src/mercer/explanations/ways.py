"""The ways to take f apart: by features or items, coordinates, terms or points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.contributions.features import by_features, has_features
from mercer.contributions.models import Model, OnFeatures, OnPoints
from mercer.contributions.parts import Described, Found
from mercer.contributions.shapley import by_coordinates, has_coordinates
from mercer.data.checks import brief
from mercer.data.points import count, each, take
from mercer.explanations.functions import Function
from mercer.explanations.items import by_items, has_items, kind_of
from mercer.kernels.algebra import On
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Scaled, Sum
from mercer.maps import WITH_A_MAP, dense_columns

WAYS = ("features", "items", "coordinates", "terms", "points")
MOST_NUMBERS = 2**26  # of an explicit map that is made without being asked for


def found_by(function: Function, by: str | None, n: int) -> tuple[list[Found], str]:
    """The parts of each point, and what they are."""
    way = by or _way(function)
    if way == "mixed":
        found, way = _mixed(function.kernel, function.model, function, n), "terms"
    else:
        _check_way(way, function)
        found = _ROADS[way](function, n)
    squares = function.squares()
    if function.square:
        c = len(function.bias)
        found = [
            Found.joined([parts, Found.single("k(x, x)", np.full(c, square))])
            for parts, square in zip(found, squares.tolist(), strict=True)
        ]
    return found, way


def _way(function: Function) -> str:
    """The finest way that a kernel has."""
    kernel = function.kernel
    if isinstance(function.model, OnFeatures):
        return "features"
    if has_features(kernel):
        width = dense_columns(kernel, take(function.X, slice(0, 1))) or 0
        if width * (len(function.coef) + count(function.X)) <= MOST_NUMBERS:
            return "features"
        return "coordinates" if has_coordinates(kernel) else "points"
    terms = [term for _, term in _flat(kernel)]
    if len(terms) > 1 and (
        any(map(has_features, terms)) or not has_coordinates(kernel)
    ):
        return "mixed"
    return "coordinates" if has_coordinates(kernel) else "points"


def _check_way(way: str, function: Function) -> None:
    kernel = function.kernel
    placed = has_features(kernel) and has_items(kernel)
    there = [
        name
        for name, known in (
            ("features", has_features(kernel)),
            ("items", placed),
            ("coordinates", has_coordinates(kernel)),
            ("terms", True),
            ("points", True),
        )
        if known
    ]
    if isinstance(function.model, OnFeatures):
        there = ["features"] + ["items"] * has_items(kernel)
    if way in there:
        return
    what = {
        "features": f"Kernels with features: {WITH_A_MAP}.",
        "items": "Items are letters, nodes and atoms, which features of sequences, "
        "trees and graphs are made of.",
        "coordinates": "Kernels with coordinates: RBF, Laplacian, Exponential, "
        "ChiSquared, Spline, Linear, Intersection; On; their sums and products.",
    }.get(way, "The machine stands on features, not on points.")
    ways = " or ".join(f'by="{name}"' for name in there)
    raise ValueError(f'{kernel} cannot be taken apart by="{way}"; use {ways}. {what}')


def _features(function: Function, n: int) -> list[Found]:
    return by_features(function.kernel, function.model, function.X, n, function.columns)


def _items(function: Function, n: int) -> list[Found]:
    found = zip(_features(function, n), each(function.X), strict=True)
    bias, kind = function.bias, kind_of(function.kernel)
    return [by_items(parts, bias, point, kind) for parts, point in found]


def _coordinates(function: Function, n: int) -> list[Found]:
    assert isinstance(function.model, OnPoints)
    return by_coordinates(function.kernel, function.model, function.X, function.columns)


def _points(function: Function, n: int) -> list[Found]:
    model = function.model
    assert isinstance(model, OnPoints)
    out = []
    for i in range(count(function.X)):
        values = function.kernel(take(function.X, slice(i, i + 1)), model.points)[0]
        table = np.asarray(values, dtype=float)[:, None] * model.coef
        used = np.flatnonzero(table.any(axis=1))
        out.append(Found.of(table[used], _point_describer(function, used)))
    return out


def _point_describer(
    function: Function, used: np.ndarray
) -> Callable[[int], Described]:
    return lambda j: (function.names(int(used[j])), ())


def _terms(function: Function, n: int) -> list[Found]:
    model, X = function.model, function.X
    assert isinstance(model, OnPoints)
    terms = _flat(function.kernel)
    values = np.array(
        [scale * kernel.matmul(X, model.points, model.coef) for scale, kernel in terms]
    )
    names = [_term_name(kernel) for _, kernel in terms]
    return [Found.of(values[:, i], lambda j: (names[j], ())) for i in range(count(X))]


def _flat(kernel: Kernel, scale: float = 1.0) -> list[tuple[float, Kernel]]:
    """The terms of a sum, with their factors."""
    if isinstance(kernel, Sum):
        return _flat(kernel.left, scale) + _flat(kernel.right, scale)
    if isinstance(kernel, Scaled):
        return _flat(kernel.kernel, scale * float(kernel.factor))
    return [(scale, kernel)]


def _term_name(kernel: Kernel) -> str:
    if isinstance(kernel, On):
        return f"{kernel.field}: {brief(kernel.kernel)}"
    return brief(kernel)


def _mixed(kernel: Kernel, model: Model, function: Function, n: int) -> list[Found]:
    """The terms of a sum, each in the finest way that it has."""
    assert isinstance(model, OnPoints)
    per_term = []
    for scale, term in _flat(kernel):
        inner = model.scaled(scale)
        if has_features(term):
            found = by_features(term, inner, function.X, n, function.columns)
        elif has_coordinates(term):
            found = by_coordinates(term, inner, function.X, function.columns)
        else:
            values = term.matmul(function.X, inner.points, inner.coef)
            found = [Found.single(_term_name(term), value) for value in values]
        per_term.append(found)
    return [Found.joined(parts) for parts in zip(*per_term, strict=True)]


_ROADS: dict[str, Callable[[Function, int], list[Found]]] = {
    "features": _features,
    "items": _items,
    "coordinates": _coordinates,
    "terms": _terms,
    "points": _points,
}
