"""Kernels written as formulas: read within bounds, and what the page shows of them.

`mercer.parse` is the only interpreter. What it builds is bounded here: a formula of few
nodes, of kernels that need nothing but numbers and words, with degrees and sizes that
no small text can blow up.
"""

from __future__ import annotations

import re
from dataclasses import fields as fields_of
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel
from mercer.kernels.parse import parse
from mercer.laboratory.fields import Fields, is_number, shown
from mercer.laboratory.refusals import Refusal
from mercer.theory.condition import check

MOST_LETTERS = 1000
MOST_NODES = 40
MOST_POINTS = 200  # of those on which a kernel is refuted
MOST_ENTRIES = 100  # of a list in a formula
LARGEST = 1e9  # number in a formula, but for inf

# The data that each kernel compares; "any" joins or changes others.
DATA = {
    "vectors": "Linear Polynomial Exponential PowerSeries Bilinear Sigmoid Anova "
    "ChiSquared Intersection Spline RBF Laplacian Matern RationalQuadratic "
    "GaussianSeries RadialWindow ProductWindow RandomFourier",
    "strings": "Subsequence WeightedDegree EditSimilarity Spectrum Mismatch "
    "WeightedSubstrings",
    "trees": "Subtree SubsetTree PartialTree",
    "graphs": "WeisfeilerLehman ShortestPath RandomWalk",
    "any": "Sum Product Scaled Power Constant Exp PolynomialOf Normalized Centered "
    "MultipleKernel Nystrom",
}
KIND = {name: kind for kind, names in DATA.items() for name in names.split()}

# Whole numbers beyond which a kernel would take long, by kernel and parameter.
HIGHEST = {
    ("Power", "exponent"): 64,
    ("Polynomial", "degree"): 64,
    ("Anova", "order"): 64,
    ("GaussianSeries", "degree"): 40,
    ("Nystrom", "size"): 500,
    ("RandomFourier", "size"): 2000,
    ("Spectrum", "k"): 64,
    ("Subsequence", "length"): 64,
    ("WeightedDegree", "degree"): 64,
    ("Mismatch", "k"): 12,
    ("Mismatch", "m"): 1,
    ("WeisfeilerLehman", "iterations"): 32,
}

# Kernels that ask the one inside them at other points too, and how deep they may nest.
LEARNING = ("Nystrom", "Centered")
MOST_LEARNING = 2

# Sliders: low, high, scale; the value itself is always within.
RANGES: dict[str, tuple[float, float, str]] = {
    "gamma": (1e-3, 1e3, "log"),
    "length": (1e-2, 1e2, "log"),
    "scale": (1e-2, 1e2, "log"),
    "factor": (1e-2, 1e2, "log"),
    "alpha": (1e-2, 1e2, "log"),
    "bandwidth": (1e-2, 1e2, "log"),
    "offset": (0.0, 10.0, "linear"),
    "c": (0.0, 10.0, "linear"),
    "nu": (0.5, 5.0, "linear"),
    "decay": (0.01, 1.0, "linear"),
    "gap": (0.01, 1.0, "linear"),
    "size": (1.0, 200.0, "linear"),
    "m": (0.0, 1.0, "linear"),
    "iterations": (0.0, 8.0, "linear"),
}
WHOLE = (1.0, 8.0, "linear")
SYMBOLS = {
    "gamma": "γ", "length": "ℓ", "alpha": "α", "nu": "ν", "decay": "λ", "gap": "μ",
    "bandwidth": "h", "degree": "d", "exponent": "d", "factor": "factor", "c": "c",
}  # fmt: skip


def read_kernel(fields: Fields, kind: str) -> Kernel:
    """The kernel of a request, with the values of `set` in it.

    Parameters
    ----------
    kind : what it has to compare: "vectors", "strings", "trees" or "graphs"
    """
    text = fields.text("kernel", MOST_LETTERS)
    try:
        kernel = parse(text)
        check_bounds(kernel, kind)
        if fields.has("set"):
            kernel = with_values(kernel, fields)
            check_bounds(kernel, kind)
    except Refusal as refusal:
        if refusal.field is None:
            refusal.field = f"{fields.place}/kernel"
        raise
    except (ValueError, TypeError, OverflowError) as error:
        text = str(error).partition("\n")[0]  # the page shows the place by itself
        place = re.search(r"at position (\d+)", text)
        raise Refusal(
            text,
            code="kernel",
            field=f"{fields.place}/kernel",
            position=int(place[1]) if place else None,
        ) from None
    return kernel


