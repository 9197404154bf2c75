"""Normals, a stack of k Gaussian densities for mixtures and hidden chains.

Points are rows of T observations each, (n, T, d), a mixture's with T = 1. The stack
answers with `statistics`, sums over the T observations weighted by how much each of
the k densities answers for them; both the score and the next step of EM are read from
those. A NaN was not observed: it is filled by its expectation, which by Fisher's
identity gives the score of what was observed (Dempster, Laird and Rubin, 1977).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from mercer.data.points import Points, vectors
from mercer.densities.base import Value
from mercer.native.interruptible import elementwise, interruptible, multiply

FORMS = ("full", "tied", "diag", "spherical")
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
        if not elementwise(_symmetric, covariances):
            raise ValueError("Normals needs symmetric covariances.")
        try:
            return _factors(covariances)
        except np.linalg.LinAlgError as error:
            raise _not_definite() from error

    # What the densities say of rows (n, T, d)

    def log_densities(self, rows: np.ndarray) -> np.ndarray:
        """ln N(x | μₖ, Σₖ) of what was observed, (n, T, k)."""
        return self._whitened(rows)[0]

    def _whitened(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        """ln N, (n, T, k); z = E[L⁻¹(x - μₖ)], (n, T, k, d); and its spread.

        The spread is E[(L⁻¹(x - μ))²] - z², (n, T, 1, d), for diagonal covariances,
        None where nothing is missing; else a list of (rows, (k, d, d)), one for each
        pattern of missing values.
        """
        scales = self._scales()
        residuals = rows[..., None, :] - np.asarray(self.means, dtype=float)
        missing = np.isnan(rows)
        if not self._dense and not missing.any():
            residuals /= scales
            logs = (np.log(scales) + 0.5 * _LOG_2PI).sum(-1)
            square = np.einsum("ntkd,ntkd->ntk", residuals, residuals)
            return -0.5 * square - logs, residuals, None
        if not self._dense:
            z = np.where(missing[..., None, :], 0.0, residuals / scales)
            logs = np.where(missing[..., None, :], 0.0, np.log(scales) + 0.5 * _LOG_2PI)
            density = -0.5 * (z**2).sum(-1) - logs.sum(-1)
            return density, z, missing[..., None, :].astype(float)
        flat = residuals.reshape(-1, *residuals.shape[2:])
        z, density, spreads = np.empty_like(flat), np.empty(flat.shape[:2]), []
        for pattern, chosen in _patterns(missing.reshape(len(flat), -1)):
            part = flat if len(chosen) == len(flat) else flat[chosen]
            z[chosen], density[chosen], spread = _conditional(part, scales, pattern)
            if pattern.any():
                spreads.append((chosen, spread))
        return density.reshape(residuals.shape[:3]), z.reshape(residuals.shape), spreads

    def statistics(
        self, rows: np.ndarray, answers: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Σₜ answers · (1, z, zzᵀ), z = L⁻¹(x - μₖ): (n, k), (n, k, d), (n, k, d, d).

        For diagonal covariances the last is Σₜ answers · z², (n, k, d).
        """
        _, z, spread = self._whitened(rows)
        zeroth = answers.sum(axis=1)
        first = np.einsum("ntk,ntkd->nkd", answers, z)
        if not self._dense:
            squares = z**2 if spread is None else z**2 + spread
            return zeroth, first, np.einsum("ntk,ntkd->nkd", answers, squares)
        # One product per point and density: einsum would take (T, d, d) apart.
        weighted = np.moveaxis(answers[..., None] * z, 1, -1)
        second = np.matmul(weighted, np.moveaxis(z, 1, 2))
        T = rows.shape[1]
        flat = answers.reshape(-1, answers.shape[2])
        for chosen, extra in spread:
            shares = np.zeros_like(zeroth)
            np.add.at(shares, chosen // T, flat[chosen])
            second += shares[..., None, None] * extra
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
        """The likeliest densities for statistics summed over all points.

        Each covariance also counts `smoothing` imagined observations around its mean
        with the variances `spread`.
        """
        zeroth, first, second = totals
        scales = self._scales()
        counts = zeroth[:, None]
        shift = np.where(counts > 0, first / np.where(counts > 0, counts, 1), 0.0)
        prior = smoothing * spread
        if not self._dense:
            means = self.means + scales * shift
            scatter = scales**2 * np.maximum(second - counts * shift**2, 0) + prior
            if self.form == "spherical":
                scatter, counts = scatter.mean(axis=1), zeroth
            return self._with(means, scatter, counts + smoothing)
        means = self.means + np.einsum("kij,kj->ki", scales, shift)
        inner = second - zeroth[:, None, None] * shift[:, :, None] * shift[:, None, :]
        scatter = multiply(multiply(scales, inner), scales.swapaxes(1, 2))
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
    return np.allclose(matrices, matrices.swapaxes(1, 2), rtol=1e-8)


def _factors(covariances: np.ndarray) -> np.ndarray:
    """L with Σ = L Lᵀ, of one or of several."""
    return interruptible(np.linalg.cholesky, covariances, work=_cubes(covariances))


def _cubes(matrices: np.ndarray) -> float:
    return float(matrices.size) * matrices.shape[-1]


def _not_definite() -> ValueError:
    return ValueError(
        "Normals needs positive definite covariances. In a fit too few points, or "
        "points on a line, are to blame: raise smoothing, or choose form='diag'."
    )


def _patterns(missing: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(which coordinates are missing, the rows where it is these), for each pattern."""
    if not missing.any():
        yield np.zeros(missing.shape[1], dtype=bool), np.arange(len(missing))
        return
    patterns, which = np.unique(missing, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        yield pattern, np.flatnonzero(which.ravel() == p)


def _conditional(
    residuals: np.ndarray, factors: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L⁻¹(x - μ) with what is missing at its mean given the rest, for each density.

    Also ln N of the rest, (N, k), and the covariance of what is missing in the same
    whitened coordinates, (k, d, d).
    """
    N, k, d = residuals.shape
    seen = ~missing
    whitened, density = np.empty((N, k, d)), np.empty((N, k))
    spread = np.zeros((k, d, d))
    for a, L in enumerate(factors):
        part = L
        if missing.any():
            covariance = multiply(L, L.T)
            part = _factors(covariance[seen][:, seen])
        z = solve_triangular(part, residuals[:, a, seen].T, lower=True)
        logs = np.log(np.diagonal(part)).sum() + 0.5 * seen.sum() * _LOG_2PI
        density[:, a] = -0.5 * (z**2).sum(axis=0) - logs
        if not missing.any():
            whitened[:, a] = z.T
            continue
        slope = solve_triangular(part, covariance[seen][:, missing], lower=True)
        filled = residuals[:, a].copy()
        filled[:, missing] = z.T @ slope
        whitened[:, a] = solve_triangular(L, filled.T, lower=True).T
        hidden = covariance[missing][:, missing] - slope.T @ slope
        columns = solve_triangular(L, np.eye(d)[:, missing], lower=True)
        spread[a] = columns @ hidden @ columns.T
    return whitened, density, spread


def dense_rows(X: Points, who: str) -> np.ndarray:
    """X as an (n, d) float64 array, NaN where values are missing."""
    rows = vectors(X, who)
    rows = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=float)
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
    seen = ~np.isnan(rows)
    totals = np.maximum(weight @ seen, 1e-300)
    return np.where(seen, rows - (weight @ np.nan_to_num(rows)) / totals, 0.0)


def variances(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The variance of each column of what was observed; never 0."""
    seen = elementwise(lambda rows: weight @ ~np.isnan(rows), rows)
    if not (seen > 0).all():
        raise ValueError(
            f"Column {int(np.argmin(seen))} of the points has no value in any of them. "
            "Leave the column out."
        )
    square = elementwise(lambda rows: weight @ rows**2, centred(rows, weight))
    found = square / seen
    usual = found[found > 0].mean() if (found > 0).any() else 1.0
    return np.where(found > 0, found, usual)
