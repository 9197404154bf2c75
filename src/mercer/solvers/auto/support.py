"""How many points will have a coefficient: SMO computes kernel rows of about these."""

from __future__ import annotations

import numpy as np

from mercer.native.sorting import distinct
from mercer.outcomes import Status
from mercer.solvers.auto.costs import by_rows_of_map
from mercer.solvers.boxqp import BoxQP
from mercer.solvers.class_pairs import PairProblems
from mercer.solvers.smo import SMO

SIZES = 500, 1000  # points of the two samples that are solved
RELIED_ON = 0.5  # of the power by which the share falls from one to the other
ALIKE = 1.2  # times as many as there must be, where the sum of α is fixed
BUDGET = 50  # steps for each point of a sample: what takes more is hard for SMO
PAIRS = 6  # pairs of classes that stand for all


def support_share(problems: BoxQP | PairProblems) -> float:
    """The share of the points that have a coefficient in the end: an estimate.

    Where the sum of α is fixed, it follows from that and from the upper bounds.
    Elsewhere samples of 500 and of 1000 points are solved: the more points there are
    the smaller is the share, unless classes overlap, and it goes on falling by half the
    power that these show. It is 1 where a sample is not solved in few steps. Of pairs
    of classes, the mean of some.
    """
    if isinstance(problems, BoxQP):
        return _share(problems, slice(0, len(problems)), problems.total)
    some = np.linspace(0, len(problems) - 1, min(PAIRS, len(problems))).astype(int)
    totals = problems.totals if problems.bias else [None] * len(problems)
    return float(
        np.mean([_share(problems.joint, problems.part(j), totals[j]) for j in some])
    )


def _share(problem: BoxQP, part: slice, total: object) -> float:
    """That of one problem, whose variables are a part of these."""
    points = distinct(_places(problem)[part])
    fixed = 0.0 if total is None else float(np.sum(np.abs(np.asarray(total))))
    if fixed:
        most = float(np.max(np.abs(np.stack(problem.bounds)[:, part])))
        return min(1.0, ALIKE * fixed / most / len(points))
    order = np.random.default_rng(0).permutation(len(points))
    free = None if total is None else 0.0
    few, more = (_solved_share(problem, part, points[order[:n]], free) for n in SIZES)
    power = max(0.0, np.log(few / more) / np.log(2.0))
    grown = len(points) / SIZES[1]
    return float(more * max(grown, 1.0) ** (-RELIED_ON * power))


def _places(problem: BoxQP) -> np.ndarray:
    n = problem.gram.shape[0]
    return np.arange(n) if problem.index is None else np.asarray(problem.index)


def _solved_share(
    problem: BoxQP, part: slice, points: np.ndarray, total: float | None
) -> float:
    """The share, two points at least, where these are all the points there are."""
    number = np.full(problem.gram.shape[0], -1)
    number[points] = np.arange(len(points))
    own = number[_places(problem)[part]]
    chosen = np.flatnonzero(own >= 0)
    variables = part.start + chosen
    sample = BoxQP(
        by_rows_of_map(problem.gram.take(points)),
        problem.linear[variables],
        problem.sign[variables],
        problem.lower[variables],
        problem.upper[variables],
        total=total,
        index=own[chosen],
        tube=None if problem.tube is None else problem.tube[variables],
    )
    solver = SMO(objectives=False, max_iter=max(1, int(BUDGET * len(points))))
    found = solver.solve(sample)
    if found.status == Status.MAX_ITER:
        return 1.0
    return max(2, int(np.count_nonzero(sample.coef(found.value)))) / len(points)
