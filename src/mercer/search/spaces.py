"""What a search tries: candidates from grids, lists of kernels and distributions.

Without a space, kernels that suit the points and a few values of what else the machine
is tuned by; the widths of kernels on vectors come from the points.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline

from mercer.data.checks import brief
from mercer.data.frames import is_frame
from mercer.data.graphs import Graph
from mercer.data.points import Points, as_points, count, each, take
from mercer.data.trees import Tree
from mercer.io.dataset import record_kernel
from mercer.kernels.algebra import Normalized
from mercer.kernels.base import Kernel
from mercer.kernels.graph import ShortestPath, WeisfeilerLehman
from mercer.kernels.radial import RBF, Matern
from mercer.kernels.string import Subsequence, WeightedDegree
from mercer.kernels.substring import Spectrum
from mercer.kernels.tree import SubsetTree, Subtree
from mercer.kernels.vector import Linear, Polynomial
from mercer.machines.estimator import KernelEstimator
from mercer.machines.words import WORDS
from mercer.native.sorting import distinct

SAMPLE = 500  # points whose distances set the widths of kernels
FACTORS = (1 / 16, 1 / 4, 1.0, 4.0)  # of the middle width γ = 1 / median ‖x - y‖²
SHORT = 200  # letters of strings that gap-weighted subsequences are quick on
# What a machine is tuned by beside its kernel, where it has such a parameter.
NUMBERS: dict[str, tuple[float, ...]] = {
    "C": (0.1, 1.0, 10.0, 100.0),
    "nu": (0.05, 0.1, 0.2, 0.4),
    "alpha": (1e-3, 1e-2, 1e-1, 1.0),
    "reg": (1e-4, 1e-3, 1e-2, 1e-1),
    "n_neighbors": (1, 3, 5, 9, 15),
}

Space = Mapping[str, Any] | Sequence[Any] | None


def candidates_of(
    machine: Any, space: Space, X: Points, n_iter: int | None, random_state: Any
) -> list[dict[str, Any]]:
    """The parameters to try, in the order of scikit-learn's grids and samples."""
    if space is None:
        grids: Any = sensible_space(machine, X)
    else:
        grids = _as_grids(space)
    _check_names(machine, grids)
    drawn = any(hasattr(values, "rvs") for grid in grids for values in grid.values())
    if drawn and n_iter is None:
        raise ValueError(
            "KernelSearchCV draws from distributions as often as n_iter says; got a "
            "space with distributions and n_iter=None. Pass n_iter=20, say."
        )
    if n_iter is not None:
        return list(ParameterSampler(grids, n_iter, random_state=random_state))
    return list(ParameterGrid(grids))


def _as_grids(space: Any) -> list[dict[str, Any]]:
    """A space as scikit-learn's list of grids; a list of kernels is one of them."""
    if isinstance(space, Mapping):
        grids = [dict(space)]
    elif isinstance(space, Kernel | str) or not isinstance(space, Iterable):
        raise TypeError(
            "KernelSearchCV needs space as a dict of parameters and their values, a "
            f"list of such, a list of kernels, or None; got {brief(space)}."
        )
    else:
        listed = list(space)
        kernels = [one for one in listed if _is_kernel(one)]
        grids = [dict(one) for one in listed if isinstance(one, Mapping)]
        if len(kernels) + len(grids) < len(listed):
            odd = next(one for one in listed if not (_is_kernel(one) or one in grids))
            raise TypeError(
                "KernelSearchCV needs a list of kernels, or of dicts of parameters; "
                f"got {brief(odd)} in it."
            )
        grids += [{"kernel": kernels}] if kernels else []
    if not grids or any(not grid for grid in grids):
        raise ValueError(
            "KernelSearchCV needs a space with something to try; got an empty one. "
            "Pass None for a sensible one."
        )
    return [
        {name: _as_values(name, values) for name, values in grid.items()}
        for grid in grids
    ]


def _is_kernel(value: Any) -> bool:
    return isinstance(value, Kernel) or (isinstance(value, str) and value in WORDS)


def _as_values(name: str, values: Any) -> Any:
    """The values of a parameter, a list of at least one, or a distribution."""
    if hasattr(values, "rvs"):
        return values
    if isinstance(values, str | Kernel) or not isinstance(
        values, Sequence | np.ndarray
    ):
        raise TypeError(
            f"KernelSearchCV needs the values of {name!r} as a list, or as a "
            f"distribution with the method rvs; got {brief(values)}. Write "
            f"[{brief(values)}]."
        )
    if len(values) == 0:
        raise ValueError(
            f"KernelSearchCV needs at least one value of {name!r}; got an empty list. "
            "Leave it out to keep what the machine has."
        )
    return values


def _check_names(machine: Any, grids: Sequence[Mapping[str, Any]]) -> None:
    """Refuse parameters that the machine, or every kernel to be tried, has not."""
    known = set(machine.get_params(deep=True))
    for grid in grids:
        # A parameter of a part is known once that part is what it is set to.
        for name in grid:
            first = name.partition("__")[0]
            inside = first != name and any(
                other != name and name.startswith(other) for other in grid
            )
            if name in known or (inside and first in known):
                continue
            near = [one for one in known if one.lower() == name.lower()]
            near = near or difflib.get_close_matches(name, sorted(known), 1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"{type(machine).__name__} has no parameter {name!r} to search over."
                f"{meant} Its parameters: {', '.join(sorted(known))}."
            )


# Without a space


