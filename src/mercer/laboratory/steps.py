"""Algorithms recorded step by step, for the page to play."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.vector import Linear
from mercer.laboratory.fields import Fields
from mercer.laboratory.fits import fitted, two_classes
from mercer.laboratory.frames import Answer
from mercer.laboratory.jobs import Job
from mercer.laboratory.refusals import Refusal
from mercer.laboratory.state import State
from mercer.machines.kmeans import KernelKMeans
from mercer.machines.perceptron import KernelPerceptron
from mercer.machines.sgd import KernelSGDClassifier
from mercer.native.sorting import distinct
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.coordinate import CoordinateAscent
from mercer.solvers.pair_steps import frame_of, hessian, landscape, pair_steps
from mercer.solvers.programs import one_class, quadratic, svc
from mercer.theory.mistakes import mistake_bound

MOST = 400  # steps
CELLS = 64  # columns and rows of the grids of a run
NUMBERS = 1_500_000  # in all grids of a run; finer ones get fewer cells
POINTS = 200  # of a run: a bar for each
SIDE = 33  # of the landscape of a step
TOL = 1e-3
LARGEST = 1e6  # number of a quadratic


@dataclass(frozen=True, eq=False)
class Hill:
    """A quadratic in two variables, as it was asked for."""

    Q: np.ndarray
    linear: np.ndarray
    start: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True, eq=False)
class Run:
    """A run that is asked for."""

    algorithm: str
    state: State
    most: int
    seed: int
    hill: Hill | None

    def record(self, job: Job) -> Answer:
        """The steps and the pictures."""
        answer = _RECORDED[self.algorithm](self, job)
        head = {"algorithm": self.algorithm, "note": None, **answer.head}
        head["frames"] = len(head["steps"]) + 1
        return Answer(head, answer.arrays)

    def gridded(self, pictures: int) -> State:
        """The state on a grid that leaves room for so many pictures."""
        side = int(np.sqrt(NUMBERS / max(pictures, 1)))
        return self.state.with_grid(max(8, min(CELLS, side)))


def read_hill(fields: Fields) -> Hill | None:
    """The quadratic of a request; None where there is none."""
    if not fields.has("quadratic"):
        return None
    inner = fields.inner("quadratic", ("Q", "linear", "start", "lower", "upper"))
    rows = inner.items("Q", 2, 2)
    pairs = [Fields({"Q": row}, ("Q",), inner.place).pair("Q", -LARGEST, LARGEST)
             for row in rows]  # fmt: skip
    Q = np.array(pairs)
    if Q[0, 1] != Q[1, 0] or np.linalg.eigvalsh(Q)[0] < 0 or (np.diag(Q) <= 0).any():
        inner.refuse("Q", "needs a symmetric positive semidefinite matrix")

    def pair(name: str, default: float) -> np.ndarray:
        given = inner.has(name)
        return np.array(inner.pair(name, -LARGEST, LARGEST) if given else [default] * 2)

    linear = np.array(inner.pair("linear", -LARGEST, LARGEST))
    start = np.array(inner.pair("start", -LARGEST, LARGEST))
    lower, upper = pair("lower", -np.inf), pair("upper", np.inf)
    if not ((lower <= start) & (start <= upper)).all():
        inner.refuse("start", "needs to lie within lower and upper")
    return Hill(Q, linear, start, lower, upper)


# Pictures


def _pictures(state: State, kernel: Kernel, coefs: np.ndarray, bias: Any) -> np.ndarray:
    """f on the grid for each row of coefficients: (frames, rows, columns)."""
    across = kernel.matmul(state.cells(), state.X, coefs.T)
    return (np.asarray(across).T + bias).reshape(len(coefs), *state.grid[::-1])


def _few(state: State, most: int = POINTS) -> None:
    n = len(state.points)
    if n > most:
        raise Refusal(
            f"Steps are shown for at most {most} points; there are {n}. Remove some.",
            code="points",
            field="/points",
        )


def _resolved(state: State) -> Kernel:
    return state.kernel.resolve(state.X)


# SMO


def _smo(run: Run, job: Job) -> Answer:
    problem, sides = _pair_problem(run.state)
    recorded = pair_steps(problem, TOL, run.most)
    job.check()
    path, Q = recorded.path, hessian(problem)
    K = np.asarray(problem.gram.dense(), dtype=float)
    coefs = path * problem.sign
    functions = coefs @ K
    primal, dual, bias = (np.empty(len(path)) for _ in range(3))
    for t, (value, function) in enumerate(zip(path, functions, strict=True)):
        level = problem.level(value, function)
        primal[t], dual[t] = problem.objectives(value, function, level)
        bias[t] = -level[0]
    steps, grids = [], []
    for t, step in enumerate(recorded.steps):
        low, high = (float(end[0]) for end in frame_of(problem, step))
        places = np.linspace(low, high, SIDE)
        grids.append(landscape(problem, Q, path[t], step.pair, places, places))
        i, j = step.pair
        pair = list(step.pair)
        steps.append({
            "i": i, "j": j,
            "before": step.before, "wanted": step.wanted, "after": step.after,
            "ends": step.ends,
            "slope": float(-problem.sign[i] * problem.sign[j]),
            "clipped": not np.allclose(step.wanted, step.after, rtol=1e-12, atol=0),
            "lower": problem.lower[pair], "upper": problem.upper[pair],
            "frame": [low, high],
            "violation": float(recorded.violation[t]),
        })  # fmt: skip
    head = {
        "kernel": repr(problem.gram.kernel),
        "steps": steps,
        "tol": TOL,
        "converged": recorded.converged,
        "note": _unfinished(recorded.converged, run.most),
    }
    shown = run.gridded(len(path))
    pictures = _pictures(shown, problem.gram.kernel, coefs, bias[:, None])
    arrays = {
        "alpha": path, "primal": primal, "dual": dual, "bias": bias,
        "violation": recorded.violation, "sign": sides, "decision": pictures,
        "landscape": np.array(grids).reshape(-1, SIDE, SIDE),
    }  # fmt: skip
    return Answer(head, arrays)


def _pair_problem(state: State) -> tuple[BoxQP, np.ndarray]:
    _few(state)
    gram = Gram(_resolved(state), state.X)
    if state.offer.name == "SVC":
        sides = two_classes(state, "SMO")
        return svc(gram, sides, state.params["C"]), sides
    if state.offer.name == "OneClassSVM":
        return one_class(gram, state.params["nu"]), np.ones(len(state.points))
    raise Refusal(
        "SMO is shown for SVC and OneClassSVM; choose one of them.",
        code="machine",
        field="/machine/name",
    )


def _unfinished(converged: bool, most: int) -> str | None:
    return None if converged else f"The first {most} steps; more would follow."


# Coordinate ascent


def _coordinate(run: Run, job: Job) -> Answer:
    if run.hill is None:
        return _coordinate_on_points(run, job)
    hill = run.hill
    problem = quadratic(hill.Q, hill.linear, 1.0, hill.lower, hill.upper, None)
    solver = CoordinateAscent(TOL, max_iter=run.most, record=True)
    solution = solver.solve(problem, start=hill.start, watch=job.watch)
    assert solution.path is not None
    head, arrays = _path_of(problem, solution.path, (0, 1))
    converged = solution.violation < TOL
    head |= {"converged": converged, "note": _unfinished(converged, run.most)}
    return Answer(head, arrays)


def _coordinate_on_points(run: Run, job: Job) -> Answer:
    state = run.state
    _few(state)
    sides = two_classes(state, "Coordinate ascent")
    gram = Gram(_resolved(state), state.X)
    problem = svc(gram, sides, state.params.get("C", 1.0), bias=False)
    solver = CoordinateAscent(TOL, max_iter=run.most, record=True)
    solution = solver.solve(problem, watch=job.watch)
    path = solution.path
    assert path is not None
    moved = np.abs(np.diff(path, axis=0)).sum(axis=0)
    first, second = sorted(np.argsort(-moved, kind="stable")[:2].tolist())
    head, arrays = _path_of(problem, path, (first, second))
    converged = solution.violation < TOL
    head |= {"kernel": repr(gram.kernel), "converged": converged}
    head["note"] = _unfinished(converged, run.most)
    shown = run.gridded(len(path))
    arrays["decision"] = _pictures(shown, gram.kernel, path * problem.sign, 0.0)
    arrays["sign"] = sides
    return Answer(head, arrays)


def _path_of(
    problem: BoxQP, path: np.ndarray, shown: tuple[int, int]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Steps along axes, and W around them in the two variables that are shown."""
    Q = hessian(problem)
    steps = []
    for before, after in pairwise(path):
        i = int(np.argmax(np.abs(after - before)))
        steps.append({"i": i, "before": float(before[i]), "after": float(after[i])})
    places, pair = path[:, list(shown)], list(shown)
    limits = [np.where(np.isfinite(one[pair]), one[pair], places[-1])
              for one in (problem.lower, problem.upper)]  # fmt: skip
    every = np.vstack([places, limits])
    low, high = every.min(axis=0), every.max(axis=0)
    room = 0.2 * np.maximum(high - low, 1e-6 + 0.1 * (high - low).max())
    low, high = low - room, high + room
    sides = [np.linspace(low[k], high[k], 65) for k in range(2)]
    W = landscape(problem, Q, path[-1], shown, *sides)
    head = {
        "steps": steps,
        "shown": list(shown),
        "frame": [[low[0], high[0]], [low[1], high[1]]],
        "lower": problem.lower[pair],
        "upper": problem.upper[pair],
    }
    half = 0.5 * np.einsum("ti,ij,tj->t", path, Q, path)
    return head, {
        "path": path,
        "objective": half + path @ problem.linear,
        "landscape": W,
    }


