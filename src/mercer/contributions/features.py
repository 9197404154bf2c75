"""f(x) by features: f(x) = Σⱼ wⱼ φⱼ(x), wherever the kernel has a map to write out.

Sums, multiples, normalised kernels and kernels on fields are taken apart from the
outside in. What is left is a kernel whose columns are written out, or one whose
features grow (`mercer.kernels.candidates`): of the latter only those that the point
itself has are looked at, and where these are too many, only the heaviest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.contributions.models import Model, OnPoints
from mercer.contributions.parts import Described, Found, moved, shared
from mercer.contributions.places import (
    MOST_PLACES,
    columns_of_field,
    finder,
    item_of_field,
    node_of_token,
    single,
)
from mercer.contributions.search import every, heaviest
from mercer.data.points import Points, as_points, column_names, concatenate, count
from mercer.data.points import field as field_of
from mercer.kernels.algebra import (
    Centered,
    Conformal,
    Normalized,
    On,
    PolynomialOf,
    Pullback,
)
from mercer.kernels.base import Kernel
from mercer.kernels.operators import Constant, Power, Product, Scaled, Sum
from mercer.kernels.tree import TaggedTree
from mercer.kernels.vector import PowerSeries, is_vectors
from mercer.kernels.ways import FeatureKernel
from mercer.maps import explicit

MOST_ENUMERATED = 10_000  # features of a point that are all listed, where they grow
FEWEST = 50  # that are found of a point with more, so that it can be coloured


def by_features(
    kernel: Kernel,
    model: Model,
    X: Points,
    most: int,
    columns: Sequence[str] | None = None,
) -> list[Found]:
    """The parts of f without its bias at each point of X, one for each feature.

    Parameters
    ----------
    most : of features that grow, how many of the heaviest are found where not all are
    columns : names for the coordinates of vectors; None for those of X
    """
    rule = _RULES.get(type(kernel))
    if rule is not None:
        return rule(kernel, model, as_points(X), most, columns)
    if hasattr(kernel, "candidates"):
        return _grown(kernel, model, as_points(X), most)
    return _written_out(kernel, model, as_points(X), columns)


def has_features(kernel: Kernel) -> bool:
    """Whether `by_features` can take f apart."""
    made = Sum | Product | Scaled | Power | PolynomialOf | Normalized | Conformal
    if isinstance(kernel, made | Centered | On | Pullback | TaggedTree):
        return all(map(has_features, kernel.children()))
    if isinstance(kernel, FeatureKernel | Constant | PowerSeries):
        return True
    return hasattr(kernel, "features") and hasattr(kernel, "feature_names")


# Columns that are written out


def _written_out(
    kernel: Kernel, model: Model, X: Points, columns: Sequence[str] | None
) -> list[Found]:
    weights = model.weights(kernel)
    found = explicit(kernel, X, columns)
    W = weights(found.keys)
    names: list[str] = []  # made once, when first asked for

    def named(j: int) -> str:
        if not names:
            names.extend(found.names())
        return names[j]

    out = []
    matrix = found.matrix
    for i in range(count(X)):
        if sp.issparse(matrix):
            part = slice(matrix.indptr[i], matrix.indptr[i + 1])
            chosen, entries = matrix.indices[part], matrix.data[part]
        else:
            chosen = np.flatnonzero(matrix[i])
            entries = matrix[i, chosen]
        values = entries[:, None] * W[chosen]
        used = values.any(axis=1)
        some = chosen[used]
        describer = _describer(kernel, single(X, i), found.keys, some, named)
        out.append(Found.of(values[used], describer))
    return out


def _describer(
    kernel: Kernel,
    X: Points,
    keys: Sequence[Any],
    chosen: np.ndarray,
    named: Callable[[int], str],
) -> Callable[[int], Described]:
    made: list[Any] = []

    def described(j: int) -> Described:
        if not made:
            made.append(finder(kernel, X))
        column = int(chosen[j])
        return named(column), made[0](keys[column])

    return described


# Features that grow


def _grown(kernel: Any, model: Model, X: Points, most: int) -> list[Found]:
    return [_grown_at(kernel, model, single(X, i), most) for i in range(count(X))]


def _grown_at(kernel: Any, model: Model, X: Points, most: int) -> Found:
    [x] = X
    text = isinstance(x, str)
    if isinstance(model, OnPoints):
        V = np.zeros((len(model.coef) + 1, model.coef.shape[1] + 1))
        V[:-1, :-1], V[-1, -1] = model.coef, 1.0
        points = concatenate(model.points, X)
        some = every(kernel.candidates(points, V), -1, MOST_ENUMERATED)
        if some is None:
            return _heaviest_at(kernel, model, X, points, V, most)
        parts = [(one.key, one.sums[:-1] * one.sums[-1]) for one in some]
    else:
        lookup = model.weights(kernel)
        some = every(kernel.candidates(X, np.ones((1, 1))), 0, MOST_ENUMERATED)
        if some is None:
            raise ValueError(
                f"A point has more than {MOST_ENUMERATED:,} features of {kernel}, too "
                "many to be told apart."
            )
        keys = [kernel.candidate_name(one.key, text) for one in some]
        parts = [
            (one.key, one.sums * weight)
            for one, weight in zip(some, lookup(keys), strict=True)
        ]
    return _listed(kernel, x, parts, model_outputs(model))


def model_outputs(model: Model) -> int:
    """c, the number of outputs."""
    return model.coef.shape[1] if isinstance(model, OnPoints) else model.outputs


def _heaviest_at(
    kernel: Any, model: OnPoints, X: Points, points: Points, V: np.ndarray, most: int
) -> Found:
    """The heaviest features of a point, and the sum of all others."""
    [x] = X
    c = model.coef.shape[1]
    chosen: dict[Any, np.ndarray] = {}
    most = max(most, FEWEST)
    for j in range(c):

        def score(weight: np.ndarray, j: int = j) -> float:
            return float(weight[j] * weight[-1])

        for one in heaviest(kernel.candidates(points, V), most, score, "explain"):
            chosen[one.key] = one.sums[:-1] * one.sums[-1]
    found = _listed(kernel, x, list(chosen.items()), c)
    whole = kernel.matmul(X, model.points, model.coef)[0]
    return replace(found, rest=whole - found.values.sum(axis=0))


def _listed(kernel: Any, x: Any, parts: list[Any], c: int) -> Found:
    parts = [(key, value) for key, value in parts if value.any()]
    text = isinstance(x, str)

    def described(j: int) -> Described:
        key = parts[j][0]
        places = shared(kernel.candidate_places(x, key, MOST_PLACES))
        return kernel.candidate_name(key, text), places

    values = np.array([value for _, value in parts]).reshape(len(parts), c)
    return Found.of(values, described)


# The algebra


def _sum(
    kernel: Sum, model: Model, X: Points, most: int, columns: Sequence[str] | None
) -> list[Found]:
    left = by_features(kernel.left, model.term(0), X, most, columns)
    right = by_features(kernel.right, model.term(1), X, most, columns)
    return [Found.joined(both) for both in zip(left, right, strict=True)]


def _scaled(
    kernel: Scaled, model: Model, X: Points, most: int, columns: Sequence[str] | None
) -> list[Found]:
    inner = model.scaled(float(kernel.factor))
    return by_features(kernel.kernel, inner, X, most, columns)


def _conformal(
    kernel: Conformal, model: Model, X: Points, most: int, columns: Sequence[str] | None
) -> list[Found]:
    if isinstance(model, OnPoints):
        model = model.times(kernel._factor(model.points)[:, None])
    found = by_features(kernel.kernel, model, X, most, columns)
    factors = kernel._factor(X).tolist()
    return [part.times(factor) for part, factor in zip(found, factors, strict=True)]


def _normalized(
    kernel: Normalized,
    model: Model,
    X: Points,
    most: int,
    columns: Sequence[str] | None,
) -> list[Found]:
    own = _lengths(kernel.kernel, X)
    if isinstance(model, OnPoints):
        model, nothing = inside_normalized(kernel, model)
    else:
        nothing = model.weights(kernel)([(None, "nothing")])[0]
    found = by_features(kernel.kernel, model, X, most, columns)
    # Points without any feature share one, so that k = 1 among them.
    return [
        part.times(1 / length) if length else Found.single("nothing", nothing)
        for part, length in zip(found, own.tolist(), strict=True)
    ]


def inside_normalized(
    kernel: Normalized, model: OnPoints
) -> tuple[OnPoints, np.ndarray]:
    """f on the kernel inside, and what points without any feature add to f at them."""
    own = _lengths(kernel.kernel, model.points)
    inverse = 1 / np.where(own > 0, own, np.inf)
    return model.times(inverse[:, None]), model.coef[own == 0].sum(axis=0)


def _lengths(kernel: Kernel, X: Points) -> np.ndarray:
    """‖φ(x)‖ of each point, refused where no float holds it."""
    logs = kernel.log_diag(X)
    if logs is None:
        found = np.sqrt(np.maximum(np.asarray(kernel.diag(X), dtype=float), 0))
        lost = ~np.isfinite(found)
    else:
        with np.errstate(over="ignore", under="ignore"):
            found = np.exp(logs / 2)
        lost = ~np.isfinite(found) | ((found == 0) & ~np.isneginf(logs))
    if lost.any():
        raise ValueError(
            f"The features of {kernel} at point {int(np.argmax(lost))} leave the range "
            'of numbers, though their cosines do not. Use by="points".'
        )
    return found


def _centered(
    kernel: Centered, model: Model, X: Points, most: int, columns: Sequence[str] | None
) -> list[Found]:
    if not isinstance(model, OnPoints):
        return _written_out(kernel, model, X, columns)
    coef = model.coef
    # ⟨Σ coefᵢ (φ(xᵢ) - μ), φ(x) - μ⟩: the μ beside φ(x) adds the same at all points.
    mean = coef.sum(axis=0) * kernel._square() - kernel._means(model.points) @ coef
    inner = inside_centered(kernel, model)
    found = by_features(kernel.kernel, inner, X, most, columns)
    last = Found.single("the mean of the reference points", mean)
    return [Found.joined([part, last]) for part in found]


def inside_centered(kernel: Centered, model: OnPoints) -> OnPoints:
    """Σ coefᵢ (φ(xᵢ) - μ) on the kernel inside: μ is an expansion on the reference."""
    shares = kernel._shares()[:, None] * -model.coef.sum(axis=0)
    return model.extended(as_points(kernel._resolved("reference")), shares)


def _on(
    kernel: On, model: Model, X: Points, most: int, columns: Sequence[str] | None
) -> list[Found]:
    where = kernel.field
    part = field_of(X, where)
    names = names_of_field(kernel, X, part, columns) if is_vectors(part) else None
    found = by_features(
        kernel.kernel, model.moved(lambda Z: field_of(Z, where)), part, most, names
    )
    out = []
    for i, some in enumerate(found):
        item = item_of_field(kernel, single(X, i))

        def change(described: Described, item: Any = item) -> Described:
            name, places = described
            text = name if names is not None else f"{name} of {where}"
            return text, moved(places, item)

        out.append(some.renamed(change))
    return out


def names_of_field(
    kernel: On, X: Points, part: Points, columns: Sequence[str] | None
) -> list[str]:
    """The names of the columns of a field of numbers."""
    where, chosen = kernel.field, columns_of_field(kernel, X)
    if chosen is not None:
        named = columns if columns is not None else column_names(X)
        return [str(named[j]) for j in chosen]
    several = where if isinstance(where, list) else [where]
    if len(several) == part.shape[1]:
        return [str(name) for name in several]
    return [f"{where}[{j}]" for j in range(part.shape[1])]


def _pullback(
    kernel: Pullback, model: Model, X: Points, most: int, columns: Sequence[str] | None
) -> list[Found]:
    image = kernel._image(X)
    return by_features(kernel.kernel, model.moved(kernel._image), image, most)


def _tagged(
    kernel: TaggedTree,
    model: Model,
    X: Points,
    most: int,
    columns: Sequence[str] | None,
) -> list[Found]:
    found = by_features(kernel.kernel, model.moved(kernel._tags), kernel._tags(X), most)
    out = []
    for i, some in enumerate(found):
        node = node_of_token(kernel, single(X, i))

        def change(described: Described, node: Any = node) -> Described:
            name, places = described
            return name, moved(places, node)

        out.append(some.renamed(change))
    return out


_RULES: dict[type[Kernel], Callable[..., list[Found]]] = {
    Sum: _sum,
    Scaled: _scaled,
    Conformal: _conformal,
    Normalized: _normalized,
    Centered: _centered,
    On: _on,
    Pullback: _pullback,
    TaggedTree: _tagged,
}
