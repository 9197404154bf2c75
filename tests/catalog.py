"""Every kernel of the library, each with points to try it on.

An entry is (kernel, points): `points(seed, n=7)` makes n points, the same ones for the
same seed. A new kernel is one line here; the laws in `test_laws.py` then hold for it,
or fail.
"""

import string

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mercer.data.graphs import Graph
from mercer.data.trees import Tree
from mercer.densities.categories import Categories
from mercer.densities.chain import MarkovChain
from mercer.densities.gaussian import Gaussian, GaussianMixture
from mercer.densities.hmm import HMM
from mercer.kernels.algebra import (
    Centered,
    Conformal,
    Exp,
    Normalized,
    On,
    PolynomialOf,
    Pullback,
)
from mercer.kernels.convolution import Convolution
from mercer.kernels.coordinate import Anova, ChiSquared, Intersection, Spline
from mercer.kernels.distance import FromDistance
from mercer.kernels.dotproduct import DotProduct, Sigmoid
from mercer.kernels.explicit import GaussianSeries
from mercer.kernels.generative import Fisher, Natural
from mercer.kernels.graph import ShortestPath, WeisfeilerLehman
from mercer.kernels.multiple import MultipleKernel
from mercer.kernels.node import Diffusion, MatrixExponential
from mercer.kernels.nystrom import Nystrom
from mercer.kernels.operators import Constant, Power, Product, Scaled, Sum
from mercer.kernels.radial import RBF, Laplacian, Matern, Radial, RationalQuadratic
from mercer.kernels.random_features import PolynomialSketch, RandomFourier
from mercer.kernels.string import EditSimilarity, Subsequence, WeightedDegree
from mercer.kernels.substring import Mismatch, Spectrum, WeightedSubstrings
from mercer.kernels.tree import PartialTree, SubsetTree, Subtree, TaggedTree
from mercer.kernels.vector import Bilinear, Exponential, Linear, Polynomial, PowerSeries
from mercer.kernels.walk import RandomWalk
from mercer.kernels.ways import (
    BlockFunction,
    FeatureFunction,
    PairFunction,
    Precomputed,
    RankOne,
)
from mercer.kernels.window import ProductWindow, RadialWindow
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
    RegularizedMachine,
)
from mercer.machines.ridge import KernelRidge
from mercer.machines.rvm import RVC, RVR
from mercer.machines.sgd import KernelSGDClassifier, KernelSGDRegressor
from mercer.machines.sparse import SparseKernelClassifier, SparseKernelRegressor
from mercer.machines.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM

# Points


def vectors(seed, n=7):
    return np.random.default_rng(seed).normal(size=(n, 3))


def histograms(seed, n=7):
    return np.random.default_rng(seed).poisson(1.5, size=(n, 4)).astype(float)


def words(seed, n=7):
    rng = np.random.default_rng(seed)
    letters = list(string.ascii_lowercase[:5])
    made = ["".join(rng.choice(letters, size=rng.integers(1, 6))) for _ in range(n)]
    return ["", *made[1:]]


def sentences(seed, n=7):
    """Sequences of tokens that are no characters."""
    return [
        tuple(ord(c) if c < "c" else c * 2 for c in word) for word in words(seed, n)
    ]


def trees(seed, n=7):
    """As text, as a Tree; one of them a single word."""
    rng = np.random.default_rng(seed)

    def grown(depth):
        if depth == 0 or rng.random() < 0.2:
            return (str(rng.choice(list("abc"))),)
        parts = [grown(depth - 1) for _ in range(rng.integers(1, 4))]
        return (str(rng.choice(list("AB"))), *parts)

    made = [Tree(grown(3)) for _ in range(n)]
    return ["word", *(str(tree) if i % 2 else tree for i, tree in enumerate(made[1:]))]


def records(seed, n=7):
    numbers = np.random.default_rng(seed).normal(size=(n, 2)).tolist()
    return [(a, word, b) for (a, b), word in zip(numbers, words(seed, n), strict=True)]


def pandas_frame(seed, n=7):
    return pd.DataFrame(records(seed, n), columns=["age", "word", "height"])


def polars_frame(seed, n=7):
    rows = records(seed, n)
    return pl.DataFrame(rows, schema=["age", "word", "height"], orient="row")


