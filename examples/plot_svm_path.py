"""
The whole path of an SVM
========================

Between breakpoints, the coefficients of a support vector machine are linear in C.
Points that are far inside their class leave first; those at the boundary stay free for
long. The thick line is the cross-validated error, exact at every C.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from mercer import RBF
from mercer.paths import svm_path
from mercer.plots import plot_regions, show_or_save

plt.style.use("mercer.plots.light")

# %%
# The path, and the error of five folds along it

X, y = make_moons(120, noise=0.3, random_state=0)
path = svm_path(RBF(1.0), X, y, C_max=1e4)
curve = path.cross_validated(5)
print(path)
print("least error {1:.3f}, at C = {0:.3g}".format(*curve.best))

# %%
# The coefficients as shares of C, and the machine where the error is least

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
path.plot(left, curve=curve)
left.set_title("coefficients along C")
plot_regions(path(curve.best[0]), X, y, right, legend=False)
right.set_title("the machine of least error")
show_or_save()