def check_bounds(kernel: Kernel, kind: str) -> None:
    """Refuse a kernel that is too large, or for other data."""
    waiting, nodes = [(kernel, 0)], 0
    while waiting:
        node, inside = waiting.pop()
        nodes += 1
        inside += type(node).__name__ in LEARNING
        if nodes > MOST_NODES:
            raise _refused(
                f"A formula has at most {MOST_NODES} kernels and operators here; this "
                "one has more. Leave some out."
            )
        if inside > MOST_LEARNING:
            raise _refused(
                f"At most {MOST_LEARNING} of {' and '.join(LEARNING)} may stand inside "
                "each other here: each asks the kernel within it several times."
            )
        _check_node(node, kind)
        waiting += [(child, inside) for child in node.children()]


def _check_node(node: Kernel, kind: str) -> None:
    name = type(node).__name__
    data = KIND.get(name)
    if data is None:
        raise _refused(
            f"{name} needs more than a formula (a function, a model or a matrix), "
            "which the laboratory does not take; build it in Python."
        )
    if data not in (kind, "any"):
        raise _refused(f"{name} compares {data}; here are {kind}.")
    for key, value in node.get_params(deep=False).items():
        _check_value(name, key, value)


def _check_value(name: str, key: str, value: Any) -> None:
    highest = HIGHEST.get((name, key), LARGEST)
    if isinstance(value, list | tuple):
        if len(value) > MOST_ENTRIES:
            raise _refused(
                f"{name} has {len(value)} entries in {key}; at most {MOST_ENTRIES} "
                "are taken here."
            )
        for one in value:
            _check_value(name, key, one)
    elif isinstance(value, float | int) and not isinstance(value, bool):
        if abs(value) > highest and not np.isinf(value):
            raise _refused(
                f"{name} is taken with {key} up to {highest:g} here; got {value!r}."
            )


def _refused(message: str) -> Refusal:
    return Refusal(message, code="kernel")


def with_values(kernel: Kernel, fields: Fields) -> Kernel:
    """The kernel with the values of `set` for its parameters."""
    known = {one["name"]: one for one in parameters(kernel)}
    values = fields.inner("set", known)
    chosen: dict[str, Any] = {}
    for name, value in values.value.items():
        kind = known[name]["kind"]
        if kind == "flag" and isinstance(value, bool):
            chosen[name] = value
        elif kind == "integer" and is_number(value) and value == int(value):
            chosen[name] = int(value)
        elif kind == "number" and is_number(value):
            chosen[name] = float(value)
        else:
            values.refuse(name, f"needs a {kind}; got {shown(value)}")
    # The operators of a formula share nothing with others: it was just read.
    for name, value in chosen.items():
        kernel.set_params(**{name: value})
    return parse(repr(kernel))


# What the page shows


def parameters(kernel: Kernel, resolved: Kernel | None = None) -> list[dict[str, Any]]:
    """The numbers and flags of a formula, for sliders.

    Parameters
    ----------
    resolved : the same kernel with what data fix; None where there are none
    """
    settings = kernel.get_params()
    known = {} if resolved is None else resolved.get_params()
    found = []
    for name, value in settings.items():
        owner_name, _, key = name.rpartition("__")
        owner = settings[owner_name] if owner_name else kernel
        if key == "seed" or not isinstance(owner, Kernel):
            continue
        one = _slider(owner, key, value)
        if one is not None:
            fixed: Any = known.get(name)
            one["resolved"] = float(fixed) if is_number(fixed) else None
            found.append({"name": name, **one})
    return found


