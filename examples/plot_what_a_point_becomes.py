"""
What a point becomes
====================

A kernel turns every point xᵢ into a function, its own comparison with everything else:

::

    xᵢ   becomes   k(xᵢ, ·)

Under the Gaussian kernel a point is a bump around itself, exp(-γ‖xᵢ - x‖²). Under the
polynomial kernel it is a surface (γ + xᵢ·x)^d that spans the whole plane: it is
constant along lines orthogonal to xᵢ and grows with no bound along xᵢ. Every kernel
machine is a weighted sum of such functions,

::

    f(x) = Σᵢ βᵢ k(xᵢ, x),

so what it can say is what its kernel can add up. Positive weights are drawn in orange,
negative ones in blue.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap

from mercer import RBF, Expansion, Polynomial
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

# %%
# On a line
# ---------
# Three points with the weights 1, 0.8 and -0.6. The thin curves are βᵢ k(xᵢ, ·), the
# thick one is their sum. Far from all the points a sum of bumps returns to zero; a sum
# of (1 + xᵢ x)³ is a polynomial of degree 3 wherever the points lie,
#
# ::
#
#     Σᵢ βᵢ (1 + xᵢ x)³ = Σᵢ βᵢ + 3 (Σᵢ βᵢxᵢ) x + 3 (Σᵢ βᵢxᵢ²) x² + (Σᵢ βᵢxᵢ³) x³.

points = np.array([[-1.5], [0.3], [1.6]])
beta = np.array([1.0, 0.8, -0.6])
line = np.linspace(-4, 4, 401)[:, None]

bumps = Expansion(RBF(1.0), points, beta)
cubics = Expansion(Polynomial(3), points, beta)

assert abs(bumps(np.array([[-8.0], [8.0]]))).max() < 1e-15
moments = beta @ points ** [0, 1, 2, 3]
np.testing.assert_allclose(
    cubics(line), line ** [0, 1, 2, 3] @ (moments * [1, 3, 3, 1]), rtol=0, atol=1e-11
)

blue, orange = "C0", "C1"


def draw_line(ax, f, title, reach):
    ax.axhline(0, color="grey", lw=0.8)
    for x, weight in zip(f.points, f.coef, strict=True):
        part = Expansion(f.kernel, x[None], [weight])
        sign, shade = (">", orange) if weight > 0 else ("<", blue)
        name = f"βᵢ k(xᵢ, ·), βᵢ {sign} 0"
        ax.plot(line, part(line), color=shade, lw=1.5, label=name)
        ax.plot(x, part(x[None]), "o", color=shade, ms=7)
    ax.plot(line, f(line), color="black", lw=2.8, label="f, their sum")
    ax.set(title=title, xlabel="x", xlim=(-reach, reach))


figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
draw_line(left, bumps, "RBF(1): a point is a bump", reach=4)
draw_line(right, cubics, "(1 + xᵢ x)³: a point is a cubic", reach=2.2)
right.set(ylim=(-45, 45))
handles, names = left.get_legend_handles_labels()
figure.legend(handles[1:], names[1:], loc="outside lower center", ncols=3,
              frameon=False)  # fmt: skip

# %%
# In the plane
# ------------
# Each row is a kernel; the first three columns show what the points a, b, c become, the
# last one the sum with the weights 1, -1, 1, and in black the line where it is zero.
# (Polynomials of degree d are coloured by their d-th root: they grow too fast for one
# scale.)
#
# In this space of functions a value is an inner product, f(x) = ⟨f, k(x, ·)⟩, and the
# length is ‖f‖² = Σᵢⱼ βᵢβⱼ k(xᵢ, xⱼ).

points = np.array([[-1.0, -0.6], [0.2, 1.0], [1.1, -0.5]])
beta = np.array([1.0, -1.0, 1.0])
kernels = {
    "RBF(1)": RBF(1.0),
    "(1 + ⟨a, x⟩)²": Polynomial(2),
    "(1 + ⟨a, x⟩)³": Polynomial(3),
}

somewhere = np.array([[0.7, -1.3]])
for kernel in kernels.values():
    f = Expansion(kernel, points, beta)
    there = Expansion(kernel, somewhere, [1.0])
    np.testing.assert_allclose(f(somewhere)[0], f.inner(there), rtol=1e-12)
    np.testing.assert_allclose(f.norm() ** 2, beta @ kernel(points) @ beta, rtol=1e-12)

ticks = np.linspace(-2.2, 2.2, 111)
x1, x2 = np.meshgrid(ticks, ticks)
plane = np.column_stack([x1.ravel(), x2.ravel()])
colours = LinearSegmentedColormap.from_list("signs", [blue, "white", orange])


def draw_plane(ax, f, degree):
    values = f(plane).reshape(x1.shape)
    values = np.sign(values) * abs(values) ** (1 / degree)
    top = abs(values).max()
    ax.contourf(x1, x2, values, np.linspace(-top, top, 24), cmap=colours)
    if values.min() < 0 < values.max():
        ax.contour(x1, x2, values, [0], colors="black", linewidths=1.5)
    ax.plot(*f.points.T, "o", color="white", mec="black", ms=7)
    ax.set(aspect="equal", xticks=[-2, 0, 2], yticks=[-2, 0, 2])


figure, axes = plt.subplots(
    3, 4, figsize=(10.5, 8.3), sharex=True, sharey=True, layout="constrained"
)
for (name, kernel), row in zip(kernels.items(), axes, strict=True):
    degree = getattr(kernel, "degree", 1)
    for i, ax in enumerate(row[:3]):
        draw_plane(ax, Expansion(kernel, points[[i]], [1.0]), degree)
    draw_plane(row[3], Expansion(kernel, points, beta), degree)
    row[0].set_ylabel(f"{name}\n\nx₂")
    for ax, letter, x in zip(row, "abc", points, strict=False):
        for panel in (ax, row[3]):
            panel.annotate(letter, x, (7, 4), textcoords="offset points")
titles = ["a becomes k(a, ·)", "b becomes k(b, ·)", "c becomes k(c, ·)",
          "k(a, ·) − k(b, ·) + k(c, ·)"]  # fmt: skip
for ax, title in zip(axes[0], titles, strict=True):
    ax.set_title(title)
for ax in axes[-1]:
    ax.set_xlabel("x₁")

# %%
# As surfaces
# -----------
# The third and the last column again, in perspective.

figure = plt.figure(figsize=(9.5, 8.5), layout="constrained")
surfaces = [
    ("RBF(1): the bump of c", RBF(1.0), [0, 0, 1]),
    ("RBF(1): the sum of three bumps", RBF(1.0), beta),
    ("(1 + ⟨c, x⟩)³: the surface of c", Polynomial(3), [0, 0, 1]),
    ("(1 + ⟨·, x⟩)³: the sum of three surfaces", Polynomial(3), beta),
]
for place, (title, kernel, weights) in enumerate(surfaces, start=1):
    values = Expansion(kernel, points, weights)(plane).reshape(x1.shape)
    top = abs(values).max()
    ax = figure.add_subplot(2, 2, place, projection="3d")
    ax.plot_surface(x1, x2, values, cmap=colours, vmin=-top, vmax=top, rcount=45,
                    ccount=45, edgecolor="grey", lw=0.2)  # fmt: skip
    ax.set(xlabel="x₁", ylabel="x₂", title=title, xticks=[-2, 0, 2], yticks=[-2, 0, 2])
    ax.view_init(elev=30, azim=60)
show_or_save()
