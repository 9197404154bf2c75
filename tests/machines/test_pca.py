"""KernelPCA: scikit-learn's answers where it has them, the definition everywhere."""

import os
import pickle
import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from checks import machine_checks
from looped import looped
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Reference
from sklearn.exceptions import (
    ConvergenceWarning,
    NotFittedError,
    PositiveSpectrumWarning,
)
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from mercer.gram import Gram
from mercer.kernels.algebra import Centered
from mercer.kernels.radial import RBF
from mercer.kernels.string import Subsequence
from mercer.kernels.vector import Linear, Polynomial
from mercer.kernels.ways import Precomputed
from mercer.machines.pca import KernelPCA
from mercer.machines.ridge import KernelRidge
from mercer.solvers.auto import AutoComponents
from mercer.solvers.components import Components, Eigenpairs
from mercer.solvers.eigen import BlockKrylov, Covariance, Lapack

rng = np.random.default_rng(0)
X = rng.random((90, 4))
NEW = rng.random((25, 4))
WORDS = ["linear", "poly", "rbf", "cosine"]
EIGEN_SOLVERS = ["auto", "dense", "arpack", "randomized", "krylov"]
DATA = Path(
    os.environ.get("MERCER_DATA")
    or Path(__file__).resolve().parents[3] / "shared" / "data"
)


# One check shifts a matrix of kernel values, which makes it indefinite.
@pytest.mark.filterwarnings(
    "ignore:Precomputed:sklearn.exceptions.PositiveSpectrumWarning"
)
@machine_checks(
    [
        KernelPCA(),
        KernelPCA(kernel="rbf"),
        KernelPCA(kernel=RBF()),
        KernelPCA(n_components=2, kernel="precomputed"),
        KernelPCA(n_components=1, kernel="rbf", eigen_solver="krylov"),
    ]
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


# Drop-in


def both(points=X, **params):
    return KernelPCA(**params).fit(points), Reference(**params).fit(points)


def test_parameters_and_defaults_are_scikit_learn_s():
    ours, theirs = KernelPCA().get_params(), Reference().get_params()
    extra = {"cache_size": None, "verbose": False, "callback": None, "time_limit": None}
    assert ours == theirs | extra


@pytest.mark.parametrize("solver", EIGEN_SOLVERS)
@pytest.mark.parametrize("word", WORDS)
def test_words_agree_with_scikit_learn(word, solver):
    params = {"n_components": 3, "kernel": word, "gamma": 0.7, "degree": 2}
    ours = KernelPCA(**params, eigen_solver=solver, random_state=0).fit(X)
    theirs = Reference(**params, eigen_solver="dense").fit(X)
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    assert_allclose(ours.eigenvectors_, theirs.eigenvectors_, atol=1e-7)
    assert_allclose(ours.transform(NEW), theirs.transform(NEW), atol=1e-7)
    assert ours.gamma_ == theirs.gamma_


@pytest.mark.parametrize("word", [*WORDS, "sigmoid"])
def test_default_parameters_agree_with_scikit_learn(word):
    params = {"kernel": word} | ({"n_components": 3} if word == "sigmoid" else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositiveSpectrumWarning)
        ours, theirs = both(**params)
    assert ours.eigenvalues_.shape == theirs.eigenvalues_.shape
    assert_allclose(
        ours.eigenvalues_, theirs.eigenvalues_, atol=1e-12 * theirs.eigenvalues_[0]
    )
    # Coordinates along eigenvalues near 0 are noise in either.
    clear = theirs.eigenvalues_ > 1e-6 * theirs.eigenvalues_[0]
    expected = theirs.transform(NEW)[:, clear]
    assert_allclose(ours.transform(NEW)[:, clear], expected, atol=1e-6)


@pytest.mark.parametrize("remove", [True, False])
def test_eigenvalues_of_0_are_removed_as_in_scikit_learn(remove):
    ours, theirs = both(n_components=7, remove_zero_eig=remove)
    assert ours.eigenvalues_.shape == theirs.eigenvalues_.shape
    assert ours.eigenvectors_.shape == theirs.eigenvectors_.shape
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, atol=1e-12)
    assert_allclose(ours.transform(NEW), theirs.transform(NEW), atol=1e-10)


