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
from mercer.plots import plot_margin, show_or_save

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
    1, 2, figsize=(12.5, 5.6), sharey=True, layout="constrained"
)
for ax, C in zip(axes, (0.1, 10.0), strict=True):
    machine = SVC(C=C, kernel="linear").fit(X, y)
    w = machine.coef_[0]
    slack = np.maximum(0, 1 - y * machine.decision_function(X))
    primal = 0.5 * w @ w + C * slack.sum()
    assert np.isclose(primal, machine.certificate_.primal, rtol=1e-6)
    assert np.isclose(machine.certificate_.gap, 0, atol=1e-6)
    plot_margin(machine, X, y, ax, slacks=True, legend=False)
    margin = 1 / np.linalg.norm(w)
    ax.set(title=f"C = {C:g}: Σξ = {slack.sum():.2f}, margin {margin:.2f}", xlabel="x₁")
    print(f"C = {C:<5g} {np.sum(slack > 1e-6):2d} points with slack, Σξ = "
          f"{slack.sum():5.2f}, ½‖w‖² = {0.5 * w @ w:.3f}")  # fmt: skip
axes[0].set(ylabel="x₂")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=6)
show_or_save()
