"""
Regression on powers is regression with a kernel
================================================

A straight line does not follow curved data. Replace the one number x by three
features and fit a line to those,

::

    φ(x) = (x, x², x³),    f(x) = b + w₁x + w₂x² + w₃x³,

and it does: f is linear in φ and a cubic in x. Ridge regression determines w from a
system as small as the number of features. The same f comes from the n × n matrix of
the kernel k(x, y) = ⟨φ(x), φ(y)⟩, in which φ appears through its inner products only:

::

    (ΦᵀΦ + λI) w = Φᵀy,    (K + λI) c = y,    w = Φᵀc,    f(x) = Σᵢ cᵢ k(xᵢ, x).

The constant b is one more feature that is always 1, that is, the kernel k + 1.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import FeatureFunction, KernelRidge, Linear, Polynomial
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(5)
x = np.sort(rng.uniform(-2, 2, 40))
y = 0.7 * x**3 - 0.4 * x**2 - 1.2 * x + 0.5 + rng.normal(scale=0.5, size=40)
X = x[:, None]
ridge = 0.1

# %%
# Three features and a constant
# -----------------------------
# On one side the normal equations for w; on the other the kernel machine, which finds
# one coefficient per point.


def powers(X):
    return np.column_stack([X, X**2, X**3])


def least_squares(Phi):
    """w = argmin ‖Φw - y‖² + λ‖w‖²."""
    return np.linalg.solve(Phi.T @ Phi + ridge * np.eye(Phi.shape[1]), Phi.T @ y)


kernel = FeatureFunction(powers) + 1
machine = KernelRidge(alpha=ridge, kernel=kernel).fit(X, y)


def with_constant(X):
    return np.column_stack([np.ones(len(X)), powers(X)])


w = least_squares(with_constant(X))
t = np.linspace(-2.4, 2.4, 241)[:, None]
by_powers = with_constant(t) @ w
by_kernel = machine.predict(t)
np.testing.assert_allclose(by_kernel, by_powers, rtol=0, atol=1e-11)
np.testing.assert_allclose(
    with_constant(X).T @ machine.expansion_.coef, w, rtol=0, atol=1e-11
)

print("f(x) = " + " ".join(f"{value:+.4f} x^{j}" for j, value in enumerate(w)))
print(f"largest difference of the two fits: {abs(by_kernel - by_powers).max():.1e}")

# %%
# The polynomial kernel
# ---------------------
# (1 + xy)³ = 1 + 3xy + 3x²y² + x³y³ is the same set of features with other weights,
# (1, √3 x, √3 x², x³). Ridge regression punishes each of them according to its weight,
# so the fit differs slightly for λ > 0; on these features it is the same to rounding.

polynomial = KernelRidge(alpha=ridge, kernel=Polynomial(3)).fit(X, y)


def weighted(X):
    return with_constant(X) * np.sqrt([1, 3, 3, 1])


by_weights = weighted(t) @ least_squares(weighted(X))
np.testing.assert_allclose(polynomial.predict(t), by_weights, rtol=0, atol=1e-11)
print(f"weights instead of plain powers: {abs(by_weights - by_powers).max():.1e}")

# %%
# Data, a line, a cubic, and the kernel machine on top of it
# ----------------------------------------------------------

straight = KernelRidge(alpha=ridge, kernel=Linear() + 1).fit(X, y)
by_line = with_constant(t)[:, :2] @ least_squares(with_constant(X)[:, :2])
np.testing.assert_allclose(straight.predict(t), by_line, rtol=0, atol=1e-11)


def spread(machine):
    error = np.sqrt(np.mean((machine.predict(X) - y) ** 2))
    return f"RMS residual {error:.2f}"


figure, (fits, gap) = plt.subplots(
    2, 1, figsize=(8, 7), height_ratios=[3, 1], sharex=True, layout="constrained"
)
fits.plot(x, y, "o", color="grey", ms=5, label="data")
fits.plot(t, straight.predict(t), color="C0", lw=2, ls="-.",
          label=f"line in x, {spread(straight)}")  # fmt: skip
fits.plot(t, by_powers, color="C1", lw=6, alpha=0.6,
          label="least squares on the powers")  # fmt: skip
fits.plot(t, by_kernel, color="black", lw=1.5, ls="--",
          label=f"kernel machine, {spread(machine)}")  # fmt: skip
fits.set(ylabel="y", title="A line in (x, x², x³) is a cubic in x")
fits.legend(frameon=False, loc="lower right")

gap.plot(t, by_kernel - by_powers, color="black", lw=1)
gap.axhline(0, color="grey", lw=0.8)
gap.set(xlabel="x", ylabel="kernel − powers", title="The two fits differ by rounding")
show_or_save()
