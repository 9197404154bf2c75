"""
One step of SMO
===============

The dual of the soft margin is a quadratic in a box, cut by one plane:

::

    min W(α) = ½ Σᵢⱼ αᵢαⱼyᵢyⱼ k(xᵢ, xⱼ) - Σᵢ αᵢ,    0 ≤ αᵢ ≤ C,    Σᵢ yᵢαᵢ = 0.

One variable cannot move alone without leaving the plane; two can. Sequential minimal
optimisation takes two at a time and holds the others fixed. In the square [0, C]² of
the two, the plane leaves a line,

::

    yᵢ ≠ yⱼ:   αᵢ - αⱼ = const,   L = max(0, αⱼ - αᵢ),       H = min(C, C + αⱼ - αᵢ)
    yᵢ = yⱼ:   αᵢ + αⱼ = const,   L = max(0, αᵢ + αⱼ - C),   H = min(C, αᵢ + αⱼ)

of which αⱼ may use the part [L, H]. On a line W is a parabola, so its minimum is a
formula, and where it lies beyond the square it is clipped to the nearer end:

::

    αⱼ ← clip(αⱼ + yⱼ(Eᵢ - Eⱼ)/η, L, H),    Eₜ = f(xₜ) - yₜ,
    η = k(xᵢ, xᵢ) + k(xⱼ, xⱼ) - 2 k(xᵢ, xⱼ) = ‖φ(xᵢ) - φ(xⱼ)‖².

(Platt 1998.)
"""

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, Gram
from mercer.outcomes import Progress
from mercer.plots import plot_convergence, show_or_save
from mercer.solvers.boxqp import BoxQP, svc
from mercer.solvers.smo import SMO

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(2)
n, C, kernel = 60, 1.0, RBF(0.5)
y = np.repeat([-1.0, 1.0], n // 2)
X = rng.normal(size=(n, 2)) + 0.8 * np.outer(y, [1, 1])
K = kernel(X)

# %%
# The step
# --------
# Everything above, in a function: the ends L and H, the formula, the clip. The bias is
# in both errors and drops out.


class Step(NamedTuple):
    """A step in the variables i and j, from `before` to `after`."""

    pair: list[int]
    before: np.ndarray
    wanted: np.ndarray  # the minimum on the whole line
    after: np.ndarray  # the minimum on its part within the square
    ends: tuple[float, float]  # L, H


def step(alpha, i, j):
    same = y[i] == y[j]
    a, b = alpha[i], alpha[j]
    L, H = (
        (max(0, a + b - C), min(C, a + b))
        if same
        else (max(0, b - a), min(C, C + b - a))
    )
    E = K @ (y * alpha) - y
    eta = K[i, i] + K[j, j] - 2 * K[i, j]
    wanted = b + y[j] * (E[i] - E[j]) / eta
    reached = min(max(wanted, L), H)

    def with_partner(value):
        return np.array([a - y[i] * y[j] * (value - b), value])

    return Step(
        [i, j], alpha[[i, j]], with_partner(wanted), with_partner(reached), (L, H)
    )


# %%
# Pair after pair
# ---------------
# The pair to choose is the one that violates the conditions of optimality most: with
# the gradient G of W, i has the largest -yᵢGᵢ among the variables that may grow in the
# direction of yᵢ, j the smallest among those that may shrink. If no pair is left that
# gains more than tol per unit, α is optimal. This is the whole algorithm, and its
# solution is the library's.


def solve_by_pairs(tol):
    alpha, steps, history = np.zeros(n), [], []
    while True:
        gain = -y * (y * (K @ (y * alpha)) - 1)
        grow = np.where(y > 0, alpha < C, alpha > 0)
        shrink = np.where(y > 0, alpha > 0, alpha < C)
        i = np.argmax(np.where(grow, gain, -np.inf))
        j = np.argmin(np.where(shrink, gain, np.inf))
        violation = gain[i] - gain[j]
        objective = 0.5 * (y * alpha) @ K @ (y * alpha) - alpha.sum()
        history.append(
            Progress(
                round=len(steps),
                iterations=len(steps),
                rows=0,
                support=np.count_nonzero(alpha),
                violation=violation,
                objective=objective,
                gap=np.nan,
                seconds=0.0,
            )
        )
        if violation < tol:
            return alpha, steps, history
        steps.append(step(alpha, i, j))
        alpha[[i, j]] = steps[-1].after


alpha, steps, history = solve_by_pairs(tol=1e-6)
problem = svc(Gram(kernel, X), y, C)
solution = SMO(tol=1e-6).solve(problem)
print(f"{len(steps)} steps; W = {history[-1].objective:.9f}, "
      f"and {-solution.dual:.9f} by SMO")  # fmt: skip
np.testing.assert_allclose(history[-1].objective, -solution.dual, rtol=1e-9)
np.testing.assert_allclose(alpha, solution.value, atol=1e-4)
np.testing.assert_allclose(y @ alpha, 0, atol=1e-12)
assert (np.diff([progress.objective for progress in history]) <= 1e-12).all()

# %%
# Two of these steps in their squares
# -----------------------------------
# The contours are W as a function of the two variables, the others held at their values
# of that moment. In the first step the two points are of one class, the line falls, and
# the minimum on it lies outside the square: the step ends at the wall. In the second
# they are of different classes, the line rises, and the minimum is reached. Each is a
# problem of two variables, which the library solves to the same point.


def chosen(same, clipped):
    """The number of the first step of this kind that is long and not at a corner."""
    for k, (pair, before, wanted, after, _) in enumerate(steps):
        alike = y[pair[0]] == y[pair[1]]
        cut = abs(wanted - after).max() > 0.1
        shows = abs(after - before).min() > 0.25 and before.min() > 0.1
        if alike == same and cut == clipped and shows and before[0] != before[1]:
            return k


def at(k):
    """All variables before step k."""
    alpha = np.zeros(n)
    for pair, _, _, after, _ in steps[:k]:
        alpha[pair] = after
    return alpha


def draw_step(ax, k):
    (i, j), before, wanted, after, (L, H) = steps[k]
    rest = at(k)
    rest[[i, j]] = 0
    F = K @ (y * rest)

    both = BoxQP(
        Gram(kernel, X[[i, j]]),
        linear=y[[i, j]] * F[[i, j]] - 1,
        sign=y[[i, j]],
        lower=0,
        upper=C,
        total=y[[i, j]] @ before,
    )
    np.testing.assert_allclose(SMO(tol=1e-10).solve(both).value, after, atol=1e-8)
    np.testing.assert_allclose(y[[i, j]] @ after, y[[i, j]] @ before, atol=1e-12)
    assert L - 1e-12 <= after[1] <= H + 1e-12

    low, high = -0.28, 1.45
    ticks = np.linspace(low, high, 200)
    a, b = np.meshgrid(ticks, ticks)
    Q = K[np.ix_([i, j], [i, j])] * np.outer(y[[i, j]], y[[i, j]])
    W = (Q[0, 0] * a**2 + Q[1, 1] * b**2) / 2 + Q[0, 1] * a * b
    W += both.linear[0] * a + both.linear[1] * b
    ax.contour(a, b, W, 22, cmap="viridis", linewidths=1, alpha=0.7)
    ax.add_patch(plt.Rectangle((0, 0), C, C, fc="none", ec="black", lw=2))

    slope = -y[i] * y[j]
    line = before[1] + slope * (ticks - before[0])
    ax.plot(ticks, line, color="grey", lw=1.2, ls="--", label="the line")
    inner = np.array([L, H])
    ax.plot(before[0] + slope * (inner - before[1]), inner, color="black", lw=3.5,
            solid_capstyle="butt", label="its part in the square")  # fmt: skip
    for end, name in zip(inner, "LH", strict=True):
        ax.plot([before[0] + slope * (end - before[1]), low], [end, end], color="grey",
                lw=0.8, ls=":")  # fmt: skip
        ax.annotate(name, (low, end), (5, 4), textcoords="offset points", weight="bold")
    ax.annotate("", after, before, zorder=5,
                arrowprops=dict(arrowstyle="-|>", color="C3", lw=2.5))  # fmt: skip
    ax.plot(*before, "o", color="white", mec="C3", mew=2, ms=9, label="before")
    ax.plot(*wanted, "x", color="black", ms=9, mew=2, zorder=6,
            label="minimum on the line")  # fmt: skip
    ax.plot(*after, "o", color="C3", ms=12, label="after")
    ax.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    ax.set_xticks([0, C], ["0", "C"])
    ax.set_yticks([0, C], ["0", "C"])
    ax.set(xlabel="αᵢ", ylabel="αⱼ")


figure, axes = plt.subplots(1, 2, figsize=(11, 6.5), layout="constrained")
clipped, reached = chosen(same=True, clipped=True), chosen(same=False, clipped=False)
for ax, k, what in (
    (axes[0], clipped, "yᵢ = yⱼ, clipped at the wall"),
    (axes[1], reached, "yᵢ ≠ yⱼ, the minimum is reached"),
):
    draw_step(ax, k)
    ax.set_title(f"Step {k + 1}: {what}")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5)

