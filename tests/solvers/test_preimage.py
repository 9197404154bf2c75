"""Pre-images of every kernel of vectors: never worse than their start, and stated."""

import catalog
import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from mercer.kernels.algebra import Centered, Exp, Normalized, On, PolynomialOf, Pullback
from mercer.kernels.coordinate import ChiSquared
from mercer.kernels.dotproduct import Sigmoid
from mercer.kernels.generative import Fisher
from mercer.kernels.operators import Constant
from mercer.kernels.radial import RBF, Laplacian, Matern, RationalQuadratic
from mercer.kernels.slopes import is_analytic, slopes, slopes_of_square
from mercer.kernels.substring import Spectrum
from mercer.kernels.vector import Bilinear, Exponential, Linear, Polynomial, PowerSeries
from mercer.kernels.ways import BlockFunction
from mercer.machines.pca import KernelPCA
from mercer.solvers.preimage import descents, distances

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3)) + 0.5
NEW = rng.normal(size=(8, 3)) + 0.5
ANALYTIC = [
    Linear(),
    Polynomial(1),
    Polynomial(3, 0.5, 0.0),
    Polynomial(4, 0.3, 1.0),
    Polynomial(0),
    Exponential(3.0),
    PowerSeries([1.0, 0.0, 0.5, 0.2]),
    PowerSeries([2.0]),
    Bilinear(np.diag([1.0, 2.0, 0.5])),
    Sigmoid(0.2, 0.1),
    RBF(0.4),
    RationalQuadratic(1.3, 0.8),
    Matern(0.5, 1.2),
    Matern(0.8, 1.2),
    Matern(1.0, 1.2),
    Matern(1.5, 1.2),
    Matern(3.3, 1.2),
    Matern(np.inf, 1.2),
    Laplacian(0.7),
    RBF(0.4) + 0.3 * Linear(),
    RBF(0.4) * Polynomial(2),
    Polynomial(2) ** 2 + Constant(2.0),
    Exp(0.2 * Linear()),
    PolynomialOf(RBF(0.5), [1.0, 2.0, 0.5]),
    Normalized(Polynomial(3, 1.0, 1.0)),
    Normalized(Exponential(2.0) * RBF(0.3)),
    On([0, 2], RBF(0.5)) * On(1, Polynomial(2)),
    On(slice(0, 2), Linear()) + RBF(0.3),
    Centered(RBF(0.4), X[:7]),
]
NUMERICAL = [
    Pullback(RBF(0.3), np.tanh),
    BlockFunction(lambda X, Y: (X @ Y.T) ** 2 + X @ Y.T, psd=True),
]
each_analytic = looped("kernel", ANALYTIC, ids=repr)
each_kernel = looped(
    "kernel",
    [k for k in ANALYTIC[::3] if k.psd] + [Laplacian(0.7), *NUMERICAL],
    ids=repr,
)


# Derivatives


@each_analytic
def test_slopes_are_differences_in_the_limit(kernel):
    assert is_analytic(kernel)
    W, h = rng.normal(size=(8, 40)), 1e-5
    expected = np.empty((8, 3))
    of_square = np.empty((8, 3))
    for j, axis in enumerate(h * np.eye(3)):
        up, down = kernel(NEW + axis, X), kernel(NEW - axis, X)
        expected[:, j] = np.sum(W * (up - down), axis=1) / (2 * h)
        change = kernel.diag(NEW + axis) - kernel.diag(NEW - axis)
        of_square[:, j] = change / (2 * h)
    size = np.abs(expected).max() + np.abs(kernel(NEW, X)).max()
    assert_allclose(slopes(kernel, NEW, X, W), expected, atol=1e-6 * size)
    size = 1 + np.abs(of_square).max()
    assert_allclose(slopes_of_square(kernel, NEW), of_square, atol=1e-6 * size)


def test_a_kernel_without_a_rule_is_differenced():
    kernel = Pullback(RBF(0.3), np.tanh)
    assert not is_analytic(kernel) and not is_analytic(kernel + Linear())
    same, W = RBF(0.3), rng.normal(size=(8, 40))
    found = slopes(kernel, NEW, X, W)
    inner = slopes(same, np.tanh(NEW), np.tanh(X), W)
    assert_allclose(found, inner / np.cosh(NEW) ** 2, atol=1e-7)


