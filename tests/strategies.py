"""Hypothesis strategies: matrices and the ways they can come; strings, trees, graphs.

Entries are small whole numbers times a power of two, so that sums and products are
exact in float64 in any order, however large or small they are: an oracle need not
allow for cancellation.
"""

import numpy as np
from hypothesis import strategies as st

# From subnormal numbers to numbers whose squares overflow
TINY, USUAL, HUGE = (-1074, -1030, -520), (-1, 0, 0, 0), (500, 530)


def whole_matrices(rows, columns, least=-3):
    """(rows, columns) float64 arrays of small whole numbers."""
    entries = st.integers(least, 3)
    row = st.lists(entries, min_size=columns, max_size=columns)
    return st.lists(row, min_size=rows, max_size=rows).map(
        lambda values: np.array(values, dtype=float).reshape(rows, columns)
    )


@st.composite
def matrix_pairs(draw, least=-3, exponents=TINY + USUAL + HUGE):
    """X and Y of one dimension: one row, one column, none, tiny or huge entries."""
    columns = draw(st.integers(1, 4))
    factor = 2.0 ** draw(st.sampled_from(exponents))
    return tuple(
        draw(whole_matrices(draw(st.integers(0, 4)), columns, least)) * factor
        for _ in "XY"
    )


@st.composite
def spoilt_pairs(draw):
    """X and Y with some entries NaN, inf, -inf or -0.0."""
    X, Y = draw(matrix_pairs(exponents=(0,)))
    for Z in (X, Y):
        for _ in range(draw(st.integers(0, 2)) if Z.size else 0):
            i = draw(st.integers(0, Z.size - 1))
            Z.flat[i] = draw(st.sampled_from([np.nan, np.inf, -np.inf, -0.0]))
    return X, Y


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def strided(X):
    wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
    wide[::2, ::3] = X
    return wide[::2, ::3]


# The same numbers, differently laid out or typed
LAYOUTS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "read-only": read_only,
    "strided": strided,
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian": lambda X: X.astype(">f8"),
    "integers": lambda X: X.astype(int),
    "bytes": lambda X: X.astype(np.int8),
    "float16": lambda X: X.astype(np.float16),
    "long double": lambda X: X.astype(np.longdouble),
    "objects": lambda X: X.astype(object),
    "list of rows": lambda X: list(X),
    "list of tuples": lambda X: [tuple(row) for row in X.tolist()],
}


def texts(most=7, alphabet="ab𝔸"):
    """Strings over few letters, one of them beyond the 16-bit code points."""
    return st.text(alphabet, max_size=most)


def token_lists(most=7):
    """Sequences of tokens of different kinds, of which some are equal: 1 and 1.0."""
    tokens = st.sampled_from([1, 1.0, "one", ("a", 1), None, b"\0"])
    return st.lists(tokens, max_size=most)


def sequence_sets(most=7):
    """A few strings, a few token sequences, or both."""
    return st.one_of(
        st.lists(texts(most), min_size=1, max_size=6),
        st.lists(token_lists(most), min_size=1, max_size=6),
        st.lists(texts(most) | token_lists(most), min_size=1, max_size=4),
    )


def nested_trees(labels="AB", most_leaves=5):
    """Nested tuples (label, child, ...), leaves as bare labels or as one-tuples."""
    label = st.sampled_from(labels)
    leaf = label | label.map(lambda name: (name,))
    return st.recursive(
        leaf,
        lambda child: st.tuples(label, st.lists(child, min_size=1, max_size=3)).map(
            lambda node: (node[0], *node[1])
        ),
        max_leaves=most_leaves,
    ).map(lambda tree: tree if isinstance(tree, tuple) else (tree,))


@st.composite
def graphs(draw, most=6, labels="CNO", weights=(1,), edge_labels=None):
    """(edges, labels) with triples (i, j, weight), each edge once; loops among them.

    With `edge_labels` some have a third part, a label for each edge.
    """
    n = draw(st.integers(0, most))
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if n else []
    weighted = [(i, j, draw(st.sampled_from(weights))) for i, j in edges]
    graph = weighted, draw(st.lists(st.sampled_from(labels), min_size=n, max_size=n))
    if edge_labels is None or draw(st.integers(0, 4)) == 0:
        return graph
    return *graph, [draw(st.sampled_from(edge_labels)) for _ in edges]