# %%
# All of them
# -----------
# The objective falls with every step, the violation on the whole. The library chooses
# its pairs with the curvature η in mind and works on hundreds of variables before it
# looks at all of them again, so its dots are rounds of many steps.

many = np.repeat([-1.0, 1.0], 1000)
cloud = rng.normal(size=(2000, 2)) + 0.8 * np.outer(many, [1, 1])
larger = svc(Gram(kernel, cloud), many, 10 * C)
rounds = []
# So few points would be solved for all at once; a small working set shows the rounds.
found = SMO(tol=1e-3, working_set=128).solve(larger, watch=rounds.append)
assert len(rounds) > 10
finest = SMO(tol=1e-7, precision="double").solve(larger, start=found.value)
print(f"{len(many)} points: {found.run.iterations} steps in {len(rounds) - 1} rounds, "
      f"gap {found.gap:.2g} of {found.dual:.6g}")  # fmt: skip
assert found.dual <= finest.dual + 1e-6 <= found.primal + 2e-6

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
plot_convergence(history, axes[0], optimum=-solution.dual, tol=1e-6)
axes[0].set(title=f"Pair after pair, {n} points")
plot_convergence(rounds, axes[1], optimum=-finest.dual, tol=1e-3)
axes[1].set(title=f"Round after round, {len(many)} points")
show_or_save()
