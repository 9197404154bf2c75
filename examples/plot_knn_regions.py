"""
Neighbours in feature space
===========================

A point gets the class of most of its k nearest neighbours. Distances need no
coordinates, only kernel values:

::

    ‖φ(x) - φ(y)‖² = k(x, x) - 2 k(x, y) + k(y, y).

With the linear kernel these are the usual neighbours. The Gaussian kernel has the same
ones, as its distance 2 - 2 exp(-γ‖x - y‖²) grows with ‖x - y‖. Other kernels have
others.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.neighbors import KNeighborsClassifier

from mercer import RBF, KernelKNNClassifier, Linear, Normalized, Polynomial, Spectrum
from mercer.plots import plot_regions, show_or_save

plt.style.use("mercer.plots.light")

X, y = make_moons(160, noise=0.28, random_state=2)

# %%
# More neighbours, smoother regions
# ---------------------------------
# One neighbour repeats every accident of the points; many neighbours see only the
# broad outline. Each point is also judged by the others, which tells how far to go.
# scikit-learn's machine has the same neighbours, and the same votes.

figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained", sharey=True)
for ax, k in zip(axes, (1, 9, 41), strict=True):
    machine = KernelKNNClassifier(k, kernel=Linear()).fit(X, y)
    votes = KNeighborsClassifier(k).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(machine.predict_proba(X), votes)
    share = np.mean(machine.predict(None) == y)
    print(f"k={k:2}: {share:.1%} of the points are named right by the others")
    plot_regions(machine, X, y, ax=ax, legend=False)
    name = "neighbour" if k == 1 else "neighbours"
    ax.set(title=f"{k} {name}: {share:.0%} right by the others", xlabel="x₁")
axes[0].set(ylabel="x₂")
figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper", title="class")

# %%
# Another kernel, another geometry
# --------------------------------
# Three classes in three directions. A normalised polynomial kernel compares directions
# and forgets lengths, so its regions are sectors; the Gaussian kernel compares places.

rng = np.random.default_rng(0)
angle = np.repeat([0.3, 2.4, 4.4], 40) + rng.normal(scale=0.38, size=120)
length = rng.uniform(0.2, 3, size=120)
rays = length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
names = np.repeat(["east", "north", "south"], 40)

figure, axes = plt.subplots(1, 2, figsize=(10.6, 5), layout="constrained", sharey=True)
kernels = {
    "RBF(0.5): the nearest places": RBF(0.5),
    "Normalized(Polynomial(3)): the nearest directions": Normalized(
        Polynomial(3, offset=0)
    ),
}
for ax, (title, kernel) in zip(axes, kernels.items(), strict=True):
    machine = KernelKNNClassifier(5, kernel=kernel).fit(rays, names)
    plot_regions(machine, rays, names, ax=ax, legend=False)
    ax.set(title=title, xlabel="x₁")
axes[0].set(ylabel="x₂")
figure.legend(*ax.get_legend_handles_labels(), loc="outside right upper")
longer = np.array([[0.9, 0.3], [-0.5, 0.4], [-0.1, -0.7]])
assert (machine.predict(longer) == machine.predict(3 * longer)).all()

# %%
# Any points have neighbours
# --------------------------
# Words by the pairs of letters they share:

words = ["banana", "bandana", "cabana", "canal", "queue", "queued", "quest", "sequel"]
machine = KernelKNNClassifier(2, kernel=Normalized(Spectrum(2)))
machine.fit(words, ["a"] * 4 + ["qu"] * 4)
distance, index = machine.kneighbors(["ban", "request"])
for word, d, near in zip(("ban", "request"), distance, index, strict=True):
    told = ", ".join(f"{words[j]} at {r:.2f}" for j, r in zip(near, d, strict=True))
    print(f"{word}: {told}")
assert list(machine.predict(["ban", "request"])) == ["a", "qu"]
show_or_save()
