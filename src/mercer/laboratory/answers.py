"""Which function answers which route, and how its request is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer.laboratory import catalog, fits, formulas
from mercer.laboratory.fields import Fields
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.state import REQUEST, read_points, read_state

CLIENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
LATEST = 2**53 - 1  # number of a request


class Made(NamedTuple):
    """A request that was read.

    Parameters
    ----------
    client : whose it is; None where that is not said
    compute : makes the answer
    plain : whether the answer is JSON alone
    """

    client: str | None
    compute: Callable[[Job], Answer]
    plain: bool = False


def client_of(fields: Fields) -> str | None:
    """The name of the page that asks; None where it has none."""
    fields.whole("request", 0, LATEST, default=0)
    if not fields.has("client"):
        return None
    name = fields.text("client", 64)
    if CLIENT.fullmatch(name) is None:
        fields.refuse("client", "needs letters, digits, _ and - only")
    return name


def _fit(value: Any) -> Made:
    fields = Fields(value, REQUEST)
    client, state = client_of(fields), read_state(fields)
    return Made(client, lambda job: fits.fit(state, job))


def _kernel(value: Any) -> Made:
    known = ("kernel", "set", "points", "kind", "client", "request")
    fields = Fields(value, known)
    client = client_of(fields)
    kind = fields.choice("kind", formulas.KINDS, default="vectors")
    kernel = formulas.read_kernel(fields, kind)
    X = np.empty((0, 2))
    if fields.has("points"):
        X, _ = read_points(fields, least=0)
    def compute(job: Job) -> Answer:
        return Answer(formulas.known_of(kernel, kind, X), {})

    return Made(client, compute, plain=True)


LISTS: dict[str, Callable[..., Any]] = {
    "catalog": catalog.catalog,
}
JOBS: dict[str, Callable[[Any], Made]] = {"fit": _fit, "kernel": _kernel}
