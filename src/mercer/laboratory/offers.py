"""The machines that the page offers: their tasks, and the parameters with their ranges.

How many points a machine takes here follows from what it costs: those that hold a
matrix of all pairs, or factor it, take fewer than those that need a few of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mercer.laboratory.fields import Fields, is_number, shown
from mercer.machines.gp import GaussianProcessClassifier, GaussianProcessRegressor
from mercer.machines.kmeans import KernelKMeans
from mercer.machines.neighbors import KernelKNNClassifier, KernelKNNRegressor
from mercer.machines.parzen import ParzenClassifier, ParzenDensity
from mercer.machines.pca import KernelPCA
from mercer.machines.perceptron import KernelPerceptron
from mercer.machines.regularized import (
    KernelHuberRegression,
    KernelLogisticRegression,
    KernelQuantileRegression,
)
from mercer.machines.ridge import KernelRidge
from mercer.machines.rvm import RVC, RVR
from mercer.machines.sgd import KernelSGDClassifier, KernelSGDRegressor
from mercer.machines.sparse import SparseKernelClassifier, SparseKernelRegressor
from mercer.machines.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM

MOST_POINTS = 5000
TASKS = {
    "classify": "Classification",
    "regress": "Regression",
    "one-class": "One class",
    "cluster": "Clustering",
    "density": "Density",
    "pca": "Principal components",
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a machine, as the page shows it.

    Parameters
    ----------
    kind : "number", "integer", "choice" or "flag"
    scale : "log" or "linear", of the slider
    """

    name: str
    symbol: str
    title: str
    default: Any
    low: float = 0.0
    high: float = 0.0
    kind: str = "number"
    scale: str = "log"
    choices: tuple[str, ...] = ()

    def content(self) -> dict[str, Any]:
        """What the page is told of it."""
        out = {
            "name": self.name,
            "symbol": self.symbol,
            "title": self.title,
            "kind": self.kind,
            "default": self.default,
        }
        if self.kind == "choice":
            return {**out, "choices": list(self.choices)}
        if self.kind == "flag":
            return out
        return {**out, "low": self.low, "high": self.high, "scale": self.scale}

    def read(self, fields: Fields) -> Any:
        """Its value in a request."""
        value = fields.value.get(self.name)
        if value is None:
            return self.default
        if self.kind == "flag":
            if not isinstance(value, bool):
                fields.refuse(self.name, f"needs true or false; got {shown(value)}")
            return value
        if self.kind == "choice":
            return fields.choice(self.name, self.choices)
        if self.kind == "integer":
            return fields.whole(self.name, int(self.low), int(self.high))
        return fields.number(self.name, self.low, self.high)


def _flag(name: str, title: str, default: bool) -> Parameter:
    return Parameter(name, name, title, default, kind="flag")


def _whole(name: str, symbol: str, title: str, default: int, *ends: int) -> Parameter:
    low, high = ends
    return Parameter(name, symbol, title, default, low, high, "integer", "linear")


def _word(name: str, title: str, *choices: str) -> Parameter:
    return Parameter(name, name, title, choices[0], kind="choice", choices=choices)


C = Parameter("C", "C", "price of an error", 1.0, 1e-3, 1e6)
NU = Parameter("nu", "ν", "share of errors", 0.5, 0.01, 1.0)
EPSILON = Parameter("epsilon", "ε", "half width of the tube", 0.1, 1e-3, 10.0)
REG = Parameter("reg", "λ", "weight of ‖f‖²", 1e-3, 1e-8, 10.0)
BIAS = _flag("fit_intercept", "with a bias", True)
SEED = _whole("random_state", "seed", "of the random draws", 0, 0, 9999)
NEIGHBOURS = _whole("n_neighbors", "k", "neighbours", 5, 1, 50)
WEIGHTS = _word("weights", "votes of neighbours", "uniform", "distance")
BANDWIDTH = Parameter("bandwidth", "h", "width of a window", 0.3, 0.01, 100.0)


