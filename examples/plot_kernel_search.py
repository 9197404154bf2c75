"""
Which kernel, and how strict?
=============================

A kernel and the price C of errors are chosen together, by the score on points that were
left out. ``KernelSearchCV`` does what scikit-learn's GridSearchCV does on the same grid
and folds; where nothing is learnt from a fold, it computes the kernel matrix of all
points once, for all folds and all values of C.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, make_moons

from mercer import (
    SVC,
    KernelSearchCV,
    Normalized,
    Spectrum,
    Subsequence,
    WeightedDegree,
)
from mercer.plots import show_or_save

plt.style.use("mercer.plots.light")

# %%
# Two numbers: a ridge in the plane
# ---------------------------------
# Narrow Gaussians need a low C, wide ones a high C: good pairs lie along a ridge. The
# best cell is framed.

X, y = make_moons(300, noise=0.3, random_state=0)
grid = {"C": np.logspace(-2, 4, 7), "gamma": np.logspace(-3, 2, 6)}
search = KernelSearchCV(SVC(), grid, cv=5, n_jobs=2).fit(X, y)
print(search.best_params_, round(search.best_score_, 3))
search.plot(x="gamma", y="C").ax_.set_title("two half moons, five folds")

# %%
# Without a space: what suits the points
# --------------------------------------
# For vectors, kernels from plain to rich, with widths around the median distance of the
# points.

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
search = KernelSearchCV(SVC(), cv=5, n_jobs=2).fit(X, y)
print(search.best_params_, round(search.best_score_, 3))
search.plot(x="C", y="kernel").ax_.set_title("tumours, kernels by the data")

# %%
# Strings: substrings, gaps or places?
# ------------------------------------
# Strings of the letters a to d, of which those of one class hold "ab" at some place.
# Pairs of letters that stand together find it at once; subsequences with gaps do if
# gaps cost much; kernels that compare place by place have to learn it for each place,
# which takes a large C.

rng = np.random.default_rng(0)
texts = ["".join(rng.choice(list("abcd"), 8)) for _ in range(200)]
kinds = np.array(["ab" in text for text in texts])
kernels = [
    *(Normalized(Spectrum(k)) for k in (1, 2, 3)),
    *(Normalized(Subsequence(2, decay)) for decay in (0.3, 0.6, 0.9)),
    *(Normalized(WeightedDegree(k)) for k in (2, 4)),
]
space = {"C": [0.1, 1.0, 10.0, 100.0], "kernel": kernels}
search = KernelSearchCV(SVC(), space, cv=5).fit(texts, kinds)
print(search.best_params_, round(search.best_score_, 3))
print(search.sharing_)
search.plot(x="C", y="kernel").ax_.set_title("strings, kernels by hand")

show_or_save()
