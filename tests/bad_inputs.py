"""Every machine, every method, every bad input: what they say, cell by cell.

Run by `test_doors.py` in processes of their own, as a cell may take the interpreter
with it: a line before each cell names it, a line after it has the outcome.
"""

import inspect
import re
import sys
import warnings

import catalog
import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor

N, D = 20, 4
rng = np.random.default_rng(5)
POINTS = rng.normal(size=(N, D)).round(2)
POINTS[rng.random((N, D)) < 0.3] = 0
LABELS = np.arange(N) % 2
# scikit-learn's methods, and those of single machines, of points alone
METHODS = [
    "predict",
    "predict_proba",
    "decision_function",
    "score_samples",
    "transform",
    "kneighbors",
    "reconstruction_error",
    "score",
    "mean_loss",
]


def edited(edit, kind=sp.csr_matrix):
    X = kind(POINTS)
    edit(X)
    return X


def at(part, place, value):
    return lambda X: getattr(X, part).__setitem__(place, value)


def cut(part, end):
    return lambda X: setattr(X, part, getattr(X, part)[:end])


DAMAGES = {
    "indptr 1e8": at("indptr", 7, 10**8),
    "last indptr 1e7": at("indptr", -1, 10**7),
    "index 1e6": at("indices", 3, 10**6),
    "index -3": at("indices", 3, -3),
    "indptr begins at 2": at("indptr", 0, 2),
    "indptr falls": lambda X: at("indptr", 5, X.indptr[4] - 1)(X),
    "data too short": cut("data", 5),
    "indices too short": cut("indices", 5),
    "indptr too short": cut("indptr", -3),
    "indices of floats": lambda X: setattr(X, "indices", X.indices * 1.0),
    "another shape": lambda X: setattr(X, "_shape", (10**6, D)),
    "fewer columns": lambda X: setattr(X, "_shape", (N, D - 1)),
}


def damaged():
    """Sparse points whose arrays do not fit each other, in every format."""
    for i, (name, edit) in enumerate(DAMAGES.items()):
        kind = sp.csr_array if i % 2 else sp.csr_matrix
        yield f"{kind.__name__}, {name}", edited(edit, kind)
    for name in ("indptr 1e8", "index 1e6", "data too short"):
        wide = at("indptr", 2, 10**8) if name == "indptr 1e8" else DAMAGES[name]
        yield f"csc, {name}", edited(wide, sp.csc_array)
    blocks = sp.csr_array(POINTS).tobsr((2, 2))
    blocks.indices[1] = 10**6
    yield "bsr", blocks
    coordinates = sp.coo_array(POINTS)
    coordinates.coords[0][2] = 10**6
    yield "coo, row", coordinates
    yield "coo, data", edited(cut("data", 3), sp.coo_array)
    diagonals = sp.dia_array(POINTS)
    diagonals.offsets = diagonals.offsets[:2]
    yield "dia", diagonals
    for name, index in {"bool": True, "float": 1.0, "text": "1"}.items():
        lists = sp.lil_array(POINTS)
        lists.rows[1][0] = index
        yield f"lil, {name} index", lists
    for name, row in {"None": None, "number": 3}.items():
        lists = sp.lil_array(POINTS)
        lists.rows[1] = row
        yield f"lil, {name} row", lists
    lists = sp.lil_array(POINTS)
    lists.data[1][0] = "x"
    yield "lil, text entry", lists
    for key in [(2.5, 1), (2, 1.0), (True, 1), (2,), (2, 1, 0), (-1, 0), (2, 99), "a"]:
        keys = sp.dok_array(POINTS)
        keys._dict.pop(key, None)  # an equal key would stay as it is
        keys._dict[key] = 1.0
        yield f"dok, key {key}", keys
    keys = sp.dok_array(POINTS)
    keys._dict[2, 1] = "x"
    yield "dok, text entry", keys
    for form in ("csr", "csc", "bsr", "coo", "dia", "lil"):
        parts = {"coo": ["data", "coords"], "dia": ["data", "offsets"],
                 "lil": ["data", "rows"]}  # fmt: skip
        for part in parts.get(form, ["data", "indices", "indptr"]):
            X = sp.csr_array(POINTS).asformat(form)
            delattr(X, part)
            yield f"{form} without {part}", X
    lists = sp.lil_array(POINTS)
    lists.rows[1] = [10**6] * len(lists.rows[1])
    yield "lil, index", lists
    lists = sp.lil_array(POINTS)
    lists.data[1] = [*lists.data[1], *[1.0] * 50]
    yield "lil, data", lists
    yield "a list of rows", [sp.csr_array(POINTS[:1]), one_row()]


