"""
The subsequences of "fast food"
===============================

A string is the set of its subsequences: letters in their order, with gaps. One that
stands at the places i₁ < i₂ < ... < iₙ spans iₙ - i₁ + 1 letters, gaps included, and
weighs less the longer that span is:

::

    φ_u(s) = Σ λ^(iₙ - i₁ + 1) over all places i with s(i) = u,    0 < λ ≤ 1,
    k(s, t) = Σ_u φ_u(s) φ_u(t)

In "fast food", counted from 1, "afd" stands at (2, 6, 9) and spans 8 letters. A course
prints the places (2, 3, 9) for it; these spell "asd", whose span is the same.
"""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np

from mercer import Subsequence
from mercer.plots import plot_string, show_or_save

plt.style.use("mercer.plots.light")

text = "fast food"
words = ["afd", "asd", "foo", "fod"]


def places(word):
    """All places at which the letters of a word stand in the text, counted from 1."""
    return [
        tuple(i + 1 for i in chosen)
        for chosen in combinations(range(len(text)), len(word))
        if "".join(text[i] for i in chosen) == word
    ]


def span(chosen):
    return chosen[-1] - chosen[0] + 1


assert places("afd") == [(2, 6, 9)] and span((2, 6, 9)) == 8
assert places("asd") == [(2, 3, 9)] and span((2, 3, 9)) == 8

# %%
# Where they stand
# ----------------
# "foo" and "fod" begin with either f: one span is short, the other reaches over the
# gap. The weights of all places of a word are added.

rows = [(word, chosen) for word in words for chosen in places(word)]
marks = [np.isin(np.arange(1, len(text) + 1), chosen) for _, chosen in rows]
named = [f"“{word}”  span {span(i)}, λ{'⁰¹²³⁴⁵⁶⁷⁸⁹'[span(i)]}" for word, i in rows]
figure, ax = plt.subplots(figsize=(9, 5), layout="constrained")
plot_string(text, marks, ax, names=named)
ax.set(title="Four subsequences of “fast food”: all their places", xlabel="place")

# %%
# What they weigh
# ---------------
# The kernel counts in one sum what is listed here. Where λ = 1 gaps cost nothing, and a
# coordinate is the number of places; a small λ leaves only what stands close together.

decays = np.linspace(0.02, 1, 50)
weight = {word: [] for word in words}
for decay in decays:
    kernel = Subsequence(3, decay)
    names = kernel.feature_names([text])
    features = kernel.features([text]).toarray()[0]
    assert np.isclose(kernel.value(text, text), features @ features)
    for word in words:
        at = names.index(f"subsequence {word!r}")
        assert np.isclose(features[at], sum(decay ** span(i) for i in places(word)))
        weight[word].append(features[at])
formulas = {"afd": "λ⁸", "asd": "λ⁸", "foo": "λ³ + λ⁸", "fod": "2λ⁴ + 2λ⁹"}

figure, ax = plt.subplots(figsize=(6.8, 4.4), layout="constrained")
for k, word in enumerate(words):
    style = dict(ls="--", lw=3.5) if word == "afd" else dict(lw=1.8)
    ax.plot(decays, weight[word], color=f"C{k}", label=f"“{word}”  {formulas[word]}",
            **style)  # fmt: skip
ax.set(xlabel="λ", ylabel="coordinate φ(“fast food”)", xlim=(0, 1), ylim=(0, None))
ax.set_title("A gap costs more, the smaller λ")
ax.legend()
for word in words:
    print(f"{word}: places {places(word)}, φ at λ = 1: {weight[word][-1]:g}")
show_or_save()