def gaps(seed, n=7):
    return np.where(np.random.default_rng(seed).random((n, 3)) < 0.3, np.nan,
                    vectors(seed, n))  # fmt: skip


def series(seed, n=7):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(T, 2)).cumsum(axis=0) for T in rng.integers(0, 6, n)]


def indices(seed, n=7):
    return np.random.default_rng(seed).integers(len(GRAM), size=n)


def graphs(seed, n=7):
    rng = np.random.default_rng(seed)
    made = []
    for size in [0, *rng.integers(1, 7, size=n - 1)] if n else []:
        pairs = rng.integers(size, size=(2 * size, 2)).tolist() if size else []
        made.append((pairs, rng.choice(list("CNO"), size=size).tolist()))
    return [Graph(*made[0]), *made[1:]]


def bonded_graphs(seed, n=7):
    """Graphs whose edges have labels, but for the first."""
    first, *others = graphs(seed, n) if n else [None]
    rng = np.random.default_rng(seed)
    made = [Graph(*other) for other in others]
    return ([] if first is None else [first]) + [
        Graph(
            graph.ends,
            dict(enumerate(graph.labels)),
            edge_labels=rng.choice(list("-="), size=len(graph.ends)).tolist(),
        )
        for graph in made
    ]


def nodes(seed, n=7):
    return np.random.default_rng(seed).choice(list("abcdefgh"), size=n).tolist()


# Functions for the kernels made of a user's functions; pickle finds them by name.


def common_letters(s, t):
    return len(set(s) & set(t))


def splits(word):
    return [(word[:i], word[i:]) for i in range(len(word))]


def letter_numbers(word):
    return [float(ord(letter)) for letter in word]


def inner_products(X, Y):
    return X @ Y.T


def row_sums(X):
    return np.asarray(X.sum(axis=1)).ravel()


def wave(X):
    return np.cos(row_sums(X))


def doubled(X):
    return 2 * X


def letter_counts(X):
    counts = [[word.count(c) for c in "abcde"] for word in X]
    return np.array(counts, dtype=float).reshape(-1, 5)


def tent(distances):
    return np.maximum(1 - distances / 2, 0)


def decay(distances):
    return np.exp(-distances)


def differing_letters(s, t):
    return len(set(s) ^ set(t))


def falling_exponential(t):
    return np.exp(-t)


def absolute_cube(t):
    return np.abs(t) ** 3


METRIC = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.5]])
GRAM = vectors(9, 10) @ vectors(9, 10).T
TOWN = Graph(["ab", "bc", "ca", ("c", "d", 2.5), "de", "ef", "fd", "gh"])

MIXTURE = GaussianMixture(2, "diag").fit(vectors(6, 40))
CHAIN = MarkovChain("abcde").fit(words(6, 20))
HIDDEN = HMM(2, seed=1).fit(series(6, 30))


def entry(kernel, points):
    text = repr(kernel)
    return pytest.param(
        kernel, points, id=text if len(text) < 70 else text[:67] + "..."
    )


