"""
A circle becomes a plane
========================

A circle around the origin is a curve of degree two in (x₁, x₂), and so is any ellipse.
In the space of the monomials of degree two,

::

    φ(x) = (z₁, z₂, z₃) = (x₁², x₂², √2 x₁x₂),    ⟨φ(x), φ(y)⟩ = ⟨x, y⟩²,

both are of degree one, that is, planes:

::

    x₁² + x₂² - 1 = 0            becomes    z₁ + z₂ - 1 = 0,
    a x₁² + b x₂² + c x₁x₂ = 1   becomes    a z₁ + b z₂ + (c/√2) z₃ = 1.

Inside and outside of the curve are the two sides of the plane, so a machine that can
only find planes finds circles and ellipses once it works with the kernel ⟨x, y⟩². The
image of the plane under φ is half of the cone 2 z₁z₂ = z₃²; x and -x share an image.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import Expansion, FeatureFunction, Polynomial
from mercer.plots import plot_feature_map, show_or_save

plt.style.use("mercer.plots.light")


def phi(X):
    x1, x2 = X.T
    return np.column_stack([x1**2, x2**2, np.sqrt(2) * x1 * x2])


def polar(radius, angle):
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


rng = np.random.default_rng(3)
X = polar(1.5 * np.sqrt(rng.uniform(0, 1, 300)), rng.uniform(0, 2 * np.pi, 300))
kernel = Polynomial(2, offset=0)
Z = FeatureFunction(phi).features(X)

np.testing.assert_allclose(kernel(X), Z @ Z.T, rtol=1e-12, atol=1e-12)
np.testing.assert_allclose(2 * Z[:, 0] * Z[:, 1], Z[:, 2] ** 2, rtol=1e-12)

# %%
# An ellipse is a function of two points
# --------------------------------------
# Since k(u, x) = ⟨u, x⟩² is the square of the coordinate along a unit vector u, an
# ellipse with axes u and v and half-lengths p and q is an expansion on its axes,
#
# ::
#
#     f(x) = k(u, x)/p² + k(v, x)/q² - 1,
#
# negative inside and positive outside. Its plane has the normal w = φ(u)/p² + φ(v)/q².


def ellipse(degrees, p, q):
    """The expansion f, the normal w, and points on the curve f = 0."""
    turn = np.deg2rad(degrees)
    axes = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    weights = np.array([p, q]) ** -2.0
    angle = np.linspace(0, 2 * np.pi, 361)
    curve = polar(1.0, angle) * [p, q] @ axes
    return Expansion(kernel, axes, weights, -1.0), weights @ phi(axes), curve


shapes = {
    "circle": ellipse(0, 1.0, 1.0),
    "ellipse": ellipse(30, 1.25, 0.7),
}
np.testing.assert_allclose(shapes["circle"][1], [1, 1, 0], atol=1e-15)

for f, w, curve in shapes.values():
    np.testing.assert_allclose(f(X), Z @ w - 1, atol=1e-12)
    np.testing.assert_allclose(phi(curve) @ w, 1, rtol=1e-12)

# %%
# The curve in the plane, the plane in space
# ------------------------------------------

figure = plt.figure(figsize=(11, 10), layout="constrained")
for row, (name, (f, w, curve)) in enumerate(shapes.items()):
    where = np.where(f(X) > 0, "outside, f(x) > 0", "inside, f(x) < 0")
    flat = figure.add_subplot(2, 2, 2 * row + 1)
    plot_feature_map(lambda X: X, X, where, flat, names=["x₁", "x₂"])
    flat.plot(*curve.T, color="black", label="f(x) = 0")
    flat.set(title=f"In the plane: the {name} f(x) = 0", aspect="equal")
    solid = figure.add_subplot(2, 2, 2 * row + 2, projection="3d")
    names = ["z₁ = x₁²", "z₂ = x₂²", "z₃ = √2 x₁x₂"]
    plot_feature_map(phi, X, where, solid, plane=(w, -1.0), names=names)
    solid.plot(*phi(curve).T, color="black", zorder=3)
    solid.set(title=f"In the space of monomials:\na plane cuts the {name} out")
    solid.set(xticks=[0, 1, 2], yticks=[0, 1, 2], zticks=[-1, 0, 1])
handles = flat.get_legend_handles_labels()
figure.legend(*handles, loc="outside lower center", ncols=3)
show_or_save()
