"""
The perceptron in the primal and in the dual
============================================

One rule, written twice. The primal keeps the vector w, the dual keeps how often each
point was missed:

::

    primal    if y ⟨w, x⟩ ≤ 0:   w ← w + y x
    dual      if y Σⱼ αⱼ yⱼ ⟨xⱼ, x⟩ ≤ 0:   αᵢ ← αᵢ + 1
    the same  w = Σᵢ αᵢ yᵢ xᵢ

The dual needs the points only through ⟨xⱼ, x⟩, where any kernel can stand. A score of 0
is a mistake: a primal that moves only at y ⟨w, x⟩ < 0 never leaves w = 0. The bias is
the weight of a feature that is always 1, so that the kernel is ⟨x, z⟩ + 1.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import KernelPerceptron, Linear, Perceptron
from mercer.plots import show_or_save
from mercer.theory import mistake_bound

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(23)
y = np.tile([-1, 1], 13)
X = rng.normal(scale=0.65, size=(26, 2)) + np.outer(y, [1.1, 0.8]) + [0.9, 0.3]

# %%
# Side by side
# ------------
# Both see the points in the same order and make the same mistakes. In the left picture
# w turns with every mistake; in the right one counts grow at the points. The line is
# the same.

primal = Perceptron(shuffle=False).fit(X, y)
dual = KernelPerceptron(Linear(), fit_intercept=True, shuffle=False).fit(X, y)
assert primal.run_.status == "optimal" and dual.run_.status == "optimal"
assert (primal.mistakes_ == dual.mistakes_).all()
counts = np.zeros(len(X), dtype=int)
counts[dual.support_] = dual.counts_
w, b = primal.coef_[0], primal.intercept_[0]
np.testing.assert_allclose(w, (counts * y) @ X)
np.testing.assert_allclose(b, counts @ y)
np.testing.assert_allclose(primal.decision_function(X), dual.decision_function(X))

# w and b after each mistake, as the rule says
steps = np.cumsum([y[i] * np.append(X[i], 1) for i in primal.mistakes_], axis=0)
np.testing.assert_allclose(steps[-1], [*w, b])
print(f"{len(steps)} mistakes in {primal.n_iter_} passes, w = {w.round(3)}, b = {b:g}")
bound = mistake_bound(dual, X, y, C=100.0)
best = mistake_bound(dual, X, y, best=True)
print(f"at most R²‖w‖² + 2Σξ = {bound.bound:.1f}, and {best.bound:.1f} at the best C")
assert len(steps) <= best.bound <= bound.bound

low, high = X.min(axis=0) - 0.5, X.max(axis=0) + 0.5
across = np.linspace(low[1], high[1], 2)
figure, axes = plt.subplots(1, 2, figsize=(12, 5.8), sharey=True, layout="constrained")
for ax in axes:
    for side, marker in ((-1, "o"), (1, "s")):
        chosen = y == side
        ax.scatter(*X[chosen].T, s=26, marker=marker, color=f"C{int(side > 0)}",
                   zorder=3, label=f"y = {side:+d}")  # fmt: skip
    ax.plot(-(w[1] * across + b) / w[0], across, "k-", lw=2.2, label="f = 0", zorder=2)
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="x₁", aspect="equal")
left, right = axes
shades = plt.get_cmap("viridis")(np.linspace(0.9, 0.15, len(steps)))
for (u, v, c), shade in zip(steps[:-1], shades, strict=False):
    left.plot(-(v * across + c) / u, across, color=shade, lw=1, zorder=1)
left.plot([], [], color=shades[len(shades) // 2], lw=1, label="lines on the way")
foot = -b * w / (w @ w)
left.annotate("", foot + w / np.linalg.norm(w), foot, zorder=4,
              arrowprops=dict(arrowstyle="-|>", lw=2))  # fmt: skip
left.annotate("w", foot + w / np.linalg.norm(w), (6, 4), textcoords="offset points",
              fontsize=12)  # fmt: skip
text = f"primal: w = ({w[0]:.2f}, {w[1]:.2f}), b = {b:g}"
left.set(ylabel="x₂", title=text)
missed = np.flatnonzero(counts)
right.scatter(*X[missed].T, s=90 + 60 * counts[missed], facecolors="none",
              edgecolors="black", zorder=4, label="missed, α times")  # fmt: skip
for i in missed:
    right.annotate(f"α = {counts[i]}", X[i], (0, 15), textcoords="offset points",
                   ha="center", fontsize=9.5)  # fmt: skip
right.set(title=f"dual: counts α at {len(missed)} points, Σα = {counts.sum()} mistakes")
handles = dict(zip(*left.get_legend_handles_labels()[::-1], strict=True))
handles |= dict(zip(*right.get_legend_handles_labels()[::-1], strict=True))
figure.legend(handles.values(), handles, loc="outside lower center", ncols=5,
              fontsize="small")  # fmt: skip
show_or_save()