@looped("kernel", [Laplacian(0.7), Matern(0.5), Matern(0.3)], ids=repr)
def test_at_its_kink_a_kernel_of_a_distance_has_slope_0(kernel):
    assert_allclose(slopes(kernel, X[:1], X[:1], np.ones((1, 1))), 0)


# Pre-images


@each_kernel
def test_a_pre_image_is_no_further_than_any_training_point(kernel):
    machine = KernelPCA(4, kernel=kernel).fit(X)
    Z = machine.transform(NEW)
    found, distance = machine.preimage(Z, "gradient", return_distance=True)
    assert found.shape == NEW.shape and np.isfinite(found).all()
    assert_allclose(machine.preimage_distance(Z, found), distance)
    for x in X[::4]:
        there = machine.preimage_distance(Z, np.tile(x, (len(Z), 1)))
        assert (distance <= there + 1e-7).all()


@each_kernel
def test_the_distance_left_is_that_of_feature_space(kernel):
    machine = KernelPCA(3, kernel=kernel).fit(X)
    Z = machine.transform(NEW)
    weight = Z @ machine.expansion_.coef.T + 1 / len(X)
    for i in range(3):
        points = np.vstack([NEW[i : i + 1], X])
        coef = np.append(1.0, -weight[i])
        square = max(0.0, coef @ kernel(points) @ coef)
        found = machine.preimage_distance(Z[i : i + 1], NEW[i : i + 1])
        size = (np.abs(coef) @ np.abs(kernel(points)) @ np.abs(coef)).max()
        assert_allclose(found**2, square, atol=1e-12 * size)
        assert isinstance(kernel, Linear) or found[0] > 0


@looped(
    "kernel",
    [
        Linear(),
        3.0 * Linear() + 2.0,
        Polynomial(3, 0.5, 0.0),
        Polynomial(3, 0.2, 1.0),
        Exponential(4.0),
        RBF(0.4),
        RationalQuadratic(1.0, 1.5),
        Matern(2.5, 2.0),
        RBF(0.4) + Linear(),
        RBF(0.4) * Polynomial(2),
        Pullback(RBF(0.3), np.tanh),
    ],
    ids=repr,
)
def test_points_in_the_span_are_their_own_pre_images(kernel):
    machine = KernelPCA(kernel=kernel).fit(X)
    Z = machine.transform(X[:4])
    found, distance = machine.preimage(Z, "gradient", return_distance=True)
    unit = np.sqrt(np.abs(kernel.diag(X)).max())
    assert (distance < 1e-5 * unit).all()
    assert_allclose(found, X[:4], atol=1e-3)


def test_the_starting_points_are_never_better():
    kernel, weight = Matern(0.5, 2.0), rng.dirichlet(np.ones(40), size=6)
    start = np.tile(np.arange(4), (6, 1))
    found = distances(kernel, X, weight, descents(kernel, X, weight, start))
    for i in range(4):
        begin = distances(kernel, X, weight, np.tile(X[i], (6, 1)))
        assert (found <= begin + 1e-9).all()
    middle = distances(kernel, X, weight, weight @ X)
    assert (found <= middle + 1e-9).all()


@looped("container", [np.asarray, sp.csr_array])
@looped("dtype", [np.float64, np.float32])
def test_the_linear_reconstruction_is_that_of_pca(container, dtype):
    data, tol = container((X + 5).astype(dtype)), 1e-9 if dtype is np.float64 else 1e-4
    machine = KernelPCA(2, kernel=Linear()).fit(data)
    reference = PCA(2).fit(X + 5)
    found = machine.inverse_transform(machine.transform(data))
    expected = reference.inverse_transform(reference.transform(X + 5))
    assert_allclose(found, expected, atol=tol)
    every = KernelPCA(kernel=Linear()).fit(data)
    assert_allclose(every.inverse_transform(every.transform(data)), X + 5, atol=tol)
    word = KernelPCA(2, kernel="linear").fit(data)
    Z = word.transform(data)
    again, distance = word.preimage(Z, return_distance=True)
    assert_allclose(again, expected, atol=tol)
    assert_allclose(distance, 0, atol=tol)


