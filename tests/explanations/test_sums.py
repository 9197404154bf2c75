"""Parts and bias add up to f(x), whatever the kernel, the machine and the way."""

import warnings

import catalog
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.gaussian_process import kernels as gaussian
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    RBF,
    RVC,
    RVR,
    SVC,
    SVDD,
    SVR,
    Centered,
    Conformal,
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    Graph,
    KernelKMeans,
    KernelKNNClassifier,
    KernelLogisticRegression,
    KernelPCA,
    KernelPerceptron,
    KernelRidge,
    KernelSearchCV,
    KernelSGDClassifier,
    Linear,
    Normalized,
    NuSVC,
    Nystrom,
    On,
    OneClassSVM,
    PartialTree,
    ParzenClassifier,
    ParzenDensity,
    Polynomial,
    Precomputed,
    Pullback,
    ShortestPath,
    SparseKernelClassifier,
    SparseKernelRegressor,
    Spectrum,
    Subsequence,
    SubsetTree,
    Sum,
    TaggedTree,
    WeightedDegree,
    WeightedSubstrings,
    WeisfeilerLehman,
    explain,
)
from mercer.contributions.features import has_features
from mercer.contributions.shapley import has_coordinates
from mercer.explanations.explanation import parts_of
from mercer.explanations.items import has_items

KERNELS = [param.values for param in catalog.psd_kernels]


def added_up(explanation):
    return explanation.bias + sum(part.value for part in explanation.parts)


def size(explanation):
    return 1 + sum(abs(part.value) for part in explanation.parts)


def assert_adds_up(explanations, values):
    """Parts and bias sum to what the machine says, to 1e-9 of their size."""
    some = parts_of(explanations)
    assert len(some) == np.size(values)
    for explanation, value in zip(some, np.ravel(values), strict=True):
        scale = size(explanation)
        assert_allclose(added_up(explanation), value, rtol=0, atol=1e-9 * scale)
        assert_allclose(explanation.total, value, rtol=0, atol=1e-9 * scale)


def fitted(kernel, points):
    X = points(1, 8)
    y = np.random.default_rng(3).normal(size=8)
    return KernelRidge(alpha=1.0, kernel=kernel).fit(X, y)


def ways(kernel):
    """None, which is by features where there are any, and the other ways."""
    found = [None, "points"] + ["terms"] * isinstance(kernel, Sum)
    found += ["items"] * (has_features(kernel) and has_items(kernel))
    return found + ["coordinates"] * has_coordinates(kernel)


@looped("kernel, points", KERNELS)
def test_parts_of_every_kernel_add_up(kernel, points):
    machine, X = fitted(kernel, points), points(2, 3)
    for by in ways(machine.expansion_.kernel):
        assert_adds_up(explain(machine, X, by=by, n=3), machine.predict(X))


def test_every_kernel_with_a_map_is_taken_apart_by_features():
    X = catalog.words(1, 8)
    y = np.random.default_rng(3).normal(size=8)
    inner = Normalized(Subsequence(2)) + 0.5 * Spectrum(2) * WeightedDegree(2)
    kernels = [
        inner,
        Normalized(inner),
        Centered(Spectrum(2)),
        Normalized(WeightedSubstrings(0.5)) ** 2,
        Pullback(Spectrum(1), lambda X: [x.upper() for x in X]),
        Conformal(Spectrum(1), lambda X: [1.0 + len(x) for x in X]),
    ]
    for kernel in kernels:
        machine = KernelRidge(kernel=kernel).fit(X, y)
        new = catalog.words(2, 5)
        assert_adds_up(explain(machine, new, by="features"), machine.predict(new))


X, y = load_iris(return_X_y=True)
Z = StandardScaler().fit_transform(X)
TWO = y[y < 2]


@looped(
    "machine",
    [
        SVC(),
        SVC(kernel=Linear(), multiclass="ovr"),
        NuSVC(nu=0.2),
        KernelLogisticRegression(kernel=RBF(0.5)),
        KernelSGDClassifier(kernel=RBF(0.5), random_state=0),
        KernelPerceptron(kernel=RBF(2.0), max_iter=1000),
        SparseKernelClassifier(kernel=RBF(0.5)),
        SparseKernelClassifier(kernel=Polynomial(2), on="features"),
    ],
)
def test_classifiers_have_an_explanation_for_each_column(machine):
    machine.fit(Z, y)
    some = Z[::30]
    explanations = explain(machine, some)
    values = machine.expansion_(some)
    assert values.shape == (5, 3)
    assert_adds_up(explanations, values)
    assert [len(one) for one in explanations] == [3] * 5
    assert len({one.output for one in explanations[0]}) == 3