def sensible_space(machine: Any, X: Points) -> list[dict[str, Any]]:
    """Kernels for such points, and a few values of what else is tuned.

    A kernel that the machine was given as an object stays; so does every parameter
    of a machine inside a pipeline but those listed in `NUMBERS`.
    """
    name, inner = "", machine
    if isinstance(machine, Pipeline):
        last, inner = machine.steps[-1]
        name = f"{last}__"
    if not isinstance(inner, KernelEstimator):
        raise TypeError(
            "KernelSearchCV has a space of its own for machines of mercer, and for "
            f"pipelines that end with one; got {type(inner).__name__}. Pass space="
            '{"parameter": [values]}.'
        )
    known = inner.get_params(deep=False)
    grid: dict[str, Any] = {
        name + number: list(values)
        for number, values in NUMBERS.items()
        if number in known
    }
    if "kernel" in known and not isinstance(inner.kernel, Kernel):
        if not inner._precomputed:
            points = as_points(X)
            vectors_before = isinstance(machine, Pipeline)
            grid[f"{name}kernel"] = (
                _after_steps() if vectors_before else kernels_for(points)
            )
    if not grid:
        raise ValueError(
            f"KernelSearchCV knows nothing to vary in {type(inner).__name__} with the "
            f"kernel {brief(inner.kernel)}. Pass a space."
        )
    return [grid]


def _after_steps() -> list[Kernel]:
    """For vectors that are not known before a fit: of widths learnt in each fold."""
    return [Linear(), Polynomial(2), Polynomial(3), RBF(), Matern(1.5)]


def kernels_for(X: Points) -> list[Kernel]:
    """Kernels that compare such points, from plain to rich."""
    if is_frame(X) or isinstance(X, np.ndarray) or sp.issparse(X):
        return _for_table(X)
    first = X[0]
    if isinstance(first, Tree):
        decays = (0.1, 0.2, 0.4, 0.8)
        return [
            Normalized(Subtree()),
            *(Normalized(SubsetTree(decay)) for decay in decays),
        ]
    if isinstance(first, Graph):
        depths = (0, 1, 2, 3, 5)
        return [
            *(Normalized(WeisfeilerLehman(depth)) for depth in depths),
            Normalized(ShortestPath()),
        ]
    if isinstance(first, dict):
        return _for_records(X)
    if isinstance(first, str) or (
        isinstance(first, list | tuple) and any(isinstance(part, str) for part in first)
    ):
        return _for_strings(X)
    return _for_vectors(X)


def _for_table(X: Any) -> list[Kernel]:
    if is_frame(X):
        rows = each(take(X, slice(0, SAMPLE)))
        if any(isinstance(value, str) for row in rows for value in row.values()):
            return _for_records(rows)
    elif getattr(X, "dtype", None) is not None and X.dtype.kind in "OUS":
        first = np.ravel(X)[0] if X.ndim == 1 else X[0]
        if isinstance(first, str) or X.ndim == 1:
            return kernels_for(list(X))
    return _for_vectors(X)


def _for_vectors(X: Any) -> list[Kernel]:
    """Linear, polynomial, and Gaussians and Matérn of widths from the points."""
    gamma = middle_width(X)
    # ‖x - y‖ at which a Matérn has fallen as a Gaussian has: its scale is a length.
    length = float(1 / np.sqrt(gamma))
    return [
        Linear(),
        Polynomial(2),
        Polynomial(3),
        *(RBF(_rounded(factor * gamma)) for factor in FACTORS),
        *(Matern(1.5, _rounded(factor * length)) for factor in (0.5, 1.0, 2.0)),
    ]


def _rounded(number: float) -> float:
    """Three digits, as people write a width."""
    return float(f"{number:.3g}")


def middle_width(X: Any) -> float:
    """γ = 1 / median ‖x - y‖² over some of the points; 1 where they are all equal."""
    n = count(X)
    some = distinct(np.linspace(0, n - 1, min(n, SAMPLE)).astype(int))
    squares = Linear().sqdist(take(as_points(X), some))
    above = squares[np.triu_indices(len(some), 1)]
    above = above[above > 0]
    return float(1 / np.median(above)) if len(above) else 1.0


def _for_strings(X: Sequence[Any]) -> list[Kernel]:
    lengths = [len(x) for x in X]
    kernels: list[Kernel] = [Normalized(Spectrum(k)) for k in (1, 2, 3, 4, 5, 6)]
    if len(set(lengths)) == 1 and 2 <= lengths[0] <= 2000:
        depths = [depth for depth in (2, 4, 6, 8) if depth <= lengths[0]]
        kernels += [Normalized(WeightedDegree(depth)) for depth in depths]
    if np.mean(lengths) <= SHORT:
        kernels += [
            Normalized(Subsequence(k, decay)) for k in (2, 3) for decay in (0.5, 0.8)
        ]
    return kernels


def _for_records(rows: Sequence[Mapping[str, Any]]) -> list[Kernel]:
    """Sums over the columns, and products of them: columns that act together."""
    some = rows[:SAMPLE]
    types = {name: _type_of([row.get(name) for row in some]) for name in rows[0]}
    base = record_kernel(types)
    return [base, base * base, base + base * base]


def _type_of(values: Sequence[Any]) -> str:
    """What a column holds: numbers, words that come again, or text."""
    texts = [value for value in values if isinstance(value, str)]
    if not texts:
        return "numbers"
    return "words" if len(set(texts)) <= max(2, len(texts) // 10) else "text"
