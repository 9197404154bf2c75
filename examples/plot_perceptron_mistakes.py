"""
How many mistakes a perceptron can make
=======================================

A perceptron goes from point to point and changes only where it is wrong:

::

    if y f(x) ≤ 0:    f ← f + y k(x, ·)

Each mistake brings f nearer to every w that knows better, and makes f only so much
longer. Both together limit the mistakes, in whatever order the points come and however
often, for any w without bias:

::

    M ≤ R²‖w‖² + 2 Σ max(0, 1 - yᵢ w(xᵢ)),    R² = max k(x, x),

the sum being over the mistakes. Where some w separates the points with the margin
γ = 1/‖w‖, that is R²/γ².
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from mercer import RBF, KernelPerceptron, Linear, Polynomial
from mercer.plots import DIVERGING, plot_mistakes, show_or_save
from mercer.theory import mistake_bound

plt.style.use("mercer.plots.light")

# %%
# Exclusive or
# ------------
# With (1 + ⟨x, y⟩)² the four points have R² = 9 and the margin √2, so there can be four
# mistakes and no fifth. Every order of the points takes all four.

corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
sides = np.array([-1, 1, 1, -1])
squared = Polynomial(2, scale=1.0, offset=1.0)
made = {
    KernelPerceptron(squared, random_state=seed).fit(corners, sides).n_mistakes_
    for seed in range(20)
}
machine = KernelPerceptron(squared, random_state=0).fit(corners, sides)
bound = mistake_bound(machine, corners, sides)
print(bound)
assert made == {4}
np.testing.assert_allclose(bound.bound, 4.5)

figure, axes = plt.subplots(1, 2, figsize=(10.6, 4.4), layout="constrained")
grid = np.linspace(-1.8, 1.8, 400)  # even: the lines cross between grid points
plane = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
values = machine.decision_function(plane).reshape(400, 400)
shades = axes[0].contourf(grid, grid, values, levels=np.arange(-28, 29, 4),
                          cmap=DIVERGING)  # fmt: skip
figure.colorbar(shades, ax=axes[0], label="f(x) = -8 x₁x₂", ticks=range(-24, 25, 8))
axes[0].contour(grid, grid, values, levels=[0], colors="black", linewidths=1.8)
for side, marker, colour in ((-1, "o", "C0"), (1, "s", "C1")):
    axes[0].scatter(*corners[sides == side].T, color=colour, marker=marker, s=90,
                    edgecolors="black")  # fmt: skip
for corner, value in zip(corners, machine.decision_function(corners), strict=True):
    axes[0].annotate(f"{value:+.0f}", corner, (9, 7), textcoords="offset points")
axes[0].set(title="f = 8 y at all four corners", xlabel="x₁", ylabel="x₂")
axes[0].set_aspect("equal")
plot_mistakes(machine, {"R²/γ² = 4.5": bound}, ax=axes[1])
axes[1].set(title="exclusive or: four mistakes", ylim=(0, 5.4))

# %%
# Separable and overlapping classes
# ---------------------------------
# A Gaussian kernel separates two moons, and there the mistakes come to an end: in a
# hundred orders of the points, all below R²/γ². On clouds that overlap, a line is wrong
# for ever, and the bound grows too, by 2ξ with each mistake. Which w promises least
# depends on C: a short w pays more for points on the wrong side.

rng = np.random.default_rng(1)
moons, half = make_moons(150, noise=0.08, random_state=0)
y = np.where(np.arange(120) % 2, 1, -1)
mixed = rng.normal(size=(120, 2)) + 0.9 * y[:, None]

figure, axes = plt.subplots(1, 2, figsize=(10.6, 4.6), layout="constrained")
narrow = RBF(10.0)
machines = [
    KernelPerceptron(narrow, random_state=seed).fit(moons, half) for seed in range(100)
]
bound = mistake_bound(machines[0], moons, half, C=1e4)
for machine in machines:
    assert machine.run_.status == "optimal" and machine.n_mistakes_ <= bound.bound
    curve = np.append(0, machine.mistake_curve_)
    axes[0].step(np.arange(len(curve)), curve, where="post", color="C0", alpha=0.15)
made = [machine.n_mistakes_ for machine in machines]
print(f"two moons: {min(made)} to {max(made)} mistakes, R²/γ² = {bound.bound:.1f}")
axes[0].axhline(bound.bound, color="C1", linestyle="--", label="R²/γ²")
axes[0].plot([], [], color="C0", label="mistakes, a line for each order")
axes[0].set(title=f"separable: {min(made)} to {max(made)} mistakes, then none")
axes[0].set(xlabel="points seen", ylabel="mistakes", ylim=(0, 31))
axes[0].set_xlim(0, max(len(machine.mistake_curve_) for machine in machines))
axes[0].legend(loc="upper right")

line = Linear() + 1
warnings.simplefilter("ignore", ConvergenceWarning)  # there is nothing to converge to
machine = KernelPerceptron(line, max_iter=10, random_state=0).fit(mixed, y)
bounds = {
    f"bound, C = {C:g}": mistake_bound(machine, mixed, y, C=C)
    for C in (0.001, 0.03, 1.0)
}
assert all(machine.n_mistakes_ <= bound.bound for bound in bounds.values())
plot_mistakes(machine, bounds, ax=axes[1])
axes[1].set(title="overlapping: ten passes, and no end")

# %%
# What to do with an f that never settles
# ---------------------------------------
# The last f is whatever the last mistake made of it. The mean of f over time, and the
# vote of every f that served, are steadier: they judge 4,000 new points better, from
# the first pass on.

many = np.where(np.arange(4000) % 2, 1, -1)
new = rng.normal(size=(4000, 2)) + 0.9 * many[:, None]
passes = [1, 2, 3, 4, 6, 8, 10]
figure, ax = plt.subplots(figsize=(7.6, 4.4), layout="constrained")
for name, marker in (("plain", "o"), ("averaged", "s"), ("voted", "^")):
    errors = np.mean(
        [
            [
                1
                - KernelPerceptron(
                    RBF(0.1), variant=name, max_iter=k, random_state=seed
                )
                .fit(mixed, y)
                .score(new, many)
                for k in passes
            ]
            for seed in range(6)
        ],
        axis=0,
    )
    print(f"{name:<10} {errors[0]:.1%} after one pass, {errors[-1]:.1%} after ten")
    ax.plot(passes, 100 * errors, marker=marker, label=name)
ax.set(xlabel="passes", ylabel="new points misjudged (%)", ylim=(0, None))
ax.set(title="the last f, the mean and the vote, over 6 orders of the points")
ax.legend()
show_or_save()
