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
from mercer.plots import show_or_save

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

frame = np.array([[-0.9, -0.9], [5.1, 4.3]])


def draw_points(ax):
    for side, marker in ((-1, "o"), (1, "s")):
        ax.scatter(*X[y == side].T, s=26, marker=marker, zorder=3,
                   color=f"C{int(side > 0)}", label=f"y = {side:+d}")  # fmt: skip
    ax.set(xlim=frame[:, 0], ylim=frame[:, 1], aspect="equal", xlabel="x₁")


def draw_line(ax, direction, level, **style):
    """The line ⟨direction, x⟩ = level, across the frame."""
    foot = level * direction / (direction @ direction)
    along = np.array([-direction[1], direction[0]]) / np.linalg.norm(direction)
    ax.plot(*(foot[:, None] + np.outer(along, [-9, 9])), **style)


figure, (left, right) = plt.subplots(1, 2, figsize=(12.5, 6.0), layout="constrained")
draw_points(left)
colours = {"H1": "C2", "H2": "C4", "H3": "black"}
for name, (direction, offset) in lines.items():
    wide = margin(direction, offset)
    draw_line(left, direction, -offset, color=colours[name], lw=2.2 if name == "H3" else
              1.8, label=f"{name}, margin {wide:.2f}")  # fmt: skip
length = np.linalg.norm(w)
across = np.array([-w[1], w[0]]) / length
corners = [
    side * w / length**2 - b * w / length**2 + t * across
    for side, t in ((1, 9), (1, -9), (-1, -9), (-1, 9))
]
left.add_patch(plt.Polygon(corners, color="0.5", alpha=0.18, lw=0))
left.set(ylabel="x₂", title="Three lines, no mistakes")
left.legend(loc="upper right", fontsize="small", framealpha=1)

# %%
# What w, b and the distances are
# -------------------------------
# w stands at a right angle on the line. The foot of the origin on it is -b w/‖w‖², at
# the distance |b|/‖w‖, and the two dashed lines, f = ±1, run through the nearest
# points, at the distance 1/‖w‖.

draw_points(right)
draw_line(right, w, -b, color="black", lw=2.2)
for side in (-1, 1):
    draw_line(right, w, side - b, color="black", lw=1.2, ls="--")
right.scatter(*machine.support_vectors_.T, s=120, facecolors="none", edgecolors="black",
              zorder=4)  # fmt: skip
foot = -b * w / length**2


def measure(ax, start, end, colour, text, offset):
    """An arrow to both sides between two places, and what it measures."""
    ax.annotate("", end, start, arrowprops=dict(arrowstyle="<->", color=colour, lw=1.8,
                shrinkA=0, shrinkB=0), zorder=5)  # fmt: skip
    middle = (np.asarray(start) + np.asarray(end)) / 2
    ax.annotate(text, middle, offset, textcoords="offset points", color=colour,
                ha="center", va="center", fontsize=10.5, zorder=6,
                bbox=dict(fc="white", ec="none", alpha=0.85, pad=1))  # fmt: skip


right.plot(0, 0, "k+", ms=11, mew=2)
right.annotate("origin", (0, 0), (-4, -14), textcoords="offset points", ha="center")
measure(right, (0, 0), foot, "C3", f"|b|/‖w‖ = {abs(b) / length:.2f}", (58, -22))
base = foot - 3.0 * across
measure(right, base, base + w / length**2, "C2", f"1/‖w‖ = {1 / length:.2f}", (-52, 2))
base = foot + 1.1 * across
right.annotate("", base + w, base, zorder=5,
               arrowprops=dict(arrowstyle="-|>", color="black", lw=1.8))  # fmt: skip
right.annotate("w", base + w, (7, 3), textcoords="offset points", fontsize=12)
far = X[np.argmax((X @ w + b) + 2 * (X @ across < -1.2))]
value = far @ w + b
measure(right, far, far - value * w / length**2, "C4",
        f"f(x)/‖w‖ = {value / length:.2f}", (44, -12))  # fmt: skip
right.annotate("x", far, (7, 4), textcoords="offset points", fontsize=12, color="C4")
right.set(title="The geometry of H3: f(x) = ⟨w, x⟩ + b")
for text, side, at in (("f = 1", 1, 2.2), ("f = 0", 0, 2.4), ("f = -1", -1, 2.6)):
    place = foot + side * w / length**2 + at * across
    right.annotate(text, place, fontsize=9, ha="center", va="center",
                   bbox=dict(fc="white", ec="none", pad=1))  # fmt: skip
show_or_save()