def test_words_of_scikit_learn_keep_its_inverse_transform():
    machine = KernelPCA(2, kernel="linear").fit(X)
    with pytest.raises(NotFittedError, match=r"not available\. preimage"):
        machine.inverse_transform(machine.transform(X))
    with pytest.raises(NotFittedError, match="method='learned'"):
        machine.preimage(machine.transform(X), "learned")
    learned = KernelPCA(2, kernel=RBF(0.5), fit_inverse_transform=True).fit(X)
    Z = learned.transform(NEW)
    assert_allclose(learned.inverse_transform(Z), learned.preimage(Z, "learned"))


def test_sparse_points_have_the_pre_images_of_dense_ones():
    thin = np.where(X > 0.5, X, 0)
    for kernel in (RBF(0.5), Polynomial(2)):
        dense = KernelPCA(3, kernel=kernel).fit(thin)
        sparse = KernelPCA(3, kernel=kernel).fit(sp.csr_array(thin))
        Z = dense.transform(thin[:5])
        assert_allclose(sparse.preimage(Z), dense.preimage(Z), atol=1e-4)


def test_histograms_stay_histograms():
    counts = rng.poisson(2.0, size=(30, 4)).astype(float)
    machine = KernelPCA(4, kernel=ChiSquared(0.3)).fit(counts)
    found = machine.preimage(machine.transform(counts[:6]))
    assert found.min() >= 0


def test_descents_take_the_noise_off_a_circle():
    angle = rng.uniform(0, 2 * np.pi, 120)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    noisy = circle + rng.normal(scale=0.15, size=circle.shape)
    for kernel in (RationalQuadratic(2.0, 0.7), Matern(2.5, 1.5)):
        machine = KernelPCA(6, kernel=kernel).fit(noisy)
        cleaned = machine.inverse_transform(machine.transform(noisy))
        before, after = (np.abs(np.hypot(*P.T) - 1).mean() for P in (noisy, cleaned))
        assert after < 0.8 * before


def test_only_vectors_have_pre_images():
    machine = KernelPCA(1, kernel=Spectrum(2)).fit(["spam", "ham", "jam"])
    with pytest.raises(ValueError, match=r"is a vector; .* of another kind"):
        machine.preimage(np.ones((1, 1)))
    with pytest.raises(ValueError, match=r"is a vector; .* of another kind"):
        machine.inverse_transform(np.ones((1, 1)))
    values = KernelPCA(1, kernel="precomputed").fit(X @ X.T)
    with pytest.raises(ValueError, match="kernel values"):
        values.preimage(np.ones((1, 1)))


def test_what_does_not_fit_is_refused():
    machine = KernelPCA(2, kernel=Polynomial(2)).fit(X)
    Z = machine.transform(NEW)
    with pytest.raises(ValueError, match=r"linear kernel.*Polynomial"):
        machine.preimage(Z, "linear")
    with pytest.raises(ValueError, match="needs a point for each"):
        machine.preimage_distance(Z, NEW[:3])


def one_of_each_kind():
    """A kernel of vectors of each class in the catalogue."""
    found = {}
    for entry in catalog.psd_kernels:
        kernel, points = entry.values[0], entry.values[1](0)
        slow = isinstance(kernel, Fisher)  # as Natural, and with more to do
        vectors = isinstance(points, np.ndarray) and points.ndim == 2
        # Whole numbers are the names of nodes.
        if vectors and points.dtype.kind == "f" and not slow:
            found.setdefault((type(kernel), np.isnan(points).any()), entry)
    return list(found.values())


@looped("kernel, points", one_of_each_kind())
def test_every_kernel_of_vectors_has_pre_images(kernel, points):
    data = points(0, 6)
    machine = KernelPCA(2, kernel=kernel).fit(data)
    Z = machine.transform(data[:3])
    if np.isnan(data).any():
        with pytest.raises(ValueError, match="missing values"):
            machine.preimage(Z)
        return
    found, distance = machine.preimage(Z, restarts=1, return_distance=True)
    nearest = machine.preimage_distance(Z, data[:3])
    assert np.isfinite(found).all() and (distance <= nearest + 1e-6).all()
