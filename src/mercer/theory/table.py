"""A table of bounds: what theory says of a fitted machine beside what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.data.points import Points
from mercer.losses import Loss
from mercer.machines.base import Machine
from mercer.machines.perceptron import MistakeDriven
from mercer.machines.svm import SVC
from mercer.theory import mistake_bound
from mercer.theory.assumptions import Absent, Judged
from mercer.theory.formulas import (
    Bound,
    Bounds,
    fitted_loss_bound,
    fitted_margin_bound,
    loss_bound,
    margin_bound,
    power_above,
    rademacher,
    share,
    spans,
    spread,
    xi_alpha,
)
from mercer.theory.leave_one_out import alone, check_support, left_out

RAMP = "(1/m) Σ min(1, ξᵢ) + 2BR/√m + 3 √(ln(2/δ)/2m)"
CLIPPED = "(1/m) Σ min(c, ℓᵢ) + 2LBR/√m + 3c √(ln(2/δ)/2m)"
WHOLE = "(1/m) Σ ℓᵢ + 2LBR/√m + 3c √(ln(2/δ)/2m)"
TRAINED = "the machine was fitted on exactly these points, with these weights"
ROWS = (
    "training error",
    "margin bound",
    "loss bound",
    "Rademacher",
    "leave-one-out",
    "support vectors",
    "xi-alpha",
    "span",
    "mistakes",
)


def bounds(
    machine: Machine,
    X: Points,
    y: Any = None,
    delta: float = 0.05,
    *,
    norm: float | None = None,
    loss: Loss | None = None,
    clip: float | None = None,
    largest: float | None = None,
    refit: bool = False,
    test: tuple[Points, Any] | None = None,
    sample_weight: npt.ArrayLike | None = None,
    samples: int = 100,
    seed: int = 0,
) -> Bounds:
    """error ≤ (1/m) Σᵢ min(1, ξᵢ) + 2BR/√m + 3 √(ln(2/δ)/2m), and others, in a table.

    "training error"
        share of yᵢ f(xᵢ) ≤ 0, or of several classes of those missed; of
        numbers, the mean of (yᵢ - f(xᵢ))². Each point counts once
    "test error"
        the same on other points, if given
    "margin bound"
        the formula above: with probability 1 - δ over the draw of m
        independent points, for every f of ‖f‖ ≤ B without bias, B and k
        fixed beforehand. Without `norm`, B is the best of the grid
        1, 2, ½, 4, ¼, ..., the k-th taken with δ/k(k + 1), f scaled to
        norm B. A bias b is seen as a part of f in the RKHS of k + 1:
        ‖f‖² + b² and R² + 1 stand for ‖f‖² and R²
    "loss bound"
        risk ≤ (1/m) Σᵢ ℓᵢ + 2LBR/√m + 3c √(ln(2/δ)/2m), for a loss
        ℓ(y, f) in [0, c] that is L-Lipschitz in f, of classes or of
        numbers; the risk is its mean over new points. f is not scaled:
        without `norm`, B ≥ ‖f‖ is of the same grid. Few losses end at a
        c of their own, so the row is about min(c, ℓ), where c is `clip`
        or of that grid as well, with its own share of δ; for clip=inf it
        is about ℓ, and c and L are its largest value and slope over
        |f| ≤ BR and |y| ≤ `largest`. So a squared loss has its L
    "Rademacher"
        (B/m) E √(σᵀKσ), σᵢ = ±1 at random, B = ‖f‖ or `norm`: the mean
        of some draws with its standard error
    "Rademacher bound"
        (B/m) √(Σᵢ k(xᵢ, xᵢ)) ≥ the row before, ≤ BR/√m
    "leave-one-out"
        the training error with each point judged by a machine fitted
        without it, k staying as it is: of KernelRidge, nearest
        neighbours and ParzenClassifier(method="mean") in closed form,
        of any other by a fit for each point that matters with
        refit=True, an estimate where some of these end before their
        optimum. Its mean over draws is the mean error of machines on
        m - 1 points.
        f = 0 is a mistake, and so is what is 0 but for rounding
    "support vectors"
        #SV/m ≥ leave-one-out: no other point matters. SVC only
    "xi-alpha"
        #{αᵢ > 0, αᵢ cᵢ + ξᵢ ≥ 1}/m ≥ leave-one-out. SVC without bias:
        cᵢ = k(xᵢ, xᵢ) (Jaakkola and Haussler). With one cᵢ = 2 (max k -
        min k) (Joachims), which is above leave-one-out only where the
        machines without a point each keep a free support vector: an
        estimate, as nobody has checked that
    "span"
        #{αᵢ Sᵢ² ≥ yᵢ f(xᵢ)}/m, Sᵢ the distance of φ(xᵢ) from the span of
        the other free support vectors (Vapnik and Chapelle). Equal to
        leave-one-out if no other point changes its kind, being free, at
        its bound, or unused, when one is left out. SVC only
    "mistakes"
        M/m of a perceptron after one pass, by its `mistake_bound`

    Every machine has a table. Rows that do not apply to it are `absent`, each with the
    reason, and of a machine that learns no targets all are. A kernel whose parameters
    were learnt or chosen on the same points is not fixed beforehand; the row says so
    where it can be seen. A probability is that of its row alone. Bounds are rounded up:
    f is computed in double precision, and what it may be off by is added.

    Parameters
    ----------
    machine : fitted on X and y. Where y is ±1, numbers count as classes by their sign
    norm : B, if it was fixed before the points were seen; None for the grid
    loss : of "loss bound"; None for what the machine minimises
    clip : c, if it was fixed before the points were seen: the row is about min(c, ℓ);
        inf for ℓ as it is; None for the grid
    largest : Y, what |y| is at most, for clip=inf and numbers
    refit : whether to fit the machine again without each point
    test : other points and their targets
    sample_weight : as it was given to `fit`; it is read by what leaves points out
    samples, seed : of the draws for the Rademacher complexity

    Examples
    --------
    >>> from mercer import Linear, SVC, bounds
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], [-1, -1, 1, 1]
    >>> table = bounds(SVC(kernel=Linear()).fit(X, y), X, y, refit=True)
    >>> table["training error"].value, table["leave-one-out"].value
    (0.0, 0.0)
    >>> table["support vectors"].value
    0.5
    """
    if not 0 < delta < 1:
        raise ValueError(f"bounds needs 0 < delta < 1; got delta={delta!r}.")
    _check_numbers(norm=norm, clip=clip, largest=largest)
    judged = Judged(machine, X, y, sample_weight)
    if not judged.learns:
        return Bounds((), _nothing(judged), judged.name, judged.m, delta)
    case = _Case(judged, delta, norm)
    rows: list[Bound] = []
    absent: list[tuple[str, str]] = []

    def add(name: str, make: Callable[..., list[Bound]], *arguments: Any) -> None:
        try:
            found = make(*arguments)
        except Absent as reason:
            absent.append((name, str(reason)))
        else:
            rows.extend(found)

    add("training error", case.measured)
    if test is not None:
        add("test error", case.tested, *test)
    add("margin bound", case.margin)
    add("loss bound", case.loss, loss, clip, largest)
    add("Rademacher", case.complexity, samples, seed)
    add("leave-one-out", case.left_out, refit)
    add("support vectors", case.support)
    add("xi-alpha", case.xi_alpha)
    add("span", case.span)
    add("mistakes", case.mistakes)
    return Bounds(tuple(rows), tuple(absent), judged.name, judged.m, delta)


def _check_numbers(**numbers: float | None) -> None:
    for name, value in numbers.items():
        if value is not None and not value > 0:
            raise ValueError(f"bounds needs {name} > 0, or None; got {name}={value!r}.")


def _nothing(judged: Judged) -> tuple[tuple[str, str], ...]:
    reason = f"{judged.name} learns no targets, so there is no error to bound"
    if judged.kind is None:
        reason = f"bounds does not know what a {judged.name} is"
    return tuple((name, reason) for name in ROWS)


class _Case:
    """The rows of a machine with its points, each computed on demand."""

    def __init__(self, judged: Judged, delta: float, norm: float | None):
        self.judged, self.machine, self.m = judged, judged.machine, judged.m
        self.delta, self.norm = delta, norm

    # Measured errors

    def measured(self) -> list[Bound]:
        judged = self.judged
        error = float(judged.wrong(judged.y, judged.own).mean())
        return [Bound("training error", error, "measured", judged.formula, "none")]

    def tested(self, X: Points, y: npt.ArrayLike) -> list[Bound]:
        judged = self.judged
        # Kernel values come by rows: their number is that of the points.
        predictions = judged.predicted(self.machine, X)
        y, _ = judged._targets(y, len(predictions))
        error = float(judged.wrong(y, predictions).mean())
        assumed = "points not seen by `fit`"
        return [Bound("test error", error, "measured", judged.formula, assumed)]

    # Margin, loss and complexity

    @cached_property
    def _own(self) -> float:
        """‖f‖ as it was computed, the bias included."""
        judged = self.judged
        judged.check_f()
        self._needs_space()
        try:
            norm = judged.f.norm()
        except ValueError as error:
            raise Absent(str(error).rstrip(".")) from error
        return float(np.hypot(norm, judged.f.bias))

    @cached_property
    def _size(self) -> tuple[float, float, float]:
        """‖f‖ at most, R, and the constant added to the kernel: 1 for a bias."""
        # ‖f‖² is off by no more than this, relative to (Σ |coefᵢ| √k(xᵢ, xᵢ))².
        norm = float(np.hypot(self._own, self.judged.length * np.sqrt(self._epsilon)))
        square = float(np.max(self.judged.gram.diag(), initial=0))
        constant = float(self.judged.biased)
        return norm, float(np.sqrt(square + constant)), constant

    @property
    def _epsilon(self) -> float:
        """The relative rounding of a sum over the points of f."""
        return (len(self.judged.f.coef) + 100) * float(np.finfo(float).eps)

    @property
    def _rounding(self) -> float:
        """What f(x) may be off by at the points."""
        return self._epsilon * self.judged.scale

    def _needs_space(self) -> None:
        for kernel in (self.judged.f.kernel, self.judged.base):
            if kernel.psd is False:
                raise Absent(f"{kernel} is indefinite: there is no feature space")

    def _fixed(self) -> float:
        """B: what was given, or ‖f‖."""
        most, norm = self._size[0], self.norm
        if norm is None:
            return most
        if not self._own <= norm * (1 + 1e-9):
            raise ValueError(
                f"f has norm {self._own:.6g}, outside of the ball ‖f‖ ≤ norm={norm!r}. "
                "Leave norm=None: then a grid of norms is used."
            )
        return max(float(norm), most)

    def margin(self) -> list[Bound]:
        judged = self.judged
        if judged.mode == "numbers":
            raise Absent("it is about classes, and these targets are numbers")
        own, radius, _ = self._size
        reached = judged.y * judged.values - self._rounding
        if self.norm is None:
            found = fitted_margin_bound(reached, own, radius, self.delta)
            how = f"B = {found.norm:g} of the grid 2ʲ, ‖f‖ = {own:.3g} scaled to it"
        else:
            found = margin_bound(reached, self._fixed(), radius, self.delta)
            how = f"B = {found.norm:g} given"
        kind = "bound, probability 1 - δ"
        assumed = self._drawn(how)
        return [
            Bound("margin bound", found.value, kind, RAMP, assumed, parts=found[:3])
        ]

    def _drawn(self, how: str) -> str:
        """What a bound with probability 1 - δ assumes."""
        radius = self._size[1]
        first = f"independent points of one distribution; {how}; R = {radius:.4g}"
        return "; ".join([first, *self._of_kernel()])

    def _of_kernel(self) -> Iterator[str]:
        judged = self.judged
        yield f"kernel {judged.f.kernel!r} fixed beforehand" + (
            " (NOT SO: it learnt from these points)" if judged.learnt else ""
        )
        if judged.f.kernel.psd is None:
            yield "positive semidefinite, which nobody has checked"
        if judged.biased:
            yield "the bias as a part of f, in the RKHS of k + 1"

    def loss(
        self, loss: Loss | None, clip: float | None, largest: float | None
    ) -> list[Bound]:
        judged = self.judged
        own, radius, _ = self._size
        loss = self._loss_of(loss)
        delta, notes = self.delta, []
        if clip is None:
            power = self._ceiling(loss)
            clip, delta = 2.0**power, share(power, delta)
            notes.append(f"c = {clip:g} of the grid 2ʲ")
        elif np.isinf(clip):
            largest = self._largest(loss, largest)
            notes.append("k(x, x) ≤ R² at new points too")
            if not loss.of_sides:
                notes.append(f"|y| ≤ {largest:g} always")
        else:
            notes.append(f"c = {clip:g} given")
        options: dict[str, Any] = {"clip": clip, "largest": largest or 0.0}
        options["rounding"] = self._rounding
        of = loss, judged.y, judged.values
        if self.norm is None:
            found = fitted_loss_bound(*of, own, radius, delta, **options)
            notes.append(f"B = {found.norm:g} ≥ ‖f‖ = {own:.3g} of the grid 2ʲ")
        else:
            found = loss_bound(*of, self._fixed(), radius, delta, **options)
            notes.append(f"B = {found.norm:g} given")
        notes.append(f"L = {found.steepness:.4g}")
        about = f"min(c, ℓ), ℓ = {loss!r}" if np.isfinite(clip) else f"ℓ = {loss!r}"
        return [
            Bound(
                "loss bound",
                found.value,
                "bound, probability 1 - δ",
                CLIPPED if np.isfinite(clip) else WHOLE,
                self._drawn("; ".join([f"the mean of {about}", *notes])),
                parts=found[:3],
                most=found.ceiling,
            )
        ]

    def _loss_of(self, given: Loss | None) -> Loss:
        """The loss the row is about, checked against the targets."""
        loss, mode = given or self.judged.loss, self.judged.mode
        if loss is None:
            raise Absent(f"{self.judged.name} minimises no loss; pass one as loss")
        if loss.of_sides and mode == "numbers":
            if given is None:
                raise Absent(f"{loss!r} is about classes, and these are numbers")
            raise ValueError(
                f"{loss!r} is a loss of classes, and these targets are numbers. Pass "
                "one of numbers, such as Huber()."
            )
        return loss

    def _ceiling(self, loss: Loss) -> int:
        """The least power of two that no point, and no point at f = 0, exceeds."""
        y, values = self.judged.y, self.judged.values
        seen = max(float(loss.value(y, v).max()) for v in (values, 0 * values))
        return power_above(seen) if seen > 0 else 0

    def _largest(self, loss: Loss, largest: float | None) -> float:
        if loss.of_sides:
            return 1.0
        seen = float(np.abs(self.judged.y).max())
        if largest is None:
            raise Absent(
                f"{loss!r} without clip is bounded where |y| is: pass what |y| is at "
                "most as largest"
            )
        if seen > largest:
            raise ValueError(
                f"A target is {seen:g} in size, beyond largest={largest!r}."
            )
        return float(largest)

    def complexity(self, samples: int, seed: int) -> list[Bound]:
        B, (_, _, constant) = self._fixed(), self._size
        gram = self.judged.gram
        found = rademacher(gram, B, constant=constant, samples=samples, seed=seed)
        given = "‖f‖" if self.norm is None else "norm"
        assumed = "; ".join([f"B = {B:.4g}, {given}", *self._of_kernel()])
        mean, most = "(B/m) E √(σᵀKσ)", "(B/m) √(Σ k(xᵢ, xᵢ))"
        return [
            Bound("Rademacher", found.value, "estimate", mean, assumed, found.error),
            Bound("Rademacher bound", found.bound, "exact", most, assumed),
        ]

    # Leaving one point out

    def left_out(self, refit: bool) -> list[Bound]:
        judged = self.judged
        predictions, how, kind = left_out(judged, refit)
        formula = judged.formula.replace("f(xᵢ)", "f₋ᵢ(xᵢ)").replace("ŷ", "ŷ₋ᵢ")
        assumed = f"{TRAINED}; {how}; the kernel stays as it is"
        if judged.learnt:
            assumed += " (it learnt from all points, and would be another without one)"
        error = float(judged.wrong(judged.y, predictions).mean())
        return [Bound("leave-one-out", error, kind, formula, assumed)]

    @cached_property
    def _gap(self) -> float:
        if not isinstance(self.machine, SVC):
            raise Absent(
                f"it is about the αᵢ ≤ C of SVC, which {self.judged.name} has not"
            )
        return check_support(self.judged)

    @cached_property
    def _alpha(self) -> np.ndarray:
        assert self._gap >= 0  # SVC, and optimal
        alpha = np.zeros(self.m)
        alpha[self.machine.support_] = np.abs(self.judged.f.coef)
        return alpha

    @cached_property
    def _reached(self) -> np.ndarray:
        return self.judged.y * self.judged.values

    @property
    def _upper(self) -> np.ndarray:
        """C of each point."""
        factor = self.machine.class_weight_[(self.judged.y > 0).astype(int)]
        weight = np.ones(self.m) if self.judged.weight is None else self.judged.weight
        return self.machine.C * np.where(weight > 0, factor * weight, 1.0)

    def _matters(self) -> np.ndarray:
        """The support vectors, and what f may miss for being optimal to a gap only."""
        alpha, gap = self._alpha, self._gap
        # ‖f - f₋ᵢ‖² ≤ 2 gap for αᵢ = 0, f being optimal without the point to the gap.
        square = float(np.max(self.judged.gram.diag(), initial=0))
        near = self._reached <= np.sqrt(2 * gap * square)
        return (alpha > 0) | near | alone(self.judged)

    def support(self) -> list[Bound]:
        value = float(np.mean(self._matters()))
        kind, formula = "bound, leave-one-out", "#{αᵢ > 0}/m"
        return [Bound("support vectors", value, kind, formula, TRAINED)]

    def xi_alpha(self) -> list[Bound]:
        judged, gap = self.judged, self._gap
        kind, assumed = (
            "bound, leave-one-out",
            f"{TRAINED}; positive semidefinite kernel",
        )
        if not judged.biased:
            formula, curvature = "#{αᵢ k(xᵢ, xᵢ) + ξᵢ ≥ 1}/m", judged.gram.diag()
        else:
            formula = "#{2αᵢ(max k - min k) + ξᵢ ≥ 1}/m"
            curvature = np.full(self.m, 2 * spread(judged.gram))
            # Where all others are at a bound, the bias may be anything in an interval.
            kind = "estimate"
            assumed += "; leaving one out, a support vector stays free"
        # A dual that is short of the optimum by a gap shifts yᵢ f₋ᵢ(xᵢ) by gap/αᵢ.
        alpha = np.where(self._alpha > 0, self._alpha, 1.0)
        slack = self.machine._tolerance + 2 * gap / alpha
        possible = xi_alpha(self._alpha, self._reached, curvature, slack)
        possible |= self._matters() & (self._alpha == 0) | alone(judged)
        return [Bound("xi-alpha", float(possible.mean()), kind, formula, assumed)]

    def span(self) -> list[Bound]:
        judged, alpha = self.judged, self._alpha
        tol = self.machine._tolerance
        inside = (alpha > 0) & (alpha < self._upper * (1 - 1e-9))
        free, others = np.flatnonzero(inside), np.flatnonzero((alpha > 0) & ~inside)
        squares = np.zeros(self.m)
        squares[free], squares[others] = spans(judged.gram, free, others, judged.biased)
        missed = (alpha > 0) & (self._reached <= alpha * squares + tol)
        formula = "#{αᵢ Sᵢ² ≥ yᵢ f(xᵢ)}/m"
        assumed = f"{TRAINED}; leaving one out, no other point changes its kind"
        return [Bound("span", float(missed.mean()), "estimate", formula, assumed)]

    # Perceptrons

    def mistakes(self) -> list[Bound]:
        judged, machine = self.judged, self.machine
        if not isinstance(machine, MistakeDriven):
            raise Absent(f"it is about perceptrons, and {judged.name} is none")
        if len(machine.classes_) > 2:
            raise Absent("it is about one f; `mistake_bound` has a number per class")
        if judged.base.psd is False:
            raise Absent(f"{judged.base!r} is indefinite: there is no feature space")
        seen = machine._mistakes.rounds
        if seen > self.m:
            raise Absent(
                f"it is about one pass over independent points, and {seen} were seen "
                f"of {self.m}; `mistake_bound` holds for any number of passes"
            )
        most = float(mistake_bound(machine, judged.X, judged.given).bound)
        formula = "(R²‖w‖² + 2 Σ ξ over mistakes)/m"
        assumed = (
            "one pass over independent points: on average over its steps, f errs on "
            "new points no more often than this"
        )
        return [
            Bound("mistakes", most / self.m, "bound, in the mean", formula, assumed)
        ]