psd_kernels = [
    # Functions of ⟨x, y⟩
    entry(Linear(), vectors),
    entry(Polynomial(3), vectors),
    entry(Polynomial(2, 0.5, 0), vectors),
    entry(Polynomial(0), vectors),
    entry(Exponential(2.0), vectors),
    entry(PowerSeries([0.5, 0, 2.0, 1.0]), vectors),
    entry(Bilinear(METRIC), vectors),
    # Functions of a distance
    entry(RBF(0.5), vectors),
    entry(RBF.from_sigma(2.0), vectors),
    entry(GaussianSeries(0.5, 4), vectors),
    entry(Laplacian(0.3), vectors),
    entry(Matern(0.5, 1.3), vectors),
    entry(Matern(1.5), vectors),
    entry(Matern(2.5, 0.7), vectors),
    entry(Matern(3.2), vectors),
    entry(Matern(100.0), vectors),
    entry(Matern(float("inf"), 2.0), vectors),
    entry(RationalQuadratic(0.7, 1.5), vectors),
    entry(RBF([0.5, 1.0, 0.1]), vectors),
    entry(Laplacian(np.array([0.5, 1.0, 0.1])), vectors),
    entry(Matern(1.5, [0.5, 1.0, 2.0]), vectors),
    entry(RationalQuadratic(0.7, np.array([0.5, 1.0, 2.0])), vectors),
    entry(RandomFourier(RBF([0.5, 1.0, 0.1]), 20).resolve(vectors(5)), vectors),
    entry(FromDistance("euclidean", [0.5, -1.0, 2.0]), vectors),
    entry(FromDistance("euclidean", [0.5, -1.0, 2.0], 0.3), vectors),
    entry(FromDistance("manhattan", [0.0, 0.0, 1.0], 0.5), vectors),
    # Coordinate by coordinate
    entry(Anova(2), vectors),
    entry(Anova(3, cumulative=True), vectors),
    entry(Anova(5, cumulative=True), vectors),
    entry(Anova(2, RBF(0.8)), vectors),
    entry(Anova(2, [Linear(), RBF(0.3), Constant(2.0)], cumulative=True), vectors),
    entry(ChiSquared(0.4), histograms),
    entry(Intersection(), histograms),
    # Strings and sequences
    entry(Subsequence(2, 0.5), words),
    entry(Subsequence(3, 0.9, [0.5, 0.0, 2.0]), sentences),
    entry(Normalized(Subsequence(2, 0.3)), words),
    entry(WeightedDegree(3), words),
    entry(WeightedDegree(2, [0.5, 2.0]), sentences),
    entry(Spectrum(2), words),
    entry(Spectrum(3, [0.5, 1.0, 2.0]), sentences),
    entry(Mismatch(2, 1, "abcde"), words),
    entry(Mismatch(2, 1, [97, 98, "cc"]), sentences),
    entry(WeightedSubstrings(0.5), words),
    entry(WeightedSubstrings(weights=[1.0, 0.0, 3.0]), sentences),
    entry(Normalized(Spectrum(1) * WeightedSubstrings(0.8)), words),
    entry(On("word", Spectrum(2)) * On("age", RBF(0.5)), polars_frame),
    # Trees
    entry(SubsetTree(0.5), trees),
    entry(SubsetTree(1.0, leaves=True), trees),
    entry(PartialTree(0.5, 0.7), trees),
    entry(Subtree(0.6), trees),
    entry(Subtree(1.0, leaves=True), trees),
    entry(TaggedTree(WeightedSubstrings(0.5)), trees),
    entry(TaggedTree(Spectrum(3), sort=True), trees),
    entry(Normalized(SubsetTree(0.3)) + Normalized(PartialTree()), trees),
    # From densities
    entry(Fisher(Gaussian([0.0, 1.0, -1.0], METRIC)), vectors),
    entry(Natural(Gaussian([0.0, 1.0, -1.0], METRIC), 0.5), gaps),
    entry(Fisher(MIXTURE, samples=500), gaps),
    entry(Fisher(CHAIN), words),
    entry(Natural(CHAIN, 2.0), words),
    entry(Natural(HIDDEN), series),
    entry(Normalized(Fisher(HIDDEN, samples=500, seed=3)), series),
    # Approximations
    entry(Nystrom(RBF(0.5), landmarks=vectors(5, 5)), vectors),
    entry(Nystrom(Laplacian(0.3), 6).resolve(vectors(5, 30)), vectors),
    entry(Nystrom(Spectrum(2), landmarks=["abc", "bcd", "abc", "ea"]), words),
    entry(Nystrom(Normalized(SubsetTree(0.5)), landmarks=trees(5, 4)), trees),
    entry(Nystrom(WeisfeilerLehman(2), landmarks=graphs(5, 4)), graphs),
    entry(On("age", Nystrom(RBF(0.5), landmarks=vectors(5, 3)[:, :1])), pandas_frame),
    entry(RandomFourier(RBF(0.5), 20).resolve(vectors(5)), vectors),
    entry(RandomFourier(Matern(1.5), 8).resolve(vectors(5)), vectors),
    entry(RandomFourier(Laplacian(0.3), 8).resolve(vectors(5)), vectors),
    entry(PolynomialSketch(Polynomial(3), 16).resolve(vectors(5)), vectors),
    entry(PolynomialSketch(Linear(), 7).resolve(vectors(5)), vectors),
    # A user's functions
    entry(FeatureFunction(doubled), vectors),
    entry(FeatureFunction(letter_counts), words),
    entry(RankOne(row_sums), vectors),
    entry(BlockFunction(inner_products, psd=True), vectors),
    entry(PairFunction(common_letters, psd=True), words),
    entry(Precomputed(GRAM, psd=True), indices),
    entry(Constant(2.5), words),
    # Graphs and their nodes
    entry(WeisfeilerLehman(2), graphs),
    entry(ShortestPath(), graphs),
    entry(Normalized(ShortestPath()), graphs),
    entry(RandomWalk(0.02), graphs),
    entry(WeisfeilerLehman(3), bonded_graphs),
    entry(ShortestPath("label", "label"), bonded_graphs),
    entry(RandomWalk(0.01, "label"), bonded_graphs),
    entry(Diffusion(TOWN, 0.7), nodes),
    entry(MatrixExponential(GRAM, 0.1), indices),
    # Closure rules
    entry(Sum(RBF(0.5), Linear()), vectors),
    entry(Product(RBF(0.5), Polynomial(2)), vectors),
    entry(Scaled(3.0, Laplacian(0.2)), vectors),
    entry(Power(Linear(), 3), vectors),
    entry(Exp(0.1 * Linear()), vectors),
    entry(PolynomialOf(RBF(0.5), [1.0, 0.0, 2.0]), vectors),
    entry(Conformal(RBF(0.5), wave), vectors),
    entry(Normalized(Polynomial(2)), vectors),
    entry(Normalized(PairFunction(common_letters, psd=True)), words),
    entry(Pullback(RBF(0.5), doubled), vectors),
    entry(Pullback(Linear(), letter_counts), words),
    entry(Centered(RBF(0.5), vectors(8, 5)), vectors),
    entry(Centered(PairFunction(common_letters, psd=True), words(8, 5)), words),
    entry(Convolution(list, PairFunction(common_letters, psd=True)), words),
    entry(
        Convolution(splits, [Constant(2.0), PairFunction(common_letters, psd=True)]),
        words,
    ),
    entry(MultipleKernel([RBF(0.5), Linear()], 1, [0.25, 0.75]), vectors),
    entry(MultipleKernel([Spectrum(2), Spectrum(1)], weights=[0.0, 2.0]), words),
    entry(On([0, 2], RBF(0.5)), vectors),
    entry(On(slice(1, None), Linear()) * On(0, RBF(1.0)), vectors),
    entry(
        On(0, RBF(0.5)) + On(1, PairFunction(common_letters, psd=True)) * 2.0, records
    ),
    entry(On("age", RBF(0.5)) * On("word", Constant(2.0)), pandas_frame),
    entry(
        On(["age", "height"], Anova(2)) + On("word", Pullback(Linear(), letter_counts)),
        pandas_frame,
    ),
    entry(On("age", Matern(1.5)) * On(["age", "height"], Linear()), polars_frame),
    entry(
        Normalized(2 * RBF(0.5) + Linear() ** 2) * (Exp(0.2 * Laplacian(1.0)) + 1.0),
        vectors,
    ),
]