def test_more_components_than_points_are_as_many_as_points():
    ours, theirs = both(n_components=500, kernel="rbf")
    assert ours.eigenvalues_.shape == theirs.eigenvalues_.shape == (90,)


@pytest.mark.parametrize("word", WORDS)
def test_inverse_transform_agrees_with_scikit_learn(word):
    params = {
        "n_components": 3,
        "kernel": word,
        "fit_inverse_transform": True,
        "alpha": 0.1,
    }
    ours, theirs = both(**params)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(ours.X_transformed_fit_, theirs.X_transformed_fit_, atol=1e-10)
    Z = theirs.transform(NEW)
    found = ours.inverse_transform(Z)
    assert_allclose(found, theirs.inverse_transform(Z), rtol=1e-7, atol=1e-9)
    assert_allclose(ours.preimage(Z, "learned"), found)


@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_matrix])
def test_sparse_points_agree_with_scikit_learn(container):
    thin = np.where(X > 0.5, X, 0)
    for word in ("linear", "rbf"):
        ours = KernelPCA(2, kernel=word).fit(container(thin))
        theirs = Reference(2, kernel=word).fit(thin)
        assert_allclose(
            ours.transform(container(NEW)), theirs.transform(NEW), atol=1e-9
        )


def test_a_function_of_two_points_agrees_with_scikit_learn():
    def similar(x, y, power=1):
        return (1 + x @ y) ** power

    ours, theirs = both(n_components=2, kernel=similar, kernel_params={"power": 2})
    assert_allclose(ours.transform(NEW), theirs.transform(NEW), atol=1e-9)


def test_precomputed_values_agree_with_scikit_learn():
    K, new = rbf_kernel(X), rbf_kernel(NEW, X)
    ours, theirs = both(K, n_components=3, kernel="precomputed")
    assert_allclose(ours.transform(new), theirs.transform(new), atol=1e-10)
    points = KernelPCA(3, kernel="rbf", gamma=1 / 4).fit(X)
    assert_allclose(ours.transform(new), points.transform(NEW), atol=1e-9)


@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_single_precision_comes_out_as_it_went_in(solver):
    machine = KernelPCA(2, kernel="rbf", eigen_solver=solver)
    found = machine.fit_transform(X.astype(np.float32))
    assert found.dtype == machine.transform(NEW.astype(np.float32)).dtype == np.float32
    expected = Reference(2, kernel="rbf").fit_transform(X)
    assert_allclose(found, expected, atol=1e-5)


def test_names_of_the_coordinates_are_scikit_learn_s():
    frame = pd.DataFrame(X, columns=list("abcd"))
    machine = KernelPCA(2, kernel="rbf").set_output(transform="pandas").fit(frame)
    assert list(machine.transform(frame).columns) == ["kernelpca0", "kernelpca1"]


def test_what_scikit_learn_refuses_is_refused_in_its_words():
    with pytest.raises(ValueError, match="Cannot fit_inverse_transform"):
        KernelPCA(kernel="precomputed", fit_inverse_transform=True).fit(rbf_kernel(X))
    with pytest.raises(NotImplementedError, match="not implemented for sparse"):
        KernelPCA(2, fit_inverse_transform=True).fit(sp.csr_array(X))
    with pytest.raises(NotFittedError, match="fit_inverse_transform parameter"):
        KernelPCA(2).fit(X).inverse_transform(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"shape \(n_queries, n_indexed\)"):
        KernelPCA(kernel="precomputed").fit(rbf_kernel(X)[:5])


# The definition


def test_linear_kernel_equals_pca():
    ours, reference = KernelPCA(3).fit(X), PCA(3).fit(X)
    expected, found = reference.transform(NEW), ours.transform(NEW)
    assert_allclose(np.abs(found), np.abs(expected), atol=1e-10)
    assert_allclose(ours.eigenvalues_, reference.explained_variance_ * 89, rtol=1e-10)


