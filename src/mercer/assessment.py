"""A table of bounds: what theory says of a fitted machine beside what is measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_outlier_detector
from sklearn.utils.validation import check_is_fitted

from mercer.expansion import Expansion
from mercer.generalisation import (
    Bound,
    Bounds,
    fitted_margin_bound,
    margin_bound,
    rademacher,
    spans,
    spread,
    xi_alpha,
)
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.kinds import Precomputed
from mercer.machines.base import Machine
from mercer.points import Points, count
from mercer.solvers.losses import Squared, ZeroOne
from mercer.theory import mistake_bound

RAMP = "(1/m) Σ min(1, ξᵢ) + 2BR/√m + 3 √(ln(2/δ)/2m)"
UNFREE = "with a bias it needs a free support vector, 0 < αᵢ < C"
TRAINED = "the machine was fitted on exactly these points, all of weight 1"


def bounds(
    machine: Machine,
    X: Points,
    y,
    delta: float = 0.05,
    *,
    norm: float | None = None,
    refit: bool = False,
    test: tuple[Points, Any] | None = None,
    samples: int = 100,
    seed: int = 0,
) -> Bounds:
    """error ≤ (1/m) Σᵢ min(1, ξᵢ) + 2BR/√m + 3 √(ln(2/δ)/2m), and others, in a table.

    "training error"   share of yᵢ f(xᵢ) ≤ 0; of numbers, the mean of (yᵢ - f(xᵢ))²
    "test error"       the same on other points, if given
    "margin bound"     the formula above: with probability 1 - δ over the draw of m
                       independent points, for every f of ‖f‖ ≤ B without bias, B and k
                       fixed beforehand. Without `norm`, B is the best of the grid
                       1, 2, ½, 4, ¼, ..., the k-th taken with δ/k(k + 1), f scaled to
                       norm B. A bias b is seen as a part of f in the RKHS of k + 1:
                       ‖f‖² + b² and R² + 1 stand for ‖f‖² and R²
    "Rademacher"       (B/m) E √(σᵀKσ), σᵢ = ±1 at random, B = ‖f‖ or `norm`: the mean
                       of some draws with its standard error
    "Rademacher bound" (B/m) √(Σᵢ k(xᵢ, xᵢ)) ≥ the row before, ≤ BR/√m
    "leave-one-out"    the share of points that a machine fitted without them gets
                       wrong, k staying as it is: KernelRidge's exactly, any other by a
                       fit for each point that matters with refit=True. Its mean over
                       draws is the mean error of machines on m - 1 points
    "support vectors"  #SV/m ≥ leave-one-out: no other point matters. SVC only
    "xi-alpha"         #{αᵢ > 0, αᵢ cᵢ + ξᵢ ≥ 1}/m ≥ leave-one-out. SVC without bias:
                       cᵢ = k(xᵢ, xᵢ) (Jaakkola and Haussler); with one cᵢ = 2 (max k -
                       min k), if a support vector is free (Joachims)
    "span"             #{αᵢ Sᵢ² ≥ yᵢ f(xᵢ)}/m, Sᵢ the distance of φ(xᵢ) from the span of
                       the other free support vectors (Vapnik and Chapelle). Equal to
                       leave-one-out if no other point changes its kind, being free, at
                       its bound, or unused, when one is left out. SVC only
    "mistakes"         M/m of a perceptron, by its `mistake_bound`

    Rows that do not apply are `absent`, with the reason. A kernel whose parameters were
    learnt or chosen on the same points is not fixed beforehand; the row says so where
    it can be seen.

    Parameters
    ----------
    machine : fitted on X and y; of two classes, or of numbers. Where y is ±1 numbers
        count as classes by their sign
    norm : B, if it was fixed before the points were seen; None for the grid
    refit : whether to fit the machine again without each point
    test : other points and their targets
    samples, seed : of the draws for the Rademacher complexity
    """
    if not 0 < delta < 1:
        raise ValueError(f"bounds needs 0 < delta < 1; got delta={delta!r}.")
    case = _Case(machine, X, y)
    rows, absent = [case.measured()], []
    if test is not None:
        rows.append(case.tested(*test))

    def add(name, make, *arguments):
        try:
            found = make(*arguments)
        except _Absent as reason:
            absent.append((name, str(reason)))
        else:
            rows.extend(found)

    add("margin bound", case.margin, delta, norm)
    add("Rademacher", case.complexity, norm, samples, seed)
    add("leave-one-out", case.left_out, refit)
    if case.sides:
        add("support vectors", case.support)
        add("xi-alpha", case.xi_alpha)
        add("span", case.span)
    if hasattr(machine, "mistakes_"):
        add("mistakes", case.mistakes)
    name = type(machine).__name__
    return Bounds(tuple(rows), tuple(absent), name, case.m, delta)


class _Absent(Exception):
    """Why a row cannot be given."""


class _Case:
    """A fitted machine and its points: f, its values, y as sides or numbers."""

    def __init__(self, machine: Machine, X: Points, y):
        if not isinstance(machine, Machine) or is_outlier_detector(machine):
            raise TypeError(
                "bounds judges a machine of two classes or of numbers; got "
                f"{type(machine).__name__}. Of a pipeline, pass its last step and the "
                "points as they reach it."
            )
        check_is_fitted(machine)
        self.machine = machine
        self.X = X = machine._validated_points(X, reset=False)
        self.m = count(X)
        self.f, self.points = machine.expansion_, X
        if machine._precomputed:
            # New points come with their kernel values; here they are those of `fit`.
            self.points, f = np.arange(self.m), machine.expansion_
            kernel = Precomputed(np.asarray(X, dtype=float))
            self.f = Expansion(kernel, f.points, f.coef, f.bias)
        if self.f.coef.ndim == 2:
            raise ValueError(
                f"bounds judges one f; this {type(machine).__name__} has "
                f"{self.f.n_outputs}, one for each duel, class or target. Fit a "
                "machine for each."
            )
        self._check_places()
        self.y, self.sides = self._targets(y, self.m)
        self.given = np.asarray(y)
        self.values = self.f(self.points)

    def _check_places(self) -> None:
        """Refuse points that cannot be those of `fit`."""
        fitted = getattr(self.machine, "shape_fit_", (None,))[0]
        if fitted is None and self._knows_left_out:
            fitted = len(self.f.coef)
        if fitted is not None and fitted != self.m:
            raise ValueError(
                f"bounds needs the {fitted} points that {type(self.machine).__name__} "
                f"was fitted on; got {self.m}. Other points go into test=(X, y)."
            )

    @property
    def _knows_left_out(self) -> bool:
        # Of the class: asking the machine would compute them.
        return hasattr(type(self.machine), "loo_predictions_")

    def _targets(self, y, n: int) -> tuple[np.ndarray, bool]:
        """y as ±1, or as numbers; and whether it is sides."""
        y = np.asarray(y)
        if y.shape != (n,):
            raise ValueError(f"bounds needs {n} targets, one per point; got {y.shape}.")
        classes = getattr(self.machine, "classes_", None)
        if classes is None:
            y = y.astype(float)
            return y, bool(np.all(np.abs(y) == 1))
        if len(classes) != 2 or not np.isin(y, classes).all():
            raise ValueError(
                f"bounds needs targets of two classes; the machine knows "
                f"{list(classes)}, y has {list(np.unique(y))[:5]}."
            )
        return np.where(y == classes[1], 1.0, -1.0), True

    # What is measured

    def _error(self, y, values) -> float:
        loss = ZeroOne() if self.sides else Squared()
        return float(np.mean(loss.value(y, values)))

    @property
    def _formula(self) -> str:
        return "#{yᵢ f(xᵢ) ≤ 0}/m" if self.sides else "(1/m) Σ (yᵢ - f(xᵢ))²"

    def measured(self) -> Bound:
        error = self._error(self.y, self.values)
        return Bound("training error", error, "measured", self._formula, "none")

    def tested(self, X, y) -> Bound:
        values = self.machine._values(X)
        y, _ = self._targets(y, len(values))
        error, assumed = self._error(y, values), "points that the fit has not seen"
        return Bound("test error", error, "measured", self._formula, assumed)

    # Margin and complexity

    @cached_property
    def _size(self) -> tuple[float, float, float]:
        """‖f‖, R, and the constant added to the kernel: 1 for an f with a bias."""
        self._needs_space()
        try:
            norm = self.f.norm()
        except ValueError as error:
            raise _Absent(str(error)) from error
        square = float(np.max(self.gram.diag(), initial=0))
        constant = float(self.biased)
        norm = float(np.hypot(norm, self.f.bias))
        return norm, float(np.sqrt(square + constant)), constant

    def _needs_space(self) -> None:
        if self.f.kernel.psd is False:
            raise _Absent(f"{self.f.kernel!r} is indefinite: there is no feature space")

    @property
    def biased(self) -> bool:
        """Whether f has a bias, or would have one on other points."""
        support = hasattr(self.machine, "support_")
        intercept = getattr(self.machine, "fit_intercept", True)
        return bool(self.f.bias) or (support and intercept)

    @cached_property
    def gram(self) -> Gram:
        return Gram(self.f.kernel, self.points)

    def _fixed(self, norm: float | None) -> float:
        own = self._size[0]
        if norm is None:
            return own
        if not own <= norm * (1 + 1e-9):
            raise ValueError(
                f"f has norm {own:.6g}, outside of the ball ‖f‖ ≤ norm={norm!r}. "
                "Leave norm=None: then a grid of norms is used."
            )
        return float(norm)

    def margin(self, delta: float, norm: float | None) -> list[Bound]:
        if not self.sides:
            raise _Absent("it is about classes, and these targets are numbers")
        own, radius, _ = self._size
        reached = self.y * self.values
        if norm is None:
            found = fitted_margin_bound(reached, own, radius, delta)
            how = f"B = {found.norm:g} of the grid 2ʲ, ‖f‖ = {own:.3g} scaled to it"
        else:
            found = margin_bound(reached, self._fixed(norm), radius, delta)
            how = f"B = {found.norm:g} given"
        assumptions = [
            f"independent points of one distribution; {how}; R = {radius:.4g}",
            *self._of_kernel(),
        ]
        return [
            Bound(
                "margin bound",
                found.value,
                "bound, probability 1 - δ",
                RAMP,
                "; ".join(assumptions),
                parts=found[:3],
            )
        ]

    def _of_kernel(self) -> Iterator[str]:
        yield f"kernel {self.f.kernel!r} fixed beforehand" + (
            " (NOT SO: it learnt from these points)" if self._learnt else ""
        )
        if self.f.kernel.psd is None:
            yield "positive semidefinite, which nobody has checked"
        if self.biased:
            yield "the bias as a part of f, in the RKHS of k + 1"

    @property
    def _learnt(self) -> bool:
        """Whether the kernel is seen to have taken a parameter from the points."""
        given = self.machine.kernel
        if given is None or isinstance(given, Kernel):
            return given is None or not (
                self.machine._precomputed or given == self.machine.expansion_.kernel
            )
        word = isinstance(given, str) and given not in ("linear", "precomputed")
        return word and getattr(self.machine, "gamma", None) == "scale"

    def complexity(self, norm: float | None, samples: int, seed: int) -> list[Bound]:
        B, (_, _, constant) = self._fixed(norm), self._size
        found = rademacher(self.gram, B, constant=constant, samples=samples, seed=seed)
        given = "‖f‖" if norm is None else "norm"
        assumed = "; ".join([f"B = {B:.4g}, {given}", *self._of_kernel()])
        mean, most = "(B/m) E √(σᵀKσ)", "(B/m) √(Σ k(xᵢ, xᵢ))"
        return [
            Bound("Rademacher", found.value, "estimate", mean, assumed, found.error),
            Bound("Rademacher bound", found.bound, "exact", most, assumed),
        ]

    # Leaving one point out

    def left_out(self, refit: bool) -> list[Bound]:
        if self._knows_left_out:
            values, how = self.machine.loo_predictions_, "from (K + αI)⁻¹"
        elif refit:
            values, how = self._refitted(), "by fitting again"
        else:
            raise _Absent("it takes a fit for each point that matters; pass refit=True")
        formula = self._formula.replace("f(xᵢ)", "f₋ᵢ(xᵢ)")
        assumed = f"{TRAINED}; {how}; the kernel stays as it is"
        error = self._error(self.y, np.asarray(values))
        return [Bound("leave-one-out", error, "exact", formula, assumed)]

    def _refitted(self) -> np.ndarray:
        """f₋ᵢ(xᵢ), each of a machine fitted without point i.

        A point of a class that has no other is missed.
        """
        machine, everything = self.machine, np.arange(self.m)
        changed = {"verbose": False, "callback": None, "warm_start": False}
        changed["probability"] = False
        known = machine.get_params(deep=False)
        K = np.asarray(self.gram.dense(), dtype=float)
        again = clone(machine).set_params(
            kernel=Precomputed(K, self.f.kernel.psd),
            **{name: value for name, value in changed.items() if name in known},
        )
        # ν shares a total among all points, and a bias that no free support vector
        # fixes depends on all: there every point matters.
        matters = np.sort(machine.support_) if self._fixes_bias else everything
        values = self.values.copy()
        for i in matters:
            rest = np.delete(everything, i)
            if is_classifier(machine) and len(np.unique(self.y[rest])) < 2:
                values[i] = -self.y[i]
                continue
            again.fit(rest, self.given[rest])
            values[i] = again.expansion_(np.array([i]))[0]
        return values

    @property
    def _boxed(self) -> bool:
        """Whether a point with αᵢ = 0 changes nothing when it leaves."""
        names = vars(self.machine)
        return "support_" in names and "C" in names and "nu" not in names

    @property
    def _fixes_bias(self) -> bool:
        """Whether f stays the only optimum when a point with αᵢ = 0 leaves."""
        return self._boxed and (not self.biased or self.machine.certificate_.n_free > 0)

    @cached_property
    def _alpha(self) -> np.ndarray:
        machine = self.machine
        if not (self._boxed and is_classifier(machine)):
            name = type(machine).__name__
            raise _Absent(f"it is about the αᵢ ≤ C of SVC, which {name} has not")
        if not self._fixes_bias:
            raise _Absent(UNFREE)
        alpha = np.zeros(self.m)
        alpha[machine.support_] = np.abs(self.f.coef)
        return alpha

    def support(self) -> list[Bound]:
        share = float(np.mean(self._alpha > 0))
        kind, formula = "bound, leave-one-out", "#{αᵢ > 0}/m"
        return [Bound("support vectors", share, kind, formula, TRAINED)]

    def xi_alpha(self) -> list[Bound]:
        alpha, reached = self._alpha, self.y * self.values
        self._needs_space()
        if not self.biased:
            formula, curvature = "#{αᵢ k(xᵢ, xᵢ) + ξᵢ ≥ 1}/m", self.gram.diag()
        else:
            formula = "#{2αᵢ(max k - min k) + ξᵢ ≥ 1}/m"
            curvature = np.full(self.m, 2 * spread(self.gram))
        possible = xi_alpha(alpha, reached, curvature, self.machine._tolerance)
        kind = "bound, leave-one-out"
        share = float(possible.mean())
        assumed = f"{TRAINED}; positive semidefinite kernel"
        return [Bound("xi-alpha", share, kind, formula, assumed)]

    @property
    def _free(self) -> np.ndarray:
        factor = self.machine.class_weight_[(self.y > 0).astype(int)]
        upper = self.machine.C * factor * (1 - 1e-9)
        return (self._alpha > 0) & (self._alpha < upper)

    def span(self) -> list[Bound]:
        alpha, reached = self._alpha, self.y * self.values
        self._needs_space()
        free = np.flatnonzero(self._free)
        others = np.flatnonzero((alpha > 0) & ~self._free)
        squares = np.zeros(self.m)
        squares[free], squares[others] = spans(self.gram, free, others, self.biased)
        missed = (alpha > 0) & (reached <= alpha * squares + self.machine._tolerance)
        formula = "#{αᵢ Sᵢ² ≥ yᵢ f(xᵢ)}/m"
        assumed = f"{TRAINED}; leaving one out, no other point changes its kind"
        return [Bound("span", float(missed.mean()), "estimate", formula, assumed)]

    def mistakes(self) -> list[Bound]:
        most = float(np.max(mistake_bound(self.machine, self.X, self.given).bound))
        formula = "(R²‖w‖² + 2 Σ ξ over mistakes)/m"
        assumed = (
            "one pass over independent points: on average over its steps, f errs on "
            "new points no more often than this"
        )
        return [
            Bound("mistakes", most / self.m, "bound, in the mean", formula, assumed)
        ]
