"""Machines, fitted, that files must hold: (machine, new points) by name.

Every machine of the library, on points of every kind and on both roads.
"""

import functools
import warnings

import catalog
import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

import mercer
from mercer import RBF, Linear, Nystrom, Polynomial, Spectrum
from mercer.densities import HMM, Categories, MarkovChain
from mercer.losses import Huber
from mercer.solvers import SMO, Newton

WORDS = [*catalog.words(3, 12)]
KINDS = np.array(["no", "yes"] * 6)


def fitted(machine, X, y=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return machine.fit(X, y)


def vectors(n=24):
    return catalog.vectors(1, n)


def numbers(n=24):
    X = vectors(n)
    return X[:, 0] - X[:, 1]


def three(n=24):
    return np.digitize(vectors(n)[:, 0], [-0.5, 0.5])


def of_vectors(machine, target=None, dtype=float):
    X = vectors().astype(dtype)
    return fitted(machine, X, target), catalog.vectors(2, 7).astype(dtype)


def of_words(machine, target=KINDS):
    return fitted(machine, WORDS, target), catalog.words(4, 5)


def streamed(machine, target, **first):
    """Two batches of a stream, in two passes."""
    X = vectors()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.partial_fit(X[:12], target[:12], **first)
        machine.partial_fit(X[12:], target[12:])
    return machine, catalog.vectors(2, 7)


def many_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    machine = fitted(mercer.SVC(gamma=1.0), X, np.arange(160) % 40)
    return machine, rng.normal(size=(5, 2))


def on_frames(frame):
    X = frame(5, 12)
    kernel = mercer.On("age", RBF()) + mercer.On("word", Spectrum(2))
    return fitted(mercer.SVC(kernel=kernel), X, KINDS), frame(6, 5)


def on_sparse_points():
    X = sp.csr_array(np.maximum(vectors(), 0))
    new = sp.csr_array(np.maximum(catalog.vectors(2, 7), 0))
    return fitted(mercer.SVR(kernel=RBF(0.5)), X, numbers()), new


def precomputed(machine, target):
    X = vectors()
    return fitted(machine, X @ X.T, target), catalog.vectors(2, 7) @ X.T


def labelled(labels):
    return of_vectors(mercer.SVC(gamma=0.5), np.array(labels)[three()])


def structured(kernel, points, machine=mercer.SVC):
    return fitted(machine(kernel=kernel), points(5, 12), KINDS), points(6, 5)


landmarks = functools.partial(Nystrom, RBF(0.5), 6)
one = mercer.KernelSGDClassifier

CASES = {
    "SVC": lambda: of_vectors(mercer.SVC(C=2.0), three()),
    "SVC of two": lambda: of_vectors(mercer.SVC(solver=SMO(tol=1e-5)), three() > 0),
    "SVC with probabilities": lambda: of_vectors(
        mercer.SVC(probability=True, random_state=0), three()
    ),
    "SVC of many classes": many_classes,
    "SVC on landmarks": lambda: of_vectors(mercer.SVC(kernel=landmarks()), three()),
    "SVC in single precision": lambda: of_vectors(
        mercer.SVC(kernel="rbf"), three(), np.float32
    ),
    "SVC on kernel values": lambda: precomputed(
        mercer.SVC(kernel="precomputed"), three()
    ),
    "SVC, one against the rest": lambda: of_vectors(
        mercer.SVC(kernel="poly", multiclass="ovr", class_weight={0: 2.0}), three()
    ),
    "classes as texts": lambda: labelled(["ä", "bb", "ccc"]),
    "classes as objects": lambda: labelled(np.array(["a", "b", "c"], dtype=object)),
    "classes as truth": lambda: labelled([True, False, True]),
    "classes as small numbers": lambda: labelled(np.array([1, -7, 3], np.int8)),
    "NuSVC": lambda: of_vectors(mercer.NuSVC(nu=0.3), three()),
    "SVR": lambda: of_vectors(mercer.SVR(), numbers()),
    "SVR of several targets": lambda: of_vectors(
        mercer.SVR(), np.c_[numbers(), -numbers()]
    ),
    "NuSVR": lambda: of_vectors(mercer.NuSVR(kernel="linear"), numbers()),
    "OneClassSVM": lambda: of_vectors(mercer.OneClassSVM(nu=0.3)),
    "SVDD": lambda: of_vectors(mercer.SVDD(nu=0.3)),
    "SVDD on landmarks": lambda: of_vectors(mercer.SVDD(kernel=landmarks(), nu=0.3)),
    "KernelRidge": lambda: of_vectors(mercer.KernelRidge(kernel=RBF()), numbers()),
    "KernelRidge on landmarks": lambda: of_vectors(
        mercer.KernelRidge(alpha=0.1, kernel=landmarks()), numbers()
    ),
    "KernelRidge on kernel values": lambda: precomputed(
        mercer.KernelRidge(kernel="precomputed"), numbers()
    ),
    "KernelLogisticRegression": lambda: of_vectors(
        mercer.KernelLogisticRegression(), three()
    ),
    "RegularizedMachine": lambda: of_vectors(
        mercer.RegularizedMachine(Huber(0.5), reg=0.1, solver=Newton()), numbers()
    ),
    "KernelQuantileRegression": lambda: of_vectors(
        mercer.KernelQuantileRegression(0.3, reg=0.05), numbers()
    ),
    "KernelHuberRegression": lambda: of_vectors(
        mercer.KernelHuberRegression(0.5, reg=0.05), numbers()
    ),
    "SparseKernelClassifier": lambda: of_vectors(
        mercer.SparseKernelClassifier(), three()
    ),
    "SparseKernelRegressor": lambda: of_vectors(
        mercer.SparseKernelRegressor(alpha=0.02), numbers()
    ),
    "SparseKernelRegressor on features": lambda: of_vectors(
        mercer.SparseKernelRegressor(0.02, kernel=Polynomial(2), on="features"),
        numbers(),
    ),
    "SparseKernelClassifier on words": lambda: of_words(
        mercer.SparseKernelClassifier(kernel=Spectrum(2), on="features")
    ),
    "RVC": lambda: of_vectors(mercer.RVC(), three()),
    "RVR": lambda: of_vectors(mercer.RVR(), numbers()),
    "GaussianProcessRegressor": lambda: of_vectors(
        mercer.GaussianProcessRegressor(RBF(0.5), noise=0.1), numbers()
    ),
    "GaussianProcessClassifier": lambda: of_vectors(
        mercer.GaussianProcessClassifier(1.0 * RBF(0.5)), three()
    ),
    "Perceptron": lambda: of_vectors(mercer.Perceptron(max_iter=5), three()),
    "Perceptron, streamed": lambda: streamed(
        mercer.Perceptron(), three(), classes=[0, 1, 2]
    ),
    "KernelPerceptron": lambda: of_vectors(
        mercer.KernelPerceptron(max_iter=5, random_state=0), three()
    ),
    "KernelPerceptron, streamed": lambda: streamed(
        mercer.KernelPerceptron(variant="averaged"), three(), classes=[0, 1, 2]
    ),
    "KernelPerceptron, streamed on features": lambda: streamed(
        mercer.KernelPerceptron(Polynomial(2), variant="voted"),
        three(),
        classes=[0, 1, 2],
    ),
    "KernelPerceptron on words": lambda: of_words(mercer.KernelPerceptron(Spectrum(2))),
    "KernelSGDClassifier": lambda: of_vectors(
        one("logistic", random_state=np.random.RandomState(3)), three()
    ),
    "KernelSGDClassifier, streamed": lambda: streamed(
        one("hinge"), three(), classes=[0, 1, 2]
    ),
    "KernelSGDClassifier, streamed on features": lambda: streamed(
        one("hinge", kernel=Polynomial(2)), three(), classes=[0, 1, 2]
    ),
    "KernelSGDClassifier of a budget": lambda: streamed(
        one("hinge", budget=5), three(), classes=[0, 1, 2]
    ),
    "KernelSGDRegressor": lambda: of_vectors(
        mercer.KernelSGDRegressor("huber", shuffle=False), numbers()
    ),
    "KernelSGDRegressor on words": lambda: of_words(
        mercer.KernelSGDRegressor(kernel=Spectrum(2), shuffle=False), np.arange(12.0)
    ),
    "KernelKNNClassifier": lambda: of_vectors(mercer.KernelKNNClassifier(3), three()),
    "KernelKNNRegressor": lambda: of_words(
        mercer.KernelKNNRegressor(3, kernel=Spectrum(2)), np.arange(12.0)
    ),
    "ParzenDensity": lambda: of_vectors(mercer.ParzenDensity()),
    "ParzenDensity of a window": lambda: of_vectors(
        mercer.ParzenDensity(kernel=mercer.RadialWindow("epanechnikov"))
    ),
    "ParzenDensity of Matern": lambda: of_vectors(
        mercer.ParzenDensity(kernel=mercer.Matern(1.5))
    ),
    "ParzenClassifier": lambda: of_vectors(mercer.ParzenClassifier(), three()),
    "ParzenClassifier by means": lambda: of_vectors(
        mercer.ParzenClassifier(method="mean"), three()
    ),
    "KernelKMeans": lambda: of_vectors(mercer.KernelKMeans(3, random_state=0)),
    "KernelKMeans on landmarks": lambda: of_vectors(
        mercer.KernelKMeans(3, kernel=landmarks(), random_state=0)
    ),
    "KernelKMeans on words": lambda: of_words(
        mercer.KernelKMeans(2, kernel=Spectrum(1), random_state=0)
    ),
    "KernelPCA": lambda: of_vectors(
        mercer.KernelPCA(3, kernel="rbf", fit_inverse_transform=True)
    ),
    "KernelPCA on landmarks": lambda: of_vectors(
        mercer.KernelPCA(3, kernel=landmarks())
    ),
    "FeatureMap": lambda: of_vectors(mercer.FeatureMap(Polynomial(2))),
    "FeatureMap of words": lambda: of_words(mercer.FeatureMap(Spectrum(2))),
    "FeatureMap of landmarks": lambda: of_vectors(mercer.FeatureMap(landmarks())),
    "FeatureMap of waves": lambda: of_vectors(
        mercer.FeatureMap(mercer.RandomFourier(RBF(), 6))
    ),
    "Nystroem": lambda: of_vectors(mercer.Nystroem(n_components=5, random_state=0)),
    "RBFSampler": lambda: of_vectors(mercer.RBFSampler(n_components=5, random_state=0)),
    "PolynomialCountSketch": lambda: of_vectors(
        mercer.PolynomialCountSketch(n_components=8, random_state=0)
    ),
    "on CSR": on_sparse_points,
    "on pandas": lambda: on_frames(catalog.pandas_frame),
    "on polars": lambda: on_frames(catalog.polars_frame),
    "on columns with names": lambda: (
        fitted(mercer.SVC(), pd.DataFrame(vectors(), columns=list("abc")), three()),
        pd.DataFrame(catalog.vectors(2, 7), columns=list("abc")),
    ),
    "on columns of polars": lambda: (
        fitted(mercer.SVC(), pl.DataFrame(vectors()), three()),
        pl.DataFrame(catalog.vectors(2, 7)),
    ),
    "on words": lambda: of_words(mercer.SVC(kernel=mercer.Subsequence(2, 0.5))),
    "on sentences": lambda: structured(Spectrum(2), catalog.sentences),
    "on trees": lambda: structured(mercer.SubsetTree(0.5), catalog.trees),
    "on graphs": lambda: structured(mercer.WeisfeilerLehman(2), catalog.graphs),
    "on graphs with bonds": lambda: structured(
        mercer.ShortestPath("label", "label"), catalog.bonded_graphs
    ),
    "on nodes": lambda: structured(mercer.Diffusion(catalog.TOWN, 0.7), catalog.nodes),
    "on records": lambda: structured(
        mercer.On(0, RBF(0.5)) * mercer.On(1, Spectrum(1)), catalog.records
    ),
    "on series": lambda: structured(mercer.Natural(catalog.HIDDEN), catalog.series),
    "of a chain": lambda: structured(mercer.Fisher(MarkovChain()), catalog.words),
    "of hidden states": lambda: structured(
        mercer.Natural(HMM(2, Categories("abcde"))), catalog.words
    ),
    "centred and normalised": lambda: of_vectors(
        mercer.SVC(kernel=mercer.Normalized(mercer.Centered(Polynomial(2)) + 1)),
        three(),
    ),
    "not fitted": lambda: (mercer.SVC(C=3.0, kernel=RBF(0.5) * Linear()), None),
}


@functools.cache
def case(name):
    """The machine of a name, fitted once for all tests that read it alone."""
    return CASES[name]()