@pytest.mark.parametrize("degree", [2, 3])
def test_polynomial_kernel_equals_pca_on_its_features(degree):
    kernel = Polynomial(degree, scale=0.5, offset=0.3)
    reference = PCA(4).fit(kernel.features(X))
    machine = KernelPCA(4, kernel=kernel).fit(X)
    expected = reference.transform(kernel.features(NEW))
    assert_allclose(np.abs(machine.transform(NEW)), np.abs(expected), atol=1e-8)
    assert_allclose(machine.eigenvalues_, reference.explained_variance_ * 89, rtol=1e-8)
    left = kernel.features(NEW) - reference.inverse_transform(expected)
    squares = np.sum(left**2, axis=1)
    assert_allclose(machine.reconstruction_error(NEW), squares, atol=1e-8)


def test_components_have_length_1_and_are_orthogonal():
    machine = KernelPCA(5, kernel=RBF(0.8)).fit(X)
    assert_allclose(machine.expansion_.gram(), np.eye(5), atol=1e-8)
    assert_allclose(machine.expansion_.norm(), 1, rtol=1e-8)


def test_new_points_are_centred_by_the_training_mean():
    machine = KernelPCA(3, kernel=RBF(0.8)).fit(X)
    K = Centered(RBF(0.8), X)(NEW, X)
    coef = machine.eigenvectors_ / np.sqrt(machine.eigenvalues_)
    assert_allclose(machine.transform(NEW), K @ coef, atol=1e-9)
    assert_allclose(machine.transform(NEW), machine.expansion_(NEW))
    assert_allclose(machine.transform(X).mean(axis=0), 0, atol=1e-10)


@looped("solver", EIGEN_SOLVERS)
def test_coordinates_of_the_training_points_come_without_a_second_look(solver):
    machine = KernelPCA(3, kernel=RBF(0.8), eigen_solver=solver, random_state=0)
    found = machine.fit_transform(X)
    assert_allclose(found, machine.transform(X), atol=1e-7)
    squares = np.sum(found**2, axis=0)
    assert_allclose(squares, machine.eigenvalues_, rtol=1e-10)


def test_residuals_are_those_of_the_centred_matrix():
    machine = KernelPCA(3, kernel=RBF(0.8), eigen_solver="krylov").fit(X)
    K = Centered(RBF(0.8), X)(X)
    left = K @ machine.eigenvectors_ - machine.eigenvectors_ * machine.eigenvalues_
    assert_allclose(machine.residuals_, np.linalg.norm(left, axis=0), atol=1e-12)
    assert machine.residuals_.max() <= 1e-10 * machine.eigenvalues_[0]


def test_order_of_the_points_does_not_matter():
    order = rng.permutation(90)
    first = KernelPCA(3, kernel=RBF(0.8)).fit(X)
    second = KernelPCA(3, kernel=RBF(0.8)).fit(X[order])
    assert_allclose(first.eigenvalues_, second.eigenvalues_, rtol=1e-10)
    found, expected = second.transform(NEW), first.transform(NEW)
    assert_allclose(np.abs(found), np.abs(expected), atol=1e-8)


def test_duplicates_count_twice():
    twice = np.concatenate([X, X])
    once, double = (KernelPCA(3, kernel=RBF(0.8)).fit(points) for points in (X, twice))
    assert_allclose(double.eigenvalues_, 2 * once.eigenvalues_, rtol=1e-10)
    found, expected = double.transform(NEW), once.transform(NEW)
    assert_allclose(np.abs(found), np.abs(expected), atol=1e-8)


def test_one_point_has_no_components():
    machine = KernelPCA(kernel="rbf").fit(X[:1])
    assert machine.eigenvalues_.shape == (0,)
    assert machine.transform(NEW).shape == (25, 0)
    assert KernelPCA(1, kernel="rbf").fit(X[:1]).transform(NEW).tolist() == [[0.0]] * 25


def test_equal_points_have_coordinates_0():
    machine = KernelPCA(2, kernel="rbf").fit(np.ones((10, 3)))
    assert_allclose(machine.transform(NEW[:, :3]), 0, atol=1e-12)


def test_none_is_the_gaussian_kernel():
    machine = KernelPCA(2, kernel=None).fit(X)
    assert machine.expansion_.kernel == RBF().resolve(X)


