"""What densities share: free coordinates of probabilities, EM, equality by value.

A density p(x | θ) is a value, like a kernel: a frozen dataclass whose parameters are
None until `fit` returns a copy that has them. θ are free coordinates, any real numbers:
a distribution (p₁, ..., pₛ) is given by its log-odds ln pⱼ / pₛ, a covariance by its
Cholesky factor with the logarithm of the diagonal. So the information
E[∇ ln p ∇ ln pᵀ] has an inverse.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mercer.data.checks import check_ending
from mercer.data.copies import same_value
from mercer.data.points import Points, as_points, count
from mercer.native.interruptible import elementwise

Model = TypeVar("Model")
Statistics = TypeVar("Statistics")

FEW = 10  # components or states that may be more than there are observations


class Fit(NamedTuple):
    """How a fit went: the objective after each step, and whether it converged.

    `path` is Σᵢ weightᵢ ln p(xᵢ) plus the logarithm of the smoothing's prior, once per
    step; it never falls.

    Examples
    --------
    >>> from mercer.densities import GaussianMixture
    >>> model = GaussianMixture(2).fit([[0.0], [1.0], [9.0], [10.0]])
    >>> model.report.converged, model.report.path[-1] >= model.report.path[0]
    (True, True)
    """

    path: tuple[float, ...]
    converged: bool

    @property
    def n_iter(self) -> int:
        """The number of steps."""
        return len(self.path) - 1


class Value:
    """A dataclass that is equal to another of equal parameters, arrays included."""

    __hash__ = None  # type: ignore[assignment]  # arrays have none either

    def _settings(self) -> dict[str, Any]:
        parts = fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return {part.name: getattr(self, part.name) for part in parts if part.compare}

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self._settings(), other._settings()
        return all(same_value(mine[name], theirs[name]) for name in mine)

    def __repr__(self) -> str:
        settings = {
            part.name: getattr(self, part.name)
            for part in fields(self)  # type: ignore[arg-type]
            if part.compare and not same_value(getattr(self, part.name), part.default)
        }
        inside = ", ".join(f"{name}={_short(s)}" for name, s in settings.items())
        return f"{type(self).__name__}({inside})"


class Density(Value, ABC):
    """p(x | θ): `fit`, `log_likelihood`, `score`, `sample`, and θ itself.

    Examples
    --------
    >>> from mercer.densities import Density, Gaussian
    >>> model = Gaussian().fit([[0.0], [2.0]])
    >>> isinstance(model, Density), model.log_likelihood([[1.0]]).round(4).tolist()
    (True, [-0.9189])
    >>> model.score([[3.0]]).round(4).tolist()  # by the mean and by ln σ
    [[2.0, 3.0]]
    """

    missing: ClassVar[bool] = False  # whether points are vectors that may have NaN

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether all parameters are known."""

    @abstractmethod
    def fit(self, X: Points, weight: npt.ArrayLike | None = None) -> Density:
        """The density of this family that is likeliest to have made X.

        Parameters
        ----------
        weight : how often each point counts, n numbers ≥ 0; None for once
        """

    @abstractmethod
    def log_likelihood(self, X: Points) -> np.ndarray:
        """ln p(xᵢ | θ), n numbers; -inf where a point is impossible."""

    @abstractmethod
    def score(self, X: Points) -> np.ndarray:
        """∇ ln p(xᵢ | θ) with respect to θ, (n, p)."""

    @abstractmethod
    def sample(self, n: int, seed: int = 0) -> Any:
        """n points drawn from the density."""

    @property
    @abstractmethod
    def theta(self) -> np.ndarray:
        """θ, the p free coordinates of the parameters."""

    @abstractmethod
    def at(self, theta: npt.ArrayLike) -> Density:
        """The density of this family with other coordinates."""

    @abstractmethod
    def names(self) -> list[str]:
        """What each coordinate of θ is."""

    def information(self) -> np.ndarray | None:
        """I = E[∇ ln p ∇ ln pᵀ], (p, p), or None where it has no closed form."""
        return None

    def _check_fitted(self) -> None:
        if not self.fitted:
            name = type(self).__name__
            raise ValueError(
                f"{self!r} has no parameters yet: use what {name}.fit(X) returns, or "
                "pass all of them."
            )