@looped(
    "machine",
    [
        SVC(),
        RVC(kernel=RBF(0.5)),
        KernelPerceptron(kernel=RBF(0.5), variant="averaged"),
        make_pipeline(StandardScaler(), SVC(kernel=Polynomial(2))),
    ],
)
def test_two_classes_are_one_function(machine):
    machine.fit(Z[y < 2], TWO)
    some = Z[:80:20]
    explanations = explain(machine, some)
    last = machine[-1] if hasattr(machine, "steps") else machine
    given = machine[:-1].transform(some) if hasattr(machine, "steps") else some
    assert_adds_up(explanations, last.expansion_(given))
    assert explanations[0].output == "1 against 0"


@looped(
    "machine",
    [
        SVR(),
        KernelRidge(kernel="rbf"),
        RVR(kernel=RBF(0.5)),
        SparseKernelRegressor(kernel=Polynomial(2), on="features"),
        KernelRidge(kernel=Nystrom(RBF(0.5), 20, seed=0)),
    ],
)
def test_regressors_are_taken_apart(machine):
    machine.fit(Z[:, :3], Z[:, 3])
    assert_adds_up(explain(machine, Z[::40, :3]), machine.predict(Z[::40, :3]))


@looped(
    "machine",
    [
        GaussianProcessClassifier(1.0 * RBF(0.5)),
        GaussianProcessClassifier(1.0 * RBF(0.5), multi_class="one_vs_one"),
        GaussianProcessClassifier(1.0 * Linear() + Polynomial(2), optimizer=None),
        GaussianProcessClassifier(2.0 * Linear(), multi_class="one_vs_one"),
        GaussianProcessClassifier(2.0 * gaussian.RBF() + gaussian.WhiteKernel()),
    ],
)
def test_the_latent_means_of_a_gaussian_process_are_taken_apart(machine):
    machine.fit(Z[::3], y[::3])
    parts = machine.base_estimator_.estimators_
    values = np.column_stack([part.expansion_(Z[::40]) for part in parts])
    for by in (None, "terms", "points"):
        found = explain(machine, Z[::40], by=by, n=3)
        assert_adds_up(found, values)
        assert [len(one) for one in found] == [3] * 4
    one = explain(machine, Z[::40], output=1)
    assert_adds_up(one, values[:, 1])
    assert one[0].output == found[0][1].output
    assert_adds_up(explain(machine, Z[::40], output=found[0][2].output), values[:, 2])


def test_the_latent_mean_is_the_sum_of_slopes_of_the_likelihood():
    new, known, target = Z[::40], Z[:100], np.repeat([0, 1], 50)
    machine = GaussianProcessClassifier(1.5 * RBF(0.5), optimizer=None)
    machine.fit(known, target)
    coef = target - expit(machine.latent_mean_and_variance(known)[0])
    found = explain(machine, new, n=1000, by="points")
    assert_adds_up(found, machine.latent_mean_and_variance(new)[0])
    K = 1.5 * RBF(0.5)(new, known)
    for one, row in zip(found, K, strict=True):
        assert one.bias == 0 and one.output == "1 against 0"
        for part in one.parts:
            i = int(part.name.removeprefix("point "))
            assert_allclose(part.value, row[i] * coef[i], atol=1e-6)


def test_pairs_of_classes_of_a_gaussian_process_are_named_for_where_f_is_positive():
    machine = GaussianProcessClassifier(1.0 * Linear(), multi_class="one_vs_one")
    names = np.array(["a", "b", "c"])
    machine.fit(Z, names[y])
    found = explain(machine, Z[[0, 60, 120]], by="points", n=1000)
    outputs = [one.output for one in found[0]]
    assert outputs == ["b against a", "c against a", "c against b"]
    for row, own in zip(found, "abc", strict=True):
        for one in row:
            first, second = one.output.split(" against ")
            assert own not in (first, second) or (one.total > 0) == (own == first)
    # Points have the numbers they have in the fit: of c against b there is no a.
    numbers = {int(part.name.removeprefix("point ")) for part in found[0][2].parts}
    assert min(numbers) >= 50 and max(numbers) == 149
    assert [row.output for row in machine.top_features(1)] == outputs
    weights = machine.top_features(4).of("b against a")
    w = {row.name: row.weight for row in weights}
    [one] = explain(machine, Z[:1], output="b against a", n=10)
    root = np.sqrt(machine.kernel_[0].factor)
    for part in one.parts:
        x = Z[0, int(part.name.removeprefix("x"))]
        assert_allclose(part.value, root * x * w[part.name], rtol=1e-9)