def test_strings_have_components():
    words = ["spam", "spammer", "hammer", "ham", "jam", "jammer", "exam", "slam"]
    machine = KernelPCA(2, kernel=Subsequence(2, 0.5)).fit(words)
    K = Subsequence(2, 0.5)(words)
    expected = Reference(2, kernel="precomputed").fit(K).transform(K[:3])
    assert_allclose(np.abs(machine.transform(words[:3])), np.abs(expected), atol=1e-10)
    assert not hasattr(machine, "gamma_")


def test_parameters_of_the_kernel_are_searched():
    pipeline = make_pipeline(
        KernelPCA(5, kernel=RBF(1.0)), KernelRidge(alpha=1e-3, kernel="linear")
    )
    grid = {"kernelpca__kernel__gamma": [0.1, 1.0], "kernelpca__n_components": [2, 5]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, np.sin(3 * X[:, 0]))
    assert search.best_params_["kernelpca__n_components"] == 5


def test_a_fitted_machine_is_pickled_and_cloned():
    machine = KernelPCA(2, kernel=RBF(), fit_inverse_transform=True).fit(X)
    again = pickle.loads(pickle.dumps(machine))
    assert_allclose(again.transform(NEW), machine.transform(NEW), rtol=0)
    assert not hasattr(clone(machine), "expansion_")


def test_a_second_fit_forgets_the_first():
    machine = KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit(X)
    machine.set_params(fit_inverse_transform=False).fit(X)
    assert not hasattr(machine, "dual_coef_")
    assert not hasattr(machine, "X_transformed_fit_")


# Novelty


def test_reconstruction_error_is_the_distance_from_the_span():
    kernel = RBF(0.8)
    machine = KernelPCA(4, kernel=kernel).fit(X)
    K = Centered(kernel, X)
    squares = K.diag(NEW) - np.sum(machine.transform(NEW) ** 2, axis=1)
    found = machine.reconstruction_error(NEW)
    assert_allclose(found, squares, atol=1e-10)
    rows = Precomputed()
    known = KernelPCA(4, kernel=rows).fit(kernel(X))
    again = known.reconstruction_error(kernel(NEW, X), diag=kernel.diag(NEW))
    assert_allclose(again, found, atol=1e-9)


def test_all_components_leave_nothing_of_the_training_points():
    machine = KernelPCA(kernel=RBF(5.0)).fit(X)
    assert_allclose(machine.reconstruction_error(X), 0, atol=1e-8)
    assert machine.reconstruction_error(X).min() >= 0


def test_a_point_far_away_is_new():
    machine = KernelPCA(20, kernel=RBF(2.0)).fit(X)
    inside, outside = NEW, NEW + 3
    worst = machine.reconstruction_error(inside).max()
    assert machine.reconstruction_error(outside).min() > 2 * worst


def test_rows_of_kernel_values_need_their_diagonal():
    machine = KernelPCA(2, kernel="precomputed").fit(rbf_kernel(X))
    with pytest.raises(ValueError, match="Pass diag"):
        machine.reconstruction_error(rbf_kernel(NEW, X))


# Pre-images


def distance(machine, Y, Z):
    """‖φ(y) - Σⱼ zⱼuⱼ - μ‖² up to what does not depend on y."""
    n = len(machine.X_fit_)
    K = machine.expansion_.kernel(Y, machine.X_fit_)
    weight = Z @ machine.expansion_.coef.T + 1 / n
    return 1 - 2 * np.sum(K * weight, axis=1)


def test_fixed_point_is_no_further_than_any_training_point():
    machine = KernelPCA(6, kernel=RBF(2.0)).fit(X)
    Z = machine.transform(NEW)
    found = distance(machine, machine.preimage(Z), Z)
    for x in X:
        assert (found <= distance(machine, np.tile(x, (25, 1)), Z) + 1e-10).all()


def test_fixed_point_is_stationary():
    machine = KernelPCA(6, kernel=RBF(2.0)).fit(X)
    Z = machine.transform(NEW)
    Y = machine.preimage(Z, "fixed_point")
    for axis in np.eye(4):
        slope = distance(machine, Y + 1e-5 * axis, Z) - distance(
            machine, Y - 1e-5 * axis, Z
        )
        assert_allclose(slope / 2e-5, 0, atol=1e-5)


