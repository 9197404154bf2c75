"""
Few points are enough
=====================

A penalty on the sum of the |coefⱼ| leaves most of them at 0:

::

    min ‖coef‖₁ + C Σᵢ ln(1 + exp(-yᵢ f(xᵢ))),    f(x) = Σⱼ coefⱼ k(xⱼ, x) + b.

The smaller C, the fewer points hold f. Below C_min, which has a closed form, there are
none; `path` begins there and lets C grow, each solution starting from the last. A
support vector machine has no such choice: every point inside its margin is a support
vector, so their number grows with the data.

The data are spambase.npz (4601 messages, 57 counts of words and signs) in the folder
that the environment variable MERCER_DATA names, or in ../shared/data beside this
repository. Where there is no such file, the tumours of scikit-learn take their place.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from mercer import RBF, SVC, SparseKernelClassifier
from mercer.plots import DIVERGING, show_or_save

plt.style.use("mercer.plots.light")

folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
file = folder / "spambase.npz"
if file.exists():
    name = "spambase"
    with np.load(file) as parts:
        X, y = parts["X"].astype(float), parts["y"]
else:
    print(f"No {file.name} in {file.parent}: reading the tumours of scikit-learn.")
    name = "breast cancer"
    X, y = load_breast_cancer(return_X_y=True)

order = np.random.default_rng(0).permutation(len(y))
X, y = np.log1p(X[order]), y[order]
half = len(y) // 2
X = (X - X[:half].mean(axis=0)) / (X[:half].std(axis=0) + 1e-12)
X, y, X_new, y_new = X[:half], y[:half], X[half:], y[half:]

# %%
# The path
# --------
# Right answers on messages that were not learnt from, and how many points f stands on.
# Every step carries its certificate: how much its objective could still fall.

path = SparseKernelClassifier().path(X, y, n_steps=20, ratio=2e-3)
right = (path.predict(X_new) == y_new).mean(axis=1)
worst = max(part.gap / part.primal for part in path.certificates)
assert path.n_support[0] == 0 and worst < 1e-3
svc = SVC().fit(X, y)
svc_right = svc.score(X_new, y_new)
for C, points, share in zip(path.parameter[::3], path.n_support[::3], right[::3],
                            strict=True):  # fmt: skip
    print(f"C = {C:8.4f}   {points:4d} points   {share:.2%} right")
print(f"SVC            {len(svc.support_):4d} points   {svc_right:.2%} right")

blue, orange = "C0", "C1"
figure, (left, trade) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
left.semilogx(path.parameter, right, "o-", color=blue, markersize=4)
left.axhline(svc_right, color="0.45", linestyle="--", linewidth=1)
left.text(path.parameter[0], svc_right - 0.028, "SVC", color="0.35")
left.set(xlabel="C", title=f"{name}: right answers and points along the path")
left.set_ylabel("share of right answers", color=blue)
counts = left.twinx()
counts.semilogx(path.parameter, path.n_support, "s-", color=orange, markersize=4)
counts.set_ylabel("points that f stands on", color=orange)

used = path.n_support > 0
trade.semilogx(path.n_support[used], right[used], "o-", color=blue, markersize=5,
                label="path")  # fmt: skip
trade.plot(len(svc.support_), svc_right, "D", color="0.25", markersize=8,
            label=f"SVC: {len(svc.support_)} support vectors")  # fmt: skip
near = int(np.argmax(right >= svc_right - 0.02))
trade.annotate(f"{path.n_support[near]} points,\nwithin 2 % of SVC",
                (path.n_support[near], right[near]), xytext=(0.45, 0.45),
                textcoords="axes fraction",
                arrowprops={"arrowstyle": "->", "color": "0.3"})  # fmt: skip
trade.set(xlabel="points that f stands on", ylabel="share of right answers",
           title=f"{len(y)} points learnt, {len(y_new)} asked")  # fmt: skip
trade.set_xticks([3, 10, 30, 100], [3, 10, 30, 100])
trade.minorticks_off()
trade.legend(loc="lower right")
trade.grid(alpha=0.3)
assert right[near] >= svc_right - 0.02

# %%
# Which points
# ------------
# Two half moons. Support vectors crowd along the boundary; the points that the penalty
# keeps stand where one bump does the work of many, often well inside their class.

rng = np.random.default_rng(1)
angle = rng.uniform(0, np.pi, 300)
side = np.repeat([1, -1], 150)
moons = np.column_stack([np.cos(angle) + 0.5 * (side < 0),
                         side * (np.sin(angle) - 0.25)])  # fmt: skip
moons += rng.normal(scale=0.2, size=moons.shape)
across, up = np.meshgrid(np.linspace(-1.8, 2.3, 160), np.linspace(-1.6, 1.6, 120))
plane = np.column_stack([across.ravel(), up.ravel()])

machines = [
    SparseKernelClassifier(0.15, kernel=RBF(2.0)),
    SparseKernelClassifier(1.5, kernel=RBF(2.0)),
    SVC(C=1.0, kernel=RBF(2.0)),
]
figure, axes = plt.subplots(1, 3, figsize=(13, 4.1), sharey=True, layout="constrained")
for ax, machine in zip(axes, machines, strict=True):
    machine.fit(moons, side)
    f = machine.decision_function(plane).reshape(across.shape)
    size = np.abs(f).max()
    ax.contourf(across, up, f, np.linspace(-size, size, 15), cmap=DIVERGING, alpha=0.45)
    ax.contour(across, up, f, [0], colors="black", linewidths=1.4)
    for value, colour in ((1, orange), (-1, blue)):
        ax.plot(*moons[side == value].T, ".", color=colour, markersize=4, alpha=0.6)
    chosen = machine.support_
    ax.scatter(*moons[chosen].T, s=80, facecolors="none", edgecolors="black",
               linewidths=1.3)  # fmt: skip
    title = f"{type(machine).__name__}, C = {machine.C:g}"
    ax.set(title=f"{title}\n{len(chosen)} of 300 points", xlabel="x₁")
axes[0].set_ylabel("x₂")
assert len(machines[0].support_) < len(machines[1].support_) < len(machines[2].support_)
show_or_save()
