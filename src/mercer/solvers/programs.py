"""The programs of the SVM family as `BoxQP`s, and `quadratic` for one of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mercer.gram import Gram
from mercer.kernels.ways import Precomputed
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.variables import combined, per_variable


def svc(
    gram: Gram,
    sign: npt.ArrayLike,
    upper: npt.ArrayLike,
    *,
    bias: bool = True,
    index: npt.ArrayLike | None = None,
) -> BoxQP:
    """min ½‖f‖² + Σᵢ upperᵢ max(0, 1 - yᵢ f(xᵢ)): the soft margin, in its dual.

    Parameters
    ----------
    sign : (n,) array of ±1, the classes y
    upper : C, or one for each point
    bias : whether f has a constant
    index : the point of each variable; None where variable t is point t

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import SMO, svc
    >>> problem = svc(Gram(Linear(), [[0.0], [2.0], [3.0]]), [-1, 1, 1], upper=10.0)
    >>> coef, bias = problem.decision(SMO(tol=1e-9).solve(problem))
    >>> coef.round(6).tolist(), round(bias, 6)
    ([-0.5, 0.5, 0.0], -1.0)
    """
    total = 0.0 if bias else None
    return BoxQP(gram, -1.0, sign, 0.0, upper, total, index)


def hulls(gram: Gram, sign: npt.ArrayLike) -> BoxQP:
    """min ½‖Σ₊ αᵢ φ(xᵢ) - Σ₋ αᵢ φ(xᵢ)‖², Σ₊α = Σ₋α = 1: how near two hulls come.

    The hyperplane halfway between them has the largest margin there is.
    """
    # The sums keep α ≤ 1; a bound at 1 would take a lone nearest point for a bound one.
    total, group = (1.0, -1.0), _classes(sign)
    return BoxQP(gram, 0.0, sign, 0.0, 2.0, total, group=group, unit_margin=True)


def nu_svc(
    gram: Gram, sign: npt.ArrayLike, nu: float, weight: npt.ArrayLike = 1.0
) -> BoxQP:
    """min ½‖f‖² - νρ + mean of max(0, ρ - yᵢ f(xᵢ)), then f/ρ: reduced hulls.

    0 ≤ αᵢ ≤ weightᵢ with the sum ν Σweight / 2 in both classes. At most a fraction ν of
    the weight lies inside the margin. A class can bear its own weight and no more: a
    larger ν puts all of that class inside the margin, which is widened by as much as
    ν was too large.

    Parameters
    ----------
    sign : (n,) array of ±1, the classes
    weight : how often each point counts

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import SMO, nu_svc
    >>> gram = Gram(Linear(), [[0.0], [1.0], [2.0], [4.0]])
    >>> problem = nu_svc(gram, [-1, -1, 1, 1], nu=0.5)
    >>> solution = SMO(tol=1e-9).solve(problem)
    >>> solution.value.round(6).tolist()  # the sum in each class is ν n / 2 = 1
    [0.0, 1.0, 1.0, 0.0]
    """
    sign = np.asarray(sign, dtype=float)
    weight = np.broadcast_to(np.asarray(weight, dtype=float), sign.shape)
    asked, growth = reduced_hulls(nu, [weight[sign > 0].sum(), weight[sign < 0].sum()])
    return BoxQP(
        gram,
        linear=0.0,
        sign=sign,
        lower=0.0,
        upper=combined(lambda each: growth * each, weight),
        total=(asked, -asked),
        group=_classes(sign),
        unit_margin=True,
        surplus=growth - 1,
    )


def reduced_hulls(nu: float, mass: npt.ArrayLike) -> tuple[Any, Any]:
    """What α of `nu_svc` sums to in either class, and by what a weight is its bound.

    Parameters
    ----------
    mass : (..., 2) array, the weight of either class
    """
    mass = np.asarray(mass, dtype=float)
    asked = nu * mass.sum(axis=-1) / 2
    half = np.minimum(asked, mass.min(axis=-1))
    if not np.all(half > 0):
        raise ValueError("nu_svc needs two classes with a positive weight each.")
    return asked, asked / half


def svr(
    gram: Gram,
    target: npt.ArrayLike,
    upper: npt.ArrayLike,
    epsilon: float,
    *,
    bias: bool = True,
) -> BoxQP:
    """min ½‖f‖² + Σᵢ upperᵢ max(0, |yᵢ - f(xᵢ)| - ε): regression with a tube.

    One signed variable for each point: αᵢ > 0 where the target lies above the tube,
    αᵢ < 0 where below.

    Parameters
    ----------
    target : (n,) array of numbers y
    upper : C, or one for each point
    bias : whether f has a constant

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import SMO, svr
    >>> problem = svr(Gram(Linear(), [[0.0], [2.0]]), [0.0, 2.0], 10.0, epsilon=0.5)
    >>> coef, bias = problem.decision(SMO(tol=1e-9).solve(problem))
    >>> coef.round(6).tolist(), round(bias, 6)  # f(x) = x/2 + 1/2, within 0.5
    ([-0.25, 0.25], 0.5)
    """
    target, upper = np.asarray(target, dtype=float), np.asarray(upper, dtype=float)
    total = 0.0 if bias else None
    lower = combined(np.negative, upper)
    return BoxQP(gram, -target, 1.0, lower, upper, total, tube=epsilon)


def nu_svr(gram: Gram, target: npt.ArrayLike, upper: npt.ArrayLike, nu: float) -> BoxQP:
    """`svr` with ε such that a fraction ν of the points is at the tube or beyond it.

    Two variables for each point, the second with sign -1; each kind sums to
    ν Σupper / 2. ε is half the distance of their levels.

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import SMO, nu_svr
    >>> gram = Gram(Linear(), [[0.0], [1.0], [2.0], [3.0]])
    >>> problem = nu_svr(gram, [0.0, 1.5, 1.5, 3.0], 10.0, nu=0.5)
    >>> len(problem), SMO(tol=1e-9).solve(problem).status
    (8, 'optimal')
    """
    target = np.asarray(target, dtype=float)
    n = len(target)
    upper = np.broadcast_to(np.asarray(upper, dtype=float), (n,))
    half = nu * upper.sum() / 2
    return BoxQP(
        gram,
        linear=np.concatenate([-target, target]),
        sign=np.repeat([1.0, -1.0], n),
        lower=0.0,
        upper=np.tile(upper, 2),
        total=(half, -half),
        index=np.tile(np.arange(n), 2),
        group=np.repeat([0, 1], n),
    )


def one_class(gram: Gram, nu: float, weight: npt.ArrayLike = 1.0) -> BoxQP:
    """min ½‖f‖² - ρ ν Σweight + Σᵢ weightᵢ max(0, ρ - f(xᵢ)): f ≥ ρ on all but ν.

    Examples
    --------
    >>> from mercer import Gram, RBF
    >>> from mercer.solvers import SMO, one_class
    >>> problem = one_class(Gram(RBF(1), [[0.0], [0.1], [0.2], [5.0]]), nu=0.25)
    >>> solution = SMO(tol=1e-9).solve(problem)
    >>> round(float(solution.value.sum()), 6), solution.status  # the sum is ν n
    (1.0, 'optimal')
    """
    weight = np.broadcast_to(np.asarray(weight, dtype=float), gram.shape[:1])
    return BoxQP(gram, 0.0, 1.0, 0.0, weight, nu * float(weight.sum()))


def svdd(gram: Gram, nu: float, weight: npt.ArrayLike = 1.0) -> BoxQP:
    """min R² + Σᵢ weightᵢ ξᵢ / (ν Σweight), ‖φ(xᵢ) - c‖² ≤ R² + ξᵢ: the smallest ball.

    With T = ν Σweight the centre is c = Σᵢ αᵢ φ(xᵢ) / T; the problem is T²/2 times the
    negative of that of Tax and Duin, so that α is that of `one_class` where k(x, x) is
    constant.

    Examples
    --------
    >>> from mercer import Gram, Linear
    >>> from mercer.solvers import SMO, svdd
    >>> problem = svdd(Gram(Linear(), [[0.0], [1.0], [4.0]]), nu=0.5)
    >>> alpha = SMO(tol=1e-9).solve(problem).value
    >>> bool(0 <= alpha.min() and alpha.max() <= 1), round(float(alpha.sum()), 6)
    (True, 1.5)
    """
    weight = np.broadcast_to(np.asarray(weight, dtype=float), gram.shape[:1])
    total = nu * float(weight.sum())
    # Of large k(x, x) only small differences decide: those of float32 are too coarse.
    own = gram.double().diag()
    return BoxQP(gram, -total / 2 * own, 1.0, 0.0, weight, total)


def quadratic(
    Q: npt.ArrayLike,
    p: npt.ArrayLike,
    gamma: npt.ArrayLike,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    total: float | None,
) -> BoxQP:
    """min ½ aᵀQa + pᵀa,  γᵀa = total,  lower ≤ a ≤ upper: a quadratic of one's own.

    It is brought to the form of a `BoxQP` by β = γ∘a, K = Q / γγᵀ;
    `problem.variables(solution.value)` are the a.

    Parameters
    ----------
    Q : (n, n) symmetric array
    p, lower, upper : n numbers, or one for all
    gamma : n numbers, none of them 0, or one for all
    total : None for no such condition

    Examples
    --------
    >>> from mercer.solvers import SMO, quadratic
    >>> problem = quadratic([[2, 0], [0, 1]], [-2, 0], 1.0, 0.0, 5.0, total=2.0)
    >>> solution = SMO(tol=1e-9).solve(problem)
    >>> problem.variables(solution.value).round(6).tolist()
    [1.333333, 0.666667]
    """
    Q = np.asarray(Q, dtype=float)
    if Q.ndim != 2 or Q.shape[0] != Q.shape[1] or not np.allclose(Q, Q.T):
        raise ValueError(f"quadratic needs a symmetric matrix Q; got shape {Q.shape}.")
    n = len(Q)
    gamma = np.array(per_variable("gamma", gamma, n))
    if not np.all(gamma):
        raise ValueError(
            "quadratic needs non-zero gamma; "
            f"entry {int(np.argmin(np.abs(gamma)))} is 0."
        )
    low, high = (gamma * per_variable("bound", b, n) for b in (lower, upper))
    return BoxQP(
        Gram(Precomputed(Q / gamma / gamma[:, None]), np.arange(n)),
        linear=per_variable("p", p, n) / gamma,
        sign=1.0,
        lower=np.minimum(low, high),
        upper=np.maximum(low, high),
        total=total,
        scale=gamma,
    )


def _classes(sign: npt.ArrayLike) -> np.ndarray:
    return (np.asarray(sign) < 0).astype(np.int8)
