"""
Time linear in the points
=========================

A support vector machine compares pairs of points, and n points have n² of them. Where
the kernel is an inner product of p features,

::

    k(x, y) = ⟨φ(x), φ(y)⟩,    φ(x) ∈ ℝᵖ,

the same problem is solved on the n × p matrix of features, in time linear in n, to the
same optimum. The machines take this road of themselves where it is the shorter one. A
kernel without such a map, as the Gaussian one, has approximations with one:
``Nystrom(kernel, size)``.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from mercer import RBF, SVC, Nystrom, Polynomial
from mercer.plots import show_or_save
from mercer.solvers import SMO

plt.style.use("mercer.plots.light")

rng = np.random.default_rng(0)
X = rng.normal(size=(32_000, 10))
y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=len(X)) > 0

# %%
# Fits of growing size
# --------------------
# ``Polynomial(2)`` has 66 monomials of 10 columns. Told to, by ``solver=SMO()``, its
# machine computes kernel values all the same, so that both roads can be compared. Below
# 4,000 points SVC computes the values of every kernel: features begin there. Seconds
# are those of the processor.

square = Polynomial(2, scale=0.1)
gauss = RBF(0.1)
sizes = [2000, 4000, 8000, 16_000, 32_000]
roads = {
    "Polynomial(2), kernel values": (SVC(kernel=square, solver=SMO()), sizes[:4]),
    "RBF, kernel values": (SVC(kernel=gauss), sizes[:4]),
    "Polynomial(2), 66 features": (SVC(kernel=square), sizes[1:]),
    "Nystrom(RBF, 100)": (SVC(kernel=Nystrom(gauss, 100)), sizes[1:]),
}


def timed(machine, n):
    """Seconds of a fit on n of the points, and its certificate."""
    taken = []
    while sum(taken) < 0.05:  # the quickest of several, where they are short
        begin = time.process_time()
        machine.fit(X[:n], y[:n])
        taken.append(time.process_time() - begin)
    return min(taken), machine.certificate_


SVC(kernel=gauss).fit(X[:2000], y[:2000])  # for what is done once in a process
seconds, certificates = {}, {}
for name, (machine, some) in roads.items():
    found = {n: timed(machine, n) for n in some}
    seconds[name] = [taken for taken, _ in found.values()]
    certificates[name] = {n: certificate for n, (_, certificate) in found.items()}
    texts = [f"{n:,}: {taken:.3f} s" for n, (taken, _) in found.items()]
    print(f"{name:<28} ", ", ".join(texts))

# %%
# One optimum
# -----------
# Every fit says how far from its optimum it is at most, the duality gap: primal - dual.
# Those of the polynomial kernel, by kernel values and on features, enclose the same
# number.

gaps = {}
for name, (_, some) in roads.items():
    last = certificates[name][some[-1]]
    gaps[name] = (last.primal - last.dual) / last.primal
    assert gaps[name] < 1e-4

by_values, on_features = (
    certificates[f"Polynomial(2), {road}"][sizes[3]]
    for road in ("kernel values", "66 features")
)
apart = abs(by_values.dual - on_features.dual) / on_features.dual
print(f"dual objectives {by_values.dual:.6f} and {on_features.dual:.6f}")
assert apart < 1e-6

# %%
# The picture
# -----------
# Time by kernel values (dashed) comes to grow with n², time on features with n: slopes
# of 2 and of 1 in logarithms, as the grey lines have.

colours = dict(zip(roads, ("C1", "C3", "C0", "C2"), strict=True))
figure, ax = plt.subplots(figsize=(9, 5), layout="constrained")
for name, (_, some) in roads.items():
    dashed = "kernel values" in name
    style = {"ls": "--" if dashed else "-", "color": colours[name]}
    text = f"{name}\nrelative gap {gaps[name]:.0e} at {some[-1]:,}"
    ax.loglog(some, seconds[name], marker="o", ms=5, lw=1.8, label=text, **style)
ends, low = np.array([12_000, 32_000]), min(map(min, seconds.values()))
for power, text in ((1, "n"), (2, "n²")):
    guide = low * (ends / ends[0]) ** power
    ax.loglog(ends, guide, ":", color="0.5")
    ax.text(1.06 * ends[1], guide[1], text, color="0.4", va="center")
ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
ax.set_yticks([0.01, 0.03, 0.1, 0.3, 1], ["0.01", "0.03", "0.1", "0.3", "1"])
ax.minorticks_off()
ax.set(xlabel="points", ylabel="seconds of the processor")
ax.set_title(
    "SVC by kernel values (dashed) and on features\n"
    f"both roads of Polynomial(2) at {sizes[3]:,} points: objectives within {apart:.0e}"
)
ax.spines[["top", "right"]].set_visible(False)
# Beside the picture: where lines end depends on the machine.
ax.legend(loc="center left", bbox_to_anchor=(1.06, 0.5), frameon=False)
show_or_save()
