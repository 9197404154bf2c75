"""Python that gives the numbers of a figure of the course."""

from __future__ import annotations

from collections.abc import Callable

from mercer.laboratory import figures, panels
from mercer.laboratory.code import call_lines, joined, point_lines
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.state import State

_SIDES = [
    "labels = np.unique(y)",
    "sides = np.where(y == labels[1], 1.0, -1.0)",
]


def code_of_figure(name: str, state: State | None, job: Job) -> Answer:
    """The code of a figure, and the numbers that stand beside it."""
    if state is None:
        numbers = figures.PLAIN[name](job).head["numbers"]
        lines = _PLAIN[name]()
    else:
        numbers = figures.OF_STATE[name](state, job).head["numbers"]
        lines = _OF_STATE[name](state)
    return Answer({"code": joined([*lines, "print(numbers)"]), "numbers": numbers}, {})


def _losses() -> list[str]:
    return [
        "import numpy as np",
        "",
        "from mercer.losses import EpsilonInsensitive, Hinge, Logistic",
        "",
        "one = np.ones(1)",
        "numbers = {",
        "    'hinge at y f = -1': float(Hinge().value(one, -one)[0]),",
        "    'logistic at y f = 0': float(Logistic().value(one, 0 * one)[0]),",
        "    'ε-insensitive at y - f = 2': float(",
        "        EpsilonInsensitive(0.5).value(2 * one, 0 * one)[0]",
        "    ),",
        "}",
    ]


def _saddle() -> list[str]:
    return [
        "import numpy as np",
        "",
        "# L = xy + λ(4 - x - y) is level where y = λ, x = λ and x + y = 4.",
        "A = np.array([[0.0, 1, -1], [1, 0, -1], [1, 1, 0]])",
        "x, y, multiplier = np.linalg.solve(A, [0, 0, 4])",
        "numbers = {'x': float(x), 'y': float(y), 'λ': float(multiplier)}",
        "numbers['xy'] = float(x * y)",
    ]


def _digits() -> list[str]:
    return [
        "import numpy as np",
        "from sklearn.datasets import load_digits",
        "",
        "from mercer import SVC, Linear",
        "",
        "images, labels = load_digits(return_X_y=True)",
        "images = images / 16",
        f"X, y = images[:{panels.LEARNT}], labels[:{panels.LEARNT}]",
        f"unseen, truth = images[{panels.LEARNT}:], labels[{panels.LEARNT}:]",
        "numbers = {}",
        f"for degree in {list(panels.DEGREES)}:",
        f"    machine = SVC(kernel=Linear() ** degree, C={panels.HARD}).fit(X, y)",
        "    wrong = np.mean(machine.predict(unseen) != truth)",
        "    numbers[f'misread, degree {degree}, %'] = 100 * float(wrong)",
        "machine = SVC(kernel='rbf', gamma=0.05, C=10.0).fit(X, y)",
        "wrong = np.mean(machine.predict(unseen) != truth)",
        "numbers['misread, Gaussian, %'] = 100 * float(wrong)",
    ]


def _given(state: State, *names: str) -> list[str]:
    """Imports and the points."""
    listed = ", ".join(sorted(set(names), key=lambda name: (name[0].islower(), name)))
    return [
        "import numpy as np",
        "",
        f"from mercer import {listed}",
        "",
        *point_lines(state),
        "",
    ]


def _bumps(state: State) -> list[str]:
    return [
        *_given(state, state.offer.name, "parse"),
        *call_lines(state),
        "f = machine.expansion_",
        "numbers = {",
        "    'points with a part': float(len(f.coef)),",
        "    'sum of |coef|': float(np.abs(f.coef).sum()),",
        "    'R²': float(machine.score(X, y)),",
        "}",
    ]


def _lift(state: State) -> list[str]:
    if "classify" != state.task or len(set(state.labels.tolist())) != 2:
        return [*_given(state, "SVC"), "numbers = {}"]
    return [
        *_given(state, "SVC"),
        "x1, x2 = X.T",
        "Z = np.column_stack([x1**2, np.sqrt(2) * x1 * x2, x2**2])",
        f"machine = SVC(kernel='linear', C={panels.HARD}).fit(Z, y)",
        "numbers = {",
        "    'error of the plane': float(1 - machine.score(Z, y)),",
        "    'margin': float(1 / np.linalg.norm(machine.coef_)),",
        "}",
    ]


