"""
Slack variables, drawn
======================

The soft margin lets points stand inside of it, or even beyond the boundary, at a price.
How far a point is from where it should be is its slack,

::

    min ½‖w‖² + C Σᵢ ξᵢ,    yᵢ f(xᵢ) ≥ 1 - ξᵢ,    ξᵢ = max(0, 1 - yᵢ f(xᵢ)) ≥ 0.

0 < ξᵢ ≤ 1 is a point inside the margin on its own side, ξᵢ > 1 one that is misplaced.
In the picture a point is ξᵢ/‖w‖ away from the line f = yᵢ of its class.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(0)
y = np.repeat([-1, 1], 12)
X = []
while len(X) < len(y):  # apart from each other, so that the numbers have room
    side = y[len(X)]
    x = rng.normal(side * np.array([1.3, 0.3]), [0.85, 1.1])
    if all((np.abs(x - other) > [0.35, 0.24]).any() for other in X):
        X.append(x)
X = np.array(X)
y[[5, 19]] *= -1  # two that stand where the others are

# %%
# Two prices
# ----------
# At a low price the margin is wide and many points stand inside it, each with a small
# slack. At a high one it is narrow: few have slack, for a larger ‖w‖.

figure, axes = plt.subplots(
    1, 2, figsize=(12.5, 6.2), sharey=True, layout="constrained"
)
low, high = X.min(axis=0) - 0.45, X.max(axis=0) + np.array([0.45, 1.15])
for ax, C in zip(axes, (0.1, 10.0), strict=True):
    machine = SVC(C=C, kernel="linear").fit(X, y)
    w, b = machine.coef_[0], machine.intercept_[0]
    length = np.linalg.norm(w)
    slack = np.maximum(0, 1 - y * machine.decision_function(X))
    slack[slack < 1e-6] = 0  # those on the margin, but for rounding
    total = 0.5 * length**2 + C * slack.sum()
    assert np.isclose(total, machine.certificate_.primal, rtol=1e-6)
    assert np.isclose(machine.certificate_.gap, 0, atol=1e-6)
    for side, marker in ((-1, "o"), (1, "s")):
        ax.scatter(*X[y == side].T, s=30, marker=marker, color=f"C{int(side > 0)}",
                   zorder=4, label=f"y = {side:+d}")  # fmt: skip
    along = np.array([-w[1], w[0]]) / length
    for level, style in ((0, "-"), (1, "--"), (-1, "--")):
        foot = (level - b) * w / length**2
        label = {0: "f = 0", 1: "f = ±1", -1: None}[level]
        ax.plot(*(foot[:, None] + np.outer(along, [-9, 9])), "k" + style,
                lw=2 if level == 0 else 1.1, label=label)  # fmt: skip
    named = 0
    for x, side, xi in zip(X, y, slack, strict=True):
        if xi == 0:
            continue
        home = x + side * xi * w / length**2
        assert np.isclose(home @ w + b, side)
        colour = "C3" if xi > 1 else "0.35"
        ax.plot(*np.transpose([x, home]), color=colour, lw=1.6, zorder=3)
        away = np.sign(x[1] - home[1]) or 1.0
        ax.annotate(f"{xi:.2f}", x, (0, 9 * away), textcoords="offset points",
                    ha="center", va="center", fontsize=8.5, color=colour,
                    bbox=dict(fc="white", ec="none", alpha=0.7, pad=0.5),
                    zorder=5)  # fmt: skip
        named += 1
    ax.plot([], [], color="0.35", lw=1.6, label="0 < ξ ≤ 1: inside the margin")
    ax.plot([], [], color="C3", lw=1.6, label="ξ > 1: misplaced")
    ax.set(title=f"C = {C:g}: Σξ = {slack.sum():.2f}, margin {1 / length:.2f}")
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="x₁", aspect="equal")
    print(f"C = {C:<5g} {named:2d} points with slack, Σξ = {slack.sum():5.2f}, "
          f"½‖w‖² = {0.5 * length**2:.3f}, ‖w‖ = {length:.3f}")  # fmt: skip
axes[0].set(ylabel="x₂")
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize="small")
show_or_save()
