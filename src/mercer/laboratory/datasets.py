"""The classics: small data sets on the plane, drawn anew from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, make_moons

from mercer.kernels.vector import Polynomial
from mercer.laboratory.state import around
from mercer.machines.pca import KernelPCA

Drawn = tuple[np.ndarray, np.ndarray]  # (n, 2) places and (n,) labels


class DataSet(NamedTuple):
    """A data set with the machine and the kernel that suit it.

    Attributes
    ----------
    draw : of a random generator and a number of points
    n : how many points, unless asked otherwise; 0 where that is fixed
    """

    title: str
    task: str
    draw: Callable[[np.random.Generator, int], Drawn]
    n: int
    machine: str
    params: dict[str, Any]
    kernel: str


def _xor(random: np.random.Generator, n: int) -> Drawn:
    corners = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    return corners, np.array([0, 1, 1, 0])


def _noisy_xor(random: np.random.Generator, n: int) -> Drawn:
    places = random.uniform(-1.5, 1.5, (n, 2))
    return places, (places[:, 0] * places[:, 1] < 0).astype(int)


def _disc(random: np.random.Generator, n: int) -> Drawn:
    """Inside both of x₁² + x₂² ≤ 1 and x₁² + ½ x₂² ≤ 2 or not."""
    places = random.uniform(-2, 2, (n, 2))
    squares = places**2
    inside = (squares.sum(axis=1) <= 1) & (squares @ [1.0, 0.5] <= 2)
    return places, inside.astype(int)


def _ellipse(random: np.random.Generator, n: int) -> Drawn:
    places = random.uniform(-2, 2, (n, 2))
    return places, (places**2 @ [0.5, 1.2] <= 1).astype(int)


def _moons(random: np.random.Generator, n: int) -> Drawn:
    seed = int(random.integers(2**31))
    places, labels = make_moons(n, noise=0.18, random_state=seed)
    return np.asarray(places), np.asarray(labels)


def _spirals(random: np.random.Generator, n: int) -> Drawn:
    labels = np.arange(n) % 2
    turn = np.sqrt(np.linspace(0.02, 1, n)) * 3 * np.pi
    radius = turn / (3 * np.pi) * 1.5
    angle = turn + np.pi * labels
    places = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return places + random.normal(0, 0.03, (n, 2)), labels


def _clusters(random: np.random.Generator, n: int) -> Drawn:
    centres = np.array([[-0.5, -0.2], [0.0, 0.6], [0.5, 0.0]])
    labels = np.arange(n) * 3 // n
    return centres[labels] + random.normal(0, 0.1, (n, 2)), labels


def _sinc(random: np.random.Generator, n: int) -> Drawn:
    x = np.sort(random.uniform(-8, 8, n))
    y = np.sinc(x / np.pi) + random.normal(0, 0.08, n)
    return np.column_stack([x, y]), np.zeros(n, dtype=int)


def _powers(random: np.random.Generator, n: int) -> Drawn:
    x = np.sort(random.uniform(-1.5, 1.5, n))
    y = 0.4 * x - 0.6 * x**2 + 0.9 * x**3 + random.normal(0, 0.25, n)
    return np.column_stack([x, y]), np.zeros(n, dtype=int)


def _outlier(random: np.random.Generator, n: int) -> Drawn:
    half = (n - 1) // 2
    left = random.normal([-1.4, 0], [0.35, 0.8], (half, 2))
    right = random.normal([1.4, 0], [0.35, 0.8], (n - 1 - half, 2))
    places = np.vstack([left, right, [[-0.45, 1.2]]])
    return places, np.array([0] * half + [1] * (n - half))


def _blobs(random: np.random.Generator, n: int) -> Drawn:
    half = n // 2
    places = np.vstack([
        random.normal([-0.9, -0.4], 0.55, (half, 2)),
        random.normal([0.9, 0.4], 0.55, (n - half, 2)),
    ])  # fmt: skip
    return places, np.array([0] * half + [1] * (n - half))


def _line(random: np.random.Generator, n: int) -> Drawn:
    """Two classes that a line separates."""
    places, _ = _blobs(random, n)
    gap = places @ [0.9, 0.4]
    near = np.abs(gap) < 0.25
    places[near] += np.sign(gap[near])[:, None] * [0.5, 0.22]
    return places, (places @ [0.9, 0.4] > 0).astype(int)


def _ring(random: np.random.Generator, n: int) -> Drawn:
    angle = random.uniform(0, 2 * np.pi, n)
    radius = random.normal(1, 0.12, n)
    places = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return places, np.zeros(n, dtype=int)


def _circles(random: np.random.Generator, n: int) -> Drawn:
    places, _ = _ring(random, n)
    labels = np.arange(n) % 2
    return places * np.where(labels, 1.0, 0.4)[:, None], labels


def _six(random: np.random.Generator, n: int) -> Drawn:
    labels = np.arange(n) % 6
    angle = labels * np.pi / 3
    centres = np.column_stack([np.cos(angle), np.sin(angle)])
    return centres + random.normal(0, 0.28, (n, 2)), labels


def _cloud(random: np.random.Generator, n: int) -> Drawn:
    """An oblong cloud, bent."""
    along = random.normal(0, 1, n)
    places = np.column_stack([along, 0.5 * along**2 - 0.5 + random.normal(0, 0.2, n)])
    return places, np.zeros(n, dtype=int)


def _digits(random: np.random.Generator, n: int) -> Drawn:
    """Handwritten 0, 1 and 4 of 8 × 8 pixels, by two kernel principal components."""
    images, digits = load_digits(return_X_y=True)
    chosen = np.flatnonzero(np.isin(digits, (0, 1, 4)))
    chosen = np.sort(random.permutation(chosen)[: min(n, len(chosen))])
    pixels = np.asarray(images)[chosen] / 16
    places = KernelPCA(2, kernel=Polynomial(2)).fit_transform(pixels)
    labels = np.searchsorted([0, 1, 4], np.asarray(digits)[chosen])
    return np.asarray(places) / np.abs(places).max() * 2, labels


_SVC: dict[str, Any] = {"C": 10.0}
DATASETS = {
    "xor": DataSet("Exclusive or", "classify", _xor, 0, "SVC", _SVC, "Polynomial(2)"),
    "noisy-xor": DataSet(
        "Exclusive or, many points", "classify", _noisy_xor, 120, "SVC", _SVC, "RBF(1)"
    ),
    "disc": DataSet(
        "The disc in the ellipse", "classify", _disc, 200, "SVC", _SVC, "Polynomial(2)"
    ),
    "ellipse": DataSet(
        "An ellipse", "classify", _ellipse, 200, "SVC", _SVC, "Polynomial(2)"
    ),
    "moons": DataSet("Moons", "classify", _moons, 200, "SVC", _SVC, "RBF(2)"),
    "spirals": DataSet(
        "Spirals", "classify", _spirals, 160, "SVC", {"C": 100.0}, "RBF(8)"
    ),
    "clusters": DataSet(
        "Three clusters", "classify", _clusters, 90, "SVC", _SVC, "RBF(5)"
    ),
    "six": DataSet("Six classes", "classify", _six, 180, "SVC", _SVC, "RBF(1)"),
    "outlier": DataSet(
        "One outlier", "classify", _outlier, 41, "SVC", {"C": 1e5}, "Linear()"
    ),
    "line": DataSet(
        "Two classes and a line", "classify", _line, 40, "SVC", {"C": 1e4}, "Linear()"
    ),
    "blobs": DataSet(
        "Two clouds that overlap", "classify", _blobs, 120, "SVC",
        {"C": 1.0}, "Linear()",
    ),
    "circles": DataSet(
        "Circle in a circle", "classify", _circles, 120, "SVC", _SVC, "RBF(1)"
    ),
    "digits": DataSet(
        "Digits 0, 1 and 4", "classify", _digits, 200, "SVC", _SVC, "Polynomial(3)"
    ),
    "sinc": DataSet(
        "sin(x)/x with noise", "regress", _sinc, 80, "SVR",
        {"C": 10.0, "epsilon": 0.1}, "RBF(0.3)",
    ),
    "powers": DataSet(
        "A cubic with noise", "regress", _powers, 40, "KernelRidge",
        {"alpha": 0.1}, "PolynomialOf(Linear(), [1, 1, 1, 1])",
    ),
    "ring": DataSet("A ring", "one-class", _ring, 120, "OneClassSVM", {}, "RBF(2)"),
    "unlabelled": DataSet(
        "Clusters without labels", "cluster", _clusters, 90, "KernelKMeans",
        {}, "RBF(5)",
    ),
    "ring-density": DataSet(
        "A ring, as a density", "density", _ring, 150, "ParzenDensity",
        {"bandwidth": 0.2}, "RBF()",
    ),
    "three-clusters": DataSet(
        "Three clusters, for PCA", "pca", _clusters, 90, "KernelPCA", {}, "RBF(10)"
    ),
    "cloud": DataSet(
        "A bent cloud", "pca", _cloud, 120, "KernelPCA", {"n_components": 4}, "RBF(0.5)"
    ),
}  # fmt: skip


def dataset_state(name: str, n: int | None = None, seed: int = 0) -> dict[str, Any]:
    """The state of a data set: points, task, machine, kernel and view."""
    one = DATASETS[name]
    places, labels = one.draw(np.random.default_rng(seed), n or one.n)
    (left, right), (low, high) = around(places)
    return {
        "task": one.task,
        "points": points_of(places, labels),
        "machine": {"name": one.machine, "params": dict(one.params)},
        "kernel": one.kernel,
        "view": {"x": [left, right], "y": [low, high]},
    }


def points_of(places: np.ndarray, labels: np.ndarray) -> list[list[float]]:
    """Points as the page has them, with few digits."""
    rounded = np.round(places, 4).tolist()
    return [
        [x, y, label] for (x, y), label in zip(rounded, labels.tolist(), strict=True)
    ]
