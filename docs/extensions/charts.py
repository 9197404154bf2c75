"""The directive `benchmark`: a chart of docs/_data/benchmarks.json, and its table.

    ```{benchmark} svm
    :kind: lines              seconds against points; else bars of ratios
    :rows: odd/even           only the rows whose task this pattern is found in
    :peers: scikit-learn      only these bars or lines, between semicolons
    ```

The table has all rows, whatever is drawn. `benchmarks/record.py` writes the file.
"""

import json
import re
from pathlib import Path
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from matplotlib.ticker import FuncFormatter, NullFormatter
from sphinx.util.docutils import SphinxDirective

FILE = Path(__file__).resolve().parent.parent / "_data" / "benchmarks.json"
# Who has which colour of the palette in every chart.
COLOURS = {
    "mercer": "C0",
    "scikit-learn": "C1",
    "scikit-learn, randomized": "C1",
    "scikit-learn-intelex": "C2",
    "LIBSVM": "C3",
    "LIBLINEAR": "C4",
    "numpy": "C5",
    "scikit-learn, auto": "C4",
}
UNITS = {"s": "seconds", "ms": "milliseconds", "MB": "megabytes"}


def charts():
    return json.loads(FILE.read_text(encoding="utf-8"))


def peers_of(chart):
    """Who was measured beside us, in the order in which they first come."""
    named = [who for row in chart["rows"] for who in row["figures"]]
    return [who for who in dict.fromkeys(named) if who.partition(",")[0] != "mercer"]


def colour_of(who, others):
    return COLOURS.get(who) or f"C{1 + others.index(who) % 6}"


def ratio_of(row, who):
    """How many times ours; older rows state it, as their figures are rounded."""
    stated = row.get("ratios", {}).get(who)
    return stated or row["figures"][who] / row["figures"]["mercer"]


def bars(name, rows="", peers=None):
    """How many times ours a peer's figure is, for each task; returns the Axes."""
    chart = charts()[name]
    peers = peers or peers_of(chart)
    tasks = [row for row in chart["rows"] if re.search(rows, row["task"])]
    tasks = [row for row in tasks if set(peers) & set(row["figures"])]
    seen = [who for who in peers if any(who in row["figures"] for row in tasks)]
    # Where each task has another peer, its name stands at the bar.
    alone = len(seen) > 2 and all(len(set(row["figures"])) == 2 for row in tasks)
    between = 0.12 if alone else 0.2
    height = sum(between + 0.24 * len(set(seen) & set(row["figures"])) for row in tasks)
    _, ax = plt.subplots(figsize=(7.4, 1.1 + height))
    at, places, largest = 0.0, [], 1.0
    for row in tasks:
        start = at
        for who in seen:
            if who in row["figures"]:
                ratio = ratio_of(row, who)
                colour = "C0" if alone else colour_of(who, peers_of(chart))
                label = f"{ratio:.{ratio < 9.95:d}f}×" + f" {who}" * alone
                ax.barh(at, ratio - 1, height=0.24, left=1, color=colour)
                ax.text(max(ratio, 1) * 1.06, at, label, va="center", fontsize=9)
                largest = max(largest, ratio)
                at += 0.24
        places.append((start + at - 0.24) / 2)
        at += between
    ax.set(
        xscale="log",
        xlim=(None, largest * (9 if alone else 1.9)),
        ylim=(at - 0.1, -0.3),
    )
    ax.set_yticks(places, [row["task"] for row in tasks], fontsize=9.5)
    of = {"MB": "memory"}.get(chart["unit"], "time")
    ax.set_xlabel(f"how many times the {of} of mercer others take", fontsize=10)
    _tidy(ax, ax.xaxis)
    ax.axvline(1, color="0.5", lw=1.2)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    if len(seen) > 1 and not alone:
        for who in seen:
            ax.barh(0, 0, color=colour_of(who, peers_of(chart)), label=who)
        ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1), ncols=3, frameon=False,
                  fontsize=10)  # fmt: skip
    elif not alone:
        ax.set_title(f"beside {seen[0]}", fontsize=10.5)
    return ax


