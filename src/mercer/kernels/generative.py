"""Kernels from a density: points are compared by the gradient of their log-likelihood.

Fisher(model)            V(x)ᵀ I⁻¹ V(y), V = ∇ ln p(x | θ), I = E[V Vᵀ]
Natural(model, metric)   V(x)ᵀ M⁻¹ V(y)

Jaakkola and Haussler, Exploiting generative models in discriminative classifiers
(1999). Built-in densities are in `mercer.densities`; any object will do that has

    log_likelihood(X)    ln p(xᵢ | θ) for a dataset, n numbers
    score(X)             ∇ ln p(xᵢ | θ), (n, p); or, for numerical derivatives,
    theta, at(theta)     the p parameters, and the same density with others

and, where it is asked for, information() or sample(n, seed), fit(X), names().
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from mercer.data.checks import describe
from mercer.data.points import Points, as_points, count, take
from mercer.densities.gaussian import GaussianMixture
from mercer.kernels.base import Rule
from mercer.kernels.checks import Range, check_whole, is_finite, is_number
from mercer.kernels.ways import FeatureKernel
from mercer.native.sparsity import Vectors

_ROWS = 256  # points whose features are computed together, near the processor
_BLOCK = 1000  # points drawn from a model, scored at a time
_STEP = 1e-3  # of numerical derivatives of fourth order


class Information(NamedTuple):
    """I = E[V Vᵀ] as it is used, (p, p), and the standard error of each entry.

    The error is 0 for a closed form and for a matrix that was given; `samples` is the
    number of points drawn from the model.

    Examples
    --------
    >>> from mercer import Fisher
    >>> from mercer.densities import Gaussian
    >>> k = Fisher(Gaussian(mean=[0.0], covariance=[[4.0]]))
    >>> used = k.information_used()
    >>> used.matrix.round(4).tolist(), used.samples
    ([[0.25, 0.0], [0.0, 2.0]], 0)
    """

    matrix: np.ndarray
    standard_error: np.ndarray
    samples: int


class ScoreKernel(FeatureKernel):
    """k(x, y) = V(x)ᵀ M⁻¹ V(y) = ⟨F⁻¹V(x), F⁻¹V(y)⟩ with M = FFᵀ: fill in `_metric`.

    Its features are F⁻¹V, F the lower Cholesky factor: feature j is the j-th
    derivative minus its regression on those before it, over its standard deviation,
    as if M were the covariance of V.
    """

    model: Any

    @abstractmethod
    def _metric(self) -> np.ndarray:
        """M, (p, p)."""

    def features(self, X: Points) -> Vectors:
        kept = self._kept()
        scores = score(_density(self.model), X)
        if scores.shape[1] != len(kept):
            raise ValueError(
                f"{type(self).__name__} has a matrix for {len(kept)} parameters; the "
                f"model's score has {scores.shape[1]}."
            )
        return _solved(kept, scores)

    def feature_names(self, X: Points | None = None) -> list[str]:
        """The coordinate of θ that each column of `features(X)` adds."""
        density = _density(self._known())
        if hasattr(density, "names"):
            return list(density.names())
        return [f"θ{j}" for j in range(len(self._kept()))]

    @property
    def missing(self) -> bool:
        """Whether points may have missing values (NaN): as the model states."""
        return _of_sklearn(self.model) or bool(getattr(self.model, "missing", False))

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Self:
        if _fitted(self.model):
            return self
        return type(self)(
            **(self._parameters() | {"model": _fit(self.model, X, weight)})
        )

    def rule(self) -> Rule:
        return Rule(
            True, "an inner product of gradients ∇ ln p under a positive definite M⁻¹"
        )

    def _known(self) -> Any:
        """The model, which must be fitted."""
        if not _fitted(self.model):
            kind = type(self).__name__
            raise ValueError(
                f"{kind} has a model that learns from data, {self.model!r}: call "
                f"{kind}(...).resolve(X) first, or pass what model.fit(X) returns."
            )
        return self.model

    def _kept(self) -> np.ndarray:
        """F, computed once: models are values, and so are kernels."""
        kept = self.__dict__.get("_factor")
        if kept is None:
            self._known()
            kept = self.__dict__["_factor"] = self._factored(self._metric())
        return kept

    def _factored(self, matrix: np.ndarray) -> np.ndarray:
        """The lower F with FFᵀ = matrix."""
        scale = np.sqrt(np.diagonal(matrix))
        none = np.flatnonzero(~(scale > 0))
        if len(none) == 0:
            # Eigenvalues are compared with rounding, so without the coordinates' units.
            units = matrix / np.outer(scale, scale)
            low = np.linalg.eigvalsh(units)[0]
            if low > len(units) * np.finfo(float).eps:
                return scale[:, None] * _cholesky(units)
        names = self.feature_names() if hasattr(self.model, "names") else []
        which = f" Nothing is known of {names[none[0]]}." if len(none) and names else ""
        raise ValueError(
            f"{type(self).__name__} needs an invertible information of the "
            f"{len(matrix)} parameters of the model; this one is singular.{which} "
            "Take more points than parameters, or a model with fewer; or "
            "Natural(model), which needs none."
        )

    def __sklearn_clone__(self) -> Self:
        # scikit-learn clones parameters, and a clone of its mixtures is not fitted.
        return copy.copy(self)


@dataclass
class Fisher(ScoreKernel):
    """k(x, y) = V(x)ᵀ I⁻¹ V(y), V(x) = ∇ ln p(x | θ), the Fisher kernel.

    It does not depend on the coordinates θ of the density. A model without parameters
    is fitted by `resolve`.

    Parameters
    ----------
    model : `Gaussian`, `GaussianMixture`, `MarkovChain`, `HMM`, scikit-learn's
        GaussianMixture, or any object with `log_likelihood`, as at the top of this file
    information : I = E[V Vᵀ]: "model", under the model, in closed form or by drawing
        points; "empirical", the mean over the points of `resolve`; or a (p, p) matrix
    samples : how many points to draw where there is no closed form
    seed : of those draws

    Examples
    --------
    >>> from mercer import Fisher
    >>> from mercer.densities import Gaussian
    >>> k = Fisher(Gaussian(mean=[0.0], covariance=[[1.0]]))
    >>> round(k.value([1.0], [2.0]), 4)
    2.0
    """

    model: Any
    information: Any = "model"
    samples: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        _check_model(self, self.model)
        check_whole(self, "samples", self.samples, least=2)
        check_whole(self, "seed", self.seed, least=0)
        if isinstance(self.information, str):
            if self.information not in ("model", "empirical"):
                raise ValueError(
                    "Fisher needs information='model', 'empirical' or a matrix; got "
                    f"information={self.information!r}."
                )
        else:
            _check_definite(self, "information", self.information)

    def resolve(self, X: Points, weight: np.ndarray | None = None) -> Fisher:
        fitted = super().resolve(X, weight)
        if not (isinstance(self.information, str) and self.information == "empirical"):
            return fitted
        scores = score(_density(fitted.model), X)
        share = np.ones(len(scores)) if weight is None else np.asarray(weight, float)
        matrix = (scores * (share / share.sum())[:, None]).T @ scores
        matrix = (matrix + matrix.T) / 2
        fitted._factored(matrix)  # says what is wrong with it
        return Fisher(fitted.model, matrix, self.samples, self.seed)

    def information_used(self) -> Information:
        """I, the standard error of its entries, and how many points were drawn."""
        self._known()
        if not isinstance(self.information, str):
            matrix = np.asarray(self.information, dtype=float)
            return Information(matrix, np.zeros_like(matrix), 0)
        if self.information == "empirical":
            raise ValueError(
                "Fisher(information='empirical') learns the information from data: "
                "call Fisher(...).resolve(X) first, or pass a matrix."
            )
        density = _density(self.model)
        exact = density.information() if hasattr(density, "information") else None
        if exact is not None:
            exact = np.asarray(exact, dtype=float)
            return Information(exact, np.zeros_like(exact), 0)
        return drawn_information(density, self.samples, self.seed)

    def _metric(self) -> np.ndarray:
        return self.information_used().matrix


@dataclass
class Natural(ScoreKernel):
    """k(x, y) = V(x)ᵀ M⁻¹ V(y), V(x) = ∇ ln p(x | θ), the natural kernel.

    M the information gives `Fisher`, M = 1 the plain product of scores. Unlike Fisher
    it depends on the coordinates θ.

    Parameters
    ----------
    model : as in `Fisher`
    metric : M, a positive definite (p, p) matrix, or a number > 0 on its diagonal

    Examples
    --------
    >>> from mercer import Natural
    >>> from mercer.densities import Gaussian
    >>> k = Natural(Gaussian(mean=[0.0], covariance=[[1.0]]), metric=1.0)
    >>> round(k.value([1.0], [2.0]), 4)
    2.0
    """

    smooth = Range.positive("metric", optional=True)

    model: Any
    metric: Any = 1.0

    def __post_init__(self) -> None:
        _check_model(self, self.model)
        if is_number(self.metric):
            if not (is_finite(self.metric) and self.metric > 0):
                raise ValueError(
                    f"Natural needs metric > 0; got metric={self.metric!r}."
                )
        else:
            _check_definite(self, "metric", self.metric)

    def _metric(self) -> np.ndarray:
        if not is_number(self.metric):
            return np.asarray(self.metric, dtype=float)
        return float(self.metric) * np.eye(_width(_density(self.model)))


# Number by number instead of by LAPACK: the features of a point must not depend on
# the other points, nor on the processor, or equal points could have different ones.


def _cholesky(matrix: np.ndarray) -> np.ndarray:
    """The lower F with FFᵀ = matrix, a column at a time."""
    F = np.tril(matrix)
    for j in range(len(F)):
        F[j, j] = np.sqrt(F[j, j])
        F[j + 1 :, j] /= F[j, j]
        below = np.flatnonzero(F[j + 1 :, j]) + j + 1
        F[np.ix_(below, below)] -= np.tril(np.multiply.outer(F[below, j], F[below, j]))
    return F


def _solved(F: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The rows F⁻¹v for the rows v of V, by substitution."""
    out = np.empty(V.shape)
    for start in range(0, len(V), _ROWS):
        part = np.array(V[start : start + _ROWS].T, order="C")
        for j in range(len(F)):
            part[j] /= F[j, j]
            below = np.flatnonzero(F[j + 1 :, j]) + j + 1
            if len(below) == len(F) - j - 1:
                part[j + 1 :] -= F[j + 1 :, j, None] * part[j]
            elif len(below):
                part[below] -= F[below, j, None] * part[j]
        out[start : start + _ROWS] = part.T
    return out