other_kernels = [
    entry(DotProduct(falling_exponential), vectors),
    entry(DotProduct(absolute_cube, 2.0), vectors),
    entry(DotProduct(np.exp, 3.0), vectors),
    entry(Sigmoid(0.7), vectors),
    entry(Sigmoid(0.2, -1.0), vectors),
    entry(Sigmoid(1.0, 3.0), vectors),
    entry(3.0 * Sigmoid(1.0), vectors),
    entry(Radial(tent), vectors),
    entry(Radial(decay, "cityblock"), vectors),
    entry(Radial(decay, "chebyshev"), vectors),
    entry(Radial(decay, "cosine"), vectors),
    entry(Radial(decay, differing_letters), words),
    entry(RadialWindow("epanechnikov", 2.0), vectors),
    entry(RadialWindow(tent, 1.5), vectors),
    entry(ProductWindow("triangle", 3.0), vectors),
    entry(EditSimilarity(0.5), words),
    entry(EditSimilarity(4.0), sentences),
    entry(FromDistance("edit", "abc"), words),
    entry(FromDistance("edit", (97, "cc"), 0.5), sentences),
    entry(FromDistance("chebyshev", [0.0, 0.0, 1.0]), vectors),
    entry(FromDistance(differing_letters, "bad"), words),
    entry(Spline(), vectors),
    entry(BlockFunction(inner_products), vectors),
    entry(PairFunction(differing_letters, psd=False), words),
    entry(Precomputed(GRAM), indices),
    entry(RBF(0.5) + Sigmoid(1.0), vectors),
]

