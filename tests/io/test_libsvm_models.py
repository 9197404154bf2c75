import math

import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped

from mercer.io import LibsvmModel, read_libsvm_model, write_libsvm_model
from mercer.io.libsvm import KERNEL_TYPES, SVM_TYPES


def a_model(svm_type, kernel_type, rng, k=3, probabilities=True, density=0.6):
    """A model of random numbers."""
    classifier = svm_type in ("c_svc", "nu_svc")
    n, d = 12, 5
    counts = rng.multinomial(n, np.full(k, 1 / k)) if classifier else []
    pairs = k * (k - 1) // 2 if classifier else 1
    precomputed = kernel_type == "precomputed"
    vectors = sp.random_array((n, d), density=density, random_state=rng, format="csr")
    none = np.empty(0)
    single = probabilities and not classifier
    return LibsvmModel(
        svm_type,
        kernel_type,
        rng.normal(size=pairs),
        rng.normal(size=(k - 1 if classifier else 1, n)),
        sp.csr_array((0, 0)) if precomputed else vectors,
        degree=3,
        gamma=0.3,
        coef0=0.1,
        serial=rng.permutation(n) + 1 if precomputed else none.astype(np.int64),
        label=(rng.permutation(k) - 1 if classifier else none).astype(np.int64),
        n_support=np.array(counts, dtype=np.int64),
        probA=(
            rng.normal(size=pairs)
            if probabilities and svm_type != "one_class"
            else none
        ),
        probB=rng.normal(size=pairs) if probabilities and classifier else none,
        marks=np.sort(rng.normal(size=10))
        if single and svm_type == "one_class"
        else none,
    )


def naive_kernel(model, x, y):
    """k of two points, {index: value}, by one product and one sum after another."""
    total = 0.0
    for j in sorted(x.keys() | y.keys()):
        if model.kernel_type == "rbf":
            t = x.get(j, 0.0) - y.get(j, 0.0)
            total += t * t
        elif j in x and j in y:
            total += x[j] * y[j]
    if model.kernel_type == "linear":
        return total
    if model.kernel_type == "rbf":
        return math.exp(-model.gamma * total)
    t = model.gamma * total + model.coef0
    if model.kernel_type == "sigmoid":
        return math.tanh(t)
    assert model.degree == 3
    return t * (t * t)


def naive_values(model, rows):
    """f of each pair at points {index: value}, in LIBSVM's order."""
    vectors = [entries(model.vectors, i) for i in range(model.vectors.shape[0])]
    found = []
    for x in rows:
        if model.kernel_type == "precomputed":
            K = [x.get(s, 0.0) for s in model.serial.tolist()]
        else:
            K = [naive_kernel(model, x, y) for y in vectors]
        if not model.is_classifier:
            total = 0.0
            for i, value in enumerate(K):
                total += model.coef[0, i] * value
            found.append([total - model.rho[0]])
            continue
        first = np.concatenate([[0], np.cumsum(model.n_support)])
        row, pair = [], 0
        for i in range(len(model.label)):
            for j in range(i + 1, len(model.label)):
                total = 0.0
                for s in range(first[i], first[i + 1]):
                    total += model.coef[j - 1, s] * K[s]
                for s in range(first[j], first[j + 1]):
                    total += model.coef[i, s] * K[s]
                row.append(total - model.rho[pair])
                pair += 1
        found.append(row)
    return np.array(found)


def entries(X, i):
    part = slice(X.indptr[i], X.indptr[i + 1])
    return dict(zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True))


@looped("kernel_type", KERNEL_TYPES)
@looped("svm_type", SVM_TYPES)
def test_a_model_that_is_written_and_read_is_the_same(svm_type, kernel_type, tmp_path):
    rng = np.random.default_rng(0)
    for k in (2, 3):
        for probabilities in (False, True):
            model = a_model(svm_type, kernel_type, rng, k, probabilities)
            path = tmp_path / "model"
            write_libsvm_model(model, path)
            found = read_libsvm_model(path)
            again = tmp_path / "again"
            write_libsvm_model(found, again)
            assert again.read_bytes() == path.read_bytes()
            assert found.has_probabilities == probabilities
            width = 1 + max(model.vectors.shape[1], 13)
            X = sp.random_array((4, width), density=0.8, random_state=rng, format="csr")
            assert found.values(X).tobytes() == model.values(X).tobytes()


@looped("density", [0.1, 0.9])
@looped("kernel_type", KERNEL_TYPES)
@looped("svm_type", ["c_svc", "one_class"])
def test_values_are_summed_in_the_order_of_the_file(svm_type, kernel_type, density):
    rng = np.random.default_rng(1)
    model = a_model(svm_type, kernel_type, rng, density=density)
    X = sp.random_array((20, 13), density=0.5, random_state=rng, format="csr")
    expected = naive_values(model, [entries(X, i) for i in range(20)])
    assert model.values(X).tobytes() == expected.tobytes()


@looped("k", [2, 3])
@looped("kernel_type", KERNEL_TYPES[:-1])
def test_the_expansion_is_the_same_function(kernel_type, k):
    rng = np.random.default_rng(2)
    model = a_model("c_svc", kernel_type, rng, k)
    X = sp.random_array((9, 5), density=0.5, random_state=rng, format="csr")
    values = model.values(X)
    found = model.expansion()(X)
    np.testing.assert_allclose(found.reshape(9, -1), values, rtol=1e-12, atol=1e-13)


