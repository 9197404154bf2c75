"""
PCA beside kernel PCA
=====================

PCA finds the direction u along which the points vary most. All points with the same
projection ⟨u, x - x̄⟩ lie on a straight line. Kernel PCA does the same to φ(x): the
lines of constant projection are bent, and follow the points.

::

    y = Uᵀ(x - x̄)          coordinates, the rows of Uᵀ being the directions
    x ≈ x̄ + U y            what the coordinates say of the point

A new point is projected after centring: x̄ is taken off first, and added again at the
end. In feature space the way back is a search for a point whose φ is near.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, KernelPCA, Linear
from mercer.plots import plot_component, show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(3)
t = rng.uniform(-1.15, 1.15, size=120)
X = np.column_stack([2 * t, 1.6 * t**2]) + rng.normal(scale=0.12, size=(120, 2))
X += [3.0, 1.0]

straight = KernelPCA(2, kernel=Linear()).fit(X)
bent = KernelPCA(2, kernel=RBF(0.25)).fit(X)

# %%
# Lines of constant projection
# ----------------------------
# The first component of either, blue to orange. Straight lines run across the whole
# picture, whether there are points or not. The bent ones close around the two arms of
# the bow, and far from all points the projection falls back to that of the mean.

figure, axes = plt.subplots(1, 2, figsize=(12, 3.9), sharey=True, layout="constrained")
titles = (
    "PCA: straight lines of the same first coordinate",
    "kernel PCA, exp(-‖x - y‖²/4): bent lines",
)
for ax, machine, title in zip(axes, (straight, bent), titles, strict=True):
    plot_component(machine, X, 0, ax, bar=False)
    ax.set(title=title, xlabel="x₁", aspect="equal")
axes[0].set(ylabel="x₂")

# %%
# The way back
# ------------
# With a linear kernel the machine is PCA: its components are those of the singular
# values, U = (X - x̄)ᵀ Y Λ⁻¹ from the coordinates Y and the eigenvalues Λ. One
# coordinate leaves the points on a line through x̄; with both, x̄ + U y is x itself.
# Kernel PCA brings them to a curve, and takes off the noise across it.

mean = X.mean(axis=0)
Y = straight.transform(X)
U = (X - mean).T @ Y / straight.eigenvalues_
singular = np.linalg.svd(X - mean, full_matrices=False)
np.testing.assert_allclose(straight.eigenvalues_, singular[1] ** 2)
np.testing.assert_allclose(np.abs(U.T @ singular[2].T), np.eye(2), atol=1e-9)
np.testing.assert_allclose(mean + Y @ U.T, X, atol=1e-9)
on_line = mean + Y[:, :1] @ U[:, :1].T

# For the Gaussian kernel a point is looked for whose φ is near to the projection. Its
# space has as many dimensions as there are points, and two coordinates make a curve.
on_bow = np.asarray(bent.preimage(bent.transform(X)))
error = {
    "PCA": np.mean(np.sum((X - on_line) ** 2, axis=1)),
    "kernel PCA": np.mean(np.sum((X - on_bow) ** 2, axis=1)),
}
for name, value in error.items():
    print(f"{name:<11} mean squared distance to the reconstruction {value:.4f}")
assert error["kernel PCA"] < error["PCA"] / 3

figure, axes = plt.subplots(1, 2, figsize=(12, 4.4), sharey=True, layout="constrained")
ways = {
    "PCA": (on_line, "one coordinate: x̄ + U y"),
    "kernel PCA": (on_bow, "two coordinates: the nearest φ"),
}
for ax, (name, (back, how)) in zip(axes, ways.items(), strict=True):
    ax.plot(*np.stack([X, back], axis=-1).transpose(1, 2, 0), color="0.75", lw=0.8,
            zorder=1)  # fmt: skip
    ax.scatter(*X.T, s=14, color="C0", label="points x", zorder=2)
    ax.scatter(*back.T, s=14, color="C1", label="reconstruction", zorder=3)
    ax.set(title=f"{name}, {how}\nmean squared distance {error[name]:.2f}")
    ax.set(xlabel="x₁", aspect="equal")
axes[0].plot(*mean, "k+", ms=13, mew=2.2, label="mean x̄", zorder=4)
u = U[:, 0] * np.sign(U[0, 0])  # the sign of a direction is free
axes[0].annotate("", mean + 1.2 * u, mean, zorder=6,
                 arrowprops=dict(arrowstyle="-|>", lw=2.2))  # fmt: skip
axes[0].annotate("u", mean + 0.5 * u, (0, 7), textcoords="offset points", fontsize=13)
axes[0].set(ylabel="x₂")
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
show_or_save()