# Kernels with parameters that `resolve` learns from data
learning_kernels = [
    entry(RBF(), vectors),
    entry(Laplacian(), vectors),
    entry(Polynomial(2, None), vectors),
    entry(Sigmoid(), vectors),
    entry(RadialWindow("cosine"), vectors),
    entry(ProductWindow("gaussian"), vectors),
    entry(Anova(2, RBF()), vectors),
    entry(Anova(1, [RBF(), Laplacian(), Linear()]), vectors),
    entry(2 * RBF() + Linear() * Laplacian(), vectors),
    entry(Pullback(RBF(), letter_counts), words),
    entry(Mismatch(2, 1), words),
    entry(Mismatch(2, 2), sentences),
    entry(On("age", RBF()) * On(["age", "height"], Laplacian()), pandas_frame),
    entry(Centered(RBF()), vectors),
    entry(FromDistance("edit"), words),
    entry(FromDistance("euclidean"), vectors),
    entry(FromDistance(differing_letters, power=0.5), words),
    entry(On(["age", "height"], FromDistance("manhattan", None, 0.5)), pandas_frame),
    entry(Convolution(letter_numbers, RBF()), words),
    entry(Exp(Normalized(RBF())), vectors),
    entry(MultipleKernel([RBF(), Linear()], weights=[1.0, 0.5]), vectors),
    entry(Fisher(Gaussian(form="diag"), "empirical"), vectors),
    entry(Fisher(MarkovChain()), words),
    entry(Natural(HMM(2, Categories("abcde"))), words),
    entry(Nystrom(RBF(), 4), vectors),
    entry(Nystrom(RBF(), 3, method="uniform", seed=1), vectors),
    entry(Nystrom(Spectrum(2), 3, method="kmeans++"), words),
    entry(Nystrom(ShortestPath(), error=0.1), graphs),
    entry(2 * Normalized(Nystrom(SubsetTree(0.5), error=0.2, seed=2)), trees),
    entry(On(0, Nystrom(RBF(), 3)) * On(1, Nystrom(Spectrum(1), 4)), records),
    entry(RandomFourier(RBF(), 10), vectors),
    entry(RandomFourier(Matern(2.5), 10, 3, False), vectors),
    entry(RandomFourier(Laplacian(), 10), vectors),
    entry(PolynomialSketch(Polynomial(2, None), 10), vectors),
]

all_kernels = psd_kernels + other_kernels
vector_kernels = [e for e in all_kernels if e.values[1] in (vectors, histograms)]

# Machines


def machine(made):
    return pytest.param(made, id=type(made).__name__)


machines = [
    machine(KernelRidge(alpha=0.5)),
    machine(KernelKMeans(n_clusters=3, random_state=0)),
    machine(SVC(C=2.0)),
    machine(NuSVC(nu=0.3)),
    machine(SVR(C=2.0, epsilon=0.05)),
    machine(NuSVR(C=2.0, nu=0.4)),
    machine(OneClassSVM(nu=0.3)),
    machine(SVDD(nu=0.3)),
    machine(KernelPerceptron(max_iter=5, random_state=0)),
    machine(KernelSGDClassifier("logistic", shuffle=False)),
    machine(KernelSGDRegressor("huber", shuffle=False)),
    machine(KernelLogisticRegression(C=2.0)),
    machine(RegularizedMachine(reg=0.05)),
    machine(KernelQuantileRegression(0.3, reg=0.05)),
    machine(KernelHuberRegression(0.5, reg=0.05)),
    machine(KernelKNNClassifier(3)),
    machine(KernelKNNRegressor(3)),
    machine(ParzenClassifier(method="mean")),
    machine(SparseKernelClassifier(C=2.0)),
    machine(SparseKernelRegressor(alpha=0.02)),
    machine(KernelPCA(n_components=3)),
    machine(RVR()),
    machine(RVC()),
    machine(GaussianProcessRegressor(alpha=0.5, optimizer=None)),
    machine(GaussianProcessClassifier(optimizer=None)),
]

# Machines whose kernel must be a density: their laws are in their own tests
window_machines = [machine(ParzenDensity())]