def drawn_information(density: Any, samples: int, seed: int) -> Information:
    """The mean of V Vᵀ over points drawn from the density, and its standard error."""
    if not hasattr(density, "sample"):
        raise ValueError(
            f"Fisher(information='model') needs a model with information() or "
            f"sample(n, seed); {describe(density)} has neither. Pass "
            "information='empirical', or a matrix."
        )
    X = as_points(density.sample(samples, seed))
    total, squares = np.zeros(()), np.zeros(())
    for start in range(0, samples, _BLOCK):
        V = score(density, take(X, slice(start, start + _BLOCK)))
        total = total + V.T @ V
        squares = squares + (V**2).T @ V**2
    mean = (total + total.T) / (2 * samples)
    error = np.sqrt(np.maximum(squares / samples - mean**2, 0) / (samples - 1))
    return Information(mean, error, samples)


def score(density: Any, X: Points) -> np.ndarray:
    """∇ ln p(xᵢ | θ), (n, p): the density's own, or numerical."""
    X = as_points(X)
    if not hasattr(density, "score"):
        return _numerical_score(density, X)
    V = np.asarray(density.score(X), dtype=float)
    if V.ndim != 2 or len(V) != count(X):
        raise ValueError(
            f"The score of a model takes a whole dataset and must return one row per "
            f"point, ({count(X)}, p); that of {describe(density)} returned shape "
            f"{V.shape}."
        )
    return _finite(V)


