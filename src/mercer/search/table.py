"""The lines that a search prints: how far it is, and the best in the end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.search.journal import Journal, Key
from mercer.search.sharing import Task

PAUSE = 0.5  # seconds between two lines


class Table:
    """The lines that `verbose` prints: how far it is and the best so far."""

    def __init__(self, search: Any, begin: float):
        self.verbose, self.start = int(search.verbose or 0), begin
        self.metric = search.refit if isinstance(search.refit, str) else None
        self.total = self.done = 0
        self.printed = 0.0
        self.sums: dict[int, list[float]] = {}
        self.best: tuple[float, Any] = (-math.inf, None)
        self.n_folds = 1

    def begin(self, total: int, task: Task, n: int) -> None:
        self.total, self.done, self.n_folds = total, 0, len(task.folds)
        self.sums, self.best = {}, (-math.inf, None)
        self._print(
            f"{n} candidates, {self.n_folds} folds of {task.n:,} points: {total} fits"
        )

    def add(self, params: dict[str, Any], key: Key, journal: Journal) -> None:
        result = journal.get(key)
        assert result is not None
        self.done += 1
        score = result["test_scores"]
        if isinstance(score, dict):
            score = score.get(self.metric, next(iter(score.values())))
        scores = self.sums.setdefault(key[1], [])
        scores.append(float(score))
        if len(scores) == self.n_folds and np.mean(scores) > self.best[0]:
            self.best = float(np.mean(scores)), params
        now = time.perf_counter()
        if now - self.printed > PAUSE or self.done == self.total:
            self.printed = now
            best = (
                ""
                if self.best[1] is None
                else (f"  best {self.best[0]:.6g} {_brief(self.best[1])}")
            )
            self._print(f"{self.done}/{self.total} {now - self.start:8.2f} s{best}")

    def end(self, search: Any, seconds: float) -> None:
        if not self.verbose:
            return
        for line in table_lines(search.cv_results_, search):
            self._print(line)
        self._print(f"done in {seconds:.2f} s; shared: {search.sharing_}")

    def _print(self, text: str) -> None:
        if self.verbose:
            print(f"[KernelSearchCV] {text}", flush=True)


def table_lines(results: dict[str, Any], search: Any, most: int = 10) -> Iterator[str]:
    """The best candidates, a line for each: rank, score and its deviation, seconds."""
    metric = search.refit if search.multimetric_ and search.refit else "score"
    if f"rank_test_{metric}" not in results:
        return
    order = np.argsort(results[f"rank_test_{metric}"], kind="stable")[:most]
    yield f"{'rank':>4} {'score':>10} {'±':>9} {'fit s':>8}  parameters"
    for i in order:
        yield (
            f"{results[f'rank_test_{metric}'][i]:>4} "
            f"{results[f'mean_test_{metric}'][i]:>10.6g} "
            f"{results[f'std_test_{metric}'][i]:>9.2g} "
            f"{results['mean_fit_time'][i]:>8.3g}  {_brief(results['params'][i])}"
        )


def _brief(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in params.items())
