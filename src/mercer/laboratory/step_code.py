"""Python that runs an algorithm to where the page shows its last step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.laboratory.code import joined, point_lines
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.steps import TOL, Hill, Run, kmeans_start, sgd_settings

_SIDES = "sides = np.where(y == np.unique(y)[1], 1.0, -1.0)"


def code_of_steps(run: Run, job: Job) -> Answer:
    """The code of a run, and the numbers of its last step."""
    answer = run.record(job)
    lines = ["import numpy as np", "", *_LINES[run.algorithm](run), "print(numbers)"]
    return Answer({"code": joined(lines), "numbers": _last(run, answer)}, {})


def _last(run: Run, answer: Answer) -> dict[str, float]:
    """What the last step of a run tells."""
    steps, arrays = answer.head["steps"], answer.arrays
    if run.algorithm == "pca":
        return {f"eigenvalue {j}": one["eigenvalue"] for j, one in enumerate(steps, 1)}
    out = {"steps": float(len(steps))}
    for name in ("primal", "dual", "objective"):
        if name in arrays:
            out[name] = float(arrays[name][-1])
    if run.algorithm == "kmeans" and steps:
        out["inertia"] = steps[-1]["inertia"]
    return out


def _kernel(run: Run) -> str:
    return f"kernel = parse({repr(run.state.kernel)!r}).resolve(X)"


def _smo(run: Run) -> list[str]:
    state = run.state
    one_class = state.offer.name == "OneClassSVM"
    name = "one_class" if one_class else "svc"
    problem = (
        f"one_class(gram, {state.params['nu']!r})"
        if one_class
        else f"svc(gram, sides, {state.params['C']!r})"
    )
    return [
        "from mercer import parse",
        "from mercer.gram import Gram",
        "from mercer.solvers.pair_steps import pair_steps",
        f"from mercer.solvers.programs import {name}",
        "",
        *point_lines(state),
        *([] if one_class else [_SIDES]),
        _kernel(run),
        "gram = Gram(kernel, X)",
        f"problem = {problem}",
        f"run = pair_steps(problem, {TOL!r}, {run.most!r})",
        "alpha = run.path[-1]",
        "f = (alpha * problem.sign) @ gram.dense()",
        "primal, dual = problem.objectives(alpha, f, problem.level(alpha, f))",
        "numbers = {'steps': float(len(run.path) - 1)}",
        "numbers |= {'primal': float(primal), 'dual': float(dual)}",
    ]


def _coordinate(run: Run) -> list[str]:
    state, hill = run.state, run.hill
    lines = [
        "from mercer import parse",
        "from mercer.gram import Gram",
        "from mercer.solvers.coordinate import CoordinateAscent",
        f"from mercer.solvers.programs import {'quadratic' if hill else 'svc'}",
        "",
    ]
    if hill is None:
        C = state.params.get("C", 1.0)
        lines += [
            *point_lines(state),
            _SIDES,
            _kernel(run),
            f"problem = svc(Gram(kernel, X), sides, {C!r}, bias=False)",
            "start = np.zeros(len(X))",
        ]
    else:
        lines = [*lines[2:], *_hill_lines(hill)]
    return [
        *lines,
        f"solver = CoordinateAscent({TOL!r}, max_iter={run.most!r}, record=True)",
        "path = solver.solve(problem, start=start).path",
        "a = path[-1]",
        "signed = a * problem.sign",
        "K = problem.gram.dense()",
        "numbers = {'steps': float(len(path) - 1)}",
        "objective = signed @ K @ signed / 2 + problem.linear @ a",
        "numbers['objective'] = float(objective)",
    ]


def _hill_lines(hill: Hill) -> list[str]:
    def text(values: Any) -> str:
        return repr(values.tolist()).replace("inf", "np.inf")

    return [
        f"Q = np.array({text(hill.Q)})",
        f"linear = np.array({text(hill.linear)})",
        f"start = np.array({text(hill.start)})",
        f"lower = np.array({text(hill.lower)})",
        f"upper = np.array({text(hill.upper)})",
        "problem = quadratic(Q, linear, 1.0, lower, upper, None)",
    ]


def _perceptron(run: Run) -> list[str]:
    state = run.state
    params = state.params if state.offer.name == "KernelPerceptron" else {}
    settings = (
        f"fit_intercept={bool(params.get('fit_intercept', False))!r}, "
        f"max_iter={params.get('max_iter', 100)!r}, "
        f"random_state={params.get('random_state', run.seed)!r}"
    )
    return [
        "from mercer import KernelPerceptron, parse",
        "",
        *point_lines(state),
        _kernel(run),
        f"machine = KernelPerceptron(kernel=kernel, {settings}).fit(X, y)",
        f"numbers = {{'steps': float(min(machine.n_mistakes_, {run.most!r}))}}",
    ]


def _sgd(run: Run) -> list[str]:
    params, passes, seed = sgd_settings(run)
    settings = ", ".join(f"{name}={value!r}" for name, value in params.items())
    zero = "np.log(2)" if params.get("loss") == "logistic" else "1.0"
    return [
        "from mercer import KernelSGDClassifier, parse",
        "",
        *point_lines(run.state),
        _kernel(run),
        "machine = KernelSGDClassifier(",
        f"    kernel=kernel, random_state={seed!r}, average=False, {settings}",
        ")",
        f"random = np.random.default_rng({seed!r})",
        f"order = [random.permutation(len(X)) for _ in range({passes!r})]",
        "order = np.concatenate(order)",
        f"stride = -(-len(order) // {run.most!r})  # updates between two pictures",
        f"order = order[: stride * {run.most!r}]",
        f"objective = {zero}",
        "steps = 0",
        "for first in range(0, len(order), stride):",
        "    some = order[first : first + stride]",
        "    machine.partial_fit(X[some], y[some], np.unique(y))",
        "    loss = np.mean(machine.mean_loss(X, y))",
        "    objective = machine.reg * np.sum(machine.norm_) ** 2 + loss",
        "    steps += 1",
        "numbers = {'steps': float(steps), 'objective': float(objective)}",
    ]


def _kmeans(run: Run) -> list[str]:
    k, seed = kmeans_start(run)
    return [
        "from mercer import KernelKMeans, parse",
        "",
        *point_lines(run.state),
        _kernel(run),
        f"random = np.random.default_rng({seed!r})",
        f"labels = random.permutation(np.arange(len(X)) % {k!r})",
        "numbers = {'steps': 0.0}",
        f"while numbers['steps'] < {run.most!r}:",
        "    # The first iteration judges the start, the second moves points.",
        f"    machine = KernelKMeans({k!r}, kernel=kernel, init=labels, n_init=1,"
        " max_iter=2,",
        "                           random_state=0).fit(X)",
        "    if (machine.labels_ == labels).all():",
        "        break",
        "    labels = machine.labels_",
        "    numbers['steps'] += 1",
        "    numbers['inertia'] = float(machine.inertia_)",
    ]


def _pca(run: Run) -> list[str]:
    k = run.state.params["n_components"]
    return [
        "from mercer import KernelPCA, parse",
        "",
        *point_lines(run.state),
        f"kernel = parse({repr(run.state.kernel)!r})",
        f"machine = KernelPCA({k!r}, kernel=kernel).fit(X)",
        "values = machine.eigenvalues_",
        "numbers = {f'eigenvalue {j}': float(v) for j, v in enumerate(values, 1)}",
    ]


_LINES: dict[str, Callable[[Run], list[str]]] = {
    "smo": _smo,
    "coordinate": _coordinate,
    "perceptron": _perceptron,
    "sgd": _sgd,
    "kmeans": _kmeans,
    "pca": _pca,
}
