"""The report of a training: lines, an object for programs, and a page of HTML.

The page is one file: its style and its pictures are inside, it loads nothing, and it is
light or dark as the reader's system is.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mercer.cli import pictures
from mercer.cli.live import seconds_text
from mercer.cli.scores import Scores
from mercer.cli.settings import description, target_text
from mercer.io.dataset import Dataset
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import version
from mercer.outcomes import Progress, Run
from mercer.planning import Plan

MOST_CLASSES = 40  # of a confusion matrix that is shown


@dataclass(frozen=True, eq=False)
class Trained:
    """A machine, with all that its report says."""

    machine: Any
    data: Dataset
    plan: Plan | None
    history: Sequence[Progress]
    seconds: float
    iterations: int
    run: Run
    path: str = ""
    scale: str = "none"
    training: Scores | None = None
    validation: Scores | None = None
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def kernel(self) -> Kernel | None:
        return kernel_of_fit(self.machine)

    @property
    def support(self) -> int | None:
        """How many support vectors there are, where that is a number to tell."""
        found = getattr(self.machine, "support_", None)
        return None if found is None else len(found)


def kernel_of_fit(machine: Any) -> Kernel | None:
    """The kernel of a fitted machine, with all that it learnt."""
    f = getattr(machine, "expansion_", None)
    found = getattr(f, "kernel", None) or getattr(machine, "kernel_", None)
    return found if isinstance(found, Kernel) else None


def proof_line(kernel: Kernel) -> str:
    """Why every matrix of a kernel is semidefinite, in a line."""
    lines = str(kernel.proof()).split("\n")
    rules = [line.strip("│├└─ ") for line in lines[1:]]
    verdict = {True: "positive semidefinite", False: "not a kernel", None: "not known"}
    whole = rules[0].partition(": ")[2] if len(rules) == 1 else ""
    text = whole or f"{len(rules)} rules, from {rules[-1].removeprefix('✓ ')}"
    return f"{verdict[kernel.psd]}: {text}"


def ending(made: Trained) -> str:
    """How the solver ended, in words."""
    status = made.run.status
    steps = f"{made.iterations:,} steps" if made.iterations else ""
    spent = ", ".join(filter(None, [steps, seconds_text(made.seconds)]))
    if status.at_the_end:
        return f"{status}: {spent}"
    return f"{status} before its end: {spent}. {status.advice}".strip()


def certificate_text(machine: Any) -> str | None:
    """The certificate in a line; None for a machine without one."""
    found = getattr(machine, "certificate_", None)
    if found is None:
        return None
    if np.isnan(found.gap):
        return f"violation {found.violation:.3g}; no gap is claimed"
    scale = max(abs(found.primal), 1e-300)
    return (
        f"{found.dual:.6g} ≤ optimum ≤ {found.primal:.6g}, gap {found.gap:.3g} "
        f"({found.gap / scale:.2g} of it), violation {found.violation:.3g}"
    )


def lines(made: Trained) -> list[tuple[str, str]]:
    """What people read in the terminal."""
    rows = [("machine", parameters_text(made.machine))]
    if made.kernel is not None:
        rows.append(("kernel", f"{made.kernel!r:.300}"))
        rows.append(("proof", proof_line(made.kernel)))
    rows.append(("solver", ending(made)))
    if text := certificate_text(made.machine):
        rows.append(("certificate", text))
    if made.support is not None:
        rows.append(("support", f"{made.support:,} of {len(made.data):,} points"))
    if made.training is not None:
        rows.append(("training", made.training.text()))
    if made.validation is not None:
        rows.append(("validation", made.validation.text()))
    return rows


def parameters_text(machine: Any) -> str:
    """The machine with the parameters that differ from their defaults."""
    defaults = type(machine)().get_params(deep=False)
    known = machine.get_params(deep=False)
    changed = [
        f"{name}={value!r:.80}"
        for name, value in known.items()
        if name != "kernel" and repr(value) != repr(defaults[name])
    ]
    return f"{type(machine).__name__}({', '.join(changed)})"


def as_object(made: Trained) -> dict[str, Any]:
    """What programs are told."""
    found: dict[str, Any] = {
        "data": {
            "path": made.path,
            "points": len(made.data),
            "kind": made.data.kind,
            "notes": list(made.data.notes),
        },
        "machine": type(made.machine).__name__,
        "parameters": {
            name: value if isinstance(value, bool | int | float) else repr(value)
            for name, value in made.machine.get_params(deep=False).items()
        },
        "kernel": repr(made.kernel),
        "psd": None if made.kernel is None else made.kernel.psd,
        "status": str(made.run.status),
        "seconds": made.seconds,
        "iterations": made.iterations,
        "support_vectors": made.support,
    }
    certificate = getattr(made.machine, "certificate_", None)
    if certificate is not None:
        found["certificate"] = {
            name: getattr(certificate, name)
            for name in ("primal", "dual", "gap", "violation")
        }
    if made.plan is not None:
        found["plan"] = {
            "road": made.plan.road,
            "seconds": made.plan.seconds,
            "memory": made.plan.memory,
        }
    if made.training is not None:
        found["training"] = made.training.as_object()
    if made.validation is not None:
        found["validation"] = made.validation.as_object()
    return found


# The page

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2230; --soft: #5a6375; --paper: #ffffff;
  --card: #f5f6f9; --rule: #d9dde6; --accent: #2563b8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9f0; --soft: #a2abbd;
  --paper: #14171d; --card: #1d222b; --rule: #353c4a; --accent: #7fb2ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); }
code, pre { font: .88em/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }
code { overflow-wrap: anywhere; }
pre { background: var(--card); padding: .8rem 1rem; border-radius: .5rem;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0; }
.cards { display: grid; gap: .8rem; margin: 1.3rem 0;
  grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); }
.card { background: var(--card); border-radius: .6rem; padding: .8rem 1rem; }
.card b { display: block; font-size: 1.45rem; color: var(--accent); }
table { border-collapse: collapse; } td, th { padding: .25rem .7rem .25rem 0;
  text-align: left; vertical-align: top; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; white-space: nowrap; }
.matrix td, .matrix th { text-align: right; border: 0; padding: .2rem .55rem;
  font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(25rem, 100%), 1fr)); }
figure { margin: 0; background: var(--card); border-radius: .6rem; padding: .8rem; }
figure img, figure svg { display: block; width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .5rem; }
"""


