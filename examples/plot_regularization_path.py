"""
A regularisation path
=====================

The representer theorem has two forms. One charges for the norm of f, the other bounds
it:

::

    min reg ‖f‖² + mean of ℓ(yᵢ, f(xᵢ))        min mean of ℓ(yᵢ, f(xᵢ)),  ‖f‖ ≤ B

Every reg has its B = ‖f‖, and the two give the same function. As reg falls, f follows
the points ever more closely: the loss on them falls, and the norm grows. What f is
worth elsewhere is best somewhere in between.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, KernelLogisticRegression, RegularizedMachine
from mercer.losses import Hinge, Logistic, SquaredHinge
from mercer.machines import regularization_path
from mercer.plots import DIVERGING, show_or_save

plt.style.use("mercer.plots.light")


def spirals(n, seed):
    """Two noisy spirals."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    turn = rng.uniform(0.4, 2.2, size=n)
    angle = np.pi * (turn + y)
    X = turn[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + 0.32 * rng.normal(size=(n, 2)), y


X, y = spirals(200, 0)
X_test, y_test = spirals(4000, 1)
sides = np.where(y_test == 1, 1.0, -1.0)

# %%
# The path
# --------
# Forty values of reg for each of three losses. The points are checked and the kernel
# matrix is computed once for all; each fit starts from its neighbour, and each is
# certified by its duality gap.

regs = np.logspace(0, -7, 40)
losses = {"logistic": Logistic(), "hinge": Hinge(), "squared hinge": SquaredHinge()}
paths = {
    name: regularization_path(
        RegularizedMachine(loss, kernel=RBF(1.5), tol=1e-5), X, y, regs
    )
    for name, loss in losses.items()
}
for name, path in paths.items():
    gap = max(machine.certificate_.gap for machine in path)
    errors = [np.mean(machine.predict(X_test) != y_test) for machine in path]
    print(f"{name:14s} largest gap {gap:.1e}, least test error {min(errors):.3f} "
          f"at reg {regs[np.argmin(errors)]:.1e}")  # fmt: skip
    norms = [machine.expansion_.norm() for machine in path]
    assert np.all(np.diff(norms) > -1e-6), "the norm grows as reg falls"

figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.9), layout="constrained")
for name, path in paths.items():
    norms = [machine.expansion_.norm() for machine in path]
    errors = [np.mean(machine.predict(X_test) != y_test) for machine in path]
    axes[0].loglog(regs, norms, label=name)
    axes[2].semilogx(regs, errors, label=name)
logistic = paths["logistic"]
train = [np.mean(Logistic().value(np.where(y == 1, 1.0, -1.0),
         machine.decision_function(X))) for machine in logistic]  # fmt: skip
test = [np.mean(Logistic().value(sides, machine.decision_function(X_test)))
        for machine in logistic]  # fmt: skip
axes[1].loglog(regs, train, label="the points learnt from", color="C0", ls="--")
axes[1].loglog(regs, test, label="4,000 others", color="C0")
best = int(np.argmin(test))
axes[1].plot(regs[best], test[best], "o", color="C1", label="least")
axes[0].set(title="The norm", ylabel="‖f‖")
axes[1].set(title="The logistic loss", ylabel="mean of ln(1 + exp(-y f))")
axes[2].set(title="Mistakes on 4,000 other points", ylabel="share")
for ax in axes:
    ax.invert_xaxis()
    ax.set_xlabel("reg, from much to little")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=9)

# %%
# Three functions of the path
# ---------------------------
# Too stiff, about right, too supple: the probability of a class, by logistic
# regression. At the end the points are all but certain of themselves, noise included.

figure, axes = plt.subplots(
    1, 3, figsize=(12.5, 4.3), sharex=True, sharey=True, layout="constrained"
)
side = np.linspace(-3, 3, 160)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
for ax, i in zip(axes, (4, best, len(regs) - 1), strict=True):
    # reg ‖f‖² + mean loss, times C m: C = 1 / (2 reg m).
    machine = KernelLogisticRegression(
        1 / (2 * regs[i] * len(X)), kernel=RBF(1.5), fit_intercept=False
    ).fit(X, y)
    p = machine.predict_proba(grid)[:, 1].reshape(160, 160)
    shown = ax.contourf(
        side, side, p, levels=np.linspace(0, 1, 11), cmap=DIVERGING, alpha=0.75
    )
    ax.contour(side, side, p, levels=[0.5], colors="black", linewidths=1)
    ax.scatter(*X.T, c=np.where(y, "C1", "C0"), s=9)
    loss = -np.mean(np.log(machine.predict_proba(X_test)[np.arange(4000), y_test]))
    ax.set(title=f"reg = {regs[i]:.0e}, ‖f‖ = {machine.expansion_.norm():.3g}, "
           f"test loss {loss:.2f}", aspect="equal")  # fmt: skip
figure.colorbar(shown, ax=axes, label="probability of the orange class")

# %%
# The ball
# --------
# The same function from the other form: B = ‖f‖ of the machine in the middle. The
# search finds the reg that goes with B, and a duality gap of its own certifies it.

middle = logistic[best]
ball = RegularizedMachine(
    Logistic(), norm=middle.expansion_.norm(), kernel=RBF(1.5), tol=1e-7
).fit(X, y)
print(f"reg {regs[best]:.3e}, found from the norm: {ball.reg_:.3e}")
np.testing.assert_allclose(ball.reg_, regs[best], rtol=0.02)
apart = np.abs(ball.decision_function(X) - middle.decision_function(X)).max()
assert apart < 0.05
show_or_save()