def one_row():
    row = sp.csr_array(np.ones((1, D)))
    row.indices[1] = 10**6
    return row


def with_gap(value, kind):
    X = POINTS.astype(object) if value is None or value is pd.NA else POINTS.copy()
    X[2, 1] = value
    return kind(X)


def nullable(dtype):
    frame = pd.DataFrame(np.rint(POINTS)).astype("int64")
    frame = (frame if dtype == "Int64" else frame != 0).astype(dtype)
    frame = frame.rename(columns=str)
    frame.iloc[2, 1] = pd.NA
    return frame


def nulls(dtype):
    frame = pl.DataFrame(np.rint(POINTS), schema=[str(j) for j in range(D)])
    second = pl.when(pl.int_range(pl.len()) == 2).then(None).otherwise(pl.col("1"))
    return frame.with_columns(second.alias("1")).with_columns(pl.all().cast(dtype))


def frame_of(X):
    return pd.DataFrame(X, columns=[str(j) for j in range(D)])


def sparse_with(value):
    X = sp.csr_array(POINTS)
    X.data[1] = value
    return X


def bad_points():
    """(name, points, what the error says of them)."""
    for name, X in damaged():
        yield name, X, "damaged"
    missing = "NaN|missing|infinity|finite|None|masked"
    for value in (np.nan, np.inf, -np.inf):
        yield f"array with {value}", with_gap(value, np.array), missing
        yield f"list with {value}", with_gap(value, np.ndarray.tolist), missing
        yield f"list of arrays with {value}", with_gap(value, list), missing
        yield f"frame with {value}", with_gap(value, frame_of), missing
        yield f"csr with {value}", sparse_with(value), missing
        yield (
            f"rows with {value}",
            [*sp.csr_array(POINTS)[1:], sparse_with(value)[[0]]],
            (missing),
        )
    for value in (None, pd.NA):
        yield f"list with {value}", with_gap(value, np.ndarray.tolist), missing
        yield f"objects with {value}", with_gap(value, np.array), missing
        yield f"frame with {value}", with_gap(value, frame_of), missing
    for dtype in ("Int64", "boolean"):
        yield f"pandas {dtype}", nullable(dtype), missing
    for kind in (pl.Int64, pl.Float64, pl.Boolean, pl.Decimal(12, 2)):
        yield f"polars {kind}", nulls(kind), missing
    yield "masked", np.ma.masked_greater(POINTS, 0.5), missing
    yield "complex", POINTS * 1j, "[Cc]omplex"
    yield "complex csr", sp.csr_array(POINTS * 1j), "[Cc]omplex"
    yield "complex list", (POINTS * 1j).tolist(), "[Cc]omplex"
    mixed = POINTS.astype(object)
    mixed[1, 1] = 1j
    yield "objects with a complex one", mixed, "point 1 holds a complex"
    yield "a list with a complex one", mixed.tolist(), "[Cc]omplex"
    words = [f"word{i}" for i in range(N)]
    strings = "string|object|feature"
    yield "strings", words, strings
    yield "array of strings", np.array(words), strings
    yield "table of strings", np.array(words * D).reshape(N, D), strings
    yield "objects", np.array(words * D, dtype=object).reshape(N, D), strings
    yield "frame of strings", frame_of(np.array(words * D).reshape(N, D)), strings
    yield "repeated names", pd.DataFrame(POINTS, columns=list("aabc")), "named 'a'"
    yield "a number", 3.0, "[Dd]ataset|[Ee]xpected"
    yield "a word", "word", "[Dd]ataset|[Ee]xpected|string"


