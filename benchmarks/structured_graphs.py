"""Kernels of graphs beside GraKeL, in one process and in turn.

    pip install grakel
    python benchmarks/structured_graphs.py                    # all rows, two minutes
    python benchmarks/structured_graphs.py --only MUTAG       # rows with this word
    python benchmarks/structured_graphs.py --repeats 5

Every row is the Gram matrix of a set of labelled graphs, from Python lists of edges and
labels: WL(5) is `WeisfeilerLehman(5)`, SP `ShortestPath()`, RW `RandomWalk(0.01)`, of
which 500 graphs are taken at most (MERCER_NUM_THREADS=1 for a single thread). The
column "Graphs made" is ours from `Graph` objects that exist already. Matrices are
compared: those of WL and SP are whole numbers and must be equal. The last rows are
products with the diffusion kernel of a ring of nodes with random chords.

The data are looked for in the folder that MERCER_DATA names, by default
../shared/data beside the repository. Without GraKeL only our own times are shown.
"""

import argparse
import gzip
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from record import record

from mercer import (
    Diffusion,
    Gram,
    Graph,
    RandomWalk,
    ShortestPath,
    WeisfeilerLehman,
)

try:
    import grakel
except ImportError:
    grakel = None

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDER = Path(os.environ.get("MERCER_DATA", FOLDER))
SLOW = 20.0  # seconds after which a peer is not run again


def read(name):
    """Pairs (edges, labels), or None without the file."""
    file = FOLDER / f"graphs_{name}.jsonl.gz"
    if not file.exists():
        return None
    with gzip.open(file, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [(list(map(tuple, row["edges"])), row["node_labels"]) for row in rows]


def for_grakel(graphs):
    """The same graphs as GraKeL takes them: who is near to whom, and labels."""
    out = []
    for edges, labels in graphs:
        near = {i: {} for i in range(len(labels))}
        for u, v in edges:
            near[u][v] = near[v][u] = 1.0
        out.append([near, dict(enumerate(labels))])
    return out


def peer(kind):
    """GraKeL's kernel, freshly made: it keeps what it was fitted on."""
    if kind == "WL(5)":
        return grakel.WeisfeilerLehman(
            n_iter=5, base_graph_kernel=grakel.VertexHistogram
        )
    if kind == "SP":
        return grakel.ShortestPath(with_labels=True)
    return None


OURS = {"WL(5)": WeisfeilerLehman(5), "SP": ShortestPath(), "RW": RandomWalk(0.01)}
ROWS = [
    ("MUTAG", "WL(5)"),
    ("MUTAG", "SP"),
    ("MUTAG", "RW"),
    ("ENZYMES", "WL(5)"),
    ("ENZYMES", "SP"),
    ("PROTEINS", "WL(5)"),
    ("PROTEINS", "SP"),
    ("NCI1", "WL(5)"),
    ("NCI1", "SP"),
    ("NCI1", "RW"),
]
MOST = {"RW": 500}  # graphs, the first ones: walks take a time for every pair


def timed(function):
    time.sleep(0.1)  # threads of a BLAS may still spin
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def run(name, kind, repeats):
    """Median seconds of ours, of ours from Graphs, and of GraKeL; None where absent."""
    graphs = read(name)
    if graphs is None:
        print(f"{name:<10}{kind:<8}left out: no graphs_{name}.jsonl.gz in {FOLDER}")
        return
    graphs = graphs[: MOST.get(kind)]
    theirs = peer(kind) if grakel else None
    given = for_grakel(graphs) if theirs is not None else None
    times = {"ours": [], "made": [], "grakel": []}
    made = [Graph(*graph) for graph in graphs]
    for _ in range(repeats):
        seconds, K = timed(lambda: OURS[kind](graphs))
        times["ours"].append(seconds)
        times["made"].append(timed(lambda: OURS[kind](made))[0])
        if theirs is not None and not (times["grakel"] and times["grakel"][0] > SLOW):
            seconds, other = timed(lambda: peer(kind).fit_transform(given))
            times["grakel"].append(seconds)
            if not np.array_equal(K, other):
                raise SystemExit(f"{name} {kind}: the matrices differ.")
    ours, made_already = np.median(times["ours"]), np.median(times["made"])
    line = f"{name:<10}{kind:<8}{len(graphs):>7}{ours:>10.3f}{made_already:>13.3f}"
    if times["grakel"]:
        median = np.median(times["grakel"])
        line += f"{median:>10.3f}{median / ours:>8.1f}x{median / made_already:>8.1f}x"
    if kind in MOST:
        pairs = len(graphs) * (len(graphs) + 1) / 2
        line += f"   {1e3 * made_already / pairs:.4f} ms a pair"
    print(line, flush=True)
    theirs = np.median(times["grakel"]) if times["grakel"] else None
    figures = {"mercer": ours, "mercer, Graphs made": made_already, "GraKeL": theirs}
    record("graphs", f"{name}, {kind}", figures, graphs=len(graphs))


def diffuse(n):
    """A product with the diffusion kernel on n nodes, and the memory of its matrix."""
    rng = np.random.default_rng(0)
    nodes = np.arange(n)
    ends = [np.column_stack([nodes, other]) for other in
            ((nodes + 1) % n, rng.integers(n, size=n))]  # fmt: skip
    graph = Graph(np.concatenate(ends))
    gram = Gram(Diffusion(graph), nodes)
    seconds, product = timed(lambda: gram @ np.ones(n))
    assert np.allclose(product, 1)
    print(f"Diffusion(β=1) of {n:,} nodes and {len(graph.ends):,} edges, K @ 1: "
          f"{seconds:.3f} s; K would take {8 * n**2 / 1e9:,.0f} GB")  # fmt: skip


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="", help="rows whose name has this word")
    options.add_argument("--repeats", type=int, default=3)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")  # GraKeL's own
    version = grakel.__version__ if grakel else "not installed"
    print(f"seconds, medians of {chosen.repeats} runs; GraKeL {version}")
    print(f"{'set':<10}{'kernel':<8}{'graphs':>7}{'mercer':>10}{'Graphs made':>13}"
          f"{'GraKeL':>10}{'ratio':>9}{'made':>9}")  # fmt: skip
    for name, kind in ROWS:
        if chosen.only in f"{name} {kind}":
            run(name, kind, chosen.repeats)
    if chosen.only in "Diffusion":
        for n in (10_000, 100_000):
            diffuse(n)


if __name__ == "__main__":
    main()
