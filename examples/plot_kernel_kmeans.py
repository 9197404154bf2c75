"""
Clusters that are not round
===========================

k-means gives every point to the nearest of k means, so its clusters are cells with
straight walls. In the feature space of a kernel they are that too, but back among the
points the walls bend. No coordinates are needed: the mean of a cluster is an expansion,

::

    μ_c = Σ_{i in c} φ(xᵢ) / |c|,
    ‖φ(x) - μ_c‖² = k(x, x) - 2 Σ_{i in c} k(xᵢ, x) / |c| + ‖μ_c‖²,

and a step needs the sums over a cluster for every point. Only the points that changed
their cluster change these sums.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

from mercer import RBF, KernelKMeans, Linear
from mercer.plots import plot_clusters, plot_gram, plot_spectrum, show_or_save

plt.style.use("mercer.plots.light")

rings, which = make_circles(300, factor=0.35, noise=0.06, random_state=0)

# %%
# Two rings
# ---------
# The linear kernel is k-means: it cuts both rings in half. The Gaussian kernel finds
# the rings as long as it reaches across the inner one. Where it is narrower, a few
# points close together are a better cluster than a ring; the normalised cut, which
# weighs a cluster by all of its similarities, still finds the rings.

cases = {
    "Linear()": {"kernel": Linear()},
    "RBF(4)": {"kernel": RBF(4.0)},
    "RBF(20)": {"kernel": RBF(20.0)},
    "RBF(20), normalised cut": {"kernel": RBF(20.0), "normalized_cut": True},
}
machines = {}
print(f"{'':<26}{'Rand':>6} {'steps':>6} {'inertia':>9}")
for name, options in cases.items():
    machine = KernelKMeans(2, n_init=20, random_state=0, **options).fit(rings)
    machines[name] = machine
    agreement = adjusted_rand_score(which, machine.labels_)
    print(f"{name:<26}{agreement:6.3f} {machine.n_iter_:6d} {machine.inertia_:9.3f}")
    assert (np.diff(machine.inertia_history_) <= 0).all()
    assert (agreement > 0.95) == (name in ("RBF(4)", "RBF(20), normalised cut"))

figure, axes = plt.subplots(1, 4, figsize=(14, 4.3), layout="constrained", sharey=True)
for ax, (name, machine) in zip(axes, machines.items(), strict=True):
    plot_clusters(machine, rings, which, ax=ax)
    agreement = round(adjusted_rand_score(which, machine.labels_), 2) + 0.0
    ax.set(title=f"{name}\nRand index {agreement:.2f}", xlabel="x₁", aspect="equal")
axes[0].set(ylabel="x₂")

# %%
# What the kernel sees
# --------------------
# With the points in the order of their clusters, and around the ring within a cluster,
# the Gram matrix shows two blocks: the inner ring, whose points see far around it, and
# the outer one, whose points see their neighbours. Few eigenvalues carry all of that;
# below the dotted line they are rounding. On the right, the objective from several
# starts: it never rises, and not every start comes to the same end.

around = np.argsort(np.arctan2(rings[:, 1], rings[:, 0]))
machine = KernelKMeans(2, kernel=RBF(4.0), n_init=20, random_state=0)
label = machine.fit_predict(rings[around])
inner = label[np.argmin(np.linalg.norm(rings[around], axis=1))]
K = RBF(4.0)(rings[around])
figure, axes = plt.subplots(1, 3, figsize=(14, 4.3), layout="constrained")
plot_gram(K, order=np.where(label == inner, "inner", "outer"), ax=axes[0])
axes[0].set(title="k(xᵢ, xⱼ), by cluster")
plot_spectrum(K, ax=axes[1])
axes[1].set(title="Its eigenvalues")
for seed in range(8):
    start = KernelKMeans(2, kernel=RBF(4.0), init="random", n_init=1, random_state=seed)
    history = start.fit(rings).inertia_history_
    right = adjusted_rand_score(which, start.labels_) > 0.95
    axes[2].plot(history, "o-", ms=3, color="C0" if right else "C1")
for right, colour in (("the rings", "C0"), ("something else", "C1")):
    axes[2].plot([], [], "o-", ms=3, color=colour, label=f"ends at {right}")
axes[2].set(title="Eight starts", xlabel="step", ylabel="inertia")
axes[2].legend()
show_or_save()
