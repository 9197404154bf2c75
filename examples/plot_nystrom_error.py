"""
A few points stand for all
==========================

The Nyström approximation replaces k by its part along m landmarks L,

::

    k̃(x, y) = k(x, L) K_LL⁺ k(L, y),

an explicit map with m columns, so that a machine on n points costs n m² instead of n³.
It is a kernel like any other, ``Nystrom(kernel, size)``, for points of any kind. How
good it is depends on the landmarks; its error is

::

    trace(K - K̃) / trace K = Σᵢ (k(xᵢ, xᵢ) - k̃(xᵢ, xᵢ)) / Σᵢ k(xᵢ, xᵢ).

Drawn uniformly, landmarks crowd where the points do. Randomly pivoted Cholesky takes a
point with a probability proportional to what is left of it, k(x, x) - k̃(x, x), and so
also reaches those that lie apart; it knows its error on the way.

The data are shuttle.npz (1,500 of its records, 9 sensors) in the folder that the
environment variable MERCER_DATA names, or in ../shared/data beside this repository.
Where there is no such file, the tumours of scikit-learn take their place.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import load_breast_cancer

from mercer import RBF, Nystrom
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
file = folder / "shuttle.npz"
if file.exists():
    name = "shuttle"
    with np.load(file) as parts:
        X = parts["X_train"].astype(float)
else:
    print(f"No {file.name} in {file.parent}: reading the tumours of scikit-learn.")
    name = "breast cancer"
    X, _ = load_breast_cancer(return_X_y=True)

X = X[np.random.default_rng(0).permutation(len(X))[:1500]]
X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-12)
kernel = RBF().resolve(X)

# %%
# The error falls with the number of landmarks
# --------------------------------------------
# Landmarks are in the order they were chosen, so that the first m of them are those of
# a smaller size. No map with m columns can leave less than the eigenvalues of K beyond
# the first m.

sizes = np.array([2, 5, 10, 20, 40, 80, 120])
methods = {"uniform": "C1", "kmeans++": "C2", "pivoted": "C0"}
chosen, errors = {}, {}
for method in methods:
    rows = []
    for seed in range(3):
        k = Nystrom(kernel, int(sizes[-1]), method=method, seed=seed).resolve(X)
        chosen[method] = k.landmarks
        first = (Nystrom(kernel, landmarks=k.landmarks[:m]) for m in sizes)
        rows.append([part.trace_error_on(X) for part in first])
    errors[method] = np.array(rows)
    if method == "pivoted":  # which has stated it, with its rounding
        assert 0 <= k.trace_error - rows[-1][-1] < 1e-9

eigenvalues = np.linalg.eigvalsh(kernel(X))[::-1]
least = np.array([eigenvalues[m:].sum() for m in sizes]) / eigenvalues.sum()
print(f"{'landmarks':>12}" + "".join(f"{m:>9}" for m in sizes))
for method, values in errors.items():
    print(f"{method:>12}" + "".join(f"{v:9.4f}" for v in values.mean(axis=0)))
    assert (values >= least - 1e-12).all()
print(f"{'at least':>12}" + "".join(f"{v:9.4f}" for v in least))
assert errors["pivoted"].mean(axis=0)[-1] < errors["uniform"].mean(axis=0)[-1]

# %%
# As many as an error takes
# -------------------------
# ``error=`` in place of a size: landmarks are added until the error is reached.

for goal in (0.1, 0.01, 0.001):
    k = Nystrom(kernel, error=goal).resolve(X)
    print(f"error={goal:<6}: {len(k.landmarks):4d} landmarks, {k.trace_error:.5f}")
    assert k.trace_error <= goal

# %%
# Where the landmarks are
# -----------------------
# The points along their first two principal components, with 40 landmarks. What colours
# a point is k(x, x) - k̃(x, x), what the landmarks leave of it: nothing of the crowds;
# but uniform ones leave all of many points that lie apart.

_, _, axes_of_X = np.linalg.svd(X, full_matrices=False)
plane = axes_of_X[:2].T
colours = LinearSegmentedColormap.from_list("left", ["0.8", "#8e5bb0", "#2d0a4e"])
figure, (curve, *maps) = plt.subplots(
    1, 3, figsize=(14, 4.6), layout="constrained", width_ratios=(1.15, 1, 1)
)
for method, colour in methods.items():
    values = errors[method]
    curve.loglog(sizes, values.mean(axis=0), "o-", color=colour, ms=4, label=method)
    curve.fill_between(
        sizes, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15
    )
curve.loglog(sizes, least, "--", color="0.4", label="the best of any map")
curve.set(xlabel="landmarks", ylabel="relative trace error")
curve.set_title(f"{name}: mean and range of three seeds")
curve.legend(loc="lower left")

for ax, method in zip(maps, ("uniform", "pivoted"), strict=True):
    landmarks = chosen[method][:40]
    k = Nystrom(kernel, landmarks=landmarks)
    left = 1 - k.diag(X)
    order = np.argsort(left)
    shown = ax.scatter(*(X[order] @ plane).T, c=left[order], s=9, cmap=colours,
                       vmin=0, vmax=1)  # fmt: skip
    ax.scatter(*(landmarks @ plane).T, s=55, facecolors="none", edgecolors="C1",
               linewidths=1.2)  # fmt: skip
    error = k.trace_error_on(X)
    ax.set(title=f"{method}, 40 landmarks: error {error:.3f}")
    ax.set(xlabel="first principal component")
    ax.set_xscale("symlog", linthresh=2)
    ax.set_yscale("symlog", linthresh=2)
maps[0].set_ylabel("second principal component")
figure.colorbar(shown, ax=maps[-1], label="what is left of k(x, x) = 1")
show_or_save()