def test_kernels_of_scikit_learn_are_taken_apart_by_points_alone():
    kernel = 2.0 * gaussian.RBF() + gaussian.WhiteKernel()
    machine = GaussianProcessRegressor(kernel, normalize_y=True)
    machine.fit(Z[:, :3], 5 + Z[:, 3])
    found = explain(machine, Z[::40, :3])
    assert_adds_up(found, machine.predict(Z[::40, :3]))
    assert found[0].by == "points"
    with pytest.raises(ValueError, match='use by="terms" or by="points"'):
        explain(machine, Z[:1, :3], by="coordinates")


def test_a_search_is_explained_by_the_machine_it_found():
    pipeline = make_pipeline(StandardScaler(), SVC(kernel=RBF(0.5)))
    grid = GridSearchCV(pipeline, {"svc__C": [0.1, 1.0]})
    for search in (KernelSearchCV(SVC(), {"C": [0.1, 1.0]}), grid):
        with pytest.raises(Exception, match="not fitted"):
            explain(search, Z[:1])
        search.fit(Z, y)
        best = search.best_estimator_
        last = best[-1] if hasattr(best, "steps") else best
        given = best[:-1].transform(Z[:3]) if hasattr(best, "steps") else Z[:3]
        assert_adds_up(explain(search, Z[:3]), last.expansion_(given))
    with pytest.raises(ValueError, match=r"GridSearchCV\(refit=False\) keeps no"):
        explain(clone(grid).set_params(refit=False).fit(Z, y), Z[:3])


def test_several_targets_have_a_column_each():
    machine = KernelRidge(kernel=RBF(0.5)).fit(Z[:, :2], Z[:, 2:])
    found = explain(machine, Z[:3, :2])
    assert_adds_up(found, machine.predict(Z[:3, :2]))
    assert [one.output for one in found[0]] == ["target 0", "target 1"]
    one = explain(machine, Z[:3, :2], output="target 1")
    assert_adds_up(one, machine.predict(Z[:3, :2])[:, 1])


@looped("kernel", [RBF(0.5), Linear(), Nystrom(RBF(0.5), 15, seed=0)])
def test_depths_of_one_class_machines_are_taken_apart(kernel):
    for machine in (OneClassSVM(kernel=kernel), SVDD(kernel=kernel)):
        machine.fit(Z)
        assert_adds_up(explain(machine, Z[::40]), machine.decision_function(Z[::40]))


def test_squared_distances_from_clusters_are_taken_apart():
    machine = KernelKMeans(3, kernel=RBF(0.5), random_state=0).fit(Z)
    found = explain(machine, Z[::40])
    assert_adds_up(found, machine.transform(Z[::40]) ** 2)
    assert [one.output for one in found[0]] == ["cluster 0", "cluster 1", "cluster 2"]


def test_components_are_taken_apart():
    machine = KernelPCA(2, kernel=Polynomial(2)).fit(Z)
    found = explain(machine, Z[::40])
    assert_adds_up(found, machine.transform(Z[::40]))
    assert [one.output for one in found[0]] == ["component 0", "component 1"]


def test_a_density_is_taken_apart_by_points():
    machine = ParzenDensity().fit(Z)
    found = explain(machine, Z[::40], by="points")
    assert_adds_up(found, np.exp(machine.score_samples(Z[::40])))


def test_points_are_named_by_their_places_in_the_fit():
    machine = SVC(kernel=RBF(0.5)).fit(Z[y < 2], TWO)
    [explanation] = explain(machine, Z[:1], by="points", n=1000)
    known = {f"point {i}" for i in machine.support_}
    assert {part.name for part in explanation.parts} <= known
    K = machine.expansion_.kernel(Z[:1], Z[machine.support_])[0]
    values = dict(zip(machine.support_, K * machine.dual_coef_[0], strict=True))
    for part in explanation.parts:
        assert_allclose(part.value, values[int(part.name.split()[1])], rtol=1e-12)


