"""
Stochastic gradient steps and what is promised of them
======================================================

A point at a time, f = ⟨w, φ(·)⟩ steps against the slope of its loss there and is put
back into the ball ‖w‖ ≤ B:

::

    w ← w - η ℓ′(y, f(x)) φ(x),    w ← w · min(1, B/‖w‖),    η = B / (L R √T).

R² is the largest k(x, x) and L the steepest slope. After T independent points the mean
of all w on the way is a machine whose expected loss, averaged over the draws, exceeds
that of the best g, ‖g‖ ≤ B, by at most

::

    L·B·R / √T,

in any number of dimensions, infinitely many included.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from mercer import RBF, SVC, KernelSGDClassifier
from mercer.plots import plot_regions, plot_sgd_bound, show_or_save

plt.style.use("mercer.plots.light")

kernel = RBF(1.5)
X, half = make_moons(300, noise=0.25, random_state=0)
y = 2 * half - 1

# %%
# The best within the ball
# ------------------------
# These 300 points are the whole distribution, so that expected losses are plain means.
# A support vector machine without bias minimises ½‖g‖² + C Σ hinge: no g of its norm B
# has a smaller hinge loss.

svm = SVC(C=1.0, kernel=kernel, fit_intercept=False).fit(X, y)
B = svm.expansion_.norm()
best = np.mean(np.maximum(0, 1 - y * svm.decision_function(X)))
print(f"B = {B:.4g}, the least mean hinge loss within the ball {best:.4f}")

# %%
# Ten draws of each length
# ------------------------
# The excess falls like 1/√T, well below the bound, which has to hold for every
# distribution with this R.

rng = np.random.default_rng(1)


def learnt(T):
    drawn = rng.integers(len(X), size=T)
    return KernelSGDClassifier(
        "hinge",
        kernel=kernel,
        reg=0,
        norm=B,
        learning_rate="theory",
        fit_intercept=False,
        max_iter=1,
        random_state=0,
    ).fit(X[drawn], y[drawn])


lengths = [30, 100, 300, 1000, 3000]
machines = [learnt(T) for T in lengths for _ in range(10)]
for T in lengths:
    own = [machine for machine in machines if machine.t_ == T]
    excess = np.mean([machine.mean_loss(X, y) for machine in own]) - best
    print(f"T = {T:5d}   excess {excess:.4f}   bound {own[0].bound_:.4f}")
    assert excess <= own[0].bound_

figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
plot_sgd_bound(machines, X, y, best, ax=axes[0])
axes[0].set(title="hinge loss above the best, and its bound")
for ax, T in zip(axes[1:], (100, 3000), strict=True):
    machine = next(machine for machine in machines if machine.t_ == T)
    plot_regions(machine, X, y, ax=ax, legend=False)
    right = 100 * machine.score(X, y)
    ax.set(title=f"after {T} steps: {right:.1f} % right", xlabel="x₁", ylabel="x₂")

show_or_save()
