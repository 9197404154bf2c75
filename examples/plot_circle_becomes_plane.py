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
from mercer.plots import show_or_save

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

blue, orange = "C0", "C1"


def draw_curve(ax, f, curve):
    inside = f(X) < 0
    ax.plot(*X[~inside].T, "o", color=blue, ms=4.5, label="outside, f(x) > 0")
    ax.plot(*X[inside].T, "s", color=orange, ms=4.5, label="inside, f(x) < 0")
    ax.plot(*curve.T, color="black", lw=2, label="f(x) = 0")
    ax.set(aspect="equal", xlim=(-1.6, 1.6), ylim=(-1.6, 1.6), xlabel="x₁", ylabel="x₂")


def plane_patch(w, curve):
    """A rectangle in the plane ⟨w, z⟩ = 1 around the image of the curve."""
    level = np.cross(w, [0, 0, 1])
    rising = np.cross(level, w)
    s, t = np.meshgrid([-1.2, 1.2], [-1.2, 1.2])
    steps = np.multiply.outer(level / np.linalg.norm(level), s)
    steps += np.multiply.outer(rising / np.linalg.norm(rising), t)
    return phi(curve).mean(axis=0)[:, None, None] + steps


def draw_space(ax, f, w, curve, azim):
    inside = f(X) < 0
    angle, radius = np.meshgrid(np.linspace(0, np.pi, 61), [0.0, 1.5])
    cone = phi(polar(radius.ravel(), angle.ravel()))
    # Drawn from the far side to the near side, the one that holds the apex.
    ax.computed_zorder = False
    ax.plot_surface(*cone.T.reshape(3, *angle.shape), color=blue, alpha=0.08, zorder=0)
    ax.plot(*Z[~inside].T, "o", color=blue, ms=4, zorder=1)
    ax.plot_surface(*plane_patch(w, curve), color="black", alpha=0.25, zorder=2)
    ax.plot(*phi(curve).T, color="black", lw=2, zorder=3)
    ax.plot(*Z[inside].T, "s", color=orange, ms=4, zorder=4)
    ax.set(xlabel="z₁ = x₁²", ylabel="z₂ = x₂²", zlabel="z₃ = √2 x₁x₂")
    ax.set(xticks=[0, 1, 2], yticks=[0, 1, 2], zticks=[-1, 0, 1])
    ax.set(xlim=(-0.4, 2.3), ylim=(-0.4, 2.3), zlim=(-1.7, 1.7))
    ax.set_box_aspect((2.7, 2.7, 3.4), zoom=1.05)
    ax.view_init(elev=10, azim=azim)


figure = plt.figure(figsize=(10, 9.5), layout="constrained")
for row, (name, (f, w, curve)) in enumerate(shapes.items()):
    plane = figure.add_subplot(2, 2, 2 * row + 1)
    draw_curve(plane, f, curve)
    plane.set_title(f"In the plane: the {name} f(x) = 0")
    space = figure.add_subplot(2, 2, 2 * row + 2, projection="3d")
    draw_space(space, f, w, curve, azim=(-60, -38)[row])
    space.set_title(f"In the space of monomials: a plane cuts the {name} out")
figure.legend(*plane.get_legend_handles_labels(), loc="outside lower center", ncols=3,
              frameon=False)  # fmt: skip
show_or_save()