def test_precomputed_kernel_values_are_taken_apart_by_points():
    K = RBF(0.5)(Z)
    for machine, given in (
        (SVC(kernel="precomputed"), K),
        (SVC(kernel=Precomputed(K, psd=True)), np.arange(150)[:, None]),
    ):
        machine.fit(given, y)
        assert_adds_up(explain(machine, given[:3]), machine.expansion_(given[:3]))
        [one] = explain(machine, given[:1], output=1)
        assert one.output == "0 against 2"
        assert_allclose(one.total, machine.expansion_(given[:1])[0, 1])
        assert one.gradient is None


def test_sparse_and_single_precision_points_are_taken_apart():
    X = np.float32(np.where(np.abs(Z) < 0.7, 0, Z))
    for given in (X, sp.csr_array(X)):
        for kernel in (Polynomial(2), RBF(0.5), On([0, 2], Linear())):
            machine = SVR(kernel=kernel).fit(given, Z[:, 3])
            assert_adds_up(explain(machine, given[:3]), machine.predict(given[:3]))


def test_terms_of_a_sum_are_its_kernels():
    frame = pd.DataFrame({"age": Z[:, 0], "word": catalog.words(0, 150)})
    kernel = On("age", RBF(0.5)) + 2 * On("word", Spectrum(1))
    machine = KernelRidge(kernel=kernel).fit(frame, Z[:, 3])
    [explanation] = explain(machine, frame[:1], by="terms")
    names = [part.name for part in explanation.parts]
    assert sorted(name.split(":")[0] for name in names) == ["age", "word"]
    assert_adds_up([explanation], machine.predict(frame[:1]))


def test_terms_are_taken_apart_each_in_its_own_way():
    records = catalog.records(1, 12)
    kernel = On(1, Spectrum(1)) + On([0, 2], RBF(0.5)) + On(1, Normalized(Spectrum(2)))
    machine = KernelRidge(kernel=kernel).fit(records, np.arange(12.0))
    explanations = explain(machine, records[3:5], n=50)
    assert_adds_up(explanations, machine.predict(records[3:5]))
    names = {part.name for part in explanations[0].parts}
    assert any(name.startswith("substring") for name in names)
    assert {"0", "2"} <= names


def test_rest_is_the_sum_of_what_is_not_listed():
    words, new = ["abcde", "bcdea", "edcba", "aabb"], ["abcdeabced"]
    machine = KernelRidge(kernel=Spectrum(2)).fit(words, [1.0, 0.5, -1.0, 2.0])
    [every] = explain(machine, new, n=1000)
    [few] = explain(machine, new, n=2)
    assert "rest" not in {part.name for part in every.parts}
    assert [part.name for part in few.parts][2:] == ["rest"]
    assert few.parts[:2] == every.parts[:2]
    assert_allclose(few.parts[2].value, sum(p.value for p in every.parts[2:]))
    assert few.n_parts == every.n_parts == len(every.parts)
    assert few.top(1000).parts == every.parts


@looped(
    "kernel, X",
    [
        (SubsetTree(0.5), ["(S (A a) (B b))", "(S (A b) (B a))", "(S (A a) (A a))"]),
        (PartialTree(0.5, 0.7), ["(S (A a) (B b))", "(S (A b))", "(A (A a) (A a))"]),
        (TaggedTree(Spectrum(2)), ["(S (A a) (B b))", "(S (A b))", "(A (A a) (A a))"]),
        (Subsequence(3, 0.5), ["abcabc", "cbacba", "aaabbb"]),
        (
            ShortestPath(),
            [Graph([(0, 1), (1, 2)], "CCO"), Graph([(0, 1)], "CO"), Graph([], "N")],
        ),
        (
            WeisfeilerLehman(2),
            [Graph([(0, 1), (1, 2)], "CCO"), Graph([(0, 1)], "CO"), Graph([], "N")],
        ),
    ],
)
def test_items_share_out_what_the_parts_are(kernel, X):
    machine = KernelRidge(kernel=kernel).fit(X, [1.0, -1.0, 0.5])
    for explanation in explain(machine, X, by="features", n=10_000):
        assert_allclose(
            sum(explanation.items.values()),
            sum(part.value for part in explanation.parts),
            atol=1e-12,
        )


def test_features_of_a_sparse_machine_are_the_ones_it_selected():
    strings = [
        "".join(np.random.default_rng(i).choice(list("AB"), 8)) for i in range(40)
    ]
    target = np.array(["AAB" in s for s in strings])
    for kernel in (Spectrum(3), Subsequence(2), Normalized(WeightedDegree(3))):
        machine = SparseKernelClassifier(10.0, kernel=kernel, on="features")
        machine.fit(strings, target)
        explanations = explain(machine, strings[:5], n=100)
        assert_adds_up(explanations, machine.decision_function(strings[:5]))
        selected = {name for name, _ in machine.selected_features()}
        names = {p.name for one in explanations for p in one.parts if p.value}
        assert names <= selected


