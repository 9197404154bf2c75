"""The course in the laboratory: chapters, and E1 to E20 as states of the page.

Each example is one click: it sets up the page, and asks three questions that the page
answers when something is moved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mercer.laboratory.datasets import dataset_state
from mercer.laboratory.state import around
from mercer.laboratory.structures import amino_acids, fast_food

CHAPTERS = (
    ("The kernel trick", "feature maps, the perceptron, losses, the mistake bound"),
    ("What a kernel is", "proofs, strings and trees, soft margins, SMO step by step"),
    ("Spaces of functions", "what a point becomes, and the functions it spans"),
    ("Primal and dual", "the dual perceptron, exclusive or, Lagrange's method"),
    ("Machines from kernels", "margins, slack, regression, kernel PCA"),
)


class Example(NamedTuple):
    """An example of the course.

    Attributes
    ----------
    tab : of the page: "plane", "step", "structures" or "figure"
    panel : of the plane that is opened, "slack" to draw that, or None
    """

    title: str
    chapter: int
    about: str
    tab: str
    panel: str | None
    state: Callable[[], dict[str, Any]]
    questions: tuple[str, str, str]


def _plane(name: str, n: int | None = None, **changes: Any) -> dict[str, Any]:
    return dataset_state(name, n) | changes


def _svc(C: float, **more: Any) -> dict[str, Any]:
    return {"name": "SVC", "params": {"C": C, **more}}


def _step(algorithm: str, name: str, **changes: Any) -> dict[str, Any]:
    return _plane(name, **changes) | {"algorithm": algorithm}


def _hill() -> dict[str, Any]:
    hill = {"Q": [[1, 0.75], [0.75, 1]], "linear": [0, 0], "start": [2, -2]}
    return _step("coordinate", "xor") | {"points": [], "quadratic": hill}


_PERCEPTRON = {
    "name": "KernelPerceptron",
    "params": {"fit_intercept": True, "random_state": 1},
}
_EXAMPLES = (
    Example(
        "Exclusive or", 4,
        "No line separates the four points; a plane in six coordinates does. All four "
        "are support vectors, with α = 1/8 each.",
        "figure", None, lambda: {"name": "exclusive", "state": _plane("xor")},
        (
            "Change the kernel to Linear(). What becomes of the margin and of α?",
            "Which C is small enough that α is at its bound? The tab Duality shows it.",
            "In the tab Step, the perceptron: after how many mistakes does it stop?",
        ),
    ),
    Example(
        "The disc and the ellipse", 1,
        "Inside both curves or not: two signs decide, and a line in their plane.",
        "figure", None, lambda: {"name": "signs", "state": _plane("disc")},
        (
            "Why is no point at (+1, -1)?",
            "The rule asks for y₁ + y₂ ≥ 2. Where else could the line be?",
            "In the tab Plane, which kernel separates them without these signs?",
        ),
    ),
    Example(
        "An ellipse becomes a plane", 2,
        "In the coordinates x₁², √2 x₁x₂, x₂² the ellipse is a flat cut.",
        "figure", None,
        lambda: {"name": "lift", "state": _plane("ellipse")},
        (
            "Along which direction is the plane seen as a line?",
            "Where in the picture does the centre of the ellipse lie?",
            "Which kernel has exactly these three coordinates?",
        ),
    ),
    Example(
        "One outlier", 2,
        "With a huge C the margin is hard, and a single point swings it.",
        "plane", "path", lambda: _plane("outlier"),
        (
            "Lower C to 1. How far does the line turn back?",
            "Drag the outlier along the line. When does its α stop growing?",
            "Play the path in C: at which C does the outlier begin to matter?",
        ),
    ),
    Example(
        "Losses", 1,
        "0-1, hinge, squared hinge, logistic and ε-insensitive losses over the margin.",
        "figure", None, lambda: {"name": "losses"},
        (
            "Which of the curves are above the 0-1 loss everywhere?",
            "Where does the hinge stop to punish, and why not at 0?",
            "Which loss gives points without any weight in regression?",
        ),
    ),
    Example(
        "What a point becomes", 3,
        "Every point is a function k(xᵢ, ·); f is their weighted sum.",
        "figure", None,
        lambda: {
            "name": "bumps",
            "state": _plane(
                "sinc", 12, machine={"name": "KernelRidge", "params": {"alpha": 0.1}}
            ),
        },
        (
            "What do the bumps look like for Polynomial(2)?",
            "Raise α of the ridge: do the bumps shrink or widen?",
            "Narrow the kernel. When does f fall to 0 between the points?",
        ),
    ),
    Example(
        "Coordinate ascent", 2,
        "From (2, -2), one axis at a time, down to the bottom of the valley.",
        "step", None, _hill,
        (
            "Why is every second step in the same direction?",
            "How many steps does it take until the first digit is right?",
            "What would one Newton step do here?",
        ),
    ),
    Example(
        "A step of SMO", 2,
        "Two multipliers move on the line Σ yᵢαᵢ = 0, within the box.",
        "step", None,
        lambda: _step("smo", "blobs", points=_few("blobs", 24), machine=_svc(1.0)),
        (
            "When is a step clipped, and at which corner of [L, H]?",
            "Why must two variables move and not one?",
            "Do primal and dual close the gap at every step?",
        ),
    ),
    Example(
        "Kernel PCA on three clusters", 5,
        "Eight components: the first two tell the clusters apart, the others cut them.",
        "figure", None,
        lambda: {"name": "components", "state": _plane("three-clusters")},
        (
            "Which components look inside a cluster?",
            "Halve the width of the kernel. How do the eigenvalues change?",
            "In the tab Plane, drag points away. Which eigenvalue moves most?",
        ),
    ),
    Example(
        "Handwritten digits", 2,
        "Images compared by (xᵀz)^d and by a Gaussian: the share of them that is "
        "misread.",
        "figure", None, lambda: {"name": "digits"},
        (
            "Which degree reads best, and why not the highest?",
            "How far is the Gaussian from the best degree?",
            "Which of the misread digits would you read?",
        ),
    ),
    Example(
        "Amino acids", 2,
        "Short proteins compared by their substrings: which ones tell them apart?",
        "structures", None, amino_acids,
        (
            "Which pairs of acids speak for the first class?",
            "What changes from Spectrum(2) to Spectrum(3)?",
            "Change one letter of the last sequence. When does the prediction turn?",
        ),
    ),
    Example(
        "Fast food", 2,
        "Subsequences with gaps: a, f, d stand in “fast food” at places 2, 6 and 9.",
        "structures", None, fast_food,
        (
            "What does λ do to “afd”, whose span is 8?",
            "Which words share “foo”, and what is it worth?",
            "Type your own words. When are they taken for food?",
        ),
    ),
    Example(
        "Regression on powers", 2,
        "A line in the coordinates 1, x, x², x³ is a cubic curve.",
        "plane", None, lambda: _plane("powers"),
        (
            "In the tab Duality: how many eigenvalues of K are not 0, and why?",
            "What happens at the edges if powers up to 9 are allowed?",
            "Raise α: towards which curve does f go?",
        ),
    ),
    Example(
        "Boundary, margin, support vectors", 5,
        "Only the points on the margin and beyond it carry the machine.",
        "plane", "dual", lambda: _plane("moons", 100),
        (
            "Delete a point without α. What changes?",
            "Compare Linear() and RBF(2): which needs fewer support vectors?",
            "Is the share of support vectors above the leave-one-out error?",
        ),
    ),
    Example(
        "Regression with a tube", 5,
        "Errors within ε are free: points inside the tube have α = 0.",
        "plane", "dual", lambda: _plane("sinc"),
        (
            "Widen ε. How many support vectors are left at 0.5?",
            "Which points are at their bound C?",
            "Drag a point out of the tube: what is its greatest pull on f?",
        ),
    ),
    Example(
        "Three separating lines", 5,
        "Many lines separate the classes; H₃ has the widest margin, 1/‖w‖, and lies "
        "|b|/‖w‖ from 0.",
        "figure", None,
        lambda: {"name": "lines", "state": _plane("line", points=_shifted("line"))},
        (
            "How many points hold H₃ in its place?",
            "In the tab Plane, move one of them away. Which point takes over?",
            "Which of the three lines depends on all points?",
        ),
    ),
    Example(
        "Slack", 5,
        "Points within the margin or beyond it pay ξ = max(0, 1 - y f(x)).",
        "plane", "slack", lambda: _plane("blobs", 60),
        (
            "Which points have ξ > 1, and what does that mean?",
            "Is every point with ξ > 0 at its bound?",
            "Lower C: does the sum of ξ grow or shrink?",
        ),
    ),
    Example(
        "PCA beside kernel PCA", 5,
        "Straight lines of constant projection for Linear(), bent ones for RBF.",
        "figure", None, lambda: {"name": "projections", "state": _plane("cloud")},
        (
            "Set the kernel to Linear(): are both pictures the same?",
            "In the tab Step: after how many components are the points rebuilt?",
            "Which γ follows the bend with its first component?",
        ),
    ),
    Example(
        "Primal and dual perceptron", 4,
        "w and the counts α: the same line, written in two ways.",
        "step", None,
        lambda: _step(
            "perceptron", "line", points=_shifted("line"), machine=_PERCEPTRON
        ),
        (
            "How is w made of the points and their counts?",
            "Is the number of mistakes below the bound R²‖w‖²?",
            "Move the classes closer. What happens to the mistakes?",
        ),
    ),
    Example(
        "A saddle", 4,
        "The largest xy with x + y = 4: the Lagrangian is level at x = y = λ = 2.",
        "figure", None, lambda: {"name": "saddle"},
        (
            "Where is L least in x for λ = 1, and is x + y = 4 there?",
            "What does λ say about a sum of 4.1 instead of 4?",
            "Why is the saddle no maximum of L?",
        ),
    ),
)  # fmt: skip


def _few(name: str, n: int) -> list[list[float]]:
    points: list[list[float]] = dataset_state(name, n)["points"]
    return points


def _shifted(name: str) -> list[list[float]]:
    """Away from 0 and nearer together, so that it takes more than one mistake."""
    return [
        [round(0.6 * x + 1.5, 4), round(0.6 * y + 1.0, 4), label]
        for x, y, label in dataset_state(name)["points"]
    ]


def _view(points: list[list[float]]) -> dict[str, Any]:
    """Around the points, also where they are others than those of the data set."""
    x, y = around(np.array(points, dtype=float).reshape(-1, 3)[:, :2])
    return {"x": list(x), "y": list(y)}


@cache
def course() -> dict[str, Any]:
    """Chapters and examples, with their states."""
    examples = []
    for number, one in enumerate(_EXAMPLES, 1):
        state = one.state()
        shown = state.get("state", state)
        if "points" in shown:
            shown["view"] = _view(shown["points"])
        examples.append(
            {
                "id": f"E{number}",
                "title": one.title,
                "chapter": one.chapter,
                "about": one.about,
                "questions": list(one.questions),
                "tab": one.tab,
                "panel": one.panel,
                "state": state,
            }
        )
    chapters = [
        {
            "number": number,
            "title": title,
            "about": about,
            "examples": [e["id"] for e in examples if e["chapter"] == number],
        }
        for number, (title, about) in enumerate(CHAPTERS, 1)
    ]
    return {"chapters": chapters, "examples": examples}
