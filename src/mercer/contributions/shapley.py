"""Shapley values of the coordinates of x, exact, for kernels that are products of them.

A coordinate that is left out leaves the factor 1 of a product kernel, 0 of a linear
one: as if x agreed in it with every point of the expansion, or had none. The game of
Π_{j in S} aⱼ Π_{j not in S} bⱼ has the Shapley values (Owen's integral)

    (aⱼ - bⱼ) ∫₀¹ Π_{l ≠ j} (t a_l + (1 - t) b_l) dt,

of a polynomial of degree d - 1 in t, so Gauss's rule with ⌈d/2⌉ nodes is exact.
Multiplied out it is the sum over elementary symmetric polynomials of the factors with
the weights q! (d - q - 1)! / d!. O(n d²) for all of them, where subsets are 2^d.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.contributions.features import names_of_field
from mercer.contributions.models import OnPoints
from mercer.contributions.parts import Found, Place
from mercer.contributions.places import columns_of_field, single
from mercer.data.points import Points, as_points, column_names, count, field, vectors
from mercer.kernels.algebra import On
from mercer.kernels.base import Kernel
from mercer.kernels.coordinate import ChiSquared, Intersection, Spline
from mercer.kernels.operators import Constant, Power, Product, Scaled, Sum
from mercer.kernels.radial import RBF, Laplacian, Matern
from mercer.kernels.vector import Exponential, Linear, is_vectors

MOST_WORK = 1e10  # n · d² of one point
MOST_TERMS = 200  # products that a kernel is multiplied out into
BLOCK = 2**22  # factors at a time

Player = Hashable  # a column of vectors, or a field of records


@dataclass(frozen=True, eq=False)
class Term:
    """scale · Πⱼ factorⱼ for x and every point: the players in order, (n, p) factors.

    Parameters
    ----------
    absent : (p,) array, what each factor is where its player is left out: 0 or 1
    """

    players: tuple[Player, ...]
    factors: np.ndarray
    absent: np.ndarray
    scale: float = 1.0


def by_coordinates(
    kernel: Kernel, model: OnPoints, X: Points, columns: Sequence[str] | None = None
) -> list[Found]:
    """The Shapley values of the coordinates at each point of X.

    They and `base`, what f is where all are left out, sum to f without its bias.
    """
    X = as_points(X)
    names = list(columns) if columns is not None else None
    if names is None and is_vectors(X):
        names = column_names(X)
    return [_at(kernel, model, single(X, i), names) for i in range(count(X))]


def _at(
    kernel: Kernel, model: OnPoints, X: Points, names: Sequence[str] | None
) -> Found:
    values: dict[Player, np.ndarray] = {}
    base = np.zeros(model.coef.shape[1])
    for term in _terms(kernel, X, model.points):
        coef = term.scale * model.coef
        for player, value in zip(term.players, _owen(term, coef), strict=True):
            values[player] = values.get(player, 0.0) + value
        base += np.prod(term.absent) * coef.sum(axis=0)
    players = list(values)

    def described(j: int) -> tuple[str, tuple[Place, ...]]:
        player = players[j]
        known = names is not None and isinstance(player, int)
        text = names[player] if known else str(player)  # type: ignore[index, call-overload]
        return text, (Place((player,)),)

    table = np.array([values[p] for p in players]).reshape(len(players), len(base))
    return replace(Found.of(table, described), base=base)


def _owen(term: Term, coef: np.ndarray) -> np.ndarray:
    """The Shapley values of the players of one term, (p, c)."""
    n, p = term.factors.shape
    out = np.zeros((p, coef.shape[1]))
    if not p:
        return out
    if float(n) * p**2 > MOST_WORK:
        raise ValueError(
            f"Shapley values of {p:,} coordinates over {n:,} points take about "
            f'{n * p**2:.2g} steps, more than {MOST_WORK:.0g}. Use by="points", fewer '
            "columns, or Nystrom(kernel, size)."
        )
    nodes, weights = np.polynomial.legendre.leggauss((p + 1) // 2)
    step = max(1, BLOCK // max(1, p))
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        a = term.factors[rows]
        inner = np.zeros_like(a)
        for t, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            mixed = t * a + (1 - t) * term.absent
            inner += weight * _products_of_others(mixed)
        out += ((a - term.absent) * inner).T @ coef[rows]
    return out


def _products_of_others(factors: np.ndarray) -> np.ndarray:
    """Π_{l ≠ j} of each row, without a division: of those before times those after."""
    before, after = np.ones_like(factors), np.ones_like(factors)
    np.cumprod(factors[:, :-1], axis=1, out=before[:, 1:])
    after[:, :-1] = np.cumprod(factors[:, :0:-1], axis=1)[:, ::-1]
    return before * after


# Which kernels are products


def has_coordinates(kernel: Kernel) -> bool:
    """Whether `by_coordinates` can take f apart."""
    if isinstance(kernel, Sum | Product):
        return all(map(has_coordinates, kernel.children()))
    if isinstance(kernel, Scaled):
        return has_coordinates(kernel.kernel)
    if isinstance(kernel, Power):
        inner = kernel.kernel
        return has_coordinates(inner) and type(inner) in (*_PRODUCTS, On, Product)
    if isinstance(kernel, Matern):
        return float(kernel.nu) == np.inf
    single = Linear | Intersection | Constant | On
    return isinstance(kernel, single) or type(kernel) in _PRODUCTS


def _terms(kernel: Any, X: Points, points: Points) -> list[Term]:
    if isinstance(kernel, Sum):
        return _terms(kernel.left, X, points) + _terms(kernel.right, X, points)
    if isinstance(kernel, Scaled):
        inner = _terms(kernel.kernel, X, points)
        return [_rescaled(term, float(kernel.factor)) for term in inner]
    if isinstance(kernel, Product):
        left, right = (_terms(k, X, points) for k in (kernel.left, kernel.right))
        if len(left) * len(right) > MOST_TERMS:
            raise ValueError(
                f"{kernel} multiplied out has {len(left) * len(right):,} products; at "
                f'most {MOST_TERMS} are taken apart. Use by="points" or "features".'
            )
        return [_times(a, b) for a in left for b in right]
    if isinstance(kernel, Power):
        [term] = _terms(kernel.kernel, X, points)
        factors = term.factors ** int(kernel.exponent)
        scale = term.scale ** int(kernel.exponent)
        return [Term(term.players, factors, term.absent, scale)]
    if isinstance(kernel, Constant):
        none = np.empty((count(points), 0))
        return [Term((), none, np.empty(0), float(kernel.c))]
    if isinstance(kernel, On):
        return _of_field(kernel, X, points)
    x, Z = _rows(X, kernel)[0], _rows(points, kernel)
    if isinstance(kernel, Linear | Intersection):
        each = x * Z if isinstance(kernel, Linear) else np.minimum(x, Z)
        return [Term((j,), each[:, [j]], np.zeros(1)) for j in range(len(x))]
    factor = _matern if isinstance(kernel, Matern) else _PRODUCTS[type(kernel)]
    return [Term(tuple(range(len(x))), factor(kernel, x, Z), np.ones(len(x)))]


def _rows(X: Points, kernel: Kernel) -> np.ndarray:
    rows = vectors(X, type(kernel).__name__)
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=float)


def _rescaled(term: Term, factor: float) -> Term:
    return Term(term.players, term.factors, term.absent, factor * term.scale)


def _times(a: Term, b: Term) -> Term:
    """The product of two terms; a player in both has the product of its factors."""
    players = tuple(dict.fromkeys([*a.players, *b.players]))
    place = {player: j for j, player in enumerate(players)}
    factors, absent = np.ones((len(a.factors), len(players))), np.ones(len(players))
    for term in (a, b):
        columns = [place[player] for player in term.players]
        factors[:, columns] *= term.factors
        absent[columns] *= term.absent
    return Term(players, factors, absent, a.scale * b.scale)


def _of_field(kernel: On, X: Points, points: Points) -> list[Term]:
    """The columns of a field as players, or the field as one."""
    part, theirs = (field(as_points(Z), kernel.field) for Z in (X, points))
    where: Any = kernel.field
    if not (is_vectors(part) and has_coordinates(kernel.kernel)):
        block = np.asarray(kernel.kernel(part, theirs), dtype=float)
        whole = tuple(where) if isinstance(where, list) else where
        return [Term((whole,), block.T, np.ones(1))]
    found = columns_of_field(kernel, as_points(X))
    columns: list[Any] = names_of_field(kernel, X, part, None) if found is None else []
    columns = columns or list(found or [])
    out = []
    for term in _terms(kernel.kernel, part, theirs):
        players = tuple(columns[j] for j in term.players)  # type: ignore[call-overload]
        out.append(Term(players, term.factors, term.absent, term.scale))
    return out


def _rbf(kernel: RBF, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.exp(-np.asarray(kernel._resolved("gamma"), dtype=float) * (x - Z) ** 2)


def _laplacian(kernel: Laplacian, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    gamma = np.asarray(kernel._resolved("gamma"), dtype=float)
    return np.exp(-gamma * np.abs(x - Z))


def _matern(kernel: Matern, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.exp(-((x - Z) ** 2) / (2 * np.asarray(kernel.length, dtype=float) ** 2))


def _exponential(kernel: Exponential, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.exp(x * Z / float(kernel.scale))


def _chi_squared(kernel: ChiSquared, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    total = x + Z
    share = np.divide((x - Z) ** 2, total, out=np.zeros_like(total), where=total > 0)
    return np.exp(-float(kernel.gamma) * share)


def _spline(kernel: Spline, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return kernel.factors(x, Z)


_PRODUCTS: dict[type[Kernel], Callable[..., np.ndarray]] = {
    RBF: _rbf,
    Laplacian: _laplacian,
    Exponential: _exponential,
    ChiSquared: _chi_squared,
    Spline: _spline,
}