def _numerical_score(density: Any, X: Points) -> np.ndarray:
    """Central differences of fourth order in every coordinate of θ."""
    theta = np.array(density.theta, dtype=float)
    V = np.empty((count(X), len(theta)))
    for j, centre in enumerate(theta):
        h = _STEP * max(1.0, abs(centre))
        slope = np.zeros(count(X))
        for factor, steps in ((8, 1), (-1, 2)):
            for sign in (1, -1):
                moved = theta.copy()
                moved[j] = centre + sign * steps * h
                slope = slope + sign * factor * _log_likelihood(density.at(moved), X)
        V[:, j] = slope / (12 * h)
    return _finite(V)


def _log_likelihood(density: Any, X: Points) -> np.ndarray:
    values = np.asarray(density.log_likelihood(X), dtype=float)
    if values.shape != (count(X),):
        raise ValueError(
            "log_likelihood of a model takes a whole dataset and must return one "
            f"number per point, ({count(X)},); that of {describe(density)} returned "
            f"shape {values.shape}."
        )
    return values


def _finite(V: np.ndarray) -> np.ndarray:
    bad = ~np.isfinite(V).all(axis=1)
    if bad.any():
        raise ValueError(
            f"The model has no finite ∇ ln p at point {int(np.argmax(bad))}: it is "
            "impossible there, or not smooth."
        )
    return V


