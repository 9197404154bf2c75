"""
Gaussian processes
==================

A kernel as a covariance: functions f are drawn at random with E f(x) f(y) = k(x, y),
and the data pick those that fit them. What is left is a mean, a deviation at every
point, and a number that judges the kernel itself: the evidence p(y), how likely these
targets were before they were seen. Its gradient by the parameters of the kernel finds
the parameters, without cross-validation.

The molecules are read from graphs_MUTAG.jsonl.gz in the folder that the environment
variable MERCER_DATA names, or in ../shared/data beside this repository. Where there is
no such file, made-up molecules take their place.
"""

import gzip
import json
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from mercer import (
    RBF,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    Graph,
    Matern,
    Normalized,
    WeisfeilerLehman,
)
from mercer.plots import COLOURS, plot_ascent, plot_band, show_or_save

plt.style.use("mercer.plots.light")

# %%
# A band, and functions inside it
# -------------------------------
# Twenty-five noisy values with a gap between them. Scale, width and noise are learnt.
# Where there is no point the band opens to what the kernel alone allows.

rng = np.random.default_rng(1)
x = np.sort(np.concatenate([rng.uniform(0, 3, 15), rng.uniform(5, 8, 10)]))[:, None]
y = np.sin(2 * x[:, 0]) + 0.3 * x[:, 0] + rng.normal(scale=0.15, size=25)
machine = GaussianProcessRegressor(1.0 * RBF(1.0), noise=0.1, normalize_y=True)
machine.fit(x, y)
grid = np.linspace(-0.5, 8.5, 200)[:, None]
noise = np.sqrt(machine.noise_) * y.std()
print(f"{machine.kernel_}, noise {noise:.3f} (true: 0.15)")
assert 0.08 < noise < 0.25

figure, ax = plt.subplots(figsize=(9, 4.6), layout="constrained")
plot_band(machine, x, y, ax=ax)
smooth = GaussianProcessRegressor(
    machine.kernel_, alpha=machine.noise_, optimizer=None, normalize_y=True
).fit(x, y)
for function in smooth.sample_y(grid, 3, random_state=0).T:
    ax.plot(grid, function, lw=1, color=COLOURS[1], alpha=0.8)
ax.set(title="The mean, two deviations, and three functions drawn from what is left",
       xlabel="x", ylabel="y", xlim=(-0.5, 8.5))  # fmt: skip

# %%
# Uphill
# ------
# Every evaluation of the evidence costs one factorisation of K + noise, and its slope
# by all parameters at once two more of that size. A dozen or two are enough.

figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
plot_ascent(machine.curve_, ax=ax)
ax.set_title("The evidence on the way to the parameters")

# %%
# Which coordinates matter
# ------------------------
# A width for each coordinate: those of coordinates that say nothing about y go to 0.
# Only the first two of six do here.

X = rng.normal(size=(150, 6))
target = np.sin(2 * X[:, 0]) * X[:, 1] + rng.normal(scale=0.1, size=150)
relevance = GaussianProcessRegressor(1.0 * RBF([0.2] * 6), noise=0.1).fit(X, target)
widths = np.array(relevance.kernel_.kernel.gamma)
assert widths[:2].min() > 10 * widths[2:].max()

figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.bar([f"x{i + 1}" for i in range(6)], widths, color=COLOURS[0])
ax.set(title="γ of each coordinate, learnt", ylabel="γ", yscale="log")

# %%
# Molecules
# ---------
# The same on graphs: are these molecules mutagenic? The kernel counts the patterns of
# atoms that two molecules share; the evidence finds its scale. Probabilities of
# molecules that were left out: of the half that the machine is surest of, fewer are
# wrong.

folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
path = folder / "graphs_MUTAG.jsonl.gz"
ATOMS = ["C", "N", "O", "F", "I", "Cl", "Br"]


def molecules():
    if path.exists():
        with gzip.open(path, "rt") as lines:
            rows = [json.loads(line) for line in lines]
        graphs = [
            Graph(row["edges"], [ATOMS[i] for i in row["node_labels"]]) for row in rows
        ]
        return graphs, np.array([row["y"] for row in rows])
    made, kinds = [], rng.integers(2, size=80)
    for kind in kinds:
        n = int(rng.integers(5, 12))
        edges = [(i, i + 1) for i in range(n - 1)] + [(0, n), (n, n + 1), (n, n + 2)]
        tail = list("NOO") if kind else list(rng.permutation(["C", "C", "O"]))
        made.append(Graph(edges, ["C"] * n + tail))
    return made, kinds


graphs, label = molecules()
kernel = 1.0 * Normalized(WeisfeilerLehman(2))
folds = StratifiedKFold(5, shuffle=True, random_state=0)
process = GaussianProcessClassifier(kernel)
shares = cross_val_predict(process, graphs, label, cv=folds, method="predict_proba")
said = shares.argmax(axis=1)
sure = shares.max(axis=1) >= np.median(shares.max(axis=1))
right = said == label
print(f"{right.mean():.1%} right, of the surest half {right[sure].mean():.1%}")
assert right.mean() > 0.75 and right[sure].mean() >= right.mean()

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
bins = np.linspace(0, 1, 21)
for kind, name in enumerate(["not mutagenic", "mutagenic"]):
    ax.hist(shares[label == kind, 1], bins, alpha=0.7, color=COLOURS[kind], label=name)
ax.set(title=f"Molecules left out: {right.mean():.1%} right, of the "
       f"surest half {right[sure].mean():.1%}", xlabel="probability of mutagenic",
       ylabel="molecules")  # fmt: skip
ax.legend()

# %%
# Another smoothness
# ------------------
# The evidence compares kernels, too: a Matern kernel of order 3/2 says that f is rough.

rough = GaussianProcessRegressor(1.0 * Matern(1.5), noise=0.1, normalize_y=True)
rough.fit(x, y)
values = [m.log_marginal_likelihood_value_ for m in (machine, rough)]
print(f"log evidence: RBF {values[0]:.2f}, Matern(1.5) {values[1]:.2f}")
show_or_save()