def test_probabilities_agree_with_their_pairs():
    rng = np.random.default_rng(3)
    model = a_model("c_svc", "linear", rng, k=4)
    values = rng.normal(size=(50, 6))
    p, late = model.probabilities(values)
    assert late == 0 and np.allclose(p.sum(axis=1), 1) and (p > 0).all()
    # The optimality conditions of the second method: Qp is constant, up to its stop.
    r = np.clip(1 / (1 + np.exp(model.probA * values + model.probB)), 1e-7, 1 - 1e-7)
    first, second = np.triu_indices(4, 1)
    for row, own in zip(r, p, strict=True):
        R = np.zeros((4, 4))
        R[first, second], R[second, first] = row, 1 - row
        Q = -R.T * R
        Q[range(4), range(4)] = (R**2).sum(axis=0)
        assert np.ptp(Q @ own) < 2 * 0.005 / 4
    two = a_model("c_svc", "linear", rng, k=2)
    p, _ = two.probabilities(values[:, :1])
    expected = 1 / (1 + np.exp(two.probA * values[:, 0] + two.probB))
    np.testing.assert_allclose(p[:, 0], np.clip(expected, 1e-7, 1 - 1e-7), rtol=1e-12)


def test_one_class_probabilities_grow_by_tenths():
    rng = np.random.default_rng(4)
    model = a_model("one_class", "linear", rng)
    between = (model.marks[1:] + model.marks[:-1]) / 2
    f = np.concatenate([[model.marks[0] - 1], between, [model.marks[-1] + 1]])
    p, _ = model.probabilities(f[:, None])
    assert np.allclose(p[:, 0], [0.001, *(np.arange(1, 10) / 10), 0.999])
    assert np.allclose(p.sum(axis=1), 1)


GOOD = """\
svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 3
rho 0.1 0.2 0.3
label 1 2 3
nr_sv 1 1 1
SV
1 0.5 1:0.5 3:1
-1 0.25 2:1
-0.5 -0.25 1:2
"""


@looped(
    "old, new, line, reason",
    [
        ("c_svc", "d_svc", 1, "'d_svc' is none of"),
        ("kernel_type rbf", "kernel_type", 2, "kernel_type has 0 values, and needs 1"),
        ("gamma 0.5", "gamma x", 3, "could not convert"),
        ("gamma 0.5", "gamma nan", 3, "'nan' is not a finite number"),
        ("gamma 0.5", "gamma 0.5\ngamma 0.5", 4, "gamma is there twice"),
        ("gamma 0.5", "color 0.5", 3, "'color' is not a word of a model file"),
        ("gamma 0.5\n", "", 8, "gamma is missing above this line"),
        ("nr_class 3\n", "", 5, "rho comes before nr_class"),
        ("nr_class 3", "nr_class 0", 4, "'0' is not a whole number from 1 on"),
        ("nr_class 3", "nr_class 99999999999999", 4, "is not a whole number"),
        ("nr_class 3", "nr_class 100000", 4, "are more than 10000"),
        ("total_sv 3", "total_sv -1", 5, "'-1' is not a whole number"),
        ("total_sv 3", "total_sv 4", 9, "nr_sv does not add up to total_sv 4"),
        ("0.1 0.2 0.3", "0.1 0.2", 6, "rho has 2 values, and needs 3"),
        ("label 1 2 3\n", "", 8, "label is missing"),
        ("1 1 1\n", "1 1 2\n", 9, "nr_sv does not add up"),
        ("SV\n", "", 9, "'1' is not a word"),
        ("-0.5 -0.25 1:2\n", "", 12, "there are 2 support vectors, of 3"),
        ("-0.5 -0.25 1:2\n", "1 1\n1 1\n", 13, "there are 4 support vectors, of 3"),
        ("-1 0.25 2:1", "-1 2:1", 11, "fewer than 2 coefficients"),
        ("-1 0.25 2:1", "-1", 11, "fewer than 2 coefficients"),
        ("-1 0.25 2:1", "-1 0.25 2:x", 11, "'x' is not a value"),
        ("-1 0.25 2:1", "-1 0.25 2:1 1:1", 11, "indices ascend"),
        ("-1 0.25 2:1", "-1 0.25 3000000000:1", 11, "too large an index"),
        ("-1 0.25 2:1", "-1 y 2:1", 11, "is not a label"),
    ],
)
def test_a_malformed_model_is_named(old, new, line, reason, tmp_path):
    assert old in GOOD
    path = tmp_path / "model"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ValueError) as caught:
        read_libsvm_model(path)
    assert f"{path}, line {line}, column " in str(caught.value)
    assert reason in str(caught.value)


def test_every_cut_and_most_changes_are_refused_or_read(tmp_path):
    rng = np.random.default_rng(5)
    path, data = tmp_path / "model", GOOD.encode()
    for size in range(len(data) - 16):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError):
            read_libsvm_model(path)
    pieces = [b"-", b"9", b" ", b"\n", b":", b"1e99", b"\xff", b"\x00", b"nan", b""]
    for _ in range(500):
        text = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, len(text)))
            text[at : at + int(rng.integers(0, 3))] = pieces[rng.integers(len(pieces))]
        path.write_bytes(bytes(text))
        try:
            model = read_libsvm_model(path)
        except ValueError:
            continue
        with np.errstate(all="ignore"):
            assert model.values(np.ones((2, 4))).shape == (2, len(model.rho))
