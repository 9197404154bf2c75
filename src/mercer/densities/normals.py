"""Normals, a stack of k Gaussian densities for mixtures and hidden chains.

Observations are rows (N, d). Each of the k densities answers for a share of each row,
answers (N, k). `statistics` are sums over runs of rows, weighted by the answers, from
which the score is read, a run being a point: one row of a mixture, a sequence of a
hidden chain. `sums` are those over all rows that the next step of EM is read from. A
NaN was not observed: it is filled by its expectation, which by Fisher's identity gives
the score of what was observed (Dempster, Laird and Rubin, 1977).

The differences x - μₖ are made first and then multiplied: ‖x‖² - 2x·μ + ‖μ‖² would be
one product of matrices less, and lose the digits of points that are far from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from mercer import _core
from mercer.data.points import Points, vectors
from mercer.densities.base import Value, run_sums
from mercer.native.interruptible import elementwise, interruptible, multiply
from mercer.native.lapack import half

FORMS = ("full", "tied", "diag", "spherical")
TILE = 2**14  # numbers of rows that are multiplied at once, and stay in the cache
LEAST = 64  # rows of a tile, however wide they are
NARROW = 64  # columns of a full covariance up to which the core is faster than BLAS
PIECE = 4096  # rows that one thread adds up, of any number of threads
_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False, repr=False)
class Normals(Value):
    """N(x | μₖ, Σₖ), k Gaussian densities of one dimension d.

    Parameters
    ----------
    form : what the covariances may be: "full", "tied" (full, one for all), "diag",
        "spherical"
    means : (k, d) array, or None before a fit
    covariances : (k, d, d) array; tied (d, d), diag (k, d), spherical (k,)

    Examples
    --------
    >>> from mercer.densities import HMM, Normals
    >>> two = Normals("diag", means=[[0.0], [4.0]], covariances=[[1.0], [1.0]])
    >>> model = HMM(2, two, start=[1.0, 0.0], transition=[[0.5, 0.5], [0.0, 1.0]])
    >>> model.log_likelihood([[[0.0], [4.0]]]).round(4).tolist()
    [-2.5307]
    """

    form: str = "full"
    means: Any = None
    covariances: Any = None

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ValueError(
                f"Normals needs a form among {', '.join(FORMS)}; got {self.form!r}."
            )
        if self.means is None and self.covariances is None:
            return
        if self.means is None or self.covariances is None:
            raise ValueError("Normals needs means and covariances, or neither.")
        if np.ndim(self.means) != 2:
            raise ValueError(
                f"Normals needs (k, d) means; got shape {np.shape(self.means)}."
            )
        k, d = np.shape(self.means)
        shape = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
        if np.shape(self.covariances) != shape[self.form]:
            raise ValueError(
                f"Normals of form {self.form!r} with means of shape {(k, d)} needs "
                f"covariances of shape {shape[self.form]}; got shape "
                f"{np.shape(self.covariances)}."
            )
        if self._dense and not elementwise(
            _symmetric, np.asarray(self.covariances, dtype=float)
        ):
            raise ValueError("Normals needs symmetric covariances.")
        self._scales()

    @property
    def fitted(self) -> bool:
        return self.means is not None

    @property
    def size(self) -> int:
        """k."""
        return len(self.means)

    @property
    def _dense(self) -> bool:
        return self.form in ("full", "tied")

    def _scales(self) -> np.ndarray:
        """L with Σ = LLᵀ, (k, d, d); if diagonal the standard deviations, (k, d)."""
        means = np.asarray(self.means, dtype=float)
        covariances = np.asarray(self.covariances, dtype=float)
        k, d = means.shape
        if self.form == "tied":
            covariances = np.broadcast_to(covariances, (k, d, d))
        if self.form == "spherical":
            covariances = np.broadcast_to(covariances[:, None], (k, d))
        if not self._dense:
            if not ((covariances > 0) & np.isfinite(covariances)).all():
                raise _not_definite()
            return np.sqrt(covariances)
        try:
            return _cholesky(covariances)
        except np.linalg.LinAlgError as error:
            raise _not_definite() from error

    # What the densities say of rows (N, d)

    def log_densities(self, rows: np.ndarray) -> np.ndarray:
        """ln N(x | μₖ, Σₖ) of what was observed, (N, k)."""
        out = np.empty((len(rows), self.size))
        if not self._dense:
            _core.log_densities(*self._parameters(), rows, out)
            return out
        if self._narrow(rows):
            _core.full_log_densities(*self._parameters(), rows, out)
            return out
        factors = self._factors()
        for chosen, missing in _tiles(rows):
            for a, (mean, L) in enumerate(factors):
                residuals = rows[chosen] - mean
                out[chosen, a] = _observed(residuals, L, missing)[0]
        return out

    def _narrow(self, rows: np.ndarray) -> bool:
        """Whether the core is faster than BLAS, and what it takes is at hand."""
        return rows.shape[1] <= NARROW and not np.isnan(rows).any()

    def _parameters(self) -> tuple[np.ndarray, np.ndarray]:
        """μ, (k, d), and what `_scales` returns, as the core takes them."""
        means = np.ascontiguousarray(self.means, dtype=float)
        return means, np.ascontiguousarray(self._scales())

    def _factors(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """μₖ and Lₖ, Σₖ = LₖLₖᵀ, as LAPACK takes it."""
        means = np.asarray(self.means, dtype=float)
        return [*zip(means, map(np.asfortranarray, self._scales()), strict=True)]

    def statistics(
        self, rows: np.ndarray, answers: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Σ answers · (1, z, zzᵀ), z = L⁻¹(x - μₖ), over the rows of each of n runs.

        (n, k), (n, k, d) and (n, k, d, d); for diagonal covariances the last is
        Σ answers · z², (n, k, d). Run r is rows[offsets[r] : offsets[r + 1]].
        """
        zeroth = run_sums(answers, offsets)
        if not self._dense:
            return zeroth, *self._moments(rows, answers, offsets)
        n, (k, d) = len(offsets) - 1, np.shape(self.means)
        z, second = np.empty((len(rows), k, d)), np.zeros((n, k, d, d))
        run = np.repeat(np.arange(n), np.diff(offsets))
        factors = self._factors()
        for chosen, missing in _tiles(rows):
            for a, (mean, L) in enumerate(factors):
                filled = rows[chosen] - mean
                if missing is not None:
                    _, filled, hidden = _observed(filled, L, missing)
                    spread = half(L, half(L, hidden).T)
                    share = answers[chosen, a, None, None]
                    np.add.at(second[:, a], run[chosen], share * spread)
                z[chosen, a] = half(L, filled.T).T
        weighted = answers[..., None] * z
        if len(rows) == n and (np.diff(offsets) == 1).all():
            second += weighted[..., None] * z[..., None, :]
            return zeroth, weighted, second
        for r in range(n):
            part = slice(offsets[r], offsets[r + 1])
            columns = np.moveaxis(weighted[part], 0, -1)
            second[r] += np.matmul(columns, z[part].swapaxes(0, 1))
        return zeroth, run_sums(weighted, offsets), second

    def _moments(
        self, rows: np.ndarray, answers: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        shape = (len(offsets) - 1, *np.shape(self.means))
        first, second = np.empty(shape), np.empty(shape)
        answers = np.ascontiguousarray(answers)
        _core.moments(*self._parameters(), rows, offsets, answers, first, second)
        return first, second

    def sums(self, rows: np.ndarray, answers: np.ndarray) -> tuple[np.ndarray, ...]:
        """Σ answers · (1, e, eeᵀ), e = x - μₖ, over all rows: (k,), (k, d), (k, d, d).

        For diagonal covariances the last is Σ answers · e², (k, d).
        """
        zeroth = answers.sum(axis=0)
        offsets = np.r_[np.arange(0, len(rows), PIECE), len(rows)]
        if not self._dense:
            first, second = self._moments(rows, answers, offsets)
            scales = self._scales()
            return zeroth, first.sum(axis=0) * scales, second.sum(axis=0) * scales**2
        k, d = np.shape(self.means)
        if self._narrow(rows):
            pieces = len(offsets) - 1
            first, second = np.empty((pieces, k, d)), np.empty((pieces, k, d, d))
            means = np.ascontiguousarray(self.means, dtype=float)
            answers = np.ascontiguousarray(answers)
            _core.scatter(means, rows, offsets, answers, first, second)
            return zeroth, first.sum(axis=0), second.sum(axis=0)
        first, second = np.zeros((k, d)), np.zeros((k, d, d))
        factors = self._factors()
        for chosen, missing in _tiles(rows):
            for a, (mean, L) in enumerate(factors):
                filled, share = rows[chosen] - mean, answers[chosen, a]
                if missing is not None:
                    _, filled, hidden = _observed(filled, L, missing)
                    second[a] += share.sum() * hidden
                weighted = share[:, None] * filled
                first[a] += weighted.sum(axis=0)
                second[a] += multiply(weighted.T, filled)
        return zeroth, first, second

    # Free coordinates: means, then factors with the logarithm of their diagonal

    @property
    def theta(self) -> np.ndarray:
        means = np.asarray(self.means, dtype=float).ravel()
        scales = self._scales()
        if not self._dense:
            logs = np.log(scales[:, 0] if self.form == "spherical" else scales)
            return np.concatenate([means, logs.ravel()])
        factors = scales[:1].copy() if self.form == "tied" else scales.copy()
        i = np.arange(factors.shape[-1])
        factors[:, i, i] = np.log(factors[:, i, i])
        return np.concatenate([means, factors[:, *np.tril_indices(len(i))].ravel()])

    def at(self, theta: np.ndarray) -> Normals:
        k, d = np.shape(self.means)
        means, rest = theta[: k * d].reshape(k, d), theta[k * d :]
        if not self._dense:
            variances = np.exp(2 * rest).reshape(np.shape(self.covariances))
            return replace(self, means=means, covariances=variances)
        factors = np.zeros((1 if self.form == "tied" else k, d, d))
        factors[:, *np.tril_indices(d)] = rest.reshape(len(factors), -1)
        i = np.arange(d)
        factors[:, i, i] = np.exp(factors[:, i, i])
        covariances = factors @ factors.swapaxes(1, 2)
        return replace(
            self,
            means=means,
            covariances=covariances[0] if self.form == "tied" else covariances,
        )

    def names(self) -> list[str]:
        k, d = np.shape(self.means)
        named = [f"mean[{a},{j}]" for a in range(k) for j in range(d)]
        if self.form == "spherical":
            return named + [f"log deviation[{a}]" for a in range(k)]
        if self.form == "diag":
            return named + [
                f"log deviation[{a},{j}]" for a in range(k) for j in range(d)
            ]
        stacks = [""] if self.form == "tied" else [f"{a}," for a in range(k)]
        return named + [
            f"{'log ' if i == j else ''}factor[{a}{i},{j}]"
            for a in stacks
            for i in range(d)
            for j in range(i + 1)
        ]

    def score(self, statistics: Sequence[np.ndarray]) -> np.ndarray:
        """The gradient of Σₜ Σₖ answers · ln N(x | μₖ, Σₖ) in θ, (n, p)."""
        zeroth, first, second = statistics
        n, scales = len(zeroth), self._scales()
        if not self._dense:
            logs = second - zeroth[..., None]
            logs = logs.sum(axis=2) if self.form == "spherical" else logs
            return np.hstack([(first / scales).reshape(n, -1), logs.reshape(n, -1)])
        inverse = interruptible(np.linalg.inv, scales, work=_cubes(scales))
        means = np.einsum("nki,kij->nkj", first, inverse)
        surplus = second - zeroth[..., None, None] * np.eye(scales.shape[-1])
        # dz = -L⁻¹ dL z, so the gradient in L is the lower half of L⁻ᵀ(zzᵀ - 1).
        slopes = np.matmul(inverse.swapaxes(1, 2), surplus)
        i = np.arange(scales.shape[-1])
        slopes[..., i, i] *= scales[:, i, i]
        slopes = slopes[..., *np.tril_indices(len(i))]
        slopes = slopes.sum(axis=1) if self.form == "tied" else slopes
        return np.hstack([means.reshape(n, -1), slopes.reshape(n, -1)])

    def information(self) -> np.ndarray:
        """E of the score's outer product for one draw from a stack of one density."""
        scales = self._scales()
        [k, d] = np.shape(self.means)
        assert k == 1, "several densities have no closed form"
        if self.form == "spherical":
            return np.diag([*scales[0] ** -2.0, 2.0 * d])
        if not self._dense:
            return np.diag([*scales[0] ** -2.0, *np.full(d, 2.0)])
        inverse = np.linalg.inv(scales[0])
        rows, columns = np.tril_indices(d)
        # In the frame dL = L dA the scores are zᵢzⱼ - [i = j]: variances 1 and 2.
        frame = inverse[np.ix_(rows, rows)] * (columns[:, None] == columns)
        frame[:, rows == columns] *= np.diagonal(scales[0])
        blocks = np.zeros((d + len(rows), d + len(rows)))
        blocks[:d, :d] = inverse.T @ inverse
        blocks[d:, d:] = frame.T @ (
            np.where(rows == columns, 2.0, 1.0)[:, None] * frame
        )
        return blocks

    # Fitting

    def started(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        k: int,
        weight: np.ndarray,
        spread: np.ndarray,
    ) -> Normals:
        """Densities of the labelled rows (N, d), all of them as wide as the whole."""
        filled = np.nan_to_num(rows)
        members = (labels[:, None] == np.arange(k)) * weight[:, None]
        seen = members.T @ ~np.isnan(rows)
        overall = (weight @ filled) / np.maximum(weight @ ~np.isnan(rows), 1e-300)
        means = np.where(
            seen > 0, members.T @ filled / np.maximum(seen, 1e-300), overall
        )
        shapes = {
            "full": np.tile(np.diag(spread), (k, 1, 1)),
            "tied": np.diag(spread),
            "diag": np.tile(spread, (k, 1)),
            "spherical": np.full(k, spread.mean()),
        }
        return replace(self, means=means, covariances=shapes[self.form])

    def maximised(
        self, totals: Sequence[np.ndarray], smoothing: float, spread: np.ndarray
    ) -> Normals:
        """The likeliest densities for the `sums` over all points.

        Each covariance also counts `smoothing` imagined observations around its mean
        with the variances `spread`.
        """
        zeroth, first, second = totals
        counts = zeroth[:, None]
        shift = np.where(counts > 0, first / np.where(counts > 0, counts, 1), 0.0)
        means, prior = self.means + shift, smoothing * spread
        if not self._dense:
            scatter = np.maximum(second - counts * shift**2, 0) + prior
            if self.form == "spherical":
                scatter, counts = scatter.mean(axis=1), zeroth
            return self._with(means, scatter, counts + smoothing)
        scatter = second - zeroth[:, None, None] * shift[:, :, None] * shift[:, None, :]
        if self.form == "tied":
            return self._with(means, scatter.sum(0) + np.diag(prior),
                              zeroth.sum() + smoothing)  # fmt: skip
        return self._with(means, scatter + np.diag(prior),
                          (zeroth + smoothing)[:, None, None])  # fmt: skip

    def _with(
        self, means: np.ndarray, scatter: np.ndarray, counts: np.ndarray
    ) -> Normals:
        if not np.min(counts) > 0:
            raise ValueError(
                "A Gaussian component lost all its points. Fit with smoothing > 0, or "
                "with fewer components."
            )
        covariances = scatter / counts
        if self._dense:  # rounding leaves it symmetric to the last digit but one
            covariances = (covariances + covariances.swapaxes(-1, -2)) / 2
        return replace(self, means=means, covariances=covariances)

    def log_prior(self, smoothing: float, spread: np.ndarray) -> float:
        """ln of what `maximised` imagines: -½ smoothing · Σₖ (tr Σₖ⁻¹D + ln det Σₖ)."""
        if smoothing == 0:
            return 0.0
        scales = self._scales()
        if not self._dense:
            return float(-smoothing * (0.5 * spread / scales**2 + np.log(scales)).sum())
        scales = scales[:1] if self.form == "tied" else scales
        inverse = interruptible(np.linalg.inv, scales, work=_cubes(scales))
        logs = np.log(np.diagonal(scales, axis1=1, axis2=2))
        return float(-smoothing * (0.5 * (inverse**2 @ spread).sum() + logs.sum()))

    def sample(self, which: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An observation from density which[i], for each i: (N, d)."""
        scales = self._scales()
        means = np.asarray(self.means, dtype=float)
        noise = rng.normal(size=(len(which), means.shape[1]))
        if not self._dense:
            return means[which] + scales[which] * noise
        for k, L in enumerate(scales):
            noise[which == k] = noise[which == k] @ L.T
        return means[which] + noise


def _symmetric(matrices: np.ndarray) -> bool:
    return np.allclose(matrices, matrices.swapaxes(-1, -2), rtol=1e-8)


def _cholesky(covariances: np.ndarray) -> np.ndarray:
    """L with Σ = L Lᵀ, of one or of several."""
    return interruptible(np.linalg.cholesky, covariances, work=_cubes(covariances))


def _cubes(matrices: np.ndarray) -> float:
    return float(matrices.size) * matrices.shape[-1]


def _not_definite() -> ValueError:
    return ValueError(
        "Normals needs positive definite covariances. In a fit too few points, or "
        "points on a line, are to blame: raise smoothing, or choose form='diag'."
    )


def _tiles(
    rows: np.ndarray,
) -> Iterator[tuple[slice | np.ndarray, np.ndarray | None]]:
    """(some rows, which of their coordinates are missing or None), a tile at a time."""
    step = max(LEAST, TILE // max(rows.shape[1], 1))
    missing = np.isnan(rows)
    if not missing.any():
        for i in range(0, len(rows), step):
            yield slice(i, i + step), None
        return
    patterns, which = np.unique(missing, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel()))
    for pattern, members in zip(patterns, np.split(order, ends[:-1]), strict=True):
        for i in range(0, len(members), step):
            yield members[i : i + step], pattern if pattern.any() else None


def _observed(
    residuals: np.ndarray, L: np.ndarray, missing: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, Any]:
    """ln N of what was observed, x - μ with the rest at its mean, and its covariance.

    `residuals` are x - μ, (m, d), in rows of which the same coordinates are missing.
    The mean and the covariance, (d, d), are those given what was observed.
    """
    if missing is None:
        return _log_normal(half(L, residuals.T), L), residuals, np.zeros(L.shape)
    seen, covariance = ~missing, multiply(L, L.T)
    part = _cholesky(covariance[seen][:, seen])
    z = solve_triangular(part, residuals[:, seen].T, lower=True)
    slope = solve_triangular(part, covariance[seen][:, missing], lower=True)
    filled = residuals.copy()
    filled[:, missing] = z.T @ slope
    hidden = np.zeros_like(covariance)
    rest = covariance[missing][:, missing] - slope.T @ slope
    hidden[np.ix_(missing, missing)] = rest
    return _log_normal(z, part), filled, hidden


def _log_normal(z: np.ndarray, L: np.ndarray) -> np.ndarray:
    """ln N of the columns of Lz, (d, m)."""
    logs = np.log(np.diagonal(L)).sum() + 0.5 * len(L) * _LOG_2PI
    return -0.5 * np.einsum("dm,dm->m", z, z) - logs


def posteriors(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ln Σₖ e^logs, (N,), and e^logs with sum 1 in each row, which overwrites logs."""
    totals = np.empty(len(logs))
    _core.shares(logs, totals)
    return totals, logs


def dense_rows(X: Points, who: str) -> np.ndarray:
    """X as an (n, d) float64 array, NaN where values are missing."""
    rows = vectors(X, who)
    rows = rows.toarray() if sp.issparse(rows) else rows
    rows = np.ascontiguousarray(rows, dtype=float)  # as the core takes them
    if np.isinf(rows).any():
        i, j = np.argwhere(np.isinf(rows))[0]
        raise ValueError(
            f"{who} needs finite numbers, or NaN for missing ones; point {i} has "
            f"{rows[i, j]} in column {j}."
        )
    return rows


def centred(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Rows minus their mean, missing values at the mean."""
    return elementwise(_centred, rows, weight)


def _centred(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    totals = np.maximum(_seen(rows, weight), 1e-300)
    if not np.isnan(rows).any():
        return rows - (weight @ rows) / totals
    mean = (weight @ np.nan_to_num(rows)) / totals
    return np.where(np.isnan(rows), 0.0, rows - mean)


def _seen(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The weight of the rows in which each column was observed, (d,)."""
    missing = np.isnan(rows)
    if not missing.any():
        return np.full(rows.shape[1], weight.sum())
    return weight @ ~missing


def variances(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The variance of each column of what was observed; never 0."""
    seen = elementwise(_seen, rows, weight)
    if not (seen > 0).all():
        raise ValueError(
            f"Column {int(np.argmin(seen))} of the points has no value in any of them. "
            "Leave the column out."
        )
    square = elementwise(lambda rows: weight @ rows**2, centred(rows, weight))
    found = square / seen
    usual = found[found > 0].mean() if (found > 0).any() else 1.0
    return np.where(found > 0, found, usual)
