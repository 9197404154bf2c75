"""
Uphill along the axes
=====================

To find the top of a hill, go along one axis as far as it rises, then along the next:

::

    αᵢ ← clip(αᵢ - gᵢ/Qᵢᵢ, lower, upper),    g = Qα + p,

each step to the maximum of W(α) = -½ αᵀQα - pᵀα in a single variable. For the dual of a
support vector machine without bias this is all it takes. With a bias the sum Σ yᵢαᵢ is
fixed, one variable cannot move alone, and it takes pairs (see `plot_smo_step.py`).
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, SVC, Gram
from mercer.plots import plot_convergence, plot_path, show_or_save
from mercer.solvers import SMO, CoordinateAscent, quadratic, svc

plt.style.use("mercer.plots.light")

# %%
# Two variables
# -------------
# The contours of a concave quadratic are ellipses. From (2, -2) every step is parallel
# to an axis and ends where that axis touches a contour. The more the ellipses are
# tilted and stretched, the more steps. A box only clips them: the last picture ends at
# its wall, at the best point of the box.

tilted = np.array([[1.0, 0.75], [0.75, 1.0]])
narrow = np.array([[1.0, 0.93], [0.93, 1.0]])
start = [2.0, -2.0]
free = (-np.inf, np.inf)
hills = {
    "a tilted hill": quadratic(tilted, 0, 1, *free, None),
    "a narrow one": quadratic(narrow, 0, 1, *free, None),
    "a wall at a₂ = -0.6": quadratic(tilted, 0, 1, [-2.6, -2.6], [2.6, -0.6], None),
}

figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
for ax, (title, problem) in zip(axes, hills.items(), strict=True):
    solver = CoordinateAscent(tol=1e-3, record=True)
    solution = solver.solve(problem, start=start)
    path = solution.path
    assert (np.count_nonzero(np.diff(path, axis=0), axis=1) == 1).all()
    Q = problem.gram.dense()
    heights = [-0.5 * a @ Q @ a for a in path]
    assert (np.diff(heights) > 0).all()
    plot_path(problem, path, ax)
    ax.set(title=f"{title}: {solution.run.iterations} steps", aspect="equal")
    print(f"{title:<22}{solution.run.iterations:3d} steps, ends at {path[-1].round(3)}")

# %%
# As many variables as points
# ---------------------------
# The dual of a machine without bias on 400 points, in three orders: one variable after
# another, in a new random order every round, always the one with the steepest slope.
# The last takes the fewest steps, each of which has to look at all slopes.

rng = np.random.default_rng(1)
n, C, kernel = 400, 10.0, RBF(0.5)
X = rng.normal(size=(n, 2))
y = np.where(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)
problem = svc(Gram(kernel, X), y, C, bias=False)
best = SMO(tol=1e-9).solve(problem)

figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True, layout="constrained")
for ax, order in zip(axes, ("cyclic", "random", "greedy"), strict=True):
    history = []
    solver = CoordinateAscent(tol=1e-2, order=order)
    found = solver.solve(problem, watch=history.append)
    assert found.dual <= best.dual + 1e-9 <= found.primal + 2e-9
    plot_convergence(history, ax, optimum=-best.dual, tol=1e-2)
    ax.set(title=f"{order}: {found.run.iterations} steps")
    print(
        f"{order:<8}{found.run.iterations:7d} steps, gap {found.gap:.2g} of "
        f"{found.dual:.6g}"
    )

# %%
# In a machine it is a solver like any other.

machine = SVC(C=C, kernel=kernel, fit_intercept=False, solver=CoordinateAscent())
usual = SVC(C=C, kernel=kernel, fit_intercept=False).fit(X, y)
np.testing.assert_allclose(
    machine.fit(X, y).decision_function(X), usual.decision_function(X), atol=0.02
)
show_or_save()
