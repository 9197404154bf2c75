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

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, Gram
from mercer.plots import (
    plot_convergence,
    plot_smo_path,
    plot_smo_step,
    show_or_save,
)
from mercer.solvers import SMO, svc

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(2)
n, C, kernel = 60, 1.0, RBF(0.5)
y = np.repeat([-1.0, 1.0], n // 2)
X = rng.normal(size=(n, 2)) + 0.8 * np.outer(y, [1, 1])
K = kernel(X)
problem = svc(Gram(kernel, X), y, C)

# %%
# The step
# --------
# Everything above, in a function: the ends L and H, the formula, the clip. The bias is
# in both errors and drops out.


def step(alpha, i, j):
    """αᵢ and αⱼ after the step, and whether it was clipped."""
    a, b = alpha[i], alpha[j]
    if y[i] == y[j]:
        L, H = max(0, a + b - C), min(C, a + b)
    else:
        L, H = max(0, b - a), min(C, C + b - a)
    E = K @ (y * alpha) - y
    eta = K[i, i] + K[j, j] - 2 * K[i, j]
    wanted = b + y[j] * (E[i] - E[j]) / eta
    reached = min(max(wanted, L), H)
    return [a - y[i] * y[j] * (reached - b), reached], abs(wanted - reached) > 0.1


# %%
# Pair after pair
# ---------------
# The pair to choose is the one that violates the conditions of optimality most: with
# the gradient G of W, i has the largest -yᵢGᵢ among the variables that may grow in the
# direction of yᵢ, j the smallest among those that may shrink. If no pair is left that
# gains more than tol per unit, α is optimal. This is the whole algorithm, and its
# solution is the library's.

path, pairs = [np.zeros(n)], []
while True:
    alpha = path[-1].copy()
    gain = -y * (y * (K @ (y * alpha)) - 1)
    grow = np.where(y > 0, alpha < C, alpha > 0)
    shrink = np.where(y > 0, alpha > 0, alpha < C)
    i = np.argmax(np.where(grow, gain, -np.inf))
    j = np.argmin(np.where(shrink, gain, np.inf))
    if gain[i] - gain[j] < 1e-6:
        break
    alpha[[i, j]], clipped = step(alpha, i, j)
    path.append(alpha)
    pairs.append((i, j, clipped))

solution = SMO(tol=1e-6).solve(problem)
W = [0.5 * (y * a) @ K @ (y * a) - a.sum() for a in path]
print(f"{len(pairs)} steps; W = {W[-1]:.9f}, and {-solution.dual:.9f} by SMO")
np.testing.assert_allclose(W[-1], -solution.dual, rtol=1e-9)
np.testing.assert_allclose(alpha, solution.value, atol=1e-4)
np.testing.assert_allclose(y @ alpha, 0, atol=1e-12)
assert (np.diff(W) <= 1e-12).all()

# %%
# Two of these steps in their squares
# -----------------------------------
# The contours are W as a function of the two variables, the others held at their values
# of that moment. In the first step the two points are of one class, the line falls, and
# the minimum on it lies outside the square: the step ends at the wall. In the second
# they are of different classes, the line rises, and the minimum is reached.


def chosen(same, cut):
    """The first step of this kind that is long and does not begin at a corner."""
    for k, (i, j, clipped) in enumerate(pairs):
        before, after = path[k][[i, j]], path[k + 1][[i, j]]
        shows = abs(after - before).min() > 0.25 and before.min() > 0.1
        if (y[i] == y[j], clipped) == (same, cut) and shows and before[0] != before[1]:
            return k


figure, axes = plt.subplots(1, 2, figsize=(11, 6.4), layout="constrained")
for ax, same, cut, what in (
    (axes[0], True, True, "yᵢ = yⱼ, clipped at the wall"),
    (axes[1], False, False, "yᵢ ≠ yⱼ, the minimum is reached"),
):
    k = chosen(same, cut)
    i, j, _ = pairs[k]
    display = plot_smo_step(problem, path[k], i, j, ax, legend=False)
    [after] = display.artists_["after"].get_xydata()
    np.testing.assert_allclose(after, path[k + 1][[i, j]], atol=1e-9)
    ax.set_title(f"Step {k + 1}: {what}")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %%
# Every variable, step by step. `plot_smo_path(problem)` solves the problem by itself,
# and ``display.animate().save("path.gif")`` shows it move.

figure, ax = plt.subplots(figsize=(10, 4.6), layout="constrained")
display = plot_smo_path(problem, path, ax)
ax.set(title=f"{len(pairs)} steps of SMO: two variables move, the others wait")

# %%
# All of them
# -----------
# The library chooses its pairs with the curvature η in mind and works on hundreds of
# variables before it looks at all of them again, so its dots are rounds of many steps.

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

figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
plot_convergence(rounds, ax, optimum=-finest.dual, tol=1e-3)
ax.set(title=f"Round after round, {len(many)} points")
show_or_save()
