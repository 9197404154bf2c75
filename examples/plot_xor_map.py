"""
XOR is separable in six coordinates
===================================

Four corners of a square, labelled so that opposite corners agree: -1 where x₁x₂ = 1
and +1 where x₁x₂ = -1. Each class has its mean at the origin, so a line with one class
on either side would have the origin on both: there is none.

The polynomial kernel of degree 2 multiplies out,

::

    k(x, y) = (1 + ⟨x, y⟩)² = ⟨φ(x), φ(y)⟩,

    φ(x) = (1, √2 x₁, √2 x₂, x₁², x₂², √2 x₁x₂),

so that working with k is working with six coordinates without ever writing them down.
Here they are written down. Coordinates 2 and 6, √2 x₁ and √2 x₁x₂, are enough: in their
plane the classes lie on either side of a horizontal line, and the line, carried back,
is the function f(x) = -x₁x₂. A support vector machine finds it by itself.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, Expansion, Polynomial
from mercer.plots import plot_feature_map, plot_regions, show_or_save

plt.style.use("mercer.plots.light")

X = np.array([[1.0, 1.0], [-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
y = np.array([-1, -1, 1, 1])

assert (X[y < 0].mean(axis=0) == X[y > 0].mean(axis=0)).all()

# %%
# The six coordinates
# -------------------
# The matrix of the kernel is ΦΦᵀ, where the rows of Φ are φ(xᵢ).

root = np.sqrt(2)


def phi(X):
    x1, x2 = X.T
    one = np.ones(len(X))
    return np.column_stack([one, root * x1, root * x2, x1**2, x2**2, root * x1 * x2])


kernel = Polynomial(2)
Phi = phi(X)

print("   x₁   x₂ |    1   √2x₁   √2x₂    x₁²    x₂²  √2x₁x₂ | label")
for x, row, label in zip(X, Phi, y, strict=True):
    coordinates = " ".join(f"{value:6.3f}" for value in row[1:])
    print(f"{x[0]:5.0f}{x[1]:5.0f} | {row[0]:4.0f} {coordinates}  | {label:+d}")

np.testing.assert_allclose(kernel(X), Phi @ Phi.T, rtol=1e-14, atol=1e-14)

# %%
# The same holds on any points of the plane, not only on these four. And a polynomial
# kernel knows its map: it lists the monomials degree by degree, x₁x₂ before x₂².

anywhere = np.random.default_rng(0).normal(size=(50, 2))
np.testing.assert_allclose(kernel(anywhere, X), phi(anywhere) @ Phi.T, atol=1e-12)

order = [0, 1, 2, 3, 5, 4]
print("in the library's order:", kernel.feature_names(X))
np.testing.assert_allclose(kernel.features(anywhere)[:, order], phi(anywhere))

# %%
# A line in the plane of two of them
# ----------------------------------
# Coordinate 6 alone has the sign of the class, at distance √2 from zero. As an element
# of the kernel's function space the separating line is a sum over the four points,
#
# ::
#
#     f(x) = Σᵢ yᵢ/8 · k(xᵢ, x) = -x₁x₂,
#
# with f(xᵢ) = yᵢ and distance 1/‖f‖ = √2 from the line to each of the points.

np.testing.assert_array_equal(np.sign(Phi[:, 5]), -y)

f = Expansion(kernel, X, y / 8)
np.testing.assert_allclose(f(X), y, rtol=1e-14)
np.testing.assert_allclose(f(anywhere), -anywhere.prod(axis=1), atol=1e-13)
np.testing.assert_allclose(1 / f.norm(), root, rtol=1e-14)

# %%
# Before, in coordinates 2 and 6, and back
# ----------------------------------------

figure, axes = plt.subplots(1, 3, figsize=(12.5, 5), layout="constrained")
before, middle, back = axes
plot_feature_map(lambda X: X, X, y, before)
for side, colour in ((-1, "C0"), (1, "C1")):
    before.plot(*X[y == side].T, "--", color=colour)
before.set(title="The plane: no line separates\n(the two segments cross)")

plot_feature_map(phi, X, y, middle, columns=[1, 5], plane=([0, -1], 0))
middle.set(title="Coordinates 2 and 6:\na line separates, at distance √2")
middle.set(xlabel="coordinate 2:  √2 x₁", ylabel="coordinate 6:  √2 x₁x₂")

machine = SVC(C=np.inf, kernel=kernel).fit(X, y)
plot_regions(machine, X, y, back, legend=False)
back.set(title="The line, carried back:\nf(x) = −x₁x₂ = 0")
for ax in axes:
    ax.set(aspect="equal")
for ax in (before, back):
    ax.set(xlabel="x₁", ylabel="x₂", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
names = ["label −1  (x₁x₂ = 1)", "label +1  (x₁x₂ = −1)"]
handles = before.get_legend_handles_labels()[0]
figure.legend(handles, names, loc="outside lower center", ncols=2)

# %%
# The support vector machine finds this line
# ------------------------------------------
# Of all functions with yᵢ f(xᵢ) ≥ 1 the hard margin takes the one of least norm. Here
# its dual can be solved by hand: k is 9 on the diagonal and 1 elsewhere, and
# everything is symmetric in the four points, so all αᵢ are one number a:
#
# ::
#
#     W(a) = Σᵢ αᵢ - ½ Σᵢⱼ αᵢαⱼyᵢyⱼ k(xᵢ, xⱼ) = 4a - 16a²,  largest at a = 1/8: W = 1/4.
#
# The machine agrees to rounding: α = 1/8 each, b = 0, f(x) = -x₁x₂, and the margin
# 1/‖f‖ = √2. Every point is on its margin, f = ±1: these are the dashed hyperbolas.

np.testing.assert_array_equal(kernel(X), 8 * np.eye(4) + 1)

print(machine.certificate_)
np.testing.assert_allclose(
    machine.dual_coef_[0], y[machine.support_] / 8, rtol=0, atol=1e-12
)
np.testing.assert_allclose(machine.intercept_, 0, atol=1e-12)
np.testing.assert_allclose(machine.certificate_.dual, 1 / 4, rtol=1e-12)
np.testing.assert_allclose(machine.certificate_.primal, 1 / 4, rtol=1e-12)
np.testing.assert_allclose(machine.certificate_.margin, root, rtol=1e-12)
np.testing.assert_allclose(
    machine.decision_function(anywhere), -anywhere.prod(axis=1), atol=1e-11
)

figure, ax = plt.subplots(figsize=(6, 6), layout="constrained")
corners = np.array([[-2.5, -2.5], [2.5, 2.5]])  # to see more of the plane than X spans
plot_regions(machine, corners, ax=ax, legend=False)
ax.set(title="The hard margin on XOR: α = 1/8 each, margin √2")
ax.set(xlabel="x₁", ylabel="x₂", xlim=(-2.2, 2.2), ylim=(-2.2, 2.2), aspect="equal")
for x in X:
    place = (0, 16 if x[1] > 0 else -17)
    ax.annotate("1/8", x, place, textcoords="offset points", ha="center", va="center")
show_or_save()