@dataclass(frozen=True)
class Offer:
    """A machine of the library for the page.

    Parameters
    ----------
    kind : its class
    tasks : those that it is for
    most : points at most
    dual : whether it has dual variables with bounds
    path : whether there is a path in C
    probable : whether its probabilities are drawn
    steps : algorithms of the page that show how it learns
    kernel : the formula to begin with, where that of the task does not fit
    fixed : parameters that the page does not show
    """

    kind: type[Any]
    title: str
    about: str
    tasks: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    most: int = MOST_POINTS
    dual: bool = False
    path: bool = False
    probable: bool = False
    steps: tuple[str, ...] = ()
    kernel: str | None = None
    fixed: dict[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """What the page is told of it."""
        return {
            "title": self.title,
            "about": self.about,
            "tasks": list(self.tasks),
            "points": self.most,
            "dual": self.dual,
            "path": self.path,
            "probability": self.probable,
            "steps": list(self.steps),
            "kernel": True,
            "formula": self.kernel,
            "parameters": [one.content() for one in self.parameters],
        }

    def make(self, params: dict[str, Any], **options: Any) -> Any:
        """The machine with these parameters, and those options that it has."""
        known = self.kind().get_params(deep=False)
        chosen = {name: one for name, one in options.items() if name in known}
        return self.kind(**self.fixed | params | chosen)

    @property
    def name(self) -> str:
        """That of its class."""
        return self.kind.__name__


_DENSE = 2000  # points of machines that hold or factor the whole matrix
_SLOW = 1000  # points of those that factor it again and again

_OFFERS = (
    Offer(
        SVC, "Support vector machine", "the widest margin, errors priced by C",
        ("classify",), (C, BIAS), dual=True, path=True, steps=("smo", "coordinate"),
        fixed={"break_ties": True},
    ),
    Offer(
        NuSVC, "ν support vector machine", "ν bounds the share of margin errors",
        ("classify",), (NU,), dual=True, fixed={"break_ties": True},
    ),
    Offer(
        KernelLogisticRegression, "Logistic regression", "probabilities of classes",
        ("classify",), (C, BIAS), most=_SLOW, probable=True,
    ),
    Offer(
        GaussianProcessClassifier, "Gaussian process", "Laplace's approximation",
        ("classify",), (), most=500, probable=True, fixed={"optimizer": None},
    ),
    Offer(
        RVC, "Relevance vector machine", "few points, each with its own prior",
        ("classify",), (BIAS,), most=_SLOW, probable=True,
    ),
    Offer(
        SparseKernelClassifier, "Sparse machine", "|coef| is priced, few are left",
        ("classify",), (C, BIAS), most=_DENSE,
    ),
    Offer(
        KernelPerceptron, "Perceptron", "a point counts each time it is missed",
        ("classify",),
        (
            _word("variant", "which f decides", "plain", "averaged", "voted"),
            _flag("fit_intercept", "with a bias", False),
            _whole("max_iter", "T", "passes at most", 100, 1, 1000),
            SEED,
        ),
        most=_DENSE, steps=("perceptron",),
    ),
    Offer(
        KernelSGDClassifier, "Stochastic gradients", "a step for each point",
        ("classify",),
        (
            _word("loss", "what is minimised", "hinge", "logistic"),
            REG, _whole("max_iter", "T", "passes", 10, 1, 100), SEED,
        ),
        most=_DENSE, steps=("sgd",),
    ),
    Offer(
        KernelKNNClassifier, "Nearest neighbours", "near in feature space",
        ("classify",), (NEIGHBOURS, WEIGHTS), most=_DENSE, probable=True,
    ),
    Offer(
        ParzenClassifier, "Parzen windows", "densities of the classes, compared",
        ("classify",), (BANDWIDTH,), most=_DENSE, probable=True, kernel="RBF()",
    ),
    Offer(
        SVR, "Support vector regression", "errors within ε are free",
        ("regress",), (C, EPSILON, BIAS), dual=True, path=True,
    ),
    Offer(
        NuSVR, "ν support vector regression", "ν bounds the share outside the tube",
        ("regress",), (C, NU), dual=True,
    ),
    Offer(
        KernelRidge, "Ridge regression", "(K + αI) coef = y",
        ("regress",), (Parameter("alpha", "α", "weight of ‖f‖²", 0.1, 1e-8, 1e3),),
        most=_DENSE,
    ),
    Offer(
        GaussianProcessRegressor, "Gaussian process", "a mean, and how sure it is",
        ("regress",),
        (Parameter("alpha", "σ²", "variance of the noise", 0.01, 1e-8, 10.0),),
        most=_DENSE, fixed={"optimizer": None},
    ),
    Offer(
        KernelQuantileRegression, "Quantile regression", "a share τ lies below f",
        ("regress",),
        (Parameter("quantile", "τ", "share below", 0.5, 0.01, 0.99, scale="linear"),
         REG, BIAS),
        most=_DENSE,
    ),
    Offer(
        KernelHuberRegression, "Huber regression", "large errors count linearly",
        ("regress",),
        (Parameter("delta", "δ", "where the loss bends", 1.0, 1e-3, 10.0), REG, BIAS),
        most=_DENSE,
    ),
    Offer(
        RVR, "Relevance vector machine", "few points, each with its own prior",
        ("regress",), (BIAS,), most=_SLOW,
    ),
    Offer(
        SparseKernelRegressor, "Sparse regression", "|coef| is priced, few are left",
        ("regress",),
        (Parameter("alpha", "α", "price of |coef|", 0.01, 1e-6, 10.0), BIAS),
        most=_DENSE,
    ),
    Offer(
        KernelSGDRegressor, "Stochastic gradients", "a step for each point",
        ("regress",), (REG, _whole("max_iter", "T", "passes", 10, 1, 100), SEED),
        most=_DENSE,
    ),
    Offer(
        KernelKNNRegressor, "Nearest neighbours", "the mean of near points",
        ("regress",), (NEIGHBOURS, WEIGHTS), most=_DENSE,
    ),
    Offer(
        OneClassSVM, "One-class machine", "a half-space away from 0",
        ("one-class",), (Parameter("nu", "ν", "share outside", 0.1, 0.01, 1.0),),
        dual=True, steps=("smo",),
    ),
    Offer(
        SVDD, "Smallest ball", "the ball around the points in feature space",
        ("one-class",), (Parameter("nu", "ν", "share outside", 0.1, 0.01, 1.0),),
        dual=True,
    ),
    Offer(
        KernelKMeans, "k-means in feature space", "centres that nobody sees",
        ("cluster",), (_whole("n_clusters", "k", "clusters", 3, 1, 12), SEED),
        most=_DENSE, steps=("kmeans",), fixed={"n_init": 1},
    ),
    Offer(
        ParzenDensity, "Parzen windows", "the mean of windows around the points",
        ("density",), (BANDWIDTH,), kernel="RBF()",
    ),
    Offer(
        KernelPCA, "Kernel PCA", "the directions of the greatest variance",
        ("pca",), (_whole("n_components", "k", "components", 8, 1, 8),),
        most=_DENSE, steps=("pca",),
    ),
)  # fmt: skip
OFFERS = {offer.name: offer for offer in _OFFERS}


def offers_for(task: str) -> list[str]:
    """The names of machines for a task."""
    return [name for name, offer in OFFERS.items() if task in offer.tasks]


def read_machine(fields: Fields, task: str) -> tuple[Offer, dict[str, Any]]:
    """The machine of a request, and its parameters."""
    inner = fields.inner("machine", ("name", "params"))
    name = inner.choice("name", offers_for(task))
    offer = OFFERS[name]
    known = [one.name for one in offer.parameters]
    given = inner.value.get("params") or {}
    params = Fields(given, known, f"{inner.place}/params")
    for key, value in params.value.items():
        if not (isinstance(value, bool | str) or is_number(value)):
            params.refuse(key, f"needs a number, a word or a flag; got {shown(value)}")
    return offer, {one.name: one.read(params) for one in offer.parameters}
