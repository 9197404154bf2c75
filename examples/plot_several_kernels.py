"""
Several kernels at once: where a splice junction is read
========================================================

Genes are interrupted by stretches that are cut out of the copy before it is read. Given
60 letters of DNA, a machine is to tell whether such a stretch begins in the middle
(EI), ends there (IE), or neither. Which of the 60 letters matter?

Here every ten letters have a kernel of their own, and the machine learns how much each
of the six kernels weighs: it minimises its loss and ½ Σₘ ‖fₘ‖²/dₘ over all functions
f = Σₘ fₘ + b and all weights with ‖d‖ₚ ≤ 1. The norm p says how far the weights may
differ: with p = 1 whole kernels are left out, with p = ∞ all of them weigh 1.

The data are read from splice_junction.tsv.gz in the folder that the environment
variable MERCER_DATA names, or in ../shared/data beside this repository. Where there is
no such file, random letters with a planted word take their place.
"""

import gzip
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import SVC, MultipleKernel, On, WeightedDegree
from mercer.plots import COLOURS, plot_kernel_weights, show_or_save
from mercer.theory import align

plt.style.use("mercer.plots.light")

folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
file = folder / "splice_junction.tsv.gz"
rng = np.random.default_rng(0)
if file.exists():
    rows = gzip.decompress(file.read_bytes()).decode().splitlines()
    kinds, strings = zip(*(row.split("\t")[::2] for row in rows), strict=True)
    y, strings = np.array(kinds), np.array(strings)
else:
    print(
        f"No {file.name} in {file.parent}: planting a word in random letters instead."
    )
    y = np.repeat(["EI", "IE", "N"], 400)
    letters = ["".join(rng.choice(list("ACGT"), size=60)) for _ in y]
    planted = {"EI": "GTAAGT", "IE": "CAGGTT", "N": ""}
    strings = np.array(
        [
            s[:30] + planted[k] + s[30 + len(planted[k]) :]
            for s, k in zip(letters, y, strict=True)
        ]
    )
order = rng.permutation(len(y))
train, test = order[:500], order[500:1200]

# %%
# A kernel for every ten letters
# ------------------------------
# The columns of a data frame are the parts of a record, and `On` reads one of them.
# Weights are shared by the three pairs of classes; the certificate is that of machine
# and weights together.

WIDTH = 10
starts = range(0, 60, WIDTH)
names = [f"{start - 30:+d} to {start - 30 + WIDTH - 1:+d}" for start in starts]
frame = pd.DataFrame(
    {
        name: [string[start : start + WIDTH] for string in strings]
        for name, start in zip(names, starts, strict=True)
    }
)
kernels = [On(name, WeightedDegree(3)) for name in names]
machines = {}
for norm in (1, 2, np.inf):
    machine = SVC(C=0.1, kernel=MultipleKernel(kernels, norm))
    machines[norm] = machine.fit(frame.iloc[train], y[train])
    found = machine.certificate_
    print(
        f"p = {norm}: {machine.score(frame.iloc[test], y[test]):.1%} right, "
        f"gap {found.gap / found.primal:.0e} of the objective"
    )
print(machines[2].kernel_shares_)

# %%
# Where f is
# ----------
# ‖fₘ‖²/dₘ adds up to ‖f‖². With p = 1 nearly all of f reads the letters around the
# junction, which lies between -1 and +0; the far ends have no kernel left.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
places = np.arange(len(names))
for k, (norm, machine) in enumerate(machines.items()):
    label = f"p = {norm}".replace("inf", "∞")
    axes[0].bar(places + 0.27 * (k - 1), machine.kernel_shares_.of_norm, 0.25,
                color=COLOURS[k], label=label)  # fmt: skip
axes[0].set_xticks(places, [name.replace(" to ", "\nto ") for name in names])
axes[0].set(title="Share of ‖f‖²", xlabel="letters, counted from the junction")
axes[0].legend()
plot_kernel_weights(machines[2], ax=axes[1])
axes[1].set(title="p = 2")

# %%
# Weights without a machine
# -------------------------
# `align` finds the weights of the sum that is most like the classes, by the inner
# product of centred kernel matrices: no machine is fitted, and any machine takes the
# kernel that comes out. It agrees on what matters.

weights = align(kernels, frame.iloc[train], y[train], norm=1)
for name, weight, learnt in zip(
    names, weights, machines[1].kernel_weights_, strict=True
):
    print(f"{name:>10}   aligned {weight:.3f}   learnt, p = 1 {learnt:.3f}")
fixed = SVC(C=0.1, kernel=MultipleKernel(kernels, weights=weights))
fixed.fit(frame.iloc[train], y[train])
print(f"{fixed.score(frame.iloc[test], y[test]):.1%} right")
show_or_save()
