"""Points that stay on a cluster
=============================

The points of a Dask array are in partitions, which the workers of a cluster hold. A
machine takes such an array as it takes any other: its coefficients are here, the
points stay where they are, and the optimum is the same. Here the cluster is two workers
within this process, for the sake of brevity; ``Client("scheduler:8786")`` is all that
is different for one of many machines.
"""

# %%
# Two spirals, sorted along their arms, so that no partition has seen the whole, and
# one of them a single class.

from itertools import pairwise

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from mercer import RBF, SVC, Nystrom
from mercer.plots import COLOURS, plot_regions, show_or_save

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(0)
t = np.sort(rng.uniform(0.6, 3.0, size=600)) * np.pi
y = np.where(np.arange(600) < 80, 1, rng.choice([-1, 1], size=600))
X = (y * t)[:, None] * np.column_stack([np.cos(t), np.sin(t)]) / 3
X += 0.12 * rng.normal(size=X.shape)

cluster = LocalCluster(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
)
client = Client(cluster)
dX = da.from_array(X, chunks=((80, 220, 300), 2))

fig, ax = plt.subplots(figsize=(4.6, 4.2))
ends = np.cumsum([0, *dX.chunks[0]])
for i, (begin, end) in enumerate(pairwise(ends)):
    part = X[begin:end]
    ax.scatter(*part.T, s=9, color=COLOURS[i], label=f"partition {i}: {len(part)}")
ax.set(title="Who holds what", aspect="equal")
ax.legend(loc="upper left")

# %%
# The plan says what travels. Then the exact machine and one on landmarks are fitted,
# each on the cluster and here: their objectives agree to more digits than are shown.

print(SVC(C=10, kernel=RBF(2.0)).plan(dX, y))

for kernel in (RBF(2.0), Nystrom(RBF(2.0), 60)):
    there = SVC(C=10, kernel=kernel, tol=1e-6).fit(dX, y)
    here = SVC(C=10, kernel=kernel, tol=1e-6).fit(X, y)
    name = type(kernel).__name__
    pair = there.certificate_.primal, here.certificate_.primal
    print(f"{name:<8} on the cluster {pair[0]:.4f}, here {pair[1]:.4f}")

# %%
# Predictions of a collection are one, with the same partitions, and are computed when
# they are asked for. The machine itself is an ordinary one.

labels = there.predict(dX)
print(labels, f"{float((labels == y).mean().compute()):.1%} right", sep="\n")
client.close()
cluster.close()

fig, ax = plt.subplots(figsize=(4.6, 4.2))
plot_regions(there, X, y, ax=ax)
ax.set(title="What the machine has learnt", aspect="equal")

show_or_save()
