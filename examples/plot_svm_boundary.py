"""
A boundary, its margins and the points that hold it
===================================================

Between two classes a support vector machine puts the surface f = 0 that stays as far
from them as it can, and pays C for each unit by which a point is nearer than it should:

::

    min ½‖f‖² + C Σᵢ max(0, 1 - yᵢ f(xᵢ)),    f(x) = Σᵢ yᵢαᵢ k(xᵢ, x) + b,   0 ≤ αᵢ ≤ C.

The margins are the surfaces f = ±1. At the optimum each point is one of three kinds:

::

    αᵢ = 0        yᵢ f(xᵢ) ≥ 1    behind its margin: it could be left out
    0 < αᵢ < C    yᵢ f(xᵢ) = 1    on its margin: a free support vector
    αᵢ = C        yᵢ f(xᵢ) ≤ 1    inside the margin, or on the wrong side

In the pictures the first kind is small, the second filled, the third has a ring; areas
grow with αᵢ.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris, make_moons

from mercer import RBF, SVC, Linear
from mercer.plots import plot_regions, show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(3)
y = np.repeat([-1, 1], 40)
clouds = rng.normal(scale=0.9, size=(80, 2)) + 1.2 * np.outer(y, [1.0, 0.6])
moons, half = make_moons(80, noise=0.18, random_state=1)
data = {"two clouds": (clouds, y), "two moons": (moons, 2 * half - 1)}
kernels = {"Linear()": Linear(), "RBF(0.5)": RBF(0.5)}

# %%
# Two kernels on two sets of points
# ---------------------------------
# The linear kernel draws a line, which is what the clouds need and too little for the
# moons. The Gaussian kernel bends as far as the points make it worth its while. The
# three kinds of points are checked for every machine, and so is that the points behind
# their margins could have been left out.

C = 1.0
machines = {}
print(f"{'data':<12}{'kernel':<10} free bound  misplaced        gap")
for title, (X, label) in data.items():
    for name, kernel in kernels.items():
        machine = machines[title, name] = SVC(C=C, kernel=kernel).fit(X, label)
        alpha = np.zeros(len(X))
        alpha[machine.support_] = abs(machine.dual_coef_[0])
        reached = label * machine.decision_function(X)
        assert (reached[alpha == 0] > 1 - 1e-8).all()
        assert (reached[alpha == C] < 1 + 1e-8).all()
        free = (alpha > 0) & (alpha < C)
        np.testing.assert_allclose(reached[free], 1, rtol=1e-8)

        held = alpha > 0
        again = SVC(C=C, kernel=kernel).fit(X[held], label[held])
        np.testing.assert_allclose(
            again.decision_function(X), machine.decision_function(X), atol=1e-6
        )
        found = machine.certificate_
        print(
            f"{title:<12}{name:<10} {found.n_free:4d} {found.n_bound:5d} "
            f"{np.sum(reached < 0):10d} {found.gap:10.1e}"
        )

figure, axes = plt.subplots(2, 2, figsize=(10.6, 9), layout="constrained")
for ax, ((title, name), machine) in zip(axes.flat, machines.items(), strict=True):
    plot_regions(machine, *data[title], ax=ax, legend=False)
    found = machine.certificate_
    counts = f"{found.n_free} free, {found.n_bound} at their bound"
    ax.set(title=f"{name}, {title}: {counts}", xlabel="x₁", ylabel="x₂")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)

# %%
# Several classes
# ---------------
# Three kinds of iris by the size of their petals. Every two classes have a machine of
# their own, and each machine a vote; its margins are drawn where its two classes come
# first.

iris = load_iris()
petals, kinds = iris.data[:, 2:], iris.target_names[iris.target]
figure, axes = plt.subplots(1, 2, figsize=(11, 5), sharey=True, layout="constrained")
for ax, (name, kernel) in zip(axes, kernels.items(), strict=True):
    machine = SVC(C=1, kernel=kernel).fit(petals, kinds)
    plot_regions(machine, petals, kinds, ax=ax, legend=False)
    share = machine.score(petals, kinds)
    ax.set(title=f"{name}: {share:.1%} of the points named right")
    ax.set(xlabel="petal length (cm)")
    assert share > 0.9
axes[0].set(ylabel="petal width (cm)")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5)
show_or_save()
