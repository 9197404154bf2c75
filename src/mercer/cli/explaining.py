"""`mercer explain`: what f(x) is made of, as a table, as JSON, or as a page."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from mercer import _html
from mercer.cli.live import Console
from mercer.cli.pictures import both_looks
from mercer.cli.report import framed
from mercer.cli.settings import read_for
from mercer.data.points import take
from mercer.explanations.explaining import explain
from mercer.explanations.explanation import Explanation, parts_of
from mercer.io.models import load


def run(options: argparse.Namespace) -> int:
    """Print, or write, the explanations of some points."""
    console = Console(options)
    machine = load(options.model)
    points = read_for(machine, options.data, options).points
    columns = _columns(machine, points)
    if isinstance(machine, Pipeline):  # whose last step sees what the others made
        points, machine = machine[:-1].transform(points), machine[-1]
    function = options.function
    if function is not None and function.isdecimal():
        function = int(function)
    some = take(points, slice(0, options.points))
    found = explain(
        machine,
        some,
        by=options.by,
        n=options.parts,
        output=function,
        columns=columns,
    )
    shown = []
    for i, one in enumerate(found):
        for explanation in parts_of([one]):
            console.line(f"point {i}: {explanation}")
            console.line()
            shown.append({"point": i} | as_object(explanation))
    if options.html:
        page = _page(found, f"{options.model} on {options.data}")
        Path(options.html).write_text(page, encoding="utf-8")
        console.rows([("written", options.html)])
    console.tell(model=options.model, explanations=shown)
    console.end()
    return 0


def _columns(machine: Any, points: Any) -> list[str] | None:
    """The names of columns that the model was trained on, where points are vectors."""
    names = (getattr(machine, "data_layout_", None) or {}).get("names") or []
    vectors = isinstance(points, np.ndarray) and points.ndim == 2
    return list(names) if vectors and len(names) == points.shape[1] else None


def as_object(explanation: Explanation) -> dict[str, Any]:
    """An explanation for programs."""
    return {
        "function": explanation.output,
        "by": explanation.by,
        "total": explanation.total,
        "bias": explanation.bias,
        "parts": [
            {
                "name": part.name,
                "value": part.value,
                "places": [list(place.items) for place in part.places],
            }
            for part in explanation.parts
        ],
    }


def _page(found: list[Any], title: str) -> str:
    body = [f"<h1>{_html.escaped(title)}</h1>"]
    for i, one in enumerate(found):
        body.append(f"<h2>point {i}</h2>")
        for explanation in parts_of([one]):
            picture = both_looks(_draw(explanation), f"point {i}")
            body += [] if picture is None else [f"<figure>{picture[1]}</figure>"]
            body.append(explanation._repr_html_())
    return framed(title, "\n".join(body))


def _draw(explanation: Explanation) -> Callable[[Any], Any]:
    return lambda plots: plots.plot_explanation(explanation)
