"""The state of the plane, read from a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels.base import Kernel
from mercer.laboratory.fields import Fields, is_number, shown
from mercer.laboratory.formulas import read_kernel
from mercer.laboratory.offers import MOST_POINTS, TASKS, Offer, read_machine
from mercer.laboratory.refusals import Refusal

STATE = ("task", "points", "machine", "kernel", "set", "view")
REQUEST = (*STATE, "grid", "client", "request")
FARTHEST = 1e6  # place of a point
WIDEST = 1e7
NARROWEST = 1e-6
MOST_CLASSES = 6
MOST_COMPOSED = 2000  # points of a kernel that the compiled core does not know
GRID = (96, 96)
MOST_CELLS = 256


@dataclass(frozen=True, eq=False)
class State:
    """What is on the plane, checked.

    Parameters
    ----------
    points : (n, 2) places
    labels : (n,) whole numbers
    view : ((x low, x high), (y low, y high))
    grid : columns and rows
    """

    task: str
    points: np.ndarray
    labels: np.ndarray
    offer: Offer
    params: dict[str, Any]
    kernel: Kernel
    view: tuple[tuple[float, float], tuple[float, float]]
    grid: tuple[int, int]

    @property
    def X(self) -> np.ndarray:
        """What the machine is given: places, or in regression the inputs."""
        return self.points[:, :1] if self.task == "regress" else self.points

    @property
    def y(self) -> np.ndarray | None:
        """The targets, where the task has some."""
        if self.task == "regress":
            return self.points[:, 1]
        return self.labels if self.task == "classify" else None

    @property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """The places of columns and of rows."""
        (left, right), (low, high) = self.view
        columns, rows = self.grid
        return np.linspace(left, right, columns), np.linspace(low, high, rows)

    def cells(self) -> np.ndarray:
        """The points of the grid, row by row; in regression those of the columns."""
        across, up = self.axes
        if self.task == "regress":
            return across[:, None]
        places = np.meshgrid(across, up)
        return np.column_stack([one.ravel() for one in places])

    def with_grid(self, most: int) -> State:
        """The same on a grid of at most so many columns and rows."""
        columns, rows = self.grid
        values = vars(self) | {"grid": (min(columns, most), min(rows, most))}
        return State(**values)


def read_state(fields: Fields, least: int = 1) -> State:
    """The state of a request.

    Parameters
    ----------
    least : how many points are needed
    """
    task = fields.choice("task", TASKS)
    offer, params = read_machine(fields, task)
    points, labels = read_points(fields, least, offer)
    if least and task == "classify" and len(set(labels.tolist())) < 2:
        raise Refusal(
            "All points have one label; two classes are needed. Relabel some.",
            code="points",
            field="/points",
        )
    kernel = read_kernel(fields, "vectors")
    _check_rows(kernel, points, offer)
    return State(
        task,
        points,
        labels,
        offer,
        params,
        kernel,
        _view(fields, points),
        _grid(fields),
    )


def _check_rows(kernel: Kernel, points: np.ndarray, offer: Offer) -> None:
    """Refuse many points of a kernel whose rows take numpy, and more memory for it."""
    few = len(points) <= MOST_COMPOSED or offer.name == "ParzenDensity"
    if not few and kernel.resolve(points).native(points) is None:
        raise Refusal(
            f"This kernel takes at most {MOST_COMPOSED} points here; there are "
            f"{len(points)}. Remove some, or choose one such as RBF, Linear or "
            "Polynomial alone.",
            code="points",
            field="/points",
        )


def read_points(
    fields: Fields, least: int = 1, offer: Offer | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Places and labels."""
    given = fields.items("points", 0, MOST_POINTS)
    if len(given) < least:
        raise Refusal(
            f"There are {len(given)} points; at least {least} are needed. Place some.",
            code="points",
            field="/points",
        )
    if offer is not None and len(given) > offer.most:
        raise Refusal(
            f"{offer.title} takes at most {offer.most} points here; got {len(given)}. "
            "Remove some, or choose another machine.",
            code="points",
            field="/points",
        )
    for i, one in enumerate(given):
        if not _is_point(one):
            name = f"points/{i}"
            raise Refusal(
                f"/{name} needs [x, y, label]: two numbers of at most {FARTHEST:g}, "
                f"and a label from 0 to {MOST_CLASSES - 1}; got {shown(one)}.",
                code="points",
                field=f"/{name}",
            )
    table = np.array(given, dtype=float).reshape(len(given), 3)
    return table[:, :2].copy(), table[:, 2].astype(int)


def _is_point(one: Any) -> bool:
    if not isinstance(one, list) or len(one) != 3 or not all(map(is_number, one)):
        return False
    x, y, label = one
    whole = label == int(label) and 0 <= label < MOST_CLASSES
    return abs(x) <= FARTHEST and abs(y) <= FARTHEST and whole


def _view(
    fields: Fields, points: np.ndarray
) -> tuple[tuple[float, float], tuple[float, float]]:
    if not fields.has("view"):
        return around(points)
    inner = fields.inner("view", ("x", "y"))
    ends = []
    for name in ("x", "y"):
        low, high = inner.pair(name, -WIDEST, WIDEST)
        if not high - low >= NARROWEST:
            inner.refuse(name, f"needs low < high, {NARROWEST:g} apart")
        ends.append((low, high))
    return ends[0], ends[1]


def around(points: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """A view with all points and some room."""
    if not len(points):
        return (-1.0, 1.0), (-1.0, 1.0)
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.15 * np.maximum(high - low, 0.5)
    (left, bottom), (right, top) = (low - room).tolist(), (high + room).tolist()
    return (left, right), (bottom, top)


def _grid(fields: Fields) -> tuple[int, int]:
    if not fields.has("grid"):
        return GRID
    columns, rows = fields.pair("grid", 2, MOST_CELLS)
    if columns != int(columns) or rows != int(rows):
        fields.refuse("grid", f"needs two whole numbers; got {shown([columns, rows])}")
    return int(columns), int(rows)
