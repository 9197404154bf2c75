"""
What a mistake costs
====================

A loss ℓ(y, f) says what it costs to answer f where y is true. Between the answer that
counts, right or wrong, and what can be minimised, there are many:

::

    of a side y = ±1, against y f          of a number y, against y - f
    0-1            [y f ≤ 0]               squared        (y - f)²
    perceptron     max(0, -y f)            ε-insensitive  max(0, |y - f| - ε)
    hinge          max(0, 1 - y f)         Huber          a square, then straight
    squared hinge  max(0, 1 - y f)²        quantile       q (y - f) or (1 - q) (f - y)
    logistic       ln(1 + e^(-y f))

All but the first are convex in f. Each makes a machine: the hinge loss that of support
vectors, the logistic loss that of probabilities, the ε-insensitive one the tube.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    PerceptronLoss,
    Quantile,
    Squared,
    SquaredHinge,
    ZeroOne,
)
from mercer.plots import plot_losses, show_or_save

plt.style.use("mercer.plots.light")

of_sides = [ZeroOne(), PerceptronLoss(), Hinge(), SquaredHinge(), Logistic()]
of_numbers = [Squared(), EpsilonInsensitive(0.3), Huber(1.2), Quantile(0.9)]

# %%
# The curves
# ----------
# The hinge losses lie above the 0-1 loss: a machine that makes them small makes few
# mistakes. The logistic loss does too, once it is divided by ln 2. The perceptron loss
# does not: it asks for the right side and for no margin. Of the losses of numbers, the
# squared one counts an outlier with the square of its distance, the others with the
# distance; the quantile loss has two slopes, and its minimum leaves the share q of the
# targets below f.

figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.8), layout="constrained")
plot_losses(of_sides, left)
left.set(title="Losses for classes, y = ±1", ylim=(-0.15, 4.2))
plot_losses(of_numbers, right)
right.set(title="Losses for numbers", ylim=(-0.15, 4.2))
for ax in (left, right):
    ax.grid(alpha=0.25)
    ax.axvline(0, color="grey", lw=0.8)

z = np.linspace(-3, 3, 1201)
mistake = ZeroOne().value(1, z)
for loss in (Hinge(), SquaredHinge()):
    assert (loss.value(1, z) >= mistake).all()
assert (Logistic().value(1, z) / np.log(2) >= mistake).all()
assert (PerceptronLoss().value(1, z) < mistake).any()

# %%
# Their conjugates
# ----------------
# ℓ*(y, u) = sup over f of u f - ℓ(y, f) is what remains of a loss in the dual problem.
# Where ℓ is straight for ever, u cannot go beyond its slope: this is the box of support
# vector machines, 0 ≤ α ≤ C. Where it grows like a square, there is no box. A corner of
# ℓ is a straight piece of ℓ*, and the other way round.

figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.4), layout="constrained")
plot_losses(of_sides, left, conjugate=True, reach=2)
left.set(title="Conjugates for classes; infinite beyond the dots")
plot_losses(of_numbers, right, conjugate=True, reach=2)
right.set(title="Conjugates for numbers; infinite beyond the dots")
for ax in (left, right):
    ax.grid(alpha=0.25)

# %%
# Fenchel and Young: ℓ(y, f) + ℓ*(y, u) ≥ u f, equal where u is a slope of ℓ at f.

f = np.linspace(-2.3, 2.2, 50)
for loss in (*of_sides[1:], *of_numbers):
    y = 1.0 if loss.of_sides else 0.0
    u = loss.slope(y, f)
    tight = loss.value(y, f) + loss.conjugate(y, u) - u * f
    np.testing.assert_allclose(tight, 0, atol=1e-12)
    some = np.linspace(*np.clip(loss.slopes(np.array(y)), -5, 5), 40)
    assert (
        loss.value(y, f)[:, None] + loss.conjugate(y, some) >= np.outer(f, some) - 1e-12
    ).all()
show_or_save()
