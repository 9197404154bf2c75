"""Draw the pictures of the README: docs/_static/machines-*.png and speed-*.png.

    python tools/pictures.py

Each is drawn for light pages and for dark ones. The chart of speed is drawn from
docs/_data/benchmarks.json; run this after `benchmarks/record.py`.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from mercer import RBF, SVC, Diffusion, Graph, KernelQuantileRegression, KernelRidge
from mercer.plots import plot_graph, plot_regions

CAFFEINE = "NCNCCCNCNOOCCC"
BONDS = {
    **{(i, i + 1): 1 for i in range(8)},
    **{(5, 0): 1, (4, 6): 1, (8, 3): 1, (1, 9): 2, (5, 10): 2},
    **{(0, 11): 1, (2, 12): 1, (6, 13): 1, (3, 4): 2, (7, 8): 2},
}
del BONDS[5, 6]
DOCS = Path(__file__).resolve().parent.parent / "docs"
sys.path.insert(0, str(DOCS / "extensions"))
from charts import bars  # noqa: E402
from figures import STYLES  # noqa: E402


def machines():
    """A boundary, a band and a graph: what machines make of points."""
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11, 3.5), width_ratios=(1.15, 1, 1)
    )
    X, y = make_moons(140, noise=0.18, random_state=1)
    plot_regions(SVC(C=3, kernel=RBF(1.5)).fit(X, y), X, y, ax=left, legend=False)
    left.set(title="classify: SVC, its margins", xticks=[], yticks=[])
    band(middle)
    middle.set(title="predict: a band of quantiles", xticks=[], yticks=[])
    graph = Graph(list(BONDS), CAFFEINE)
    heat = Diffusion(graph, 0.5)(graph.nodes)[7]
    ends = [(int(u), int(v)) for u, v in graph.ends]
    strokes = [BONDS[u, v] if (u, v) in BONDS else BONDS[v, u] for u, v in ends]
    plot_graph(graph, heat, ax=right, strokes=strokes)
    right.set_title("compare: heat from one atom")
    return figure


def band(ax):
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 120))[:, None]
    y = np.sin(2 * x[:, 0]) + 0.3 * rng.normal(size=120) * (0.3 + x[:, 0] / 4)
    new = np.linspace(0, 6, 300)[:, None]
    low, high = (
        KernelQuantileRegression(q, kernel=RBF(2.0)).fit(x, y).predict(new)
        for q in (0.1, 0.9)
    )
    ax.fill_between(new[:, 0], low, high, alpha=0.25)
    ax.plot(new, KernelRidge(0.3, kernel=RBF(2.0)).fit(x, y).predict(new))
    ax.plot(x, y, ".", color="0.5", ms=4)


def main():
    for page, style in STYLES.items():
        for name, draw in (("machines", machines), ("speed", speed)):
            with plt.style.context(style):
                draw().savefig(DOCS / "_static" / f"{name}-{page}.png", dpi=110)
                plt.close("all")


def speed():
    return bars("speed").figure


if __name__ == "__main__":
    main()
