"""The posterior of a `SparseBayes` at given α, and what each column could add to it.

With C = B⁻¹ + Φ A⁻¹ Φᵀ the covariance of the target, B the precision of its noise,

    S = φᵀC⁻¹φ = φᵀBφ - φᵀBΦ Σ ΦᵀBφ,   Q = φᵀC⁻¹t,   Σ = (A + ΦᵀBΦ)⁻¹.

For normal targets B is β; for classes the target is that of the last step of Newton's
method at the mode of w (Laplace), and B = p (1 - p). Tipping, JMLR 1 (2001).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy  # of which a part is loaded when it is used
from scipy.linalg.lapack import dpotrf, dtrtri
from scipy.special import expit

from mercer.native.interruptible import interruptible, multiply
from mercer.native.lapack import half
from mercer.solvers.bayes import Basis, Posterior, SparseBayes

LEAST = 1e-12  # the smallest α, where columns and target have mean square 1
QUIETEST = 1e8  # the largest β, in the same units: noise of 1e-4 of the target
SPANNED = 1e-11  # of φᵀBφ; a column of which less is left is one of the others again
MODE = 1e-10  # what Newton's method may leave of log p(target, w) at the mode


@dataclass(frozen=True, eq=False)
class NormalState:
    """α, β and, between the columns in view, ⟨φᵢ, φⱼ⟩, φᵢᵀC⁻¹φⱼ and φᵢᵀC⁻¹t."""

    which: np.ndarray
    alpha: np.ndarray
    beta: float
    H: np.ndarray
    T: np.ndarray
    Q: np.ndarray
    evidence: float

    @property
    def S(self) -> np.ndarray:
        return self.T.diagonal()

    def inner(self) -> np.ndarray:
        """φᵢᵀC⁻¹φⱼ of the active columns."""
        active = np.isfinite(self.alpha)
        return self.T[np.ix_(active, active)]


class Normal:
    """target = f + noise, C = I/β + Φ A⁻¹ Φᵀ, rows weighted."""

    def __init__(self, basis: Basis, problem: SparseBayes):
        self.basis = basis
        weight, total = basis.weight, basis.total
        size = float(np.sqrt(weight @ problem.target**2 / total))
        self.unit = size if size > 0 else 1.0
        self.target = problem.target / self.unit
        self.square = float(weight @ self.target**2)
        self.towards = basis.products(weight * self.target)
        self.fixed = problem.noise is not None
        if problem.noise is not None:
            self.beta = (self.unit / problem.noise) ** 2
        else:
            mean = weight @ self.target / total
            variance = weight @ (self.target - mean) ** 2 / total
            # As if a tenth of what varies were noise, to begin with.
            self.beta = float(min(10 / max(variance, 10 / QUIETEST), QUIETEST))
        self.kept: dict[int, np.ndarray] = {}  # ⟨φ, φⱼ⟩ of every φ, by active j

    def start(self) -> NormalState:
        """The column nearest to the target, alone."""
        first = np.array([np.argmax(np.abs(self.towards))])
        s, q = self.beta * self.basis.total, self.beta * self.towards[first[0]]
        alpha = max(s * s / (q * q - s), LEAST) if q * q > s else 1.0
        return self.at(first, np.array([alpha]), self.beta, first[:0])

    def products(self, active: np.ndarray) -> np.ndarray:
        """⟨φ, φⱼ⟩ of every φ with the active φⱼ, a column each."""
        missing = np.array([j for j in active if j not in self.kept], dtype=int)
        if len(missing):
            columns = self.basis.columns(missing)
            found = self.basis.products(self.basis.weight[:, None] * columns)
            self.kept |= dict(zip(missing.tolist(), found.T, strict=True))
        self.kept = {j: self.kept[j] for j in active.tolist()}
        return np.column_stack(list(self.kept.values()))

    def scan(self, state: NormalState) -> tuple[np.ndarray, np.ndarray]:
        """S and Q of all columns."""
        active, alpha = active_of(state)
        G = self.products(active)
        factor = Factor(alpha, state.beta * G[active])
        Z = factor.half(state.beta * G.T)
        S = _remainder(np.full(len(G), state.beta * self.basis.total), Z)
        pull = factor.half(state.beta * self.towards[active])
        Q = state.beta * self.towards - Z.T @ pull
        S[active] = alpha * factor.shares()
        Q[active] = alpha * factor.solve(state.beta * self.towards[active])
        return S, Q

    def focus(self, state: NormalState, pool: np.ndarray) -> NormalState:
        active, alpha = active_of(state)
        pool = pool[~np.isin(pool, active)]
        return self.at(active, alpha, state.beta, pool)

    def at(
        self, active: np.ndarray, alpha: np.ndarray, beta: float, pool: np.ndarray
    ) -> NormalState:
        """The state with the active columns and those of the pool in view."""
        which = np.concatenate([active, pool])
        m = len(active)
        H = np.empty((len(which), len(which)))
        H[:, :m] = self.products(active)[which]
        H[:m, m:] = H[m:, :m].T
        columns = self.basis.columns(pool)
        H[m:, m:] = multiply(columns.T, self.basis.weight[:, None] * columns)
        alpha = np.append(alpha, np.full(len(pool), np.inf))
        return self._from(which, alpha, beta, H)

    def _from(
        self, which: np.ndarray, alpha: np.ndarray, beta: float, H: np.ndarray
    ) -> NormalState:
        """T, Q and the evidence from α, β and H alone."""
        active = np.flatnonzero(np.isfinite(alpha))
        towards = self.towards[which]
        factor = Factor(alpha[active], beta * H[np.ix_(active, active)])
        Z = factor.half(beta * H[active])
        T = beta * H - multiply(Z.T, Z)
        rest = np.isinf(alpha)
        T[rest, rest] = _remainder(beta * H.diagonal(), Z)[rest]
        # ΦᵀC⁻¹φ = A Σ Φᵀβφ for the active: no difference of large numbers.
        T[active] = alpha[active, None] * factor.solve(beta * H[active])
        T[:, active] = T[active].T
        T[active, active] = alpha[active] * factor.shares()
        pull = factor.half(beta * towards[active])
        Q = beta * towards - Z.T @ pull
        Q[active] = alpha[active] * factor.solve(beta * towards[active])
        total = self.basis.total
        distance = beta * self.square - pull @ pull
        evidence = (total * np.log(beta / (2 * np.pi)) - factor.logdet - distance) / 2
        evidence -= total * np.log(self.unit)
        return NormalState(which, alpha, beta, H, T, Q, float(evidence))

    def moved(self, state: NormalState, place: int, alpha: float) -> NormalState:
        """One α changed: C gains δ φφᵀ, and all else follows by a rank-one step."""
        changed = state.alpha.copy()
        changed[place] = alpha
        delta = 1 / alpha - 1 / state.alpha[place]
        column, q = state.T[:, place], state.Q[place]
        growth = 1 + delta * column[place]
        if not growth > SPANNED:
            return self._from(state.which, changed, state.beta, state.H)
        share = delta / growth
        return replace(
            state,
            alpha=changed,
            T=state.T - np.outer(share * column, column),
            Q=state.Q - share * q * column,
            evidence=state.evidence + float(share * q * q - np.log(growth)) / 2,
        )

    def changed(self, state: NormalState, alpha: np.ndarray) -> NormalState:
        """Several α changed."""
        return self._from(state.which, alpha, state.beta, state.H)

    # The noise

    def noise_gain(self, state: NormalState) -> tuple[float, bool]:
        """What a better β would add, were f to stay, and whether it is more noise.

        ½ ν (ρ - 1 - log ρ), where ν is n less the parameters that the target
        determined and ρ = β‖t - Φμ‖²/ν.
        """
        if self.fixed:
            return 0.0, False
        active = np.isfinite(state.alpha)
        alpha, S, Q = state.alpha[active], state.S[active], state.Q[active]
        mean = Q / alpha
        free = max(self.basis.total - np.sum(S / alpha), 1e-9 * self.basis.total)
        towards = self.towards[state.which[active]]
        H = state.H[np.ix_(active, active)]
        residual = max(self.square - mean @ (2 * towards - H @ mean), 0.0)
        ratio = max(state.beta * residual / free, state.beta / QUIETEST)
        gain = free * (ratio - 1 - np.log(ratio)) / 2
        return float(gain), bool(ratio > 1)

    def quieted(self, state: NormalState) -> NormalState:
        """At the β of largest evidence for these α."""
        active, alpha = active_of(state)
        chosen = np.isfinite(state.alpha)
        root = 1 / np.sqrt(alpha)
        H = state.H[np.ix_(chosen, chosen)] * np.outer(root, root)
        values, vectors = interruptible(np.linalg.eigh, H, work=4.0 * len(H) ** 3)
        values = np.maximum(values, 0)
        pull = (vectors.T @ (root * self.towards[active])) ** 2

        def loss(log_beta: float) -> float:
            beta = np.exp(log_beta)
            growth = 1 + beta * values
            distance = beta * (self.square - np.sum(beta * pull / growth))
            return (np.sum(np.log(growth)) + distance - self.basis.total * log_beta) / 2

        now, most = np.log(state.beta), np.log(QUIETEST)
        bounds = (min(now, -10.0) - 5, max(now, most))
        found = scipy.optimize.minimize_scalar(
            loss, bounds=bounds, options={"xatol": 1e-9}
        )
        if not loss(found.x) < loss(now):
            return state
        beta = float(np.exp(found.x))
        return self._from(state.which, state.alpha, beta, state.H)

    def posterior(self, state: NormalState) -> Posterior:
        chosen = np.flatnonzero(np.isfinite(state.alpha))
        chosen = chosen[np.argsort(state.which[chosen])]
        active, alpha = state.which[chosen], state.alpha[chosen]
        factor = Factor(alpha, state.beta * state.H[np.ix_(chosen, chosen)])
        mean = factor.solve(state.beta * self.towards[active])
        beta = state.beta / self.unit**2
        return _in_units(
            self.basis, active, alpha, mean, factor, self.unit, beta, state.evidence
        )


@dataclass(frozen=True, eq=False)
class LogisticState:
    """α, the columns in view, and the mode of w with what follows from it."""

    which: np.ndarray
    alpha: np.ndarray
    columns: np.ndarray
    mean: np.ndarray  # 0 where α is ∞
    error: np.ndarray  # weight · (target in 0, 1 - p)
    curvature: np.ndarray  # B = weight · p (1 - p)
    factor: Factor
    evidence: float

    @cached_property
    def Q(self) -> np.ndarray:
        return self.columns.T @ self.error

    @cached_property
    def S(self) -> np.ndarray:
        active = np.isfinite(self.alpha)
        weighted = self.curvature[:, None] * self.columns[:, active]
        Z = self.factor.half(multiply(weighted.T, self.columns))
        S = _remainder(self.curvature @ self.columns**2, Z)
        S[active] = self.alpha[active] * self.factor.shares()
        return S

    def inner(self) -> np.ndarray:
        """φᵢᵀC⁻¹φⱼ of the active columns."""
        return self.factor.inner()


class Logistic:
    """p(target = 1) = 1 / (1 + exp(-f)), C = B⁻¹ + Φ A⁻¹ Φᵀ at the mode of w."""

    def __init__(self, basis: Basis, problem: SparseBayes):
        self.basis, self.sign = basis, problem.target

    def start(self) -> LogisticState:
        """The column nearest to the target, alone."""
        towards = self.basis.products(self.basis.weight * self.sign) / 2
        first = np.array([np.argmax(np.abs(towards))])
        s, q = self.basis.total / 4, towards[first[0]]
        alpha = max(s * s / (q * q - s), LEAST) if q * q > s else 1.0
        return self.at(first, np.array([alpha]))

    def at(self, active: np.ndarray, alpha: np.ndarray) -> LogisticState:
        """The state with these columns in view, all of them active."""
        columns = self.basis.columns(active)
        return self._fitted(active, alpha, columns, np.zeros(len(active)))

    def _fitted(
        self,
        which: np.ndarray,
        alpha: np.ndarray,
        columns: np.ndarray,
        mean: np.ndarray,
    ) -> LogisticState:
        """The mode of w, by Newton's method from `mean`, halving steps that overshoot.

        In u = A^½ w the Hessian is I + FᵀBF, F = Φ A^-½: never singular.
        """
        active = np.isfinite(alpha)
        root = np.sqrt(alpha[active])
        F, u = columns[:, active] / root, mean[active] * root
        weight, sign = self.basis.weight, self.sign
        f = F @ u
        value = weight @ _log_expit(sign * f) - u @ u / 2
        while True:
            p = expit(-sign * f)  # of the class that the point does not have
            error, curvature = weight * sign * p, weight * p * (1 - p)
            factor = Factor(
                alpha[active],
                root * multiply(F.T, curvature[:, None] * F) * root[:, None],
            )
            slope = F.T @ error - u
            step = factor.whitened(slope)
            promise = slope @ step
            if promise < MODE:
                break
            size, moved = 1.0, F @ step
            while True:
                further = u + size * step
                reached = weight @ _log_expit(sign * (f + size * moved))
                reached -= further @ further / 2
                if reached >= value or size < 1e-8:
                    break
                size /= 2
            if not reached > value:
                break
            u, f, value = further, f + size * moved, reached
        mean = np.zeros(len(alpha))
        mean[active] = u / root
        return LogisticState(
            which, alpha, columns, mean, error, curvature, factor,
            float(value - factor.logdet / 2),
        )  # fmt: skip

    def scan(self, state: LogisticState) -> tuple[np.ndarray, np.ndarray]:
        """S and Q of all columns."""
        active, alpha = active_of(state)
        chosen = np.isfinite(state.alpha)
        weighted = state.curvature[:, None] * state.columns[:, chosen]
        found = self.basis.products(np.column_stack([state.error, weighted]))
        Q, Z = found[:, 0], state.factor.half(found[:, 1:].T)
        S = _remainder(self.basis.squares(state.curvature), Z)
        S[active] = alpha * state.factor.shares()
        return S, Q

    def focus(self, state: LogisticState, pool: np.ndarray) -> LogisticState:
        chosen = np.isfinite(state.alpha)
        active, alpha = active_of(state)
        pool = pool[~np.isin(pool, active)]
        return LogisticState(
            np.concatenate([active, pool]),
            np.append(alpha, np.full(len(pool), np.inf)),
            np.hstack([state.columns[:, chosen], self.basis.columns(pool)]),
            np.append(state.mean[chosen], np.zeros(len(pool))),
            state.error, state.curvature, state.factor, state.evidence,
        )  # fmt: skip

    def moved(self, state: LogisticState, place: int, alpha: float) -> LogisticState:
        changed = state.alpha.copy()
        changed[place] = alpha
        return self.changed(state, changed)

    def changed(self, state: LogisticState, alpha: np.ndarray) -> LogisticState:
        """Several α changed."""
        return self._fitted(state.which, alpha, state.columns, state.mean)

    def noise_gain(self, state: LogisticState) -> tuple[float, bool]:
        """0: this likelihood has no β to improve."""
        return 0.0, False

    def posterior(self, state: LogisticState) -> Posterior:
        chosen = np.flatnonzero(np.isfinite(state.alpha))
        chosen = chosen[np.argsort(state.which[chosen])]
        alpha, columns = state.alpha[chosen], state.columns[:, chosen]
        H = multiply(columns.T, state.curvature[:, None] * columns)
        factor = Factor(alpha, H)
        mean = state.mean[chosen]
        which = state.which[chosen]
        return _in_units(
            self.basis, which, alpha, mean, factor, 1.0, np.nan, state.evidence
        )


class Factor:
    """LLᵀ = I + A^-½ H A^-½, eigenvalues from 1 on: Σ = (A + H)⁻¹ and |A + H| / |A|.

    Parameters
    ----------
    H : ΦᵀBΦ of the active columns
    """

    def __init__(self, alpha: np.ndarray, H: np.ndarray):
        self.root = np.sqrt(alpha)
        inside = H / (self.root[:, None] * self.root)
        inside.flat[:: len(alpha) + 1] += 1
        # LAPACK itself: scipy's wrappers cost more than these small systems do.
        self.L, failed = dpotrf(inside, lower=1, clean=1)
        if failed:
            # H of a tiny noise rounds by more than the 1 that is added.
            self.L = _from_one_on(inside)

    @property
    def logdet(self) -> float:
        return 2 * float(np.sum(np.log(self.L.diagonal())))

    def half(self, V: np.ndarray) -> np.ndarray:
        """L⁻¹ A^-½ V, so that VᵀΣV is its square."""
        return half(self.L, self._scaled(V))

    def solve(self, V: np.ndarray) -> np.ndarray:
        """Σ V, Σ = (A + H)⁻¹."""
        return self._scaled(self.whitened(self._scaled(V)))

    def whitened(self, V: np.ndarray) -> np.ndarray:
        """(I + A^-½ H A^-½)⁻¹ V."""
        return half(self.L, half(self.L, V), transposed=True)

    def _scaled(self, V: np.ndarray) -> np.ndarray:
        return V / (self.root if V.ndim == 1 else self.root[:, None])

    @cached_property
    def _inverse(self) -> np.ndarray:
        return dtrtri(self.L, lower=1)[0]

    def shares(self) -> np.ndarray:
        """1 - αᵢΣᵢᵢ, how much of each w the target determined."""
        return np.maximum(1 - np.sum(self._inverse**2, axis=0), 0)

    def inner(self) -> np.ndarray:
        """A - AΣA."""
        inside = np.eye(len(self.L)) - multiply(self._inverse.T, self._inverse)
        return inside * np.outer(self.root, self.root)

    def covariance(self) -> np.ndarray:
        inside = self._inverse / self.root
        return multiply(inside.T, inside)


# α of some columns, the others being ∞, and what follows from it.
State = NormalState | LogisticState


def active_of(state: State) -> tuple[np.ndarray, np.ndarray]:
    """The columns with a finite α, and their α."""
    chosen = np.isfinite(state.alpha)
    return state.which[chosen], state.alpha[chosen]


def _remainder(squares: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """squares - Σ Z², 0 where rounding is all that is left."""
    left = squares - np.einsum("ij,ij->j", Z, Z)
    return np.where(left > SPANNED * squares, left, 0.0)


def _log_expit(f: np.ndarray) -> np.ndarray:
    return -np.logaddexp(0, -f)


def _in_units(
    basis: Basis,
    active: np.ndarray,
    alpha: np.ndarray,
    mean: np.ndarray,
    factor: Factor,
    unit: float,
    beta: float,
    evidence: float,
) -> Posterior:
    """What was found for scaled columns and targets, in those that were given."""
    factors = unit / basis.scale[active]
    mean, covariance = factors * mean, np.outer(factors, factors) * factor.covariance()
    alpha = alpha / factors**2
    index, bias = active[active < basis.points], 0.0
    if basis.size > basis.points:
        if len(index) < len(active):
            bias, mean = float(mean[-1]), mean[:-1]
        else:
            alpha = np.append(alpha, np.inf)
            covariance = np.pad(covariance, (0, 1))
    return Posterior(
        index, mean, bias, alpha, covariance, float(beta), evidence,
        curve=np.empty(0), violation=0.0,
    )  # fmt: skip


def _from_one_on(matrix: np.ndarray) -> np.ndarray:
    """L of LLᵀ = matrix with every eigenvalue below 1 raised to 1."""
    values, V = np.linalg.eigh(matrix)
    R = np.linalg.qr(np.sqrt(np.maximum(values, 1))[:, None] * V.T, mode="r")
    return np.ascontiguousarray((np.sign(np.diagonal(R))[:, None] * R).T)
