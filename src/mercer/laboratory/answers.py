"""Which function answers which route, and how its request is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from mercer.laboratory import (
    catalog,
    code,
    course,
    datasets,
    figure_code,
    figures,
    fits,
    formulas,
    pasting,
    step_code,
    steps,
    structures,
    views,
)
from mercer.laboratory.fields import MOST_BYTES, Fields
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.offers import MOST_POINTS
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import REQUEST, State, read_points, read_state

CLIENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
LATEST = 2**53 - 1  # number of a request
SEEDS = 2**32 - 1
MANY_POINTS = 1000  # from which on a fit takes much memory
C_ENDS = (1e-3, 1e4)  # of a path, where no others are asked for


class Made(NamedTuple):
    """A request that was read.

    Attributes
    ----------
    client : whose it is; None where that is not said
    compute : makes the answer
    plain : whether the answer is JSON alone
    heavy : whether it takes much memory
    """

    client: str | None
    compute: Callable[[Job], Answer]
    plain: bool = False
    heavy: bool = False


def client_of(fields: Fields) -> str | None:
    """The name of the page that asks; None where it has none."""
    fields.whole("request", 0, LATEST, default=0)
    if not fields.has("client"):
        return None
    name = fields.text("client", 64)
    if CLIENT.fullmatch(name) is None:
        fields.refuse("client", "needs letters, digits, _ and - only")
    return name


# Lists


def _catalog(path: dict[str, str], query: dict[str, str]) -> Any:
    _check_query(query, ())
    return catalog.catalog()


def _course(path: dict[str, str], query: dict[str, str]) -> Any:
    _check_query(query, ())
    return course.course()


def _dataset(path: dict[str, str], query: dict[str, str]) -> Any:
    _check_query(query, ("n", "seed"))
    name = path["name"]
    if name not in datasets.DATASETS:
        raise Refusal(
            f"There is no data set {name[:40]!r}; there are "
            f"{', '.join(datasets.DATASETS)}.",
            status=404,
            code="not_found",
        )
    n = _whole(query, "n", 2, MOST_POINTS)
    return datasets.dataset_state(name, n, _whole(query, "seed", 0, SEEDS) or 0)


def _check_query(query: dict[str, str], known: tuple[str, ...]) -> None:
    for name in query:
        if name not in known:
            raise Refusal(f"The address has no parameter {name[:40]!r}.", code="field")


def _whole(query: dict[str, str], name: str, low: int, high: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    plain = text.isascii() and text.isdecimal() and len(text) <= 10
    if not plain or not low <= int(text) <= high:
        raise Refusal(
            f"{name} needs a whole number from {low} to {high}; got {text[:40]!r}.",
            code="field",
            field=f"/{name}",
        )
    return int(text)


# Computations


def _of_state(
    compute: Callable[[State, Job], Answer], least: int = 1
) -> Callable[[Any], Made]:
    """A route whose request is a state and no more."""

    def read(value: Any) -> Made:
        fields = Fields(value, REQUEST)
        client, state = client_of(fields), read_state(fields, least)
        heavy = len(state.points) > MANY_POINTS
        return Made(client, lambda job: compute(state, job), heavy=heavy)

    return read


def _paste(value: Any) -> Made:
    text = Fields(value, ("text",)).text("text", MOST_BYTES)
    return Made(None, lambda job: Answer(pasting.points_in(text), {}), plain=True)


def _kernel(value: Any) -> Made:
    fields = Fields(value, ("kernel", "set", "points", "kind", "client", "request"))
    client = client_of(fields)
    kind = fields.choice("kind", formulas.KINDS, default="vectors")
    kernel = formulas.read_kernel(fields, kind)
    X = np.empty((0, 2))
    if fields.has("points"):
        X, _ = read_points(fields, least=0)

    def compute(job: Job) -> Answer:
        return Answer(formulas.known_of(kernel, kind, X), {})

    return Made(client, compute, plain=True)


def _path(value: Any) -> Made:
    fields = Fields(value, (*REQUEST, "frames", "C"))
    client, state = client_of(fields), read_state(fields, 2)
    frames = fields.whole("frames", 2, views.MOST_FRAMES, default=40)
    ends = fields.pair("C", 1e-9, 1e9) if fields.has("C") else C_ENDS
    if not ends[0] < ends[1]:
        fields.refuse("C", "needs low < high")
    return Made(client, lambda job: views.path(state, job, frames, ends))


_STEPS = (*REQUEST, "algorithm", "most", "seed", "quadratic")


def _run(fields: Fields) -> steps.Run:
    """The run of an algorithm that is asked for."""
    algorithm = fields.choice("algorithm", steps.ALGORITHMS)
    most = fields.whole("most", 1, steps.MOST, default=200)
    seed = fields.whole("seed", 0, SEEDS, default=0)
    hill = steps.read_hill(fields)
    return steps.Run(algorithm, read_state(fields, 0 if hill else 2), most, seed, hill)


def _steps(value: Any) -> Made:
    fields = Fields(value, _STEPS)
    client, run = client_of(fields), _run(fields)
    return Made(client, run.record)


_STRUCTURES = ("kind", "items", "kernel", "set", "machine", "client", "request")


def _structures(value: Any) -> Made:
    fields = Fields(value, _STRUCTURES)
    client, given = client_of(fields), structures.read_structures(fields)
    return Made(client, lambda job: structures.structures(given, job))


def _match(value: Any) -> Made:
    known = ("kind", "left", "right", "kernel", "set", "client", "request")
    fields = Fields(value, known)
    client = client_of(fields)
    kind = fields.choice("kind", structures.KINDS)
    left, right = (structures.read_item(fields, n, kind) for n in ("left", "right"))
    kernel = formulas.read_kernel(fields, kind)
    return Made(client, lambda job: structures.match(left, right, kernel, job))


_FIGURE = ("name", "state", "client", "request")


def _figure_of(fields: Fields) -> tuple[str, State | None]:
    """The name of a figure, and the state of those that need one."""
    name = fields.choice("name", figures.FIGURES)
    if name in figures.PLAIN:
        return name, None
    return name, read_state(fields.inner("state", REQUEST))


def _figure(value: Any) -> Made:
    fields = Fields(value, _FIGURE)
    client, (name, state) = client_of(fields), _figure_of(fields)
    if state is None:
        return Made(client, figures.PLAIN[name])
    return Made(client, lambda job: figures.OF_STATE[name](state, job))


def _code(value: Any) -> Made:
    known = ("state", "duality", "structures", "figure", "steps")
    fields = Fields(value, known)
    if sum(fields.has(name) for name in known) != 1:
        fields.refuse("", "needs one of state, duality, structures, figure and steps")
    if fields.has("figure"):
        name, state = _figure_of(fields.inner("figure", _FIGURE))
        return Made(
            None, lambda job: figure_code.code_of_figure(name, state, job), plain=True
        )
    if fields.has("steps"):
        run = _run(fields.inner("steps", _STEPS))
        return Made(None, lambda job: step_code.code_of_steps(run, job), plain=True)
    for part, code_of in (
        ("state", code.code_of_state),
        ("duality", code.code_of_duality),
    ):
        if fields.has(part):
            shown = read_state(fields.inner(part, REQUEST))
            heavy = len(shown.points) > MANY_POINTS
            return Made(None, partial(code_of, shown), True, heavy)
    given = structures.read_structures(fields.inner("structures", _STRUCTURES))
    return Made(None, lambda job: code.code_of_structures(given, job), plain=True)


LISTS: dict[str, Callable[..., Any]] = {
    "catalog": _catalog,
    "course": _course,
    "datasets/{name}": _dataset,
}
JOBS: dict[str, Callable[[Any], Made]] = {
    "paste": _paste,
    "kernel": _kernel,
    "fit": _of_state(fits.fit),
    "bounds": _of_state(views.bounds, 2),
    "gram": _of_state(views.gram),
    "features": _of_state(views.features),
    "gap": _of_state(views.gap, 2),
    "path": _path,
    "steps": _steps,
    "structures": _structures,
    "match": _match,
    "figure": _figure,
    "code": _code,
}
