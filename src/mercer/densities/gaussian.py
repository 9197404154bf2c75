"""Densities of vectors: Gaussian, GaussianMixture, fitted by EM.

A coordinate that is NaN was not observed: it is integrated out, in the likelihood, in
the score and in `fit`, as if nothing were known of it (missing at random). The closed
form of the information is that of complete points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mercer.data.points import Points
from mercer.densities.base import (
    Density,
    Fit,
    added,
    check_coordinates,
    check_count,
    check_distributions,
    check_enough,
    check_options,
    checked_weight,
    draw,
    expectation_maximisation,
    first_labels,
    from_log_odds,
    log_odds,
    log_odds_score,
    log_prior,
    logarithms,
    shares,
)
from mercer.densities.normals import (
    FORMS,
    Normals,
    centred,
    dense_rows,
    posteriors,
    variances,
)

Parameters = tuple[np.ndarray, Normals]  # P(k), and the densities

BLOCK = 2**21  # numbers in one array of a block of points


@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture(Density):
    """p(x) = Σₖ weights[k] N(x | means[k], covariances[k]).

    θ: the log-odds of the weights, the means, the Cholesky factors of the covariances
    with the logarithm of their diagonal.

    Parameters
    ----------
    components : how many
    form : what the covariances may be: "full", "tied" (full, one for all), "diag",
        "spherical"
    weights, means, covariances : the parameters, shaped as in scikit-learn's mixture;
        None before a fit. A fit starts from them where they are given
    smoothing : imagined points that each component is fitted to besides its own, with
        the variance of all points
    tol : a fit ends when a step gains less than this in ln p per point
    max_iter : ... or after so many steps; `report` says which
    seed : of the first centres
    report : how the fit went, a `Fit`

    Examples
    --------
    >>> from mercer.densities import GaussianMixture
    >>> model = GaussianMixture(2).fit([[0.0], [1.0], [9.0], [10.0]])
    >>> model.weights.round(2).tolist()
    [0.5, 0.5]
    >>> bool(abs(model.means[0] - model.means[1]) > 8)
    True
    """

    missing: ClassVar[bool] = True

    components: int = 2
    form: str = "full"
    weights: Any = None
    means: Any = None
    covariances: Any = None
    smoothing: float = 1.0
    tol: float = 1e-5
    max_iter: int = 500
    seed: int = 0
    report: Fit | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        who = type(self).__name__
        check_count(who, "components", self.components, 1)
        check_options(who, self.smoothing, self.tol, self.max_iter, self.seed)
        check_distributions(who, "weights", self.weights)
        parts = (self.weights, self.means, self.covariances)
        normals = self._normals()
        if normals.fitted and normals.size != self.components:
            raise ValueError(
                f"{who} of {self.components} components needs as many means; got "
                f"{normals.size}."
            )
        if any(part is None for part in parts) != all(part is None for part in parts):
            raise ValueError(f"{who} needs weights, means and covariances, or none.")
        if self.weights is not None and np.shape(self.weights) != (self.components,):
            raise ValueError(
                f"{who} of {self.components} components needs as many weights; got "
                f"shape {np.shape(self.weights)}."
            )

    @classmethod
    def from_sklearn(cls, estimator: Any) -> GaussianMixture:
        """The density of a fitted `sklearn.mixture.GaussianMixture`."""
        return cls(
            len(estimator.weights_),
            estimator.covariance_type,
            np.asarray(estimator.weights_, dtype=float),
            np.asarray(estimator.means_, dtype=float),
            np.asarray(estimator.covariances_, dtype=float),
        )

    @property
    def fitted(self) -> bool:
        return self.weights is not None

    def _normals(self) -> Normals:
        return Normals(self.form, self.means, self.covariances)

    def _rows(self, X: Points) -> np.ndarray:
        """The points as (n, d) rows."""
        rows = dense_rows(X, type(self).__name__)
        if self.fitted and rows.shape[1] != np.shape(self.means)[1]:
            raise ValueError(
                f"{type(self).__name__} has dimension {np.shape(self.means)[1]}; the "
                f"points have {rows.shape[1]} columns."
            )
        return rows

    def _blocks(self, rows: np.ndarray, width: int) -> Iterator[slice]:
        """Slices of points for each of which `width` numbers are needed."""
        step = max(1, BLOCK // max(width, 1))
        return (slice(i, i + step) for i in range(0, len(rows), step))

    def log_likelihood(self, X: Points) -> np.ndarray:
        self._check_fitted()
        rows, normals = self._rows(X), self._normals()
        out = np.empty(len(rows))
        for block in self._blocks(rows, self.components):
            out[block] = _expect(self.weights, normals, rows[block])[0]
        return out

    def score(self, X: Points) -> np.ndarray:
        self._check_fitted()
        rows, normals = self._rows(X), self._normals()
        weights = np.asarray(self.weights, dtype=float)
        out = np.empty((len(rows), len(self.theta)))
        for block in self._blocks(rows, out.shape[1]):
            _, answers = _expect(weights, normals, rows[block])
            odds = log_odds_score(answers, weights)
            each = np.arange(len(answers) + 1)
            statistics = normals.statistics(rows[block], answers, each)
            out[block] = np.hstack([odds, normals.score(statistics)])
        return out

    @property
    def theta(self) -> np.ndarray:
        self._check_fitted()
        odds = log_odds(np.asarray(self.weights, dtype=float))
        return np.concatenate([odds, self._normals().theta])

    def at(self, theta: npt.ArrayLike) -> GaussianMixture:
        values = check_coordinates(type(self).__name__, theta, len(self.theta))
        weights = np.asarray(self.weights, dtype=float)
        split = len(log_odds(weights))
        normals = self._normals().at(values[split:])
        return replace(
            self,
            weights=from_log_odds(values[:split], weights),
            means=normals.means,
            covariances=normals.covariances,
        )

    def names(self) -> list[str]:
        odds = len(log_odds(np.asarray(self.weights, dtype=float)))
        return [f"log odds of {k}" for k in range(odds)] + self._normals().names()

    def information(self) -> np.ndarray | None:
        self._check_fitted()
        return self._normals().information() if self.components == 1 else None

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """n points drawn from the density, (n, d)."""
        self._check_fitted()
        rng = np.random.default_rng(seed)
        which = draw(np.tile(np.asarray(self.weights, dtype=float), (n, 1)), rng)
        return self._normals().sample(which, rng)

    def fit(self, X: Points, weight: npt.ArrayLike | None = None) -> GaussianMixture:
        counts = checked_weight(X, weight, type(self).__name__)
        rows = self._rows(X)
        spread = variances(rows, counts)
        first = self if self.fitted else self._start(rows, counts, spread)

        def expect(model: Parameters) -> tuple[float, list[np.ndarray]]:
            weights, normals = model
            total, sums = 0.0, None
            for block in self._blocks(rows, self.components):
                logs, answers = _expect(weights, normals, rows[block])
                total += counts[block] @ logs
                answers *= counts[block, None]
                sums = added(sums, [*normals.sums(rows[block], answers)])
            total += log_prior(weights, self.smoothing)
            total += normals.log_prior(self.smoothing, spread)
            assert sums is not None  # of one point at least
            return total, sums

        def maximise(model: Parameters, sums: list[np.ndarray]) -> Parameters:
            weights, normals = model
            return (
                shares(sums[0], weights, self.smoothing),
                normals.maximised(sums, self.smoothing, spread),
            )

        start = np.asarray(first.weights, dtype=float), first._normals()
        (weights, normals), report = expectation_maximisation(
            start, expect, maximise, counts.sum(), self.tol, self.max_iter
        )
        return replace(
            self,
            weights=weights,
            means=normals.means,
            covariances=normals.covariances,
            report=report,
        )

    def _start(
        self, rows: np.ndarray, weight: np.ndarray, spread: np.ndarray
    ) -> GaussianMixture:
        check_enough("GaussianMixture", "components", self.components, len(rows))
        labels = np.zeros(len(rows), dtype=int)
        if self.components > 1:
            rng = np.random.default_rng(self.seed)
            labels = first_labels(centred(rows, weight), self.components, rng, weight)
        normals = self._normals().started(rows, labels, self.components, weight, spread)
        return replace(
            self,
            weights=np.full(self.components, 1 / self.components),
            means=normals.means,
            covariances=normals.covariances,
        )


def _expect(
    weights: Any, normals: Normals, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """ln p(x), (n,), and P(k | x), (n, k)."""
    joint = normals.log_densities(rows)
    joint += logarithms(weights)
    return posteriors(joint)


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Density):
    """p(x) = N(x | mean, covariance).

    θ: the mean, and the Cholesky factor of the covariance with the logarithm of its
    diagonal. The information has a closed form.

    Parameters
    ----------
    mean : d numbers, or None before a fit
    covariance : (d, d) array; for form "diag" the d variances, for "spherical" one
    form : what the covariance may be: "full", "diag", "spherical"
    smoothing : imagined points besides those of a fit, with their variances and no
        correlations; needed where there are fewer than d + 1
    tol : a fit to points with missing values ends when a step gains less in ln p
    max_iter : ... or after so many steps; `report` says which
    report : how the fit went, a `Fit`

    Examples
    --------
    >>> from mercer.densities import Gaussian
    >>> model = Gaussian().fit([[0.0], [2.0]])
    >>> model.mean.tolist(), model.covariance.tolist()
    ([1.0], [[1.0]])
    >>> model.log_likelihood([[1.0]]).round(4).tolist()
    [-0.9189]
    """

    missing: ClassVar[bool] = True

    mean: Sequence[float] | np.ndarray | None = None
    covariance: Any = None
    form: str = "full"
    smoothing: float = 0.0
    tol: float = 1e-9
    max_iter: int = 500
    report: Fit | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.form not in set(FORMS) - {"tied"}:
            raise ValueError(
                f"Gaussian needs a form among full, diag, spherical; got {self.form!r}."
            )
        check_options("Gaussian", self.smoothing, self.tol, self.max_iter)
        if (self.mean is None) != (self.covariance is None):
            raise ValueError("Gaussian needs its mean and its covariance, or neither.")
        self._mixture()

    def _mixture(self) -> GaussianMixture:
        """The same as a mixture of one."""
        known = self.fitted
        return GaussianMixture(
            1,
            self.form,
            [1.0] if known else None,
            np.asarray(self.mean, dtype=float)[None] if known else None,
            np.asarray(self.covariance, dtype=float)[None] if known else None,
            self.smoothing,
            self.tol,
            self.max_iter,
        )

    def _like(self, mixture: GaussianMixture) -> Gaussian:
        covariance = mixture.covariances[0]
        if self.form == "spherical":
            covariance = float(covariance)
        return replace(self, mean=mixture.means[0], covariance=covariance)

    @property
    def fitted(self) -> bool:
        return self.mean is not None

    def fit(self, X: Points, weight: npt.ArrayLike | None = None) -> Gaussian:
        # Without missing values one step is exact, from anywhere.
        fitted = replace(self, mean=None, covariance=None)._mixture().fit(X, weight)
        return replace(self._like(fitted), report=fitted.report)

    def log_likelihood(self, X: Points) -> np.ndarray:
        self._check_fitted()
        return self._mixture().log_likelihood(X)

    def score(self, X: Points) -> np.ndarray:
        self._check_fitted()
        return self._mixture().score(X)

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """n points drawn from the density, (n, d)."""
        self._check_fitted()
        return self._mixture().sample(n, seed)

    @property
    def theta(self) -> np.ndarray:
        self._check_fitted()
        return self._mixture().theta

    def at(self, theta: npt.ArrayLike) -> Gaussian:
        return self._like(self._mixture().at(theta))

    def names(self) -> list[str]:
        return [name.replace("[0,", "[", 1).replace("[0]", "")
                if not name.startswith("mean") else name.replace("[0,", "[", 1)
                for name in self._mixture().names()]  # fmt: skip

    def information(self) -> np.ndarray:
        self._check_fitted()
        return self._mixture()._normals().information()
