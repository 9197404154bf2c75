import re

import bad_inputs
import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_array_equal

from mercer import (
    RBF,
    Bilinear,
    BlockFunction,
    Centered,
    ChiSquared,
    Expansion,
    Gram,
    Linear,
    MatrixExponential,
    On,
    PairFunction,
    Polynomial,
    Precomputed,
    Pullback,
    Spline,
    check,
)
from mercer.native.sparsity import as_csr, canonical
from mercer.native.vectors import Packed

DAMAGED = dict(bad_inputs.damaged())
D = bad_inputs.D
NEW = np.ones((2, D))


def products(X, Y):
    return (X @ Y.T).toarray()


def doubled(X):
    return 2 * X


def one(x, y):
    return 1.0


USES = {
    "a matrix": lambda X: RBF(1.0)(X),
    "the right of a matrix": lambda X: Linear()(NEW, X),
    "a diagonal": lambda X: RBF(1.0).diag(X),
    "a product": lambda X: Polynomial(2).matmul(X, None, np.ones(bad_inputs.N)),
    "a sum": lambda X: (RBF(1.0) + Linear())(X),
    "resolve": lambda X: RBF().resolve(X),
    "features": lambda X: Polynomial(2).features(X),
    "Gram": lambda X: Gram(RBF(1.0), X),
    "Expansion": lambda X: Expansion(RBF(1.0), NEW, [1.0, 2.0])(X),
    "its points": lambda X: Expansion(RBF(1.0), X, np.ones(bad_inputs.N)),
    "a user's formula": lambda X: BlockFunction(products)(X),
    "a user's pairs": lambda X: PairFunction(one)(X),
    "a user's map": lambda X: Pullback(Linear(), doubled)(X),
    "On": lambda X: On(0, RBF(1.0))(X),
    "Centered": lambda X: Centered(RBF(1.0), X)(NEW),
    "Bilinear": lambda X: Bilinear(np.eye(D))(X),
    "ChiSquared": lambda X: ChiSquared(1.0)(X),
    "Spline": lambda X: Spline()(X),
    "Precomputed": lambda X: Precomputed(X),
    "MatrixExponential": lambda X: MatrixExponential(X),
    "check": lambda X: check(X),
    "the core": lambda X: Packed(X),
}


# Where a list of rows is no matrix, or is not read yet
NO_LISTS = {
    "a user's formula", "a user's pairs", "the core", "Precomputed",
    "MatrixExponential", "check", "Gram", "its points", "On", "a user's map",
}  # fmt: skip


@looped("use", USES)
def test_a_damaged_matrix_is_refused_wherever_it_comes_in(use):
    taken = {}  # damage -> what was said instead
    for name, X in DAMAGED.items():
        if isinstance(X, list) and use in NO_LISTS:
            continue
        try:
            taken[name] = f"returned {type(USES[use](X)).__name__}"
        except ValueError as error:
            if not re.search("damaged|square", str(error)):
                taken[name] = str(error)
        except Exception as error:
            taken[name] = repr(error)
    assert taken == {}


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array, sp.csr_matrix])
def test_what_is_refused_is_what_a_full_check_of_scipy_refuses(kind):
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(300):
        X = kind(sp.random_array((6, 5), density=0.4, rng=rng))
        part = getattr(X, rng.choice(["indptr", "indices"]))
        part[rng.integers(len(part))] += rng.integers(-3, 4)
        try:
            X.copy().check_format(full_check=True)
            sound = True
        except ValueError:
            sound = False
        if sound:
            assert_array_equal(as_csr(X).toarray(), X.toarray())
        else:
            refused += 1
            with pytest.raises(ValueError, match="damaged"):
                as_csr(X)
    assert refused > 50


@looped("form", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
def test_a_sound_matrix_of_any_format_passes(form):
    X = sp.random_array((6, 4), density=0.5, rng=np.random.default_rng(1))
    for given in (X.asformat(form), sp.csr_matrix(X).asformat(form)):
        assert_array_equal(as_csr(given).toarray(), X.toarray())
        assert_array_equal(canonical(given).toarray(), X.toarray())
        empty = given[:0] if form in ("csr", "csc", "lil", "dok") else given
        assert_array_equal(canonical(empty).toarray(), empty.toarray())


def test_a_canonical_matrix_is_not_copied_and_another_is_not_changed():
    X = sp.csr_array(bad_inputs.POINTS)
    assert canonical(X) is X
    data, indices = np.array([1.0, 2.0, 0.0, 3.0]), np.array([2, 2, 0, 1])
    messy = sp.csr_array((data, indices, [0, 3, 4]), shape=(2, 3))
    clean = canonical(messy)
    assert_array_equal(clean.toarray(), [[0, 0, 3], [0, 3, 0]])
    assert_array_equal(clean.indptr, [0, 1, 2])
    assert_array_equal(messy.data, data)
    assert_array_equal(messy.indices, indices)


def test_room_behind_the_last_entry_is_not_read():
    X = sp.csr_array(np.eye(3))
    X.data = np.append(X.data, np.nan)
    X.indices = np.append(X.indices, np.int32(10**6))
    assert_array_equal(canonical(X).toarray(), np.eye(3))
    assert_array_equal(Linear()(X), np.eye(3))


def with_room(X):
    """The same CSR matrix with room behind its last entry, filled with anything."""
    X = X.copy()
    X.data = np.append(X.data, np.full(50, np.nan))
    X.indices = np.append(X.indices, np.full(50, 10**8, dtype=X.indices.dtype))
    return X


@pytest.mark.parametrize("read", [as_csr, canonical])
def test_no_reader_is_handed_the_room_behind_the_last_entry(read):
    # The choice of columns in scipy reads it, and memory far away with it.
    X = sp.csr_array(bad_inputs.POINTS)
    given = with_room(X)
    found = read(given)
    assert len(found.indices) == len(found.data) == found.indptr[-1]
    assert_array_equal(found[:, [0, 1]].toarray(), bad_inputs.POINTS[:, [0, 1]])
    assert len(given.data) == len(X.data) + 50
    kernel = On([0, 1], RBF(1.0))
    assert_array_equal(kernel(given), kernel(X))


@looped("form", ["csr", "csc", "coo", "bsr"])
@looped("dtype", [">f8", ">f4", "f2", ">i4"])
def test_numbers_that_scipy_does_not_have_are_converted(dtype, form):
    dense = bad_inputs.POINTS.astype(dtype)
    X = sp.csr_array(dense.astype(float)).asformat(form)
    X.data = X.data.astype(dtype)
    assert_array_equal(canonical(X).toarray(), dense)
    assert X.data.dtype == dtype
    assert_array_equal(Linear()(X), Linear()(sp.csr_array(canonical(X))))