def lines(name, rows="", peers=None):
    """Figures against points, both in logarithms; returns the Axes."""
    chart = charts()[name]
    tasks = [row for row in chart["rows"] if re.search(rows, row["task"])]
    _, ax = plt.subplots(figsize=(6.4, 3.6))
    for who in ["mercer", *(peers or peers_of(chart))]:
        pairs = [(int(row["task"]), row["figures"].get(who)) for row in tasks]
        pairs = [pair for pair in pairs if pair[1]]
        colour = colour_of(who, peers_of(chart))
        label = f"{who}, $\\sim n^{{{exponent(pairs):.2f}}}$"
        ax.plot(*zip(*pairs, strict=True), "o-", color=colour, label=label)
        ax.annotate(f" {pairs[-1][1]:.3g}", pairs[-1], fontsize=9, va="center",
                    xytext=(4, 0), textcoords="offset points")  # fmt: skip
    points = [int(row["task"]) for row in tasks]
    ax.set(xscale="log", yscale="log", xlabel="points")
    ax.set(ylabel=UNITS[chart["unit"]], xlim=(None, max(points) * 1.25))
    ax.set_xticks(points, [f"{n:,}" for n in points])
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_minor_locator(plt.NullLocator())
    _tidy(ax, ax.yaxis)
    ax.legend(frameon=False, fontsize=10)
    return ax


def exponent(pairs):
    """p of figure ~ nᵖ, by least squares in logarithms."""
    return np.polyfit(*np.log(np.array(pairs, dtype=float)).T, 1)[0]


def _tidy(ax, axis):
    """Numbers instead of powers on a logarithmic axis, and no frame."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.4)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def table(chart):
    """The rows of a chart as a table in Markdown."""
    rows = chart["rows"]
    figures = list(dict.fromkeys(key for row in rows for key in row["figures"]))
    notes = dict.fromkeys(key for row in rows for key in row.get("notes", ()))
    lines = [f"| task | {' | '.join([*figures, *notes])} |"]
    lines.append("| --- |" + " ---: |" * (len(figures) + len(notes)))
    for row in rows:
        cells = [f"`{row['task']}`" if "(" in row["task"] else row["task"]]
        for who in figures:
            value = row["figures"].get(who)
            cell = "" if value is None else f"{value:.4g}"
            if value is not None and not who.startswith("mercer"):
                cell += f" ({ratio_of(row, who):.3g} ×)"
            cells.append(cell)
        cells += [row.get("notes", {}).get(key, "") for key in notes]
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return lines


def described(chart, kind):
    """The picture in a sentence."""
    rows, peers = chart["rows"], peers_of(chart)
    ratios = [ratio_of(row, who) for row in rows for who in peers
              if who in row["figures"]]  # fmt: skip
    shown = "Lines over the number of points" if kind == "lines" else "Bars"
    return (
        f"{shown}: {UNITS[chart['unit']]} of {', '.join(peers)} beside ours, from "
        f"{min(ratios):.2g} to {max(ratios):.3g} times ours."
    )


class Benchmark(SphinxDirective):
    """A chart and, folded, its table with the day, the machine and the command."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = {
        "kind": directives.unchanged,
        "rows": directives.unchanged,
        "peers": directives.unchanged,
    }

    def run(self):
        name = self.arguments[0]
        self.env.note_dependency(str(FILE))
        if name not in charts():
            raise self.error(f"{FILE.name} has no chart {name!r}.")
        chart = charts()[name]
        draw = "lines" if self.options.get("kind") == "lines" else "bars"
        peers = [who.strip() for who in self.options.get("peers", "").split(";")]
        chosen = [who for who in peers if who] or None
        call = f"{draw}({name!r}, {self.options.get('rows', '')!r}, {chosen!r})"
        text = [
            "```{plot}",
            ":include-source: false",
            f":alt: {described(chart, draw)}",
            "",
            "from charts import bars, lines",
            call,
            "```",
            "",
            f":::{{dropdown}} The figures ({UNITS[chart['unit']]}, {chart['date']})",
            *table(chart),
            "",
            f"`{chart['command']}`: {chart['machine']}.",
            ":::",
        ]
        node = nodes.container()
        content = StringList(text, source=self.env.docname)
        self.state.nested_parse(content, self.content_offset, node)
        return node.children


def setup(app):
    app.add_directive("benchmark", Benchmark)
    return {"parallel_read_safe": True}
