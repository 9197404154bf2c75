"""
A disc and an ellipse become a corner
=====================================

A point of the plane has label 1 if it lies in a disc and in an ellipse, and -1
otherwise:

::

    label(x) = 1   if   x₁² + x₂² ≤ 1   and   x₁² + ½x₂² ≤ 2.

No line in the plane does that. Two new features do, each the answer to one of the two
questions as a sign:

::

    y₁ = sign(1 - x₁² - x₂²),    y₂ = sign(2 - x₁² - ½x₂²),

    label(x) = 1   if and only if   y₁ + y₂ ≥ 2.

All points fall on the four corners of a square, and a line cuts off the corner (1, 1).
A feature map may thus be any function at all, not only a smooth one; ⟨φ(x), φ(y)⟩ is a
kernel. On the curves themselves the sign has to be 1, since the label counts the
boundary in.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import Expansion, FeatureFunction
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(1)
X = rng.uniform(-2.3, 2.3, size=(400, 2))


def labels(X, ellipse, limit):
    """1 in the disc and in the ellipse a x₁² + b x₂² ≤ limit, else -1."""
    inside = ((X**2).sum(axis=1) <= 1) & (X**2 @ ellipse <= limit)
    return np.where(inside, 1, -1)


def sign_features(ellipse, limit):
    """The map x ↦ (y₁, y₂), with sign(0) = 1."""

    def phi(X):
        sides = np.column_stack([1 - (X**2).sum(axis=1), limit - X**2 @ ellipse])
        return np.where(sides >= 0, 1.0, -1.0)

    return FeatureFunction(phi)


# %%
# The line in the new plane
# -------------------------
# The kernel of two points counts agreements: 2 if they answer both questions alike, 0
# for one of the two, -2 for none. The origin answers (1, 1), so y₁ + y₂ = k(0, x), and
# the classifier is an expansion on this single point,
#
# ::
#
#     f(x) = k(0, x) - 2 ≥ 0.

lecture = (np.array([1.0, 0.5]), 2.0)
kernel = sign_features(*lecture)
Y = kernel.features(X)
label = labels(X, *lecture)

assert set(np.unique(kernel(X))) == {-2.0, 0.0, 2.0}
np.testing.assert_array_equal(label == 1, Y.sum(axis=1) >= 2)

f = Expansion(kernel, np.zeros((1, 2)), [1.0], -2.0)
np.testing.assert_array_equal(label == 1, f(X) >= 0)

on_the_circle = np.array([[1.0, 0.0], [0.0, -1.0]])
assert (labels(on_the_circle, *lecture) == 1).all()
assert (f(on_the_circle) >= 0).all()

# %%
# Every corner can be inhabited
# -----------------------------
# In the pair above the ellipse contains the disc: x₁² + ½x₂² ≤ x₁² + x₂² ≤ 1 < 2. The
# second question never decides, and the corner (1, -1) stays empty. With the narrower
# ellipse 2x₁² + ½x₂² ≤ 1 the curves cross, all four corners are inhabited, and the same
# line separates.

crossing = (np.array([2.0, 0.5]), 1.0)
label_crossing = labels(X, *crossing)
Y_crossing = sign_features(*crossing).features(X)

assert not (Y == [1, -1]).all(axis=1).any()
assert len(np.unique(Y_crossing, axis=0)) == 4
np.testing.assert_array_equal(label_crossing == 1, Y_crossing.sum(axis=1) >= 2)

# %%
# The plane of the points, and the plane of the signs
# ---------------------------------------------------

colour = {-1: "C0", 1: "C1"}
marker = {-1: "o", 1: "s"}


def draw_plane(ax, ellipse, limit, title):
    label = labels(X, ellipse, limit)
    for c in (-1, 1):
        name = f"label {c:+d}".replace("-", "−")
        ax.plot(*X[label == c].T, marker[c], color=colour[c], ms=4.5, label=name)
    angle = np.linspace(0, 2 * np.pi, 361)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    ax.plot(*circle.T, color="black", lw=1.8, label="the circle")
    ax.plot(*(circle * np.sqrt(limit / ellipse)).T, color="black", lw=1.8, ls="--",
            label="the ellipse")  # fmt: skip
    ax.set(aspect="equal", xlim=(-2.4, 2.4), ylim=(-2.4, 2.4), title=title)
    ax.set(xlabel="x₁", ylabel="x₂")


def draw_corners(ax, ellipse, limit):
    Y = sign_features(ellipse, limit).features(X)
    label = labels(X, ellipse, limit)
    ticks = np.array([-2.0, 2.0])
    ax.plot(ticks, 2 - ticks, color="black", lw=1.8)
    ax.text(1.9, 1.9, "y₁ + y₂ ≥ 2:\nlabel +1", ha="right", va="top")
    ax.fill_between([0, 2], [2, 0], 2, color=colour[1], alpha=0.15, lw=0)
    for y1 in (-1, 1):
        for y2 in (-1, 1):
            here = (Y == [y1, y2]).all(axis=1)
            c = 1 if y1 + y2 >= 2 else -1
            assert (label[here] == c).all()
            n = here.sum()
            size = 40 + 2.5 * n
            face = colour[c] if n else "none"
            ax.scatter(y1, y2, s=size, facecolor=face, edgecolor=colour[c],
                       marker=marker[c], zorder=3)  # fmt: skip
            # Text for the corner (1, 1) ends left of the line through it.
            ax.annotate(f"{n or 'no'} points", (y1, y2), (8 if c > 0 else 0, -20),
                        textcoords="offset points", va="top",
                        ha="right" if c > 0 else "center")  # fmt: skip
    ax.set(aspect="equal", xlim=(-2, 2), ylim=(-2, 2), xticks=[-1, 1], yticks=[-1, 1])
    ax.set(xlabel="y₁  (in the disc?)", ylabel="y₂  (in the ellipse?)")
    ax.set(title="The signs: a line cuts off the corner (1, 1)")


figure, axes = plt.subplots(2, 2, figsize=(9, 9.3), layout="constrained")
figure.get_layout_engine().set(wspace=0.06, hspace=0.06)
draw_plane(axes[0, 0], *lecture, "Disc inside the ellipse x₁² + ½x₂² ≤ 2")
draw_plane(axes[1, 0], *crossing, "Disc across the ellipse 2x₁² + ½x₂² ≤ 1")
draw_corners(axes[0, 1], *lecture)
draw_corners(axes[1, 1], *crossing)
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center",
              ncols=4, frameon=False)  # fmt: skip
show_or_save()