# The perceptron


def _perceptron(run: Run, job: Job) -> Answer:
    state = run.state
    _few(state)
    sides = two_classes(state, "The perceptron")
    params = state.params if state.offer.name == "KernelPerceptron" else {}
    biased = bool(params.get("fit_intercept", False))
    machine = job.of(
        KernelPerceptron(
            kernel=_resolved(state),
            fit_intercept=biased,
            max_iter=params.get("max_iter", 100),
            random_state=params.get("random_state", run.seed),
            callback=job.watch,
        )
    ).fit(state.X, state.y)
    kernel = machine.kernel_
    points, curve = np.asarray(machine.mistakes_), np.asarray(machine.mistake_curve_)
    total, points = len(points), points[: run.most]
    n = len(sides)
    counts = np.zeros((len(points) + 1, n))
    for t, point in enumerate(points.tolist()):
        counts[t + 1] = counts[t]
        counts[t + 1, point] += 1
    coefs, K = counts * sides, np.asarray(kernel(state.X), dtype=float)
    when = np.searchsorted(curve, np.arange(1, len(points) + 1))
    values = [float(coefs[t] @ K[p]) for t, p in enumerate(points.tolist())]
    bound = _mistake_bound(machine, state)
    steps = [
        {"point": int(p), "pass": int(w // n) + 1, "value": v}
        for p, w, v in zip(points, when, values, strict=True)
    ]
    head = {
        "kernel": repr(kernel),
        "steps": steps,
        "bound": bound,
        "converged": str(machine.run_.status) == "optimal",
        "note": None if total <= run.most else f"The first {run.most} of {total}.",
    }
    shown = run.gridded(len(counts))
    arrays = {
        "counts": counts,
        "mistakes": np.arange(len(counts)),
        "sign": sides,
        "decision": _pictures(shown, kernel, coefs, 0.0),
    }
    if isinstance(state.kernel, Linear):
        bias = coefs.sum(axis=1) if biased else np.zeros(len(coefs))
        arrays["weights"] = np.column_stack([coefs @ state.X, bias])
    return Answer(head, arrays)


def _mistake_bound(machine: KernelPerceptron, state: State) -> dict[str, float] | None:
    if not state.kernel.psd:
        return None
    assert state.y is not None
    found = mistake_bound(machine, state.X, state.y, C=100.0)
    norm = float(np.ravel(found.norm)[0])
    value = float(np.ravel(found.bound)[0])
    return {"value": value, "radius": found.radius, "norm": norm}


# Stochastic gradients


def _sgd(run: Run, job: Job) -> Answer:
    state = run.state
    _few(state)
    sides = two_classes(state, "Stochastic gradients")
    params, passes, seed = sgd_settings(run)
    machine = KernelSGDClassifier(
        kernel=_resolved(state), random_state=seed, average=False, **params
    )
    n, random = len(sides), np.random.default_rng(seed)
    order = np.concatenate([random.permutation(n) for _ in range(passes)])
    stride = -(-len(order) // run.most)
    order = order[: stride * run.most]
    shown = run.gridded(min(run.most, len(order)) + 1)
    classes = distinct(state.labels)
    cells, pictures, coefs, objectives, steps = shown.cells(), [], [], [], []
    for first in range(0, len(order), stride):
        job.check()
        some = order[first : first + stride]
        machine.partial_fit(state.X[some], state.labels[some], classes)
        w = machine.last_
        loss = float(np.mean(machine.mean_loss(state.X, state.labels)))
        pictures.append(w(cells))
        coefs.append(_coef_at(w, state.X))
        objectives.append(float(params["reg"] * np.sum(machine.norm_) ** 2 + loss))
        steps.append({"point": int(some[-1]), "loss": loss, "updates": machine.t_})
    head = {"kernel": repr(machine.last_.kernel), "steps": steps, "stride": stride}
    zero = np.zeros(len(cells))
    arrays = {
        "decision": np.array([zero, *pictures]).reshape(-1, *shown.grid[::-1]),
        "coef": np.array([np.zeros(n), *coefs]),
        "objective": np.array([_loss_of_zero(state, machine), *objectives]),
        "sign": sides,
    }
    return Answer(head, arrays)


def sgd_settings(run: Run) -> tuple[dict[str, Any], int, int]:
    """Parameters of the machine, passes over the points, and the seed."""
    mine = run.state.offer.name == "KernelSGDClassifier"
    params = {name: value for name, value in run.state.params.items() if mine}
    passes, seed = params.pop("max_iter", 10), params.pop("random_state", run.seed)
    params.setdefault("reg", 1e-3)
    return params, passes, seed


def _loss_of_zero(state: State, machine: KernelSGDClassifier) -> float:
    """The mean loss of f = 0: 1 of the hinge, ln 2 of the logistic loss."""
    return float(np.log(2)) if machine.loss == "logistic" else 1.0


def _coef_at(w: Any, X: np.ndarray) -> np.ndarray:
    """The coefficients of an expansion at the points; equal ones share theirs."""
    known = {tuple(x): i for i, x in reversed(list(enumerate(X.tolist())))}
    coef = np.zeros(len(X))
    for x, one in zip(np.asarray(w.points).tolist(), np.ravel(w.coef), strict=True):
        coef[known[tuple(x)]] += one
    return coef


# k-means


def _kmeans(run: Run, job: Job) -> Answer:
    state = run.state
    _few(state, 1000)
    kernel, n = _resolved(state), len(state.points)
    k, seed = kmeans_start(run)
    random = np.random.default_rng(seed)
    labels = random.permutation(np.arange(n) % k)  # every cluster has a point
    shown = run.gridded(40)
    assigned = [labels]
    winners: list[np.ndarray] = []
    steps: list[dict[str, Any]] = []
    while len(steps) < run.most:
        job.check()
        machine = KernelKMeans(
            k, kernel=kernel, init=labels, n_init=1, max_iter=2, random_state=0
        ).fit(state.X)  # its first iteration judges the start, the second moves points
        if not winners:  # of the start: its own centres, before any point has moved
            winners.append(_first_regions(kernel, state.X, labels, shown.cells()))
        later = np.asarray(machine.labels_)
        moved = int(np.count_nonzero(later != labels))
        if moved == 0:
            break
        steps.append({"moved": moved, "inertia": float(machine.inertia_)})
        assigned.append(later)
        winners.append(machine.predict(shown.cells()))
        labels = later
    converged = len(steps) < run.most
    head = {
        "kernel": repr(kernel),
        "steps": steps,
        "converged": converged,
        "note": _unfinished(converged, run.most),
    }
    arrays = {
        "assigned": np.array(assigned),
        "winner": np.array(winners).reshape(-1, *shown.grid[::-1]),
    }
    return Answer(head, arrays)


def kmeans_start(run: Run) -> tuple[int, int]:
    """How many clusters there are, and the seed by which points begin in them."""
    state, n = run.state, len(run.state.points)
    if state.offer.name != "KernelKMeans":
        return min(3, n), run.seed
    return min(state.params["n_clusters"], n), state.params["random_state"]


def _first_regions(
    kernel: Kernel, X: np.ndarray, labels: np.ndarray, cells: np.ndarray
) -> np.ndarray:
    """Which mean of a partition is nearest to each cell."""
    members = (labels[:, None] == np.arange(labels.max() + 1)).astype(float)
    means = members / members.sum(axis=0)
    squares = np.einsum("ij,ij->j", means, np.asarray(kernel.matmul(X, None, means)))
    return np.argmax(np.asarray(kernel.matmul(cells, X, means)) - squares / 2, axis=1)


# Kernel PCA


def _pca(run: Run, job: Job) -> Answer:
    state = run.state if run.state.task == "pca" else None
    if state is None:
        raise Refusal("Kernel PCA is a task of its own; choose it.", field="/task")
    machine = fitted(state, job)
    scores = np.asarray(machine.transform(state.X), dtype=float)
    k = scores.shape[1]
    shown = run.gridded(k)
    grids = np.asarray(machine.transform(shown.cells())).T
    values = np.asarray(machine.eigenvalues_, dtype=float)[:k]
    kernel = _resolved(state)
    trace = np.asarray(kernel.diag(state.X), dtype=float).sum()
    trace -= float(np.mean(kernel(state.X), dtype=float)) * len(state.points)
    steps = [{"eigenvalue": float(v), "share": float(v / trace)} for v in values]
    back = np.full((k, len(state.points), 2), np.nan)
    if len(state.points) <= POINTS:
        for j in range(k):
            job.check()
            job.report({"stage": "preimages", "share": j / k})
            kept = np.where(np.arange(k) <= j, scores, 0.0)
            back[j] = machine.preimage(kept, restarts=1)
    head = {"kernel": repr(kernel), "steps": steps, "converged": True}
    arrays = {
        "components": grids.reshape(k, *shown.grid[::-1]),
        "scores": scores,
        "reconstruction": back,
    }
    return Answer(head, arrays)


_RECORDED: dict[str, Callable[[Run, Job], Answer]] = {
    "smo": _smo,
    "coordinate": _coordinate,
    "perceptron": _perceptron,
    "sgd": _sgd,
    "kmeans": _kmeans,
    "pca": _pca,
}
ALGORITHMS = tuple(_RECORDED)