def _width(density: Any) -> int:
    """p, the number of parameters."""
    theta = getattr(density, "theta", None)
    if theta is None:
        raise ValueError(
            f"Natural(metric=number) needs a model that says how many parameters it "
            f"has by theta; {describe(density)} has none. Pass a (p, p) matrix."
        )
    return len(theta)


# Models of other kinds


def _of_sklearn(model: Any) -> bool:
    """Whether it is scikit-learn's mixture, fitted or not, frozen or not."""
    return hasattr(model, "covariance_type") and hasattr(model, "score_samples")


def _density(model: Any) -> Any:
    return GaussianMixture.from_sklearn(model) if _of_sklearn(model) else model


def _fitted(model: Any) -> bool:
    if _of_sklearn(model):
        return hasattr(model, "means_")
    return bool(getattr(model, "fitted", True))


def _fit(model: Any, X: Points, weight: np.ndarray | None) -> Any:
    """A fitted copy of the model."""
    model = copy.deepcopy(model)
    if weight is None:
        fitted = model.fit(X)
    elif _of_sklearn(model):
        raise ValueError(
            "scikit-learn's mixture cannot be fitted with weights. Use mercer's "
            "GaussianMixture, or pass it fitted."
        )
    else:
        fitted = model.fit(X, weight)
    return model if fitted is None else fitted


def _check_model(kernel: ScoreKernel, model: Any) -> None:
    """Refuse a model without a likelihood, or without any gradient of it."""
    if _of_sklearn(model):
        return
    gradient = hasattr(model, "score") or (
        hasattr(model, "theta") and hasattr(model, "at")
    )
    known = callable(getattr(model, "log_likelihood", None))
    if isinstance(model, type) or not (known and gradient):
        hint = f" Write {model.__name__}(...)." if isinstance(model, type) else ""
        raise TypeError(
            f"{type(kernel).__name__} needs a model with log_likelihood(X), and "
            f"score(X) or theta and at(theta); got {describe(model)}.{hint}"
        )


def _check_definite(kernel: ScoreKernel, name: str, matrix: Any) -> None:
    """Refuse a matrix that is not symmetric positive definite."""
    what = f"{type(kernel).__name__} needs {name} to be a positive definite matrix"
    values = np.asarray(matrix)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"{what}; got {describe(matrix)}.")
    if values.ndim != 2 or values.shape[0] != values.shape[1] or values.size == 0:
        raise ValueError(f"{what}; got shape {values.shape}.")
    if not np.allclose(values, values.T, rtol=1e-10, atol=0):
        raise ValueError(f"{what}; got one that is not symmetric.")
    diagonal = np.diagonal(values)
    units = np.sqrt(np.where(diagonal > 0, diagonal, 1))
    low = np.linalg.eigvalsh(values / np.outer(units, units))[0]
    if not low > 0:
        raise ValueError(
            f"{what}; scaled to a unit diagonal, its smallest eigenvalue is {low:.6g}."
        )