def test_a_machine_without_an_expansion_is_refused():
    machine = KernelKNNClassifier().fit(Z, y)
    with pytest.raises(TypeError, match="KernelKNNClassifier has no expansion_"):
        explain(machine, Z[:1])
    voted = KernelPerceptron(kernel=RBF(2.0), variant="voted").fit(Z[y < 2], TWO)
    with pytest.raises(TypeError, match="voted perceptron"):
        explain(voted, Z[:1])
    windows = ParzenClassifier().fit(Z, y)
    with pytest.raises(TypeError, match="ParzenClassifier has no expansion_"):
        explain(windows, Z[:1])
    with pytest.raises(TypeError, match="machine of this library"):
        explain(StandardScaler().fit(Z), Z)


def test_bad_input_is_refused_with_the_way_out():
    machine = SVC(kernel=RBF(0.5)).fit(Z, y)
    strings = SVC(kernel=Spectrum(2)).fit(["ab", "ba"], [0, 1])
    with pytest.raises(ValueError, match='use by="coordinates" or by="terms"'):
        explain(machine, Z[:1], by="features")
    with pytest.raises(ValueError, match='use by="features" or by="items" or'):
        explain(strings, ["ab"], by="coordinates")
    with pytest.raises(ValueError, match="by is one of features, items"):
        explain(machine, Z[:1], by="feature")
    for n in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="n is how many parts"):
            explain(machine, Z[:1], n=n)
        with pytest.raises(ValueError, match="needs n ≥ 1"):
            strings.top_features(n)
    with pytest.raises(ValueError, match="no output 7; its outputs, 0 to 2"):
        explain(machine, Z[:1], output=7)
    with pytest.raises(ValueError, match="features, but SVC is expecting 4"):
        explain(machine, Z[:1, :2])
    with pytest.raises(TypeError, match="Spectrum compares strings"):
        explain(strings, [Graph([(0, 1)]), Graph([])])
    trees = SVC(kernel=SubsetTree()).fit(["(S (A a))", "(B b)"], [0, 1])
    with pytest.raises(TypeError, match="SubsetTree compares trees; point 0 is a"):
        explain(trees, Z[:2])
    with pytest.raises(Exception, match="not fitted"):
        explain(SVC(), Z)
    with pytest.raises(Exception, match="not fitted"):
        SVC().top_features()
    with pytest.raises(TypeError, match="no explicit map with finitely many columns"):
        machine.top_features()


def test_a_map_with_too_many_columns_is_not_made_unasked():
    X = np.random.default_rng(0).normal(size=(10, 200))
    machine = KernelRidge(kernel=Polynomial(4)).fit(X, X[:, 0])
    found = explain(machine, X[:2])
    assert found[0].by == "points"
    assert_adds_up(found, machine.predict(X[:2]))


def test_gradients_are_those_of_f():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machines = [
            SVR(kernel=RBF(0.5)).fit(Z[:, :3], Z[:, 3]),
            SVDD(kernel=Polynomial(2)).fit(Z[:, :3]),
        ]
    for machine in machines:
        f = getattr(machine, "decision_function", machine.predict)
        [explanation] = explain(machine, Z[:1, :3])
        h = 1e-5
        steps = [
            (f(Z[:1, :3] + h * e) - f(Z[:1, :3] - h * e)) / (2 * h) for e in np.eye(3)
        ]
        assert_allclose(explanation.gradient, np.ravel(steps), atol=1e-6)
    words = fitted(Spectrum(2), catalog.words)
    assert explain(words, ["ab"])[0].gradient is None


@pytest.mark.parametrize("columns", [["a"], ["a", "b", "c"], [], "ab"])
def test_names_of_columns_that_are_not_theirs_are_refused(columns):
    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]])
    for kernel in (RBF(0.5), Polynomial(2), Linear() + RBF(0.5)):
        machine = KernelRidge(kernel=kernel).fit(X, [0.0, 1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match=r"one for each column|the 2 columns of X"):
            explain(machine, X, columns=columns)
        [first, *_] = explain(machine, X, columns=["a", "b"])
        assert any("b" in part.name for part in first.parts)
