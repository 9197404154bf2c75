"""
A density from windows
======================

Put a small hill around every point and take their mean: that is Parzen's estimate of
the density the points came from,

::

    p(x) = (1/n) Σᵢ k(xᵢ, x) / c,    c = ∫ k(xᵢ, x) dx,

here with the Gaussian kernel, whose width h decides everything. The best h is found by
leaving points out: each is judged by the density of all others.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import KernelDensity

from mercer import RBF, Laplacian, Matern, ParzenClassifier, ParzenDensity
from mercer.plots import plot_density, plot_regions, show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(4)
turn = rng.uniform(0, 1.6 * np.pi, size=220)
ring = 2 * np.column_stack([np.cos(turn), np.sin(turn)])
ring += rng.normal(scale=0.22, size=ring.shape)
middle = rng.normal(scale=[0.5, 0.25], size=(130, 2))
X = np.vstack([ring, middle])

# %%
# Too narrow, right, too wide
# ---------------------------
# The logarithm of the density of left-out points, over the width of the windows. Narrow
# windows leave a point that is left out alone, wide ones blur ring and middle.

best = ParzenDensity().fit(X)
h = best.bandwidth_
print(f"{len(best.trials_)} widths tried, the best is h = {h:.3f}")
reference = KernelDensity(bandwidth=h, rtol=1e-10).fit(X)
np.testing.assert_allclose(
    best.score_samples(X), reference.score_samples(X), rtol=1e-6, atol=1e-6
)
machines = {
    f"h = {h / 4:.2f}, too narrow": ParzenDensity(h / 4).fit(X),
    f"h = {h:.2f}, by leaving out": best,
    f"h = {h * 4:.2f}, too wide": ParzenDensity(4 * h).fit(X),
}
figure, axes = plt.subplots(1, 3, figsize=(13.5, 4.6), layout="constrained")
for ax, (title, machine) in zip(axes, machines.items(), strict=True):
    plot_density(machine, X, ax=ax, legend=False)
    ax.set(title=title, xlabel="x₁", aspect="equal")
axes[0].set(ylabel="x₂")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5)

# %%
# Windows of other shapes
# -----------------------
# Each has its own best width, and its own likelihood there. Any function of the
# distance will do, if it is never negative and has an integral: that of the named ones
# is a formula, that of others is found by quadrature, with an estimate of its error. A
# window that ends gives no density to a point without neighbours: left of where its
# line begins some point is alone.


def hill(r):
    """A window of one's own, with a long tail."""
    return 1 / (1 + r**2) ** 2


windows = {
    "RBF": RBF(),
    "Laplacian": Laplacian(),
    "Matern(1.5)": Matern(1.5),
    "1 / (1 + r²)²": hill,
    "triweight": "triweight",
}
figure, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
for name, kernel in windows.items():
    machine = ParzenDensity("loo", kernel=kernel).fit(X)
    trials = sorted((trial.bandwidth, trial.score) for trial in machine.trials_)
    top = max(score for _, score in trials)
    c = machine.integral_
    print(
        f"{name:<13} h = {machine.bandwidth_:.3f}, ln p of a left-out point {top:.3f}, "
        f"∫ = {c.value:.4f} by {c.by} ± {c.relative_error:.0e}"
    )
    (line,) = ax.semilogx(*np.transpose(trials), "-o", markersize=4, label=name)
    ax.plot(machine.bandwidth_, top, "*", markersize=14, color=line.get_color())
ax.set(xlabel="h", ylabel="mean ln p of left-out points", ylim=(-3.5, -2.35))
widths = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
ax.set_xticks(widths, [f"{width:g}" for width in widths])
ax.set_xticks([], minor=True)
ax.legend()

# %%
# Two classes
# -----------
# The densities of the classes and Bayes' rule make a classifier. Its twin asks which
# mean of the classes, taken in feature space, is nearer.

y = np.repeat(["ring", "middle"], [len(ring), len(middle)])
figure, axes = plt.subplots(1, 2, figsize=(10.6, 5), layout="constrained", sharey=True)
for ax, machine in zip(
    axes,
    (ParzenClassifier(), ParzenClassifier(method="mean", kernel=RBF(0.5 / h**2))),
    strict=True,
):
    share = machine.fit(X, y).score(X, y)
    plot_regions(machine, X, y, ax=ax, legend=False)
    ax.set(title=f'method="{machine.method}": {share:.1%} right', xlabel="x₁")
    assert share > 0.95
axes[0].set(ylabel="x₂")
axes[1].legend(fontsize="small", loc="lower right")
show_or_save()