def expectation_maximisation(
    first: Model,
    expect: Callable[[Model], tuple[float, Statistics]],
    maximise: Callable[[Model, Statistics], Model],
    total: float,
    tol: float,
    max_iter: int,
) -> tuple[Model, Fit]:
    """EM from `first`: (model, Fit), when a step gains less than tol · total.

    `expect(model)` gives the objective and statistics, `maximise(model, statistics)`
    the next model.
    """
    model, path = first, []
    while True:
        objective, statistics = expect(model)
        path.append(float(objective))
        converged = len(path) > 1 and path[-1] - path[-2] <= tol * total
        if converged or len(path) > max_iter:
            return model, Fit(tuple(path), bool(converged))
        model = maximise(model, statistics)


def added(sums: list[np.ndarray] | None, parts: list[np.ndarray]) -> list[np.ndarray]:
    """Two lists of arrays, added; None is a list of zeros."""
    return parts if sums is None else [a + b for a, b in zip(sums, parts, strict=True)]


def run_sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sums over values[offsets[r] : offsets[r + 1]], for each run r."""
    out = np.zeros((len(offsets) - 1, *values.shape[1:]))
    begins = offsets[:-1][np.diff(offsets) > 0]
    if len(begins):  # of an empty run reduceat would return a row of the next one
        out[np.diff(offsets) > 0] = np.add.reduceat(values, begins)
    return out


def draw(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One cell of each row, by its probability."""
    cumulative = np.cumsum(probabilities, axis=1)
    level = rng.random(len(probabilities)) * cumulative[:, -1]
    return (cumulative <= level[:, None]).sum(axis=1)


# Free coordinates of probabilities: rows of an array, each of sum 1


def free_cells(probabilities: np.ndarray) -> np.ndarray:
    """Where log-odds are free: all positive cells but the last of each row."""
    positive = probabilities > 0
    later = np.flip(np.cumsum(np.flip(positive, -1), axis=-1), -1)
    return positive & (later > 1)


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """ln pⱼ / p_last for the free cells, in order."""
    logs = logarithms(probabilities)
    return (logs - _last(logs, probabilities))[free_cells(probabilities)]


