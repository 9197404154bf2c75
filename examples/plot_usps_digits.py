"""
Handwritten digits of the US postal service
===========================================

7291 digits from envelopes to learn from, 2007 to be read, each 16 × 16 pixels in
[-1, 1]: the set on which support vector machines became known. The kernels are

::

    (⟨x, z⟩ / 256)^d    and    exp(-‖x - z‖² / 128),

ten machines read side by side, each digit against the rest, and the one that answers
most names the digit. Published errors of polynomial and Gaussian kernels are 4.0 to
4.4 % (Schölkopf, Burges and Vapnik 1995); people misread about 2.5 %. Those are for all
the digits; to be quick this script learns from the first 2500, and from all with
``python examples/plot_usps_digits.py all``.

The data are read from usps.npz in the folder that the environment variable MERCER_DATA
names, or in ../shared/data beside this repository. Where there is no such file, the
smaller digits of scikit-learn take their place: 8 × 8 pixels, and no published figures.
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mercer import RBF, SVC, Polynomial
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
file = folder / "usps.npz"
published = file.exists()
if published:
    with np.load(file) as parts:
        names = "X_train", "X_test", "y_train", "y_test"
        X, X_test, y, y_test = (parts[name] for name in names)
    X, X_test = 2 * X - 1, 2 * X_test - 1
else:
    print(
        f"No {file.name} in {file.parent}: reading the digits of scikit-learn instead."
    )
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X.astype(np.float32) / 8 - 1, y, test_size=0.3, stratify=y, random_state=0
    )
total = len(X)
if "all" not in sys.argv[1:]:
    X, y = X[:2500], y[:2500]
pixels = X.shape[1]
side = int(np.sqrt(pixels))

# %%
# Error against degree
# --------------------
# A polynomial of degree 1 sees single pixels, one of degree d products of d of them.
# The step from 1 to 2 is the large one.


def learn(kernel):
    """The machine of this kernel, and the share of the digits it misreads."""
    machine = SVC(C=10, kernel=kernel, multiclass="ovr").fit(X, y)
    error = np.mean(machine.predict(X_test) != y_test)
    found = machine.certificate_
    print(
        f"{kernel!r:<50}{error:7.2%} misread {len(machine.support_):6d} support "
        f"vectors {found.run.seconds:6.2f} s"
    )
    assert found.status == "optimal"
    return machine, error


print(
    f"{len(X)} of {total} digits of {side} × {side} pixels to learn from, "
    f"{len(X_test)} to read"
)
degrees = range(1, 7)
machines, errors = zip(
    *(learn(Polynomial(d, scale=1 / pixels, offset=0)) for d in degrees), strict=True
)
gaussian, gaussian_error = learn(RBF(2 / pixels))
assert min(errors[1:]) < errors[0]

figure, ax = plt.subplots(figsize=(8, 4.8), layout="constrained")
if published:
    ax.axhspan(4.0, 4.4, color="C2", alpha=0.25, lw=0,
               label=f"published after all {total}: 4.0–4.4 %")  # fmt: skip
ax.plot(degrees, 100 * np.array(errors), "o-", color="C0",
        label=f"(⟨x, z⟩ / {pixels})ᵈ")  # fmt: skip
ax.axhline(100 * gaussian_error, color="C1", ls="--",
           label=f"exp(−‖x − z‖² / {pixels // 2}), {gaussian_error:.1%}")  # fmt: skip
for d, error in zip(degrees, errors, strict=True):
    ax.annotate(f"{100 * error:.1f}", (d, 100 * error), (5, 8), ha="left",
                textcoords="offset points", color="C0",
                bbox=dict(fc="white", ec="none", alpha=0.85, pad=0.5))  # fmt: skip
ax.set(title=f"{len(X_test)} digits read after {len(X)} were learnt")
ax.set(
    xlabel="degree d",
    ylabel="misread (%)",
    ylim=(0, 120 * max(errors)),
    xlim=(0.8, 6.4),
)
ax.set_xticks(degrees)
ax.legend(loc="upper right")

# %%
# The digits that the machine is made of
# --------------------------------------
# For each digit the three support vectors of its machine with the largest weight, on
# either side: above the most unusual ways to write it, below the others that come
# nearest to it.

chosen = machines[2]
weight = chosen.expansion_.coef


def gallery(images):
    """(rows, columns, side²) images as one, with a line between them."""
    rows, columns = images.shape[:2]
    tiles = images.reshape(rows, columns, side, side)
    framed = np.pad(tiles, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    return framed.transpose(0, 2, 1, 3).reshape(rows * (side + 2), -1)


def heaviest(sign):
    order = np.argsort(-sign * weight, axis=0)[:3]
    return chosen.support_vectors_[order]


figure, axes = plt.subplots(2, 1, figsize=(10, 6.6), layout="constrained")
for ax, sign, colours, title in (
    (axes[0], 1, "Oranges", "the digit itself, written unusually"),
    (axes[1], -1, "Blues", "other digits that look like it"),
):
    ax.imshow(gallery(heaviest(sign)), cmap=colours, vmin=-1, vmax=1)
    ax.set_xticks((np.arange(10) + 0.5) * (side + 2) - 0.5, range(10))
    ax.set(title=f"The heaviest support vectors of each machine: {title}", yticks=[])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
axes[1].set_xlabel("the machine of the digit")

# %%
# What it misreads
# ----------------
# The digits that are misread most clearly: the machine of the right digit is furthest
# behind that of the wrong one.

values = chosen.decision_function(X_test)
read = chosen.predict(X_test)
own = np.take_along_axis(values, np.searchsorted(chosen.classes_, y_test)[:, None], 1)
behind = values.max(axis=1) - own[:, 0]
worst = np.argsort(-behind, kind="stable")[: min(24, np.sum(read != y_test))]
assert (read[worst] != y_test[worst]).all()

columns = 8
rows = int(np.ceil(len(worst) / columns))
figure, axes = plt.subplots(
    rows, columns, figsize=(10, 1.55 * rows + 0.5), layout="constrained", squeeze=False
)
figure.suptitle(f"{len(worst)} of the {np.sum(read != y_test)} digits that degree 3 "
                "misreads: true → read")  # fmt: skip
for ax, i in zip(axes.flat, worst, strict=False):
    ax.imshow(X_test[i].reshape(side, side), cmap="Purples", vmin=-1, vmax=1)
    ax.set_title(f"{y_test[i]} → {read[i]}", fontsize=11)
    ax.axis("off")
for ax in axes.flat[len(worst) :]:
    ax.remove()
show_or_save()
