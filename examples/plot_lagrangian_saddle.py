"""
The saddle of a Lagrangian
==========================

How large can the product of two numbers be whose sum is 4? The condition is taken into
the function with a price λ:

::

    max xy  with  x + y = 4
    L(x, y, λ) = xy + λ(4 - x - y)
    ∂L/∂x = y - λ = 0,   ∂L/∂y = x - λ = 0,   ∂L/∂λ = 4 - x - y = 0

Hence x = y = λ = 2, and xy = 4. At the price λ = 2 the Lagrangian is
L = (x - 2)(y - 2) + 4, a saddle: its one level point is the highest along the line of
the condition, and the lowest across it. The duals of support vector machines are
problems of the same kind, with a box around them.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.plots import show_or_save
from mercer.solvers import SMO, quadratic

plt.style.use("mercer.plots.light")

# %%
# Solved as a quadratic program
# -----------------------------
# -xy = ½ aᵀQa with Q = [[0, -1], [-1, 0]]. Q is indefinite, but the condition leaves
# one direction only, (1, -1), along which it is curved upwards: the pair of variables
# that SMO moves.

Q = np.array([[0.0, -1.0], [-1.0, 0.0]])
problem = quadratic(Q, 0, 1, -10, 10, 4)
solution = SMO(tol=1e-9).solve(problem, start=problem.start([4.0, 0.0]))
x, y = problem.variables(solution.value)
value = 0.5 * np.array([x, y]) @ Q @ [x, y]
print(f"x = {x:.6f}, y = {y:.6f}, least -xy = {value:.6f}")
np.testing.assert_allclose([x, y], 2, atol=1e-6)
np.testing.assert_allclose(value, -4, atol=1e-6)


def lagrangian(x, y, price):
    return x * y + price * (4 - x - y)


# At another price the level point is elsewhere, and the condition is broken there.
for price in (1.0, 2.0, 3.0):
    print(f"λ = {price:g}: level at x = y = {price:g}, 4 - x - y = {4 - 2 * price:g}")
rng = np.random.default_rng(0)
along = 2 + np.outer(rng.normal(size=100), [1, -1])
across = 2 + np.outer(rng.normal(size=100), [1, 1])
assert (lagrangian(*along.T, 2) <= 4 + 1e-12).all()
assert (lagrangian(*across.T, 2) >= 4 - 1e-12).all()

# %%
# From above, and as a landscape
# ------------------------------
# On the left the product: where the line of the condition touches a contour without
# crossing it, the slope of xy, (y, x), and that of x + y, (1, 1), are parallel, and
# their ratio is λ. On the right L at λ = 2.

grid = np.linspace(-0.4, 4.4, 241)
side = np.linspace(-0.2, 4.2, 100)
figure = plt.figure(figsize=(12.5, 5.6), layout="constrained")
left = figure.add_subplot(1, 2, 1)
levels = [0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12]
lines = left.contour(grid, grid, np.multiply.outer(grid, grid), levels, cmap="viridis")
left.clabel(lines, fmt="%g", fontsize=8)
left.plot(side, 4 - side, "k-", lw=2, label="x + y = 4")
left.plot(2, 2, "*", color="C1", mec="black", ms=15, zorder=4, label="(2, 2)")
arrow = dict(arrowstyle="-|>", lw=2, shrinkA=0, shrinkB=0)
left.annotate("", (3.0, 3.0), (2, 2), arrowprops=arrow | dict(color="C1"))
left.annotate("", (2.5, 2.5), (2, 2), arrowprops=arrow | dict(color="black"), zorder=5)
beside = dict(textcoords="offset points", bbox=dict(fc="white", ec="none", alpha=0.8))
left.annotate("slope of xy: (2, 2)", (3.0, 3.0), (6, 4), color="C1", **beside)
left.annotate("of x + y: (1, 1)", (2.5, 2.5), (14, -8), **beside)
left.set(xlabel="x", ylabel="y", aspect="equal", title="max xy with x + y = 4")
left.legend(loc="lower left", framealpha=1)

right = figure.add_subplot(1, 2, 2, projection="3d")
coarse = np.linspace(0, 4, 41)
u, v = np.meshgrid(coarse, coarse)
right.plot_surface(u, v, lagrangian(u, v, 2), cmap="viridis", alpha=0.55, lw=0,
                   rcount=41, ccount=41)  # fmt: skip
right.plot(coarse, 4 - coarse, lagrangian(coarse, 4 - coarse, 2), "k-", lw=2.5,
           label="x + y = 4: highest at (2, 2)")  # fmt: skip
right.plot(coarse, coarse, lagrangian(coarse, coarse, 2), "--", color="0.3", lw=2,
           label="x = y: lowest at (2, 2)")  # fmt: skip
right.plot([2], [2], [4], "*", color="C1", mec="black", ms=15, zorder=10)
right.set(xlabel="x", ylabel="y", title="L(x, y, 2) = (x - 2)(y - 2) + 4")
right.set_zlabel("L")
right.view_init(elev=24, azim=-112)
for axis in (right.xaxis, right.yaxis):
    axis.set_ticks(range(5))
right.legend(loc="upper left", fontsize="small")
show_or_save()
