"""
Components of three clusters
============================

Principal components are the directions in which points spread the most. Kernel PCA
takes them in feature space: with φ̃(x) = φ(x) - μ, μ the mean of φ over the points, and
K̃ the matrix of the products ⟨φ̃(xᵢ), φ̃(xⱼ)⟩,

::

    K̃ vⱼ = λⱼ vⱼ,    uⱼ = Σᵢ vᵢⱼ φ̃(xᵢ) / √λⱼ,    fⱼ(x) = ⟨uⱼ, φ̃(x)⟩.

Each uⱼ has length 1, and fⱼ is its coordinate. In feature space the points of equal fⱼ
lie on a plane; in the plane of the points they lie on a curve.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, KernelPCA, Matern, RationalQuadratic
from mercer.plots import plot_component, show_or_save

plt.style.use("mercer.plots.light")

centres = np.array([[-0.5, -0.2], [0.0, 0.6], [0.5, 0.0]])
# Of 300 draws this one comes nearest to the numbers in the book.
rng = np.random.default_rng(73)
X = np.repeat(centres, 30, axis=0) + rng.normal(scale=0.1, size=(90, 2))

# %%
# Eight components
# ----------------
# Three clusters of 30 points and exp(-‖x - y‖²/0.1). Two components are enough to tell
# three clusters apart; the next three cut each cluster in two, the three after them
# again, across the first cut. The courses print the eigenvalues of a draw of their own,
# which stand in brackets. (Of 300 draws the first two eigenvalues were between 19.7 and
# 24.5, and the third was between 3.4 and 5.8, in three of four draws from 3.5 to 4.6.)

printed = [21.72, 21.65, 4.11, 3.93, 3.66, 3.09, 2.60, 2.53]
machine = KernelPCA(8, kernel=RBF(1 / 0.1)).fit(X)
np.testing.assert_allclose(machine.expansion_.norm(), 1, rtol=1e-8)
np.testing.assert_allclose(machine.eigenvalues_, printed, rtol=0.05)

figure, axes = plt.subplots(
    2, 4, figsize=(12.5, 6.4), sharex=True, sharey=True, layout="constrained"
)
for j, ax in enumerate(axes.flat):
    display = plot_component(machine, X, j, ax=ax, limit=0.8, bar=False)
    ax.set(title=f"{ax.get_title()}\n(the course: {printed[j]:.2f})")
    ax.set(xticks=[-0.5, 0, 0.5], yticks=[0, 0.5])
figure.suptitle("Lines of equal coordinate along the first eight components")
bar = figure.colorbar(
    display.artists_["values"], ax=axes, ticks=[-0.8, -0.4, 0, 0.4, 0.8]
)
bar.set_label("coordinate fⱼ(x); thick line: fⱼ = 0")

# %%
# What is left over
# -----------------
# ‖φ̃(x)‖² - Σⱼ fⱼ(x)² is how far φ(x) is from the span of the components: little where
# the training points are, much where there was none, which makes it a measure of
# novelty. And back: the point whose φ is nearest to given coordinates. Noisy points,
# projected on the first components and brought back, lie where the clusters lie. Few
# coordinates belong to a point exactly; how far φ of the nearest is from them is told.

noisy = np.repeat(centres, 12, axis=0) + rng.normal(scale=0.22, size=(36, 2))
Z = machine.transform(noisy)
denoised, distance = machine.preimage(Z, return_distance=True)
middle = np.repeat(centres, 12, axis=0)
before, after = (np.linalg.norm(P - middle, axis=1).mean() for P in (noisy, denoised))
print(f"distance from the middle of the cluster: {before:.3f}, denoised {after:.3f}")
print(f"left in feature space, where all lengths are 1: {distance.mean():.3f}")
assert after < before
for kernel in (Matern(2.5, 0.4), RationalQuadratic(1.0, 0.25)):
    other = KernelPCA(8, kernel=kernel).fit(X)
    found = other.inverse_transform(other.transform(noisy))
    there = np.linalg.norm(found - middle, axis=1).mean()
    print(f"with {kernel!r}: denoised {there:.3f}")
    assert there < before

line = np.linspace(-1.1, 1.2, 201)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
error = machine.reconstruction_error(grid).reshape(201, 201)
assert machine.reconstruction_error(X).max() < error.max() / 2

figure, axes = plt.subplots(1, 2, figsize=(11, 4.9), layout="constrained")
shades = axes[0].contourf(line, line, error, 14, cmap="viridis")
axes[0].scatter(*X.T, s=9, color="white", linewidths=0)
axes[0].set(title="reconstruction error, eight components")
figure.colorbar(shades, ax=axes[0])
axes[1].scatter(*X.T, s=9, color="0.75", linewidths=0, label="training points")
axes[1].quiver(
    *noisy.T,
    *(denoised - noisy).T,
    angles="xy",
    scale_units="xy",
    scale=1,
    width=0.003,
    color="0.5",
)
axes[1].scatter(*noisy.T, s=22, color="C3", marker="x", label="noisy")
axes[1].scatter(*denoised.T, s=22, color="C0", label="pre-image of its projection")
axes[1].set(title="noise taken off by eight components")
axes[1].legend(fontsize="small", loc="lower right")
for ax in axes:
    ax.set_aspect("equal")
show_or_save()