def _exclusive(state: State) -> list[str]:
    names = ("SVC", "KernelPerceptron", "Polynomial", "parse", state.offer.name)
    lines = [
        *_given(state, *names),
        *_SIDES,
        *call_lines(state),
        "# √2 x₁ and √2 x₁x₂; the library lists √2 x₁x₂ before x₂².",
        "mapped = Polynomial(2).features(X)[:, [1, 4]]",
        f"flat = SVC(kernel='linear', C={panels.HARD}).fit(mapped, sides)",
        "perceptron = KernelPerceptron(",
        f"    kernel=kernel, max_iter={panels.PASSES}, shuffle=False",
        ").fit(X, sides)",
        "numbers = {",
        "    'mistakes of a perceptron': float(perceptron.n_mistakes_),",
        "    'error in coordinates 2 and 6': float(1 - flat.score(mapped, sides)),",
        "}",
    ]
    if state.offer.dual:
        lines += [
            "alpha = np.abs(np.ravel(machine.dual_coef_))",
            "numbers['least α'] = float(alpha.min())",
            "numbers['greatest α'] = float(alpha.max())",
        ]
    return lines


def _signs(state: State) -> list[str]:
    return [
        "import numpy as np",
        "",
        *point_lines(state),
        "",
        *_SIDES,
        "x1, x2 = X.T",
        "curves = np.column_stack([1 - x1**2 - x2**2, 2 - x1**2 - x2**2 / 2])",
        "signs = np.where(curves >= 0, 1.0, -1.0)",
        "rule = np.where(signs.sum(axis=1) >= 2, 1.0, -1.0)",
        "numbers = {'error of the rule': float(np.mean(rule != sides))}",
        "for a in (1, -1):",
        "    for b in (1, -1):",
        "        here = (signs == [a, b]).all(axis=1)",
        "        numbers[f'points at ({a:+d}, {b:+d})'] = float(here.sum())",
    ]


def _lines(state: State) -> list[str]:
    names = ("SVC", "KernelPerceptron", "KernelRidge", "Linear", "Polynomial")
    return [
        *_given(state, *names),
        *_SIDES,
        "perceptron = KernelPerceptron(",
        f"    kernel=Linear(), fit_intercept=True, max_iter={panels.PASSES},"
        " shuffle=False",
        ").fit(X, sides)",
        "squares = KernelRidge(kernel=Polynomial(1), alpha=1e-6).fit(X, sides)",
        f"widest = SVC(kernel='linear', C={panels.HARD}).fit(X, sides)",
        "three = {",
        "    'H₁ (perceptron)': perceptron.decision_function,",
        "    'H₂ (least squares)': squares.predict,",
        "    'H₃ (support vectors)': widest.decision_function,",
        "}",
        "numbers = {}",
        "for name, f in three.items():",
        "    b, *ends = f(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))",
        "    w = np.array(ends) - b",
        "    nearest = np.min(sides * (X @ w + b))",
        "    numbers[f'margin of {name}'] = float(nearest / np.linalg.norm(w))",
        "numbers['b/‖w‖ of H₃'] = float(b / np.linalg.norm(w))",
    ]


def _components(state: State) -> list[str]:
    return [
        *_given(state, state.offer.name, "parse"),
        *call_lines(state),
        f"values = machine.eigenvalues_[:{panels.MOST_PANELS}]",
        "numbers = {f'eigenvalue {j}': float(v) for j, v in enumerate(values, 1)}",
    ]


def _projections(state: State) -> list[str]:
    return [
        *_given(state, "KernelPCA", "Linear", "parse"),
        f"kernel = parse({repr(state.kernel)!r})",
        "numbers = {}",
        "for name, one in (('PCA', Linear()), ('Kernel PCA', kernel)):",
        "    machine = KernelPCA(1, kernel=one).fit(X)",
        "    numbers[f'eigenvalue of {name}'] = float(machine.eigenvalues_[0])",
    ]


_PLAIN: dict[str, Callable[[], list[str]]] = {
    "losses": _losses,
    "saddle": _saddle,
    "digits": _digits,
}
_OF_STATE: dict[str, Callable[[State], list[str]]] = {
    "bumps": _bumps,
    "lift": _lift,
    "exclusive": _exclusive,
    "signs": _signs,
    "lines": _lines,
    "components": _components,
    "projections": _projections,
}