def _slider(owner: Kernel, key: str, value: Any) -> dict[str, Any] | None:
    """What a parameter is on the page; None where it is no number and no flag."""
    title = type(owner).__name__
    label = f"{title} {SYMBOLS.get(key, key)}"
    if isinstance(value, bool):
        return {"label": label, "kind": "flag", "value": value}
    types = {one.name: str(one.type) for one in fields_of(owner)}  # type: ignore[arg-type]
    whole = types.get(key, "").startswith("int")
    if not is_number(value) and not (value is None and key in RANGES):
        return None
    low, high, scale = RANGES.get(key, WHOLE) if not whole else WHOLE
    if whole and key in RANGES and key != "length":
        low, high, scale = RANGES[key]
    if title == "Sigmoid" and key == "offset":
        low, high = -5.0, 5.0
    if value is not None:
        low, high = min(low, value), max(high, value)
        scale = "linear" if low <= 0 else scale
    kind = "integer" if whole else "number"
    ends = {"low": low, "high": high, "scale": scale}
    return {"label": label, "kind": kind, "value": value, **ends}


def proof_tree(kernel: Kernel) -> dict[str, Any]:
    """The rule behind every node."""
    return {
        "formula": repr(kernel),
        "rule": kernel.rule().reason,
        "psd": kernel.psd,
        "children": [proof_tree(child) for child in kernel.children()],
    }


def data_of(kernel: Kernel) -> str:
    """What it compares."""
    kinds = [KIND.get(type(kernel).__name__, "other")]
    kinds += [data_of(child) for child in kernel.children()]
    return next((kind for kind in kinds if kind not in ("any", "other")), "vectors")


def refutation(kernel: Kernel, X: np.ndarray) -> dict[str, Any] | None:
    """Points with cᵀKc < 0, as few as are easily found; None where none are.

    The given points are tried first, then others around 0.
    """
    random = np.random.default_rng(0)
    tried = [X[:MOST_POINTS]] if len(X) > 1 else []
    tried += [scale * random.uniform(-1, 1, (12, 2)) for scale in (1.0, 3.0, 0.3)]
    for turn, points in enumerate(tried):
        try:
            fixed = kernel.resolve(points)
            verdict = check(fixed, points)
        except ValueError:  # points on which it has no values
            continue
        if verdict.psd or verdict.witness is None:
            continue
        index, vector, value = _fewest(fixed, points, np.asarray(verdict.witness))
        return {
            "points": points[index].tolist(),
            "indices": index.tolist() if turn == 0 and len(X) > 1 else None,
            "vector": vector.tolist(),
            "value": value,
            "message": repr(check(fixed, points[index])),
        }
    return None


def _fewest(
    kernel: Kernel, points: np.ndarray, vector: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Those with the heaviest entries of the witness that refute it alone."""
    order = np.argsort(-np.abs(vector), kind="stable")
    size = 2
    while True:
        index = np.sort(order[:size])
        verdict = check(kernel, points[index])
        if not verdict.psd and verdict.witness is not None:
            return index, np.asarray(verdict.witness), float(verdict.smallest)
        if size >= len(points):
            return np.arange(len(points)), vector, float(check(kernel, points).smallest)
        size = min(len(points), size + 1 if size < 8 else 2 * size)


KINDS = ("vectors", "strings", "trees", "graphs")


def known_of(kernel: Kernel, kind: str, X: np.ndarray) -> dict[str, Any]:
    """What the page shows of a kernel, on the points X where there are some."""
    resolved = None
    if kind == "vectors" and len(X) > 1:
        try:
            resolved = kernel.resolve(X)
        except ValueError:  # points that fix nothing, as those all in one place
            pass
    refuted = None
    if kind == "vectors" and not kernel.psd:
        refuted = refutation(kernel, X)
    return {
        "kernel": repr(kernel),
        "latex": latex_of(kernel),
        "psd": kernel.psd,
        "data": data_of(kernel),
        "parameters": parameters(kernel, resolved),
        "proof": proof_tree(kernel),
        "refutation": refuted,
    }


def latex_of(kernel: Kernel) -> str | None:
    """The formula as a notebook shows it."""
    found = kernel._repr_latex_() if hasattr(kernel, "_repr_latex_") else None
    return None if found is None else str(found)
