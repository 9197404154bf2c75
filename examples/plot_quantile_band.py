"""
A band of quantiles
===================

The mean of a cloud of points says where its middle is, and nothing of how wide it is.
The q-quantile is the function with a share q of the targets below it; it minimises

::

    reg ‖f‖² + mean of  q rᵢ where rᵢ = yᵢ - f(xᵢ) > 0,  (q - 1) rᵢ where it is not.

Between the quantiles 0.1 and 0.9 lie four targets of five, wherever x may be: a band
that is wide where the noise is. The loss has a corner, so most points are on one side
or the other and pull with all the strength that their side has; a few lie on the curve
itself and hold it.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import (
    RBF,
    KernelHuberRegression,
    KernelQuantileRegression,
    RegularizedMachine,
)
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(3)
n = 400
x = np.sort(rng.uniform(0, 10, n))
width = 0.1 + 0.6 * np.sin(x / 2) ** 2
y = np.sin(x) + 0.15 * x + width * rng.normal(size=n)
X = x[:, None]
grid = np.linspace(0, 10, 500)[:, None]
kernel, reg = RBF(0.5), 2e-4

# %%
# Five quantiles
# --------------
# Each is certified by its duality gap. The shares of targets below are exact up to the
# points that lie on the curve.

levels = (0.1, 0.25, 0.5, 0.75, 0.9)
machines = [
    KernelQuantileRegression(q, reg=reg, kernel=kernel, tol=1e-9).fit(X, y)
    for q in levels
]
for q, machine in zip(levels, machines, strict=True):
    residual = y - machine.predict(X)
    below, on = np.sum(residual < -1e-6), np.sum(np.abs(residual) <= 1e-6)
    assert below <= q * n <= below + on
    print(f"q = {q:4}: {below / n:.3f} below, {on} on it, "
          f"gap {machine.certificate_.gap:.1e}")  # fmt: skip

curves = [machine.predict(grid) for machine in machines]
truth = np.sin(grid[:, 0]) + 0.15 * grid[:, 0]
spread = 1.2815515655446004 * (0.1 + 0.6 * np.sin(grid[:, 0] / 2) ** 2)
figure, ax = plt.subplots(figsize=(10, 5.2), layout="constrained")
ax.fill_between(grid[:, 0], curves[0], curves[4], alpha=0.2, color="C0",
                label="quantiles 0.1 to 0.9")  # fmt: skip
ax.fill_between(grid[:, 0], curves[1], curves[3], alpha=0.3, color="C0",
                label="quantiles 0.25 to 0.75")  # fmt: skip
ax.plot(grid, curves[2], color="C0", label="median")
for side in (-1, 1):
    ax.plot(grid, truth + side * spread, color="C1", ls="--", lw=1.3,
            label="true quantiles 0.1 and 0.9" if side > 0 else None)  # fmt: skip
inside = (y >= machines[0].predict(X)) & (y <= machines[4].predict(X))
ax.scatter(x[inside], y[inside], s=9, color="0.35")
ax.scatter(x[~inside], y[~inside], s=14, color="C3", label="outside of the band")
ax.set(title=f"Of {n} targets {inside.mean():.1%} lie in the band, 80 % are to",
       xlabel="x", ylabel="y", ylim=(-2.2, 4.4))  # fmt: skip
ax.legend(loc="upper left", ncols=2)
assert abs(inside.mean() - 0.8) < 0.05

# %%
# Targets that are wrong
# ----------------------
# Thirty targets are thrown upwards. Least squares follows them, since it pays by the
# square; Huber's loss pays by the distance beyond delta, and the median always does.

spoilt = y.copy()
thrown = rng.choice(np.flatnonzero((x > 4) & (x < 7)), 30, replace=False)
spoilt[thrown] += rng.uniform(4, 8, 30)
robust = {
    "least squares": RegularizedMachine(reg=reg, kernel=kernel, fit_intercept=True),
    "Huber, delta = 0.3": KernelHuberRegression(0.3, reg=reg, kernel=kernel),
    "median": KernelQuantileRegression(0.5, reg=reg, kernel=kernel),
}
figure, ax = plt.subplots(figsize=(10, 4.6), layout="constrained")
ax.scatter(x, spoilt, s=9, color="0.5")
ax.scatter(x[thrown], spoilt[thrown], s=16, color="C3", label="thrown upwards")
ax.plot(grid, truth, color="black", lw=1, ls="--", label="the middle, without noise")
apart = {}
for name, machine in robust.items():
    curve = machine.fit(X, spoilt).predict(grid)
    ax.plot(grid, curve, label=name)
    apart[name] = float(np.sqrt(np.mean((curve - truth) ** 2)))
ax.set(title="How far from the middle: " + ", ".join(
    f"{name.split(',')[0]} {error:.2f}" for name, error in apart.items()
), xlabel="x", ylabel="y")  # fmt: skip
ax.legend(loc="upper left")
assert apart["least squares"] > 3 * max(list(apart.values())[1:])
show_or_save()
