"""
Three lines that separate, and the geometry of the margin
=========================================================

Where classes can be told apart by a line at all, many lines do it. They differ in how
far the nearest point is: the margin. A line is f(x) = ⟨w, x⟩ + b = 0, and

::

    distance of a point x      |f(x)| / ‖w‖
    distance of the origin     |b| / ‖w‖
    margin                     min over i of yᵢ f(xᵢ) / ‖w‖ = 1/‖w‖,

the last where w and b are scaled so that the nearest points have yᵢ f(xᵢ) = 1. To make
the margin wide is to make ‖w‖ small: the hard-margin SVM does it.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC
from mercer.plots import plot_margin, show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(4)
y = np.repeat([-1, 1], 14)
X = rng.normal(scale=0.55, size=(28, 2)) + np.where(y[:, None] > 0, [3.2, 2.6], [1, 1])


def margin(w, b):
    """The distance of the nearest point from the line; negative for one beyond it."""
    return np.min(y * (X @ w + b)) / np.linalg.norm(w)


# %%
# H1, H2, H3
# ----------
# H1 and H2 make no mistake either, and pass so near to a point that the next one may
# fall on the wrong side. H3 is as far from both classes as a line can be.

machine = SVC(C=np.inf, kernel="linear").fit(X, y)
w, b = machine.coef_[0], machine.intercept_[0]
lines = {
    "H1": (np.array([1.0, 0.05]), -2.03),
    "H2": (np.array([0.42, 1.0]), -2.62),
    "H3": (w, b),
}
for name, (direction, offset) in lines.items():
    print(f"{name}: margin {margin(direction, offset):.3f}")
    assert margin(direction, offset) > 0
assert np.isclose(margin(w, b), machine.certificate_.margin)
assert np.isclose(margin(w, b), 1 / np.linalg.norm(w))
assert margin(w, b) > 2 * max(margin(*lines["H1"]), margin(*lines["H2"]))

figure, ax = plt.subplots(figsize=(7.6, 5.6), layout="constrained")
plot_margin(machine, X, y, ax, legend=False)
for (name, (direction, offset)), colour in zip(lines.items(), ("C2", "C4", "black"),
                                               strict=True):  # fmt: skip
    foot = -offset * direction / (direction @ direction)
    ax.axline(foot, foot + direction[::-1] * [-1, 1], color=colour,
              label=f"{name}, margin {margin(direction, offset):.2f}")  # fmt: skip
ax.set(title="Three lines, no mistakes", xlabel="x₁", ylabel="x₂")
ax.legend(*(part[4:] for part in ax.get_legend_handles_labels()), loc="lower left")

# %%
# What w, b and the distances are
# -------------------------------
# w stands at a right angle on the line. The foot of the origin on it is -b w/‖w‖², at
# the distance |b|/‖w‖, and the two dashed lines, f = ±1, run through the nearest
# points, at the distance 1/‖w‖.

figure, ax = plt.subplots(figsize=(7.6, 6), layout="constrained")
plot_margin(machine, X, y, ax, distances=True, legend=False)
ax.set(title="The geometry of H3: f(x) = ⟨w, x⟩ + b", xlabel="x₁", ylabel="x₂")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
show_or_save()
