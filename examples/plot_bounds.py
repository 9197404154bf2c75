"""
What can be promised before the test
====================================

A machine has learnt from m points. How often will it err on new ones? Some answers need
no further points:

::

    margin bound      (1/m) Σ min(1, ξᵢ) + 2BR/√m + 3 √(ln(2/δ) / 2m)
    loss bound        (1/m) Σ min(c, ℓᵢ) + 2LBR/√m + 3c √(ln(2/δ) / 2m)
    leave-one-out     the share of points that machines fitted without them get wrong
    support vectors   #SV/m                             ≥ leave-one-out
    ξα                #{αᵢ k(xᵢ, xᵢ) + ξᵢ ≥ 1}/m        ≥ leave-one-out
    span              #{αᵢ Sᵢ² ≥ yᵢ f(xᵢ)}/m            ≈ leave-one-out

The first two hold with probability 1 - δ over the draw of the points, for every
distribution; they are a worst case, and as such far from what happens. The second is
about any loss, of classes or of numbers, that is steeper than L nowhere. The others are
about leave-one-out, whose mean is the mean error on m - 1 points, and come close. With
a bias ξα is an estimate: it needs a free support vector whichever point is left out.

The points are colours, and the question is whether they are of skin (UCI's skin
segmentation, 245,057 pixels). The data are read from skin_nonskin.npz in the folder
that the environment variable MERCER_DATA names, or in ../shared/data beside this
repository. Where there is no such file, clouds of random colours take their place.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, SVC, Gram, KernelRidge, NuSVC, bounds
from mercer.plots import show_or_save
from mercer.theory import rademacher

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(0)
folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
file = folder / "skin_nonskin.npz"
if file.exists():
    with np.load(file) as parts:
        X, y = parts["X"] / 255, np.where(parts["y"] == 1, 1, -1)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
else:
    print(f"No {file.name} in {file.parent}: random colours instead.")
    y = rng.choice([-1, 1], p=[0.8, 0.2], size=60_000)
    cloud = rng.normal(size=(len(y), 3))
    skin = np.clip([0.45, 0.6, 0.9] + 0.06 * cloud, 0, 1)
    X = np.where(y[:, None] > 0, skin, np.clip(0.4 + 0.2 * cloud, 0, 1))
test = X[-20_000:], y[-20_000:]

# %%
# One machine, all that can be said of it
# ---------------------------------------
# The kernel and its γ were fixed before the points were seen: a promise with
# probability 1 - δ needs that. B was not, so the bound is taken on a grid of norms that
# share δ, and f scaled to the best of them. A machine with a bias is judged in the
# space of k + 1.

kernel, C, delta = RBF(20.0), 1.0, 0.05
few = 1000
for machine in (
    SVC(C=C, kernel=kernel, fit_intercept=False),
    SVC(C=C, kernel=kernel),
    NuSVC(nu=0.05, kernel=kernel),
    KernelRidge(0.1, kernel=kernel),
):
    # NuSVC would be fitted 1000 times: leaving any point out changes what ν shares.
    again = isinstance(machine, SVC)
    machine.fit(X[:few], y[:few])
    found = bounds(machine, X[:few], y[:few], delta, refit=again, test=test)
    print(found, end="\n\n")
    assert found["test error"].value < found["margin bound"].value
    if again:
        exact = found["leave-one-out"].value
        assert exact <= found["xi-alpha"].value <= found["support vectors"].value
        assert abs(found["span"].value - exact) < 0.01

# %%
# As the points grow
# ------------------
# Means over three draws of the points. The margin bound falls like 1/√m, in steps where
# the grid of norms allows a larger B. The share of support vectors and ξα fall faster,
# and the span rule lies on the measured error.

sizes = [125, 250, 500, 1000, 2000, 4000]
names = "test error", "span", "xi-alpha", "support vectors", "margin bound"
mean = {name: [] for name in names}
terms = []
machine = SVC(C=C, kernel=kernel, fit_intercept=False)
for m in sizes:
    drawn = []
    for draw in range(3):
        part = slice(draw * m, (draw + 1) * m)
        machine.fit(X[part], y[part])
        drawn.append(bounds(machine, X[part], y[part], delta, test=test, samples=2))
    for name in names:
        mean[name].append(np.mean([found[name].value for found in drawn]))
    terms.append(np.mean([found["margin bound"].parts for found in drawn], axis=0))
    print(f"{m:6d}", *(f"{name} {mean[name][-1]:.4f}  " for name in names))
assert mean["margin bound"][-1] < 0.5 < 1 < mean["margin bound"][0]

figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.8), layout="constrained")
styles = dict(zip(names, ("k-", "C0--", "C1-", "C2-", "C3-"), strict=True))
labels = {"test error": "error on 20,000 other points", "xi-alpha": "ξα bound"}
for name in reversed(names):
    width = 2.5 if name == "test error" else 1.6
    text = labels.get(name, name)
    left.loglog(sizes, mean[name], styles[name], marker="o", ms=4, lw=width, label=text)
left.axhline(1, color="grey", ls=":", lw=1)
left.set(
    xlabel="points learnt", ylabel="share of mistakes", title="Bounds and the truth"
)
left.set(ylim=(4e-4, 2))
left.legend(fontsize="small", loc="lower left")
layers = np.transpose(terms)
names = "(1/m) Σ min(1, ξᵢ)", "2BR/√m", "3 √(ln(2/δ)/2m)"
right.stackplot(sizes, layers, labels=names, colors=["C3", "C1", "C4"], alpha=0.75)
right.plot(sizes, mean["test error"], "k-", lw=2.5, label="error on other points")
right.axhline(1, color="grey", ls=":", lw=1)
right.set(
    xscale="log", xlabel="points learnt", title="What the margin bound is made of"
)
right.legend(fontsize="small")
for ax in (left, right):
    ax.set_xticks(sizes, [f"{m:,}" for m in sizes])
    ax.minorticks_off()

# %%
# How rich is a ball of functions?
# --------------------------------
# The empirical Rademacher complexity is how well the functions of norm ≤ 1 follow coin
# tosses at the points. It is largest, 1/√m, where all points are orthogonal in feature
# space, as for a narrow kernel, and smaller the more the points resemble each other.

m = 1000
gammas = np.logspace(-1, 4, 11)
found = [rademacher(Gram(RBF(gamma), X[:m]), samples=300) for gamma in gammas]
value, error, most = np.transpose(found)
assert (value <= most + 5 * error).all()

figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
ax.errorbar(gammas, value, 2 * error, marker="o", ms=4, capsize=3,
            label="(1/m) E √(σᵀKσ), 300 draws of σ")  # fmt: skip
ax.plot(gammas, most, "C3--", label="at most 1/√m, of orthogonal points")
ax.set(xscale="log", xlabel="γ of exp(-γ‖x - y‖²)", ylabel="complexity", ylim=(0, None))
ax.set_title(f"Rademacher complexity of the unit ball, {m:,} points")
ax.legend(loc="lower right")
show_or_save()
