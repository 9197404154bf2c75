"""
One outlier swings the hard margin
==================================

The hard margin, C = ∞, asks that every point stays behind its margin, whatever that
costs the others. One point in the wrong place is enough to turn the boundary and to
make the margin thin. The soft margin puts a price on it,

::

    min ½‖w‖² + C Σᵢ max(0, 1 - yᵢ f(xᵢ)),    f(x) = ⟨w, x⟩ + b = Σᵢ yᵢαᵢ⟨xᵢ, x⟩ + b,

and no point pulls harder than αᵢ = C. On the hard margin a point pulls as hard as it
takes.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC
from mercer.plots import plot_regions, show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(6)
y = np.repeat([-1, 1], 30)
X = rng.normal(scale=0.7, size=(60, 2)) + np.outer(y, [2.0, 0.4])
outlier = np.array([1.0, 1.6])
price = {"hard": np.inf, "soft": 0.1}


def fit_with(C, *more):
    """The machine on the points, and on more of class -1."""
    points = np.vstack([X, *more])
    return SVC(C=C, kernel="linear").fit(points, np.append(y, [-1] * len(more)))


def turned(before, after):
    """The angle between two boundaries, in degrees."""
    u, v = (m.coef_[0] / np.linalg.norm(m.coef_) for m in (before, after))
    return np.degrees(np.arccos(min(1.0, u @ v)))


# %%
# Before and after
# ----------------
# Without the outlier the two boundaries have the same direction, to two degrees. With
# it the hard one turns by almost forty degrees, and its margin shrinks to less than a
# quarter; the soft one stays where it is, and the outlier is misplaced at a price.

before = {name: fit_with(C) for name, C in price.items()}
after = {name: fit_with(C, outlier) for name, C in price.items()}

print("margin  turned by  width before  width after  pull of the outlier")
for name in price:
    pull = abs(after[name].dual_coef_[0])[after[name].support_ == len(X)][0]
    print(
        f"{name:<7}{turned(before[name], after[name]):9.1f}° "
        f"{before[name].certificate_.margin:12.2f} "
        f"{after[name].certificate_.margin:12.2f} {pull:20.2f}"
    )

assert turned(before["hard"], before["soft"]) < 2
assert turned(before["hard"], after["hard"]) > 35
assert turned(before["soft"], after["soft"]) < 1
assert after["hard"].certificate_.margin < before["hard"].certificate_.margin / 4
assert abs(after["soft"].dual_coef_).max() == price["soft"]

X_all, y_all = np.vstack([X, outlier]), np.append(y, -1)
figure, axes = plt.subplots(2, 1, figsize=(8, 9.4), sharex=True, layout="constrained")
for ax, name in zip(axes, price, strict=True):
    plot_regions(after[name], X_all, y_all, ax=ax, legend=False)
    (w1, w2), b = before[name].coef_[0], before[name].intercept_[0]
    height = np.array(ax.get_ylim())
    ax.plot(-(w2 * height + b) / w1, height, color="C2", lw=2.5, ls=":",
            label="boundary without the outlier")  # fmt: skip
    ax.annotate("outlier", outlier, (-3.4, 1.7), va="center",
                arrowprops=dict(arrowstyle="->", shrinkB=7))  # fmt: skip
    angle = turned(before[name], after[name])
    ax.set(title=f"C = {price[name]:g}: turned by {angle:.1f}°".replace("inf", "∞"))
    ax.set(ylabel="x₂", ylim=height, aspect="equal")
axes[1].set(xlabel="x₁")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)

# %%
# The outlier walks in
# --------------------
# A point of class -1 goes through the gap into the other class. The hard margin turns
# after it until the hulls of the two classes meet; then there is none. The machine says
# so, and gives the proof: a point that is a mean of either class.

places = np.column_stack([np.linspace(-1.5, 3.0, 46), np.full(46, outlier[1])])
soft = [turned(before["soft"], fit_with(price["soft"], place)) for place in places]
hard = []
for place in places:
    try:
        hard.append(turned(before["hard"], fit_with(np.inf, place)))
    except ValueError as error:
        refusal = error
        break

sentence = str(refusal).split(". ")[0]
print(f"\nFrom x₁ = {place[0]:.1f} on: {sentence}.")
points = np.vstack([X, place])
weight = refusal.hull_weights
mean = {side: np.maximum(side * weight, 0) @ points for side in (-1, 1)}
np.testing.assert_allclose(mean[-1], mean[1], atol=1e-5)
assert max(soft) < 10 < 40 < max(hard)

figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
ax.axvspan(place[0], places[-1, 0], color="lightgrey", alpha=0.5)
ax.text(place[0] + 0.06, max(hard), "the hulls meet:\nno hard margin", va="top")
ax.plot(places[: len(hard), 0], hard, "o-", ms=4, color="C1", label="C = ∞")
ax.plot(places[:, 0], soft, "s-", ms=4, color="C0",
        label=f"C = {price['soft']}")  # fmt: skip
ax.axvline(outlier[0], color="grey", lw=1, ls=":")
ax.set(xlabel="x₁ of the outlier", ylabel="boundary turned by (degrees)")
ax.set(title="How far one point turns the boundary", xlim=places[[0, -1], 0])
ax.legend(loc="upper left", frameon=False)
show_or_save()
