"""What a fit will take, before it does
====================================

`machine.plan(X, y)` says what `fit` would do on these points: the road it takes, the
kernel values it computes, its memory and its seconds. The seconds are estimated from
fits on some of the points, so they cost a fraction of the fit itself. Here three roads
are planned and then taken: kernel rows on demand (a support vector machine), products
with a matrix that is never stored whole (ridge regression on many points), and an
explicit map (a linear machine).
"""

# %%
# A plan reads like this. Nothing is fitted by it.

import time

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, SVC, KernelRidge
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 6))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=len(X))

print(SVC(C=10).plan(X, y > 0))

# %%
# Estimated against measured seconds, as the points grow. The bars are the ranges that
# the plans state, the lines what the fits took. What else the computer does meanwhile
# is in both.

machines = {
    "SVC(): kernel rows": (SVC(C=10), y > 0, (1000, 2000, 4000, 6000)),
    "KernelRidge(): products with K": (
        KernelRidge(0.1, kernel=RBF(0.1)),
        y,
        (3200, 5000),
    ),
    "SVC(kernel='linear'): features": (SVC(kernel="linear"), y > 0, (4500, 6000)),
}
colours = ("C0", "C1", "C2")
figure, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
for colour, (name, (machine, target, sizes)) in zip(
    colours, machines.items(), strict=True
):
    ranges, taken = [], []
    for n in sizes:
        ranges.append(machine.plan(X[:n], target[:n]).seconds)
        begin = time.perf_counter()
        machine.fit(X[:n], target[:n])
        taken.append(time.perf_counter() - begin)
    low, high = np.transpose(ranges)
    ax.vlines(sizes, low, high, color=colour, linewidth=9, alpha=0.3)
    ax.plot(sizes, taken, "o-", color=colour, ms=5)
    ax.annotate(
        name,
        (sizes[-1], taken[-1]),
        xytext=(12, 0),
        textcoords="offset points",
        va="center",
        color=colour,
    )
ax.set(
    yscale="log",
    xlabel="points",
    ylabel="seconds",
    title="Seconds as planned (bars) and as measured (lines)",
)
ax.set_xticks(range(1000, 7000, 1000), [f"{n:,}" for n in range(1000, 7000, 1000)])
ax.spines[["top", "right"]].set_visible(False)
show_or_save()