def bad_targets(numbers):
    """(name, targets, what the error says of them)."""
    yield "complex y", LABELS * 1j, "[Cc]omplex"
    yield "y with NaN", np.where(LABELS, np.nan, 1.0), "NaN"
    yield "y with inf", np.where(LABELS, np.inf, 1.0), "inf"
    yield "sparse y", sp.csr_array(LABELS[:, None] * 1.0), "sparse"
    y = sp.csr_array(LABELS[:, None] * 1.0)
    y.indptr[3] = 10**8
    yield "damaged y", y, "sparse"
    yield "y with None", [1, None] * (N // 2), "y.*(missing|NaN)"
    yield "y with NA", pd.Series([1, pd.NA] * (N // 2), dtype="Int64"), "NaN|missing"
    if not numbers:
        yield "mixed y", [1, "a"] * (N // 2), "all numbers or all strings"
    if numbers:
        dates = np.full(N, np.datetime64("2020-01-01"))
        yield "dates as y", dates, "y.*times"
        yield "words as y", ["a", "b"] * (N // 2), "y.*'a'.*string"
    yield "short y", LABELS[:-1], "inconsistent|samples"
    yield "masked y", np.ma.masked_greater(LABELS * 1.0, 0.5), "masked"


def bad_weights():
    """(name, weights, what the error says of them)."""
    yield "complex weights", np.ones(N) * 1j, "[Cc]omplex"
    yield "balanced", "balanced", "sample_weight.*'balanced'"
    yield "weights of NaN", np.full(N, np.nan), "NaN"
    yield "weights of inf", np.full(N, np.inf), "inf"
    yield "weights of 1e300", np.full(N, 1e300), "sample_weight.*1e.300"
    yield "weights of None", [1, None] * (N // 2), "sample_weight.*missing"
    yield "weights of words", ["a"] * N, "sample_weight.*'a'"
    yield "a dict of weights", {0: 1.0}, "sample_weight.*dict"
    yield "short weights", np.ones(N - 1), "shape|sample_weight"
    yield "NaN for all", float("nan"), "sample_weight.*nan"
    yield "inf for all", np.array(np.inf), "sample_weight.*inf"
    yield "complex for all", 1j, "sample_weight.*complex"
    yield "objects", np.array([1j, *[1.0] * (N - 1)], dtype=object), "[Cc]omplex"
    yield "a table of weights", np.ones((N, 2)), "1D|sample_weight"
    yield "a set of weights", {1.0}, "sample_weight.*set"
    yield "sparse weights", sp.csr_array(np.ones((1, N))), "sparse"


def cells(machine):
    """(what is asked, a function that asks it, what the error must say)."""
    y = LABELS if is_classifier(machine) else LABELS + 0.5
    classes = {"classes": [0, 1]} if is_classifier(machine) else {}
    fitted = clone(machine).fit(frame_of(POINTS), y)
    for name, X, says in bad_points():
        yield f"fit({name})", lambda X=X: clone(machine).fit(X, y), says
        if hasattr(machine, "partial_fit"):
            ask = clone(machine).partial_fit
            yield f"partial_fit({name})", lambda X=X, a=ask: a(X, y, **classes), says
        for method in METHODS:
            if hasattr(fitted, method):
                more = (y,) if method in ("score", "mean_loss") else ()
                ask = getattr(fitted, method)
                yield f"{method}({name})", lambda X=X, a=ask, m=more: a(X, *m), says
        for method in ("fit_predict", "fit_transform", "path"):
            if hasattr(machine, method):
                ask = getattr(clone(machine), method)
                yield f"{method}({name})", lambda X=X, a=ask: a(X, y), says
    for name, target, says in bad_targets(not is_classifier(machine)):
        if machine.__sklearn_tags__().target_tags.required:
            yield (
                f"fit(X, {name})",
                lambda t=target: clone(machine).fit(POINTS, t),
                says,
            )
    if hasattr(fitted, "score") and (is_classifier(machine) or is_regressor(machine)):
        for name, target, says in bad_targets(not is_classifier(machine)):
            yield f"score(X, {name})", lambda t=target: fitted.score(POINTS, t), says
        yield "score(X, None)", lambda: fitted.score(POINTS, None), "y.*None"
        yield "score(X, 1.0)", lambda: fitted.score(POINTS, 1.0), "y.*float"
        for name, weight, says in bad_weights():
            yield (
                f"score({name})",
                lambda w=weight: fitted.score(POINTS, y, sample_weight=w),
                says,
            )
    if takes_weights(machine):
        for name, weight, says in bad_weights():
            ask = clone(machine).fit
            yield (
                f"fit({name})",
                lambda w=weight, a=ask: a(POINTS, y, sample_weight=w),
                says,
            )


def takes_weights(machine) -> bool:
    return "sample_weight" in inspect.signature(type(machine).fit).parameters


def main(part: int, parts: int) -> None:
    warnings.simplefilter("ignore")
    for entry in (catalog.machines + catalog.window_machines)[part::parts]:
        machine = entry.values[0]
        for what, ask, says in cells(machine):
            print(f"begin {type(machine).__name__}.{what}", flush=True)
            try:
                outcome = f"returned {type(ask()).__name__}"
            except (ValueError, TypeError) as error:
                found = re.search(says, str(error))
                outcome = "ok" if found else f"said {type(error).__name__}: {error}"
            except BaseException as error:
                outcome = f"raised {type(error).__name__}: {error}"
            print(f"end {outcome!r}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
