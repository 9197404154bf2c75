"""Read handwritten digits with kernel ridge regression, and show how well.

    python examples/demo.py [--save DIR]

Ten machines share one Gram matrix, one for each digit against the rest (targets ±1);
the one that answers most names the digit. The kernel's width and the ridge are chosen
by the exact leave-one-out error, which one factorisation gives; the part of the data
that was held out then judges the choice.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from mercer import RBF, KernelRidge

GAMMAS = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]
ALPHAS = [0.0001, 0.001, 0.01]
SEED = 0


class Trial(NamedTuple):
    """One choice of parameters, and its leave-one-out result."""

    gamma: float
    alpha: float
    error: float  # share of digits misread when left out
    loss: float  # mean squared leave-one-out residual, to settle ties

    def rank(self) -> tuple[float, float]:
        return self.error, self.loss


class Result(NamedTuple):
    """What the chosen machine read in the held-out part."""

    machine: KernelRidge
    images: np.ndarray
    true: np.ndarray
    read: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        return np.flatnonzero(self.true != self.read)


def one_against_rest(digits: np.ndarray) -> np.ndarray:
    """(n, 10) targets: +1 for the digit itself, -1 for the nine others."""
    return np.where(digits[:, None] == np.arange(10), 1.0, -1.0)


def leave_one_out(X: np.ndarray, digits: np.ndarray, gamma: float, alpha: float):
    """The trial of one choice; the leave-one-out predictions need no refits."""
    targets = one_against_rest(digits)
    machine = KernelRidge(alpha, kernel=RBF(gamma)).fit(X, targets)
    predictions = machine.loo_predictions_
    error = np.mean(predictions.argmax(axis=1) != digits)
    return Trial(
        gamma, alpha, float(error), float(np.mean((predictions - targets) ** 2))
    )


def tracked(choices: list, title: str) -> Iterator:
    """The choices one by one, with a progress bar or a line where there is none."""
    try:
        from rich.progress import track
    except ImportError:
        track = None
    if track and sys.stdout.isatty():
        yield from track(choices, description=title, transient=True)
        return
    print(f"{title}: {len(choices)} choices", flush=True)
    yield from choices


@contextmanager
def timed(seconds: dict[str, float], stage: str):
    start = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - start


def report(trial: Trial, result: Result, sizes: tuple[int, int]) -> str:
    kernel, certificate = result.machine.expansion_.kernel, result.machine.certificate_
    accuracy = 1 - len(result.wrong) / len(result.true)
    lines = {
        "Data": f"{sizes[0]} digits of 8 × 8 pixels to learn from, {sizes[1]} held out",
        "Kernel": f"{kernel!r}, exp(-γ‖x - y‖²)",
        "Proof": f"{kernel.rule().reason}",
        "Chosen": f"gamma={trial.gamma:g}, alpha={trial.alpha:g}",
        "Leave-one-out": f"{trial.error:.2%} misread (exact, no refits)",
        "Held out": f"{accuracy:.2%} read correctly, {len(result.wrong)} of "
        f"{len(result.true)} misread",
        "Mistakes": mistakes(result),
        "Residual": f"‖(K + αI)c - y‖ / ‖y‖ = {certificate.violation:.1e}",
    }
    return "\n".join(f"{name:<15}{text}" for name, text in lines.items())


def mistakes(result: Result) -> str:
    """The most frequent confusions."""
    pairs = Counter(
        (int(result.true[i]), int(result.read[i])) for i in result.wrong
    ).most_common(4)
    named = [f"{true} read as {read} ({n}×)" for (true, read), n in pairs]
    return ", ".join(named) or "none"


def draw(path: Path, trials: Iterable[Trial], trial: Trial, result: Result) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from mercer.plots import plot_gram

    plt.style.use("mercer.plots.light")
    plt.rcParams.update({"font.size": 10, "axes.titlesize": 12, "axes.titlepad": 10})
    figure = plt.figure(figsize=(12, 10.8), layout="constrained")
    figure.suptitle(
        f"Handwritten digits by kernel ridge regression: "
        f"{1 - len(result.wrong) / len(result.true):.1%} of the held-out digits read",
        fontsize=15,
    )
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1)
    upper, lower = figure.subfigures(2, 1, height_ratios=(1.15, 1), hspace=0.04)
    left, right = upper.subplots(1, 2)
    plot_gram(result.machine.expansion_.kernel, result.images, result.true, ax=left)
    left.set(title="Gram matrix of the held-out digits", xlabel="digit", ylabel="digit")
    draw_confusion(right, result)
    curves, misread = lower.subfigures(1, 2, wspace=0.04)
    draw_errors(curves.subplots(), trials, trial)
    draw_misread(misread, result)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_confusion(ax, result: Result) -> None:
    counts = confusion_matrix(result.true, result.read, labels=np.arange(10))
    shares = counts / counts.sum(axis=1, keepdims=True)
    # Mistakes are few: a square root keeps them visible beside the diagonal.
    ax.imshow(np.sqrt(shares), cmap="Blues", vmin=0, vmax=1)
    for i, j in zip(*np.nonzero(counts), strict=True):
        ink = "white" if shares[i, j] > 0.3 else "black"
        ax.text(j, i, counts[i, j], ha="center", va="center", color=ink, fontsize=9)
    ax.set(
        title="Confusion matrix, held out",
        xlabel="read as",
        ylabel="true digit",
        xticks=range(10),
        yticks=range(10),
    )
    ax.tick_params(length=0)


def draw_errors(ax, trials: Iterable[Trial], chosen: Trial) -> None:
    for colour, alpha in zip(("#9ecae1", "#4292c6", "#084594"), ALPHAS, strict=True):
        curve = [(t.gamma, 100 * t.error) for t in trials if t.alpha == alpha]
        ax.plot(
            *zip(*curve, strict=True), "o-", color=colour, label=f"alpha = {alpha:g}"
        )
    ax.plot(
        chosen.gamma,
        100 * chosen.error,
        "o",
        markersize=14,
        markeredgewidth=1.5,
        fillstyle="none",
        color="C1",
        label="chosen",
    )
    ax.set(
        title="Exact leave-one-out error",
        xlabel="gamma",
        ylabel="misread when left out (%)",
        xscale="log",
        xticks=GAMMAS,
        ylim=(0, None),
    )
    ax.set_xticks([], minor=True)
    ax.set_xticklabels([f"{gamma:g}" for gamma in GAMMAS])
    ax.grid(alpha=0.3, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)


def draw_misread(figure, result: Result, most: int = 12) -> None:
    shown = result.wrong[:most]
    part = f", {most} of {len(result.wrong)}" if len(result.wrong) > most else ""
    figure.suptitle(f"Misread digits{part}: true → read", fontsize=12)
    columns = max(2, int(np.ceil(np.sqrt(len(shown)))))
    rows = max(2, int(np.ceil(len(shown) / columns)))
    axes = figure.subplots(rows, columns).ravel()
    for ax in axes:
        ax.axis("off")
    for ax, i in zip(axes, shown, strict=False):
        ax.imshow(result.images[i].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set_title(f"{result.true[i]} → {result.read[i]}", fontsize=11, pad=5)


def main(path: Path) -> None:
    seconds: dict[str, float] = {}
    data = load_digits()
    X, X_test, digits, digits_test = train_test_split(
        data.data / 16,
        data.target,
        test_size=0.3,
        stratify=data.target,
        random_state=SEED,
    )
    with timed(seconds, "choose"):
        choices = [(gamma, alpha) for gamma in GAMMAS for alpha in ALPHAS]
        trials = [
            leave_one_out(X, digits, *choice)
            for choice in tracked(choices, "Choosing gamma and alpha by leave-one-out")
        ]
        trial = min(trials, key=Trial.rank)
    with timed(seconds, "fit"):
        machine = KernelRidge(trial.alpha, kernel=RBF(trial.gamma))
        machine.fit(X, one_against_rest(digits))
    with timed(seconds, "predict"):
        read = machine.predict(X_test).argmax(axis=1)
    result = Result(machine, X_test, digits_test, read)
    print(report(trial, result, (len(X), len(X_test))))
    try:
        with timed(seconds, "draw"):
            draw(path, trials, trial, result)
        picture = str(path)
    except ImportError:
        picture = 'none: matplotlib is missing (pip install "mercer[plot]")'
    print(f"{'Picture':<15}{picture}")
    stages = ", ".join(f"{stage} {taken:.2f} s" for stage, taken in seconds.items())
    print(f"{'Seconds':<15}{stages}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--save", type=Path, default=Path("out"), metavar="DIR",
                        help="folder for the picture, demo.png")  # fmt: skip
    main(parser.parse_args().save / "demo.png")