def test_with_all_components_a_training_point_is_its_own_pre_image():
    machine = KernelPCA(kernel=RBF(5.0)).fit(X)
    Z = machine.transform(X[:10])
    assert_allclose(machine.preimage(Z), X[:10], atol=1e-6)


def test_pre_images_take_the_noise_off_a_circle():
    angle = rng.uniform(0, 2 * np.pi, 300)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    noisy = circle + rng.normal(scale=0.15, size=circle.shape)
    machine = KernelPCA(6, kernel=RBF(1.0)).fit(noisy)
    cleaned = machine.preimage(machine.transform(noisy))
    before, after = (np.abs(np.hypot(*P.T) - 1).mean() for P in (noisy, cleaned))
    assert after < 0.6 * before


def test_pre_images_of_another_kernel_are_learned():
    machine = KernelPCA(3, kernel="poly", fit_inverse_transform=True).fit(X)
    Z = machine.transform(NEW)
    assert_allclose(machine.preimage(Z), machine.inverse_transform(Z))
    with pytest.raises(ValueError, match=r"Gaussian kernel.*Polynomial"):
        machine.preimage(Z, "fixed_point")
    with pytest.raises(ValueError, match="knows method linear, fixed_point, gradient"):
        machine.preimage(Z, "exact")
    with pytest.raises(ValueError, match="has 3 components"):
        machine.preimage(Z[:, :2])


def test_words_have_no_learned_pre_image():
    machine = KernelPCA(1, kernel=Subsequence(2, 0.5), fit_inverse_transform=True)
    with pytest.raises(ValueError, match="learns vectors"):
        machine.fit(["spam", "ham", "jam"])


# What is no kernel


def test_an_indefinite_kernel_is_named_with_its_eigenvalue():
    with pytest.warns(PositiveSpectrumWarning, match=r"Sigmoid\(gamma=0.25.*-0.038"):
        KernelPCA(3, kernel="sigmoid").fit(X)
    message = r"significant negative eigenvalues.*Sigmoid\(gamma=0.25.*-0.038"
    with pytest.raises(ValueError, match=message):
        KernelPCA(kernel="sigmoid").fit(X)
    with pytest.raises(ValueError, match="significant negative eigenvalues"):
        Reference(kernel="sigmoid").fit(X)


@pytest.mark.parametrize("solver", ["dense", "arpack", "krylov"])
def test_every_solver_sees_a_negative_eigenvalue(solver):
    points = rng.random((300, 4))
    with pytest.warns(PositiveSpectrumWarning, match="Sigmoid"):
        KernelPCA(2, kernel="sigmoid", eigen_solver=solver, random_state=0).fit(points)


def test_a_negative_matrix_has_no_components():
    with pytest.raises(ValueError, match=r"All eigenvalues are negative.*Precomputed"):
        KernelPCA(1, kernel="precomputed").fit(-np.eye(3)[:2, :2] * 5)


# Watching


def test_fits_are_watched_and_stopped():
    seen = []
    points = rng.random((300, 4))
    params = {"n_components": 4, "kernel": RBF(9.0), "eigen_solver": "krylov"}
    KernelPCA(**params, callback=seen.append).fit(points)
    assert seen[-1].support == 4
    machine = KernelPCA(**params, callback=lambda progress: True)
    with pytest.warns(ConvergenceWarning, match="status 'stopped'"):
        machine.fit(points)
    assert machine.run_.iterations == 1
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol"):
        KernelPCA(**params, max_iter=2).fit(points)


def test_verbose_prints_a_line_for_people(capsys):
    KernelPCA(2, kernel=RBF(0.5), eigen_solver="krylov", verbose=True).fit(X)
    assert "[KernelPCA] product" in capsys.readouterr().out


def test_callbacks_see_the_fit_and_its_products():
    class Recorder:
        names: ClassVar[list] = []

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, *, metadata=None):
            self.names.append(context.task_name)

        def on_fit_task_end(self, estimator, context, *, metadata=None):
            return False

        def teardown(self, estimator, context):
            pass

    machine = KernelPCA(2, kernel=RBF(9.0), eigen_solver="krylov", random_state=0)
    machine.set_callbacks(Recorder()).fit(X)
    assert Recorder.names[:2] == ["fit", "solve"]
    assert set(Recorder.names[2:]) == {"round"}
    assert len(Recorder.names) == 2 + machine.run_.iterations