def from_log_odds(theta: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Probabilities with these log-odds; zeros stay where they are."""
    logs = np.where(probabilities > 0, 0.0, -np.inf)
    logs[free_cells(probabilities)] = theta
    powers = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def log_odds_score(counts: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The gradient of Σ counts · ln p in log-odds: counts - p · their sum, (n, p)."""
    surplus = counts - probabilities * counts.sum(axis=-1, keepdims=True)
    return surplus[:, free_cells(probabilities)]


def log_odds_information(counts: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """E of the scores' outer product where row r is drawn from counts[r] times."""
    rows, cells = np.nonzero(free_cells(probabilities))
    p = probabilities[rows, cells]
    same = rows[:, None] == rows
    return counts[rows][:, None] * (np.diag(p) - np.where(same, np.outer(p, p), 0.0))


def _last(values: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The value at the last positive cell of each row."""
    size = probabilities.shape[-1]
    last = size - 1 - np.argmax(np.flip(probabilities > 0, -1), axis=-1)
    return np.take_along_axis(values, last[..., None], axis=-1)


def logarithms(probabilities: npt.ArrayLike) -> np.ndarray:
    """ln p, with ln 0 = -inf."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def shares(counts: np.ndarray, old: np.ndarray, smoothing: float) -> np.ndarray:
    """Counts as probabilities, `smoothing` added to each cell that is not fixed at 0.

    Where nothing was counted the old ones stay.
    """
    return elementwise(partial(_shares, smoothing), counts, old)


def _shares(smoothing: float, counts: np.ndarray, old: np.ndarray) -> np.ndarray:
    counts = np.where(old > 0, counts + smoothing, 0.0)
    totals = counts.sum(axis=-1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), old)


def log_prior(probabilities: np.ndarray, smoothing: float) -> float:
    """smoothing · Σ ln p over the positive cells."""
    return smoothing * float(np.log(probabilities[probabilities > 0]).sum())


# Where EM begins


def first_labels(
    rows: np.ndarray, k: int, rng: np.random.Generator, weight: np.ndarray
) -> np.ndarray:
    """One of k clusters for each row: spread-out centres, then some rounds of k-means.

    A row of weight 2 counts as two rows next to each other.
    """
    scale = np.sqrt(np.average(rows**2, axis=0, weights=weight))
    rows = rows / np.where(scale > 0, scale, 1)
    chosen = [_drawn(weight, rng)]
    near = np.full(len(rows), np.inf)  # squared distances to the nearest centre
    while len(chosen) < k:
        near = np.minimum(near, _squares(rows, rows[chosen[-1:]])[:, 0])
        far = near * weight
        chosen.append(_drawn(far if far.any() else weight, rng))
    centres = rows[chosen]
    for _ in range(20):
        labels = np.argmin(_squares(rows, centres), axis=1)
        members = (labels[:, None] == np.arange(k)) * weight[:, None]
        totals = members.sum(axis=0)[:, None]
        moved = np.where(
            totals > 0, members.T @ rows / np.maximum(totals, 1e-300), centres
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    return labels


def _drawn(weight: np.ndarray, rng: np.random.Generator) -> int:
    cumulative = np.cumsum(weight)
    index = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
    return min(int(index), len(weight) - 1)


def _squares(rows: np.ndarray, centres: np.ndarray) -> np.ndarray:
    cross = rows @ centres.T
    return np.maximum((rows**2).sum(1)[:, None] - 2 * cross + (centres**2).sum(1), 0)


# Checks


def checked_weight(X: Points, weight: npt.ArrayLike | None, who: str) -> np.ndarray:
    """n numbers ≥ 0, not all 0."""
    n = count(as_points(X))
    if n == 0:
        raise ValueError(f"{who}.fit needs at least one point; got none.")
    needs = f"{who}.fit needs one weight ≥ 0 for each of the {n} points, not all 0"
    check_ending(weight, needs)
    weights = np.ones(n) if weight is None else np.asarray(weight, dtype=float)
    if (
        weights.shape != (n,)
        or not (weights >= 0).all()
        or not 0 < weights.sum() < math.inf
    ):
        raise ValueError(f"{needs}; got weights of shape {weights.shape}.")
    return weights


def check_enough(who: str, name: str, wanted: int, observed: int) -> None:
    """Refuse more parts than there is anything to fit them to.

    Smoothing can replace the points that a few parts lack; a billion such parts would
    take too long, and mean nothing.
    """
    if wanted > max(observed, FEW):
        raise ValueError(
            f"{who}.fit needs {name} up to the number of observations; got {name}="
            f"{wanted} for {observed}. Lower {name}, or pass the parameters to start "
            "from."
        )


def check_distributions(
    who: str, name: str, probabilities: npt.ArrayLike | None
) -> None:
    """Refuse rows that are not distributions."""
    if probabilities is None:
        return
    rows = np.asarray(probabilities, dtype=float)
    if (
        rows.size == 0
        or not (rows >= 0).all()
        or not np.allclose(rows.sum(-1), 1, atol=1e-8)
    ):
        raise ValueError(
            f"{who} needs {name} of numbers ≥ 0 that sum to 1 in each row; got "
            f"{name}={_short(probabilities)}."
        )


def check_options(
    who: str, smoothing: object, tol: object, max_iter: object, seed: object = 0
) -> None:
    """Refuse options of a fit that mean nothing."""
    for name, number in (("smoothing", smoothing), ("tol", tol)):
        if not (isinstance(number, numbers.Real) and 0 <= float(number) < math.inf):
            raise ValueError(f"{who} needs {name} ≥ 0; got {name}={number!r}.")
    check_count(who, "max_iter", max_iter, 0)
    check_count(who, "seed", seed, 0)


def check_count(who: str, name: str, number: Any, least: int) -> None:
    """Refuse anything but a whole number ≥ least."""
    whole = isinstance(number, numbers.Integral) and not isinstance(number, bool)
    if not (whole and number >= least):
        raise ValueError(
            f"{who} needs a whole number {name} ≥ {least}; got {name}={number!r}."
        )


def check_possible(who: str, log_likelihood: np.ndarray) -> None:
    """Refuse points of probability 0: ln p has no gradient there."""
    impossible = np.flatnonzero(np.isneginf(log_likelihood))
    if len(impossible):
        raise ValueError(
            f"{who} gives point {impossible[0]} the probability 0, where ln p has no "
            "gradient. Fit with smoothing > 0, or leave the point out."
        )


def check_coordinates(who: str, theta: npt.ArrayLike, p: int) -> np.ndarray:
    """θ as p numbers."""
    values = np.asarray(theta, dtype=float)
    if values.shape != (p,):
        raise ValueError(f"{who} has {p} free coordinates; got shape {values.shape}.")
    return values


def _short(setting: object) -> str:
    """A parameter as in a constructor call; much data by its size."""
    if isinstance(setting, np.ndarray):
        if setting.size > 16:
            return f"<{' × '.join(map(str, setting.shape))} {setting.dtype}>"
        setting = setting.tolist()
    text = repr(setting)
    if len(text) <= 200 or not isinstance(setting, list | tuple | dict):
        return text
    return f"<{type(setting).__name__} of {len(setting)}>"