def write_page(made: Trained, path: str) -> None:
    """Write the page."""
    Path(path).write_text(page(made), encoding="utf-8")


def page(made: Trained) -> str:
    """The report as one page of HTML."""
    name = type(made.machine).__name__
    title = f"{name} on {Path(made.path).name}"
    parts = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="soft">{_text(description(made.data))}. '
        f"mercer {_text(version())}.</p>",
        _cards(made),
        _section("Problem", _table(_problem(made))),
        _section("Kernel", _kernel(made)),
        _section("Certificate", _certificate(made)),
        _scores(made),
        _pictures(made),
    ]
    if made.plan is not None:
        parts.append(_section("Plan", made.plan._repr_html_()))
    return framed(title, "\n".join(filter(None, parts)))


def framed(title: str, body: str) -> str:
    """A page of HTML with this body."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def _text(content: object) -> str:
    return html.escape(str(content))


def _section(title: str, body: str) -> str:
    return f"<section><h2>{_text(title)}</h2>{body}</section>" if body else ""


def _table(rows: Sequence[tuple[str, object]]) -> str:
    cells = "".join(
        f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>"
        for name, value in rows
    )
    return f'<div class="scroll"><table>{cells}</table></div>'


def _cards(made: Trained) -> str:
    cards: list[tuple[str, str]] = []
    for scores, words in ((made.validation, "cross-validated"), (made.training, "")):
        if scores is not None:
            name, value = next(iter(scores.numbers.items()))
            cards.append((f"{value:.2%}" if name != "R2" else f"{value:.4f}",
                          f"{name}, {words or 'on the training data'}"))  # fmt: skip
    if made.support is not None:
        cards.append((f"{made.support:,}", "support vectors"))
    found = getattr(made.machine, "certificate_", None)
    if found is not None and not np.isnan(found.gap):
        share = found.gap / max(abs(found.primal), 1e-300)
        cards.append((f"{share:.2g}", "of the objective, at most, above its optimum"))
    cards.append((seconds_text(made.seconds), "of training"))
    body = "".join(
        f'<div class="card"><b>{_text(value)}</b>{_text(words)}</div>'
        for value, words in cards
    )
    return f'<div class="cards">{body}</div>'


def _problem(made: Trained) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        ("data", made.path),
        ("points", description(made.data)),
    ]
    if made.data.target is not None:
        classes = made.training is not None and made.training.classes is not None
        task = "classification" if classes else "regression"
        rows.append(("target", target_text(made.data, task)))
    if made.scale != "none":
        rows.append(("columns", f"scaled: {made.scale}"))
    rows += [("note", note) for note in made.data.notes]
    rows.append(("machine", parameters_text(made.machine)))
    rows.append(("solver", ending(made)))
    return rows


def _kernel(made: Trained) -> str:
    if made.kernel is None:
        return ""
    proof = _text(made.kernel.proof()) if len(repr(made.kernel)) < 2000 else ""
    return (
        f"<p><code>{_text(f'{made.kernel!r:.2000}')}</code></p>"
        f"<pre>{proof or _text(proof_line(made.kernel))}</pre>"
    )


def _certificate(made: Trained) -> str:
    found = getattr(made.machine, "certificate_", None)
    if found is None:
        return ""
    text = certificate_text(made.machine)
    return f"<p>{_text(text)}.</p>{found._repr_html_()}"


def _scores(made: Trained) -> str:
    parts = []
    for scores, words in (
        (made.validation, "by cross-validation"),
        (made.training, "on the training data"),
    ):
        if scores is None:
            continue
        parts.append(f"<p>{_text(words.capitalize())}: {_text(scores.text())}.</p>")
        if scores.confusion is not None and len(scores.confusion) <= MOST_CLASSES:
            parts.append(_confusion(scores))
    return _section("Scores", "".join(parts))


def _confusion(scores: Scores) -> str:
    """The counts of a confusion matrix, the darker the more of their row."""
    assert scores.confusion is not None and scores.classes is not None
    head = "".join(f"<th>{_text(name)}</th>" for name in scores.classes)
    rows = []
    for name, counts in zip(scores.classes, scores.confusion, strict=True):
        total = max(int(counts.sum()), 1)
        cells = "".join(
            f'<td style="background:color-mix(in srgb, var(--accent) '
            f'{60 * count / total:.0f}%, transparent)">{count or ""}</td>'
            for count in counts.tolist()
        )
        rows.append(f"<tr><th>{_text(name)}</th>{cells}</tr>")
    return (
        '<div class="scroll"><table class="matrix">'
        f"<tr><th>true \\ predicted</th>{head}"
        f"</tr>{''.join(rows)}</table></div>"
    )


def _pictures(made: Trained) -> str:
    found = pictures.of(made)
    figures = "".join(
        f"<figure>{body}<figcaption>{_text(caption)}</figcaption></figure>"
        for caption, body in found
    )
    return _section("Pictures", f'<div class="pictures">{figures}</div>' * bool(found))
