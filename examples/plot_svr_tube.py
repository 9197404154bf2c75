"""
Regression in a tube
====================

Support vector regression does not charge for what lies within ε of its curve, and
charges by the distance for what lies outside:

::

    min ½‖f‖² + C Σᵢ max(0, |yᵢ - f(xᵢ)| - ε),    f(x) = Σᵢ βᵢ k(xᵢ, x) + b.

Among all curves that the points put up with it takes the flattest. Again there are
three kinds of points,

::

    |yᵢ - f(xᵢ)| < ε    βᵢ = 0            inside the tube: it could be left out
    |yᵢ - f(xᵢ)| = ε    0 ≤ |βᵢ| ≤ C      on the rim: a free support vector, if not 0
    |yᵢ - f(xᵢ)| > ε    |βᵢ| = C          outside

and βᵢ has the sign of yᵢ - f(xᵢ): points above pull the curve up, points below pull it
down. In the pictures free support vectors are filled, those outside have a ring.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, SVR, Linear, NuSVR
from mercer.plots import plot_tube, show_or_save

plt.style.use("mercer.plots.light")

# %%
# Two points
# ----------
# With ε = 0.1 the flattest line near (0, 0) and (1, 1) passes above the one by ε and
# below the other by ε: f(x) = 0.8 x + 0.1. Both points have |β| = 0.8, so any C ≥ 0.8
# gives this line.

ends = np.array([[0.0], [1.0]])
line = SVR(kernel=Linear(), epsilon=0.1, C=0.8).fit(ends, [0.0, 1.0])
np.testing.assert_allclose(line.coef_, [[0.8]], rtol=1e-9)
np.testing.assert_allclose(line.intercept_, [0.1], rtol=1e-9)
np.testing.assert_allclose(line.dual_coef_, [[-0.8, 0.8]], rtol=1e-9)

# %%
# A curve
# -------
# Sixty noisy values of sin(x)/x. The three kinds of points are checked in numbers.

rng = np.random.default_rng(4)
X = np.sort(rng.uniform(-9, 9, 60))[:, None]
y = np.sinc(X[:, 0] / np.pi) + rng.normal(scale=0.12, size=60)
kernel, C, epsilon = RBF(0.15), 1.0, 0.15


def three_kinds(machine, epsilon):
    """How many points are inside the tube, on its rim and outside, as β says."""
    beta = np.zeros(len(X))
    beta[machine.support_] = machine.dual_coef_[0]
    residual = y - machine.predict(X)
    inside, outside = beta == 0, abs(beta) == machine.C
    rim = ~(inside | outside)
    assert (abs(residual[inside]) < epsilon + 1e-9).all()
    assert (abs(residual[outside]) > epsilon - 1e-9).all()
    np.testing.assert_allclose(abs(residual[rim]), epsilon, atol=1e-9)
    assert (beta * residual > -1e-9).all()
    return inside.sum(), rim.sum(), outside.sum()


machine = SVR(kernel=kernel, C=C, epsilon=epsilon).fit(X, y)
kinds = "{} inside, {} on the rim, {} outside".format(*three_kinds(machine, epsilon))
print(kinds)
print(machine.certificate_)

figure, ax = plt.subplots(figsize=(9, 5.2), layout="constrained")
plot_tube(machine, X, y, ax=ax)
ax.set(title=f"sin(x)/x from 60 points: {kinds}", xlabel="x", ylabel="y")

# %%
# Wide and narrow tubes
# ---------------------
# The wider the tube, the fewer points hold the curve, and the flatter it may be: ‖f‖
# falls. With ε = 0 every point pulls. `NuSVR` finds ε itself, from the share ν: at most
# so many points are outside the tube, and at least so many are support vectors.

figure, axes = plt.subplots(
    2, 2, figsize=(11, 7.6), sharex=True, sharey=True, layout="constrained"
)
norms = []
for ax, width in zip(axes.flat, (0.0, 0.1, 0.3), strict=False):
    tube = SVR(kernel=kernel, C=C, epsilon=width).fit(X, y)
    three_kinds(tube, width)
    norms.append(1 / tube.certificate_.margin)
    plot_tube(tube, X, y, ax=ax, legend=False)
    ax.set(title=f"SVR, ε = {width:g}: {len(tube.support_)} support vectors, "
           f"‖f‖ = {norms[-1]:.2f}")  # fmt: skip
assert norms[0] > norms[1] > norms[2]

nu = 0.3
found = NuSVR(kernel=kernel, C=C, nu=nu).fit(X, y)
epsilon = abs(y - found.predict(X))[found.support_].min()
_, rim, outside = three_kinds(found, epsilon)
assert outside <= nu * len(X) <= rim + outside
ax = plot_tube(found, X, y, ax=axes[1, 1], legend=False).ax_
ax.set(title=f"NuSVR, ν = {nu}: {len(found.support_)} support vectors, "
       f"ε = {epsilon:.3f} found")  # fmt: skip
for ax in axes[-1]:
    ax.set_xlabel("x")
for ax in axes[:, 0]:
    ax.set_ylabel("y")
handles, names = axes[0, 1].get_legend_handles_labels()
names[0] = "f ± ε"
figure.legend(handles, names, loc="outside lower center", ncols=5)
show_or_save()
