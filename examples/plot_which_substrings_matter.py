"""
Which substrings matter
=======================

A kernel of strings with an explicit map has a coordinate for every word, here for every
word of up to three letters at its place. A penalty on the sum of their |wⱼ| leaves most
of them at 0,

::

    min ‖w‖₁ + C Σᵢ ln(1 + exp(-yᵢ f(xᵢ))),    f(x) = Σⱼ wⱼ φⱼ(x) + b,

and what is left can be read. The strings are stretches of 60 letters of DNA from genes
of primates. In the middle of some an intron begins (EI), in that of others one ends
(IE), and in most there is neither (N). Biologists know the signs: nearly every intron
begins with GT and ends with AG.

The data are splice_junction.tsv.gz in the folder that the environment variable
MERCER_DATA names, or in ../shared/data beside this repository. Where there is no such
file, random strings with these signs planted take their place.
"""

import gzip
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mercer import SparseKernelClassifier, WeightedDegree, explain
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

folder = Path(os.environ.get("MERCER_DATA", "../shared/data"))
file = folder / "splice_junction.tsv.gz"
rng = np.random.default_rng(0)
if file.exists():
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    kinds, _, strings = zip(*(line.split("\t") for line in lines), strict=True)
    X, y = [string.strip() for string in strings], np.array(kinds)
else:
    print(f"No {file.name} in {file.parent}: planting signs in random strings.")
    X = ["".join(rng.choice(list("ACGT"), size=60)) for _ in range(900)]
    y = np.array(["EI", "IE", "N"])[np.arange(900) % 3]
    X = [s[:30] + "GT" + s[32:] if kind == "EI" else s[:28] + "AG" + s[30:]
         if kind == "IE" else s for s, kind in zip(X, y, strict=True)]  # fmt: skip

order = rng.permutation(len(X))
X, y = [X[i] for i in order], y[order]
part = 5 * len(X) // 8
X, y, X_new, y_new = X[:part], y[:part], X[part:], y[part:]

# %%
# The path
# --------
# As C grows more words join. Every step carries its certificate: how much its objective
# could still fall.

kernel = WeightedDegree(3)
path = SparseKernelClassifier(kernel=kernel, on="features").path(
    X, y, n_steps=14, ratio=1e-2
)
right = (path.predict(X_new) == y_new).mean(axis=1)
worst = max(part.gap / part.primal for part in path.certificates)
assert path.n_support[0] == 0 and worst < 1e-3
best = int(np.argmax(right >= right.max() - 0.01))
print(f"{kernel.features(X).shape[1]} words at their places in {len(X)} stretches")
for C, words, share in zip(path.parameter, path.n_support, right, strict=True):
    print(f"C = {C:7.4f}   {words:4d} words   {share:.2%} right")
assert right.max() > 0.9

figure, ax = plt.subplots(figsize=(7.5, 4.3), layout="constrained")
ax.plot(path.n_support, right, "o-", color="C0", markersize=5)
ax.plot(path.n_support[best], right[best], "D", color="C1", markersize=9,
        label=f"{path.n_support[best]} words: {right[best]:.1%}")  # fmt: skip
ax.axhline(np.mean(y_new == "N"), color="0.5", linestyle="--", linewidth=1)
ax.text(path.n_support[-1] / 3, np.mean(y_new == "N") + 0.01, "always N", color="0.35")
ax.set(xlabel="words that f stands on", ylabel="share of right answers",
       title=f"{len(X)} stretches learnt, {len(X_new)} asked")  # fmt: skip
ax.legend(loc="center right")
ax.grid(alpha=0.3)

# %%
# The words
# ---------
# The heaviest of them, for each of the two signs, and where they stand: what
# ``top_features`` lists. Places are counted from the border between exon and intron,
# which has no letter of its own.

machine = SparseKernelClassifier(path.parameter[best], kernel=kernel, on="features")
machine.fit(X, y)
colours = {"EI": "C0", "IE": "C1"}
figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
for ax, (kind, colour) in zip(axes, colours.items(), strict=True):
    top = machine.top_features(14).of(f"{kind} against the rest")
    names, weights, _ = zip(*top, strict=True)
    words, places = zip(*(name.split(" at ") for name in names), strict=True)
    labels = [f"{word.strip(chr(39))} at {int(place) - 30:+d}"
              for word, place in zip(words, places, strict=True)]  # fmt: skip
    ax.barh(range(len(labels)), weights, color=colour, alpha=0.85)
    ax.set_yticks(range(len(labels)), labels, family="monospace")
    ax.invert_yaxis()
    ax.axvline(0, color="black", linewidth=0.8)
    what = "begins" if kind == "EI" else "ends"
    ax.set(title=f"an intron {what} here ({kind})", xlabel="weight")
    print(kind, ", ".join(labels[:6]))
    assert labels[0] == ("GT at +0" if kind == "EI" else "AG at -2")
figure.suptitle("The heaviest words; + speaks for the class, - against it")

# %%
# One stretch
# -----------
# ``explain`` takes f(x) apart: the words that a stretch has, times their weights. They
# and b add up to f(x).

some = [x for x, kind in zip(X_new, y_new, strict=True) if kind == "EI"]
found = explain(machine, some, output="EI against the rest")
clearest = max(found, key=lambda explanation: explanation.total)
print(clearest)
total = clearest.bias + sum(part.value for part in clearest.parts)
assert np.isclose(total, clearest.total)
clearest.plot()
show_or_save()
