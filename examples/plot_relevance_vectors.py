"""
Relevance vectors
=================

A relevance vector machine asks which expansions make the data likely. Every point has
a weight, and every weight a precision of its own,

::

    f(x) = Σᵢ wᵢ k(xᵢ, x) + w₀,    wᵢ ~ N(0, 1/αᵢ),    y = f(x) + noise,

and the α (and the noise) are put where log p(y), the evidence, is largest. Most αᵢ then
go to ∞, which leaves wᵢ = 0: f is held by a few points. They are not those near a
boundary or outside a tube, as support vectors are, but typical ones. What is left
uncertain about the w makes a band around f; nothing has to be chosen by
cross-validation but the kernel.

The classes are read from ripley.npz in the folder that the environment variable
MERCER_DATA names, or in ../shared/data beside this repository. Where there is no such
file, points are drawn from four clusters like theirs.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, RVC, RVR, SVC, Spline
from mercer.plots import plot_band, plot_probabilities, show_or_save

plt.style.use("mercer.plots.light")

# %%
# A curve
# -------
# A hundred noisy values of sin(x)/x, with a spline kernel. Half a dozen points are
# enough, and the noise is found to be what it was. The picture ends where the points
# do: beyond them a spline goes its own way.

rng = np.random.default_rng(4)
x = np.linspace(-10, 10, 100)[:, None]
y = np.sinc(x[:, 0] / np.pi) + rng.normal(scale=0.1, size=100)
machine = RVR(kernel=Spline()).fit(x, y)
noise = machine.beta_**-0.5
print(f"{len(machine.relevance_)} relevance vectors, noise {noise:.3f} (true: 0.1)")
assert 5 <= len(machine.relevance_) <= 9 and 0.07 < noise < 0.13

figure, ax = plt.subplots(figsize=(9, 4.6), layout="constrained")
plot_band(machine, x, y, ax=ax)
ax.plot(x, np.sinc(x[:, 0] / np.pi), color="black", lw=1, ls=":", label="sin(x)/x")
ax.legend(fontsize="small")
ax.set(title=f"{len(machine.relevance_)} of 100 points, noise estimated {noise:.3f}",
       xlabel="x", ylabel="y", xlim=(-10.3, 10.3), ylim=(-0.7, 1.4))  # fmt: skip

# %%
# The evidence never falls on the way. Columns come in, are re-estimated, and leave
# again when others say the same better.

curve = machine.evidence_curve_
assert (np.diff(curve) >= 0).all()
figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
ax.plot(np.arange(1, len(curve) + 1), curve, "o-", markersize=3)
ax.set(title="The evidence never falls", xlabel="step", ylabel="log p(y)")

# %%
# Two classes
# -----------
# Ripley's synthetic problem: each class has two clusters. A support vector machine of
# similar accuracy needs many more points, as all those near the boundary are its own.

folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
path = folder / "ripley.npz"


def ripley():
    if path.exists():
        with np.load(path, allow_pickle=False) as file:
            return file["X_train"], file["y_train"], file["X_test"], file["y_test"]
    centres = np.array([[-0.7, 0.3], [0.3, 0.3], [-0.3, 0.7], [0.4, 0.7]])

    def drawn(n):
        cluster = rng.integers(4, size=n)
        return rng.normal(centres[cluster], np.sqrt(0.03)), cluster // 2

    return *drawn(250), *drawn(1000)


X, label, X_test, label_test = ripley()
kernel = RBF(1 / 0.5**2)
relevance = RVC(kernel=kernel).fit(X, label)
support = SVC(kernel=kernel, C=1.0).fit(X, label)
error = 1 - relevance.score(X_test, label_test)
other = 1 - support.score(X_test, label_test)
print(f"RVC: {len(relevance.relevance_)} vectors, {error:.1%} wrong")
print(f"SVC: {len(support.support_)} vectors, {other:.1%} wrong")
assert len(relevance.relevance_) < 10 < len(support.support_)
assert error < other + 0.02

figure, ax = plt.subplots(figsize=(8.4, 6.4), layout="constrained")
plot_probabilities(relevance, X, label, ax=ax)
ax.set(title=f"RVC, {len(relevance.relevance_)} of {len(X)} points: {error:.1%} wrong "
       f"(SVC, {len(support.support_)} points: {other:.1%})",
       xlabel="x₁", ylabel="x₂")  # fmt: skip
show_or_save()