def test_an_interrupted_fit_leaves_what_was_learnt_before():
    def interrupt(progress):
        raise KeyboardInterrupt

    machine = KernelPCA(2, kernel=RBF(0.5), eigen_solver="krylov").fit(X)
    before = machine.transform(NEW)
    machine.set_params(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        machine.fit(NEW)
    assert_allclose(machine.transform(NEW), before, rtol=0)


def test_auto_takes_the_quickest_way():
    def way(kernel, points):
        return type(AutoComponents().chosen(Components(Gram(kernel, points), 5)))

    many = rng.normal(size=(1000, 3))
    assert way(RBF(1.0), X) is Lapack
    assert way(RBF(1.0), many) is BlockKrylov
    assert way(Linear(), rng.normal(size=(1000, 8))) is Covariance
    machine = KernelPCA(5, kernel=RBF(1.0), random_state=0).fit(many)
    theirs = Reference(5, kernel="rbf", gamma=1.0).fit(many)
    assert_allclose(machine.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)


def test_a_solver_of_ones_own_is_used():
    class Mine(BlockKrylov):
        def solve(self, problem, *, start=None, watch=None) -> Eigenpairs:
            found = super().solve(problem, start=start, watch=watch)
            found.means.flags.writeable = False
            return found

    machine = KernelPCA(2, kernel=RBF(0.5), eigen_solver=Mine(tol=1e-6)).fit(X)
    assert not machine._found.means.flags.writeable
    linear = KernelPCA(2, eigen_solver=Covariance()).fit(X)
    assert_allclose(linear.transform(NEW), KernelPCA(2).fit(X).transform(NEW))


# Figures from the courses


def clusters(seed):
    random = np.random.default_rng(seed)
    centres = np.array([[-0.5, -0.2], [0.0, 0.6], [0.5, 0.0]])
    return np.repeat(centres, 30, axis=0) + random.normal(scale=0.1, size=(90, 2))


PRINTED = [21.72, 21.65, 4.11, 3.93, 3.66, 3.09, 2.60, 2.53]


def test_three_clusters_have_about_the_printed_eigenvalues():
    draws = [clusters(seed) for seed in range(40)]
    values = np.array(
        [KernelPCA(8, kernel=RBF(10.0)).fit(X).eigenvalues_ for X in draws]
    )
    first, second, third = np.median(values, axis=0)[:3]
    assert 20 < second < first < 25
    assert 3.5 < third < 4.6
    assert 19.5 < values[:, :2].min() and values[:, :2].max() < 25


def test_one_draw_of_three_clusters_has_nearly_the_printed_eigenvalues():
    points = clusters(73)
    machine = KernelPCA(8, kernel=RBF(10.0)).fit(points)
    assert 20 < machine.eigenvalues_[1] < machine.eigenvalues_[0] < 25
    assert 3.5 < machine.eigenvalues_[2] < 4.6
    assert_allclose(machine.eigenvalues_, PRINTED, rtol=0.05)
    # The first two components tell the clusters apart.
    f = machine.transform(points)[:, :2].reshape(3, 30, 2)
    middle, spread = f.mean(axis=1), f.std(axis=1).max()
    apart = [np.linalg.norm(middle[i] - middle[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    assert min(apart) > 4 * spread


@pytest.mark.skipif(
    not (DATA / "usps.npz").exists(), reason="usps.npz is not in MERCER_DATA"
)
def test_components_of_real_digits_are_scikit_learn_s():
    with np.load(DATA / "usps.npz", allow_pickle=False) as file:
        digits = 2 * file["X_train"][:1200].astype(float) - 1
    kernel = Polynomial(3, scale=1 / 256, offset=0.0)
    ours = KernelPCA(12, kernel=kernel, random_state=0).fit(digits[:1000])
    params = {"gamma": 1 / 256, "coef0": 0, "degree": 3}
    theirs = Reference(12, kernel="poly", **params).fit(digits[:1000])
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    new = digits[1000:]
    assert_allclose(ours.transform(new), theirs.transform(new), atol=1e-6)
