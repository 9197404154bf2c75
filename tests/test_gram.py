import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp
from looped import looped
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import LinearOperator, aslinearoperator, cg, eigsh

import mercer.gram
import mercer.native.memory
from mercer import (
    RBF,
    BlockFunction,
    FeatureFunction,
    Gram,
    Linear,
    PairFunction,
    Polynomial,
    Precomputed,
)
from mercer.native import memory


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(40, 3))


@pytest.fixture
def Y():
    return np.random.default_rng(1).normal(size=(25, 3))


def shared_letters(s, t):
    return len(set(s) & set(t))


KERNELS = [
    RBF(0.5),
    Linear() + 1,
    RBF(0.5) * Polynomial(2) + 2 * Linear(),
    FeatureFunction(lambda X: np.column_stack([X, X**2])),
    BlockFunction(lambda X, Y: 1 / (1 + ((X[:, None] - Y) ** 2).sum(axis=2))),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("block_mb", [1e-4, 64.0])
def test_products_are_those_of_the_matrix(kernel, block_mb, X, Y):
    rng = np.random.default_rng(2)
    K = Gram(kernel, X, Y, block_mb=block_mb)
    dense = kernel(X, Y)
    for V in (rng.normal(size=25), rng.normal(size=(25, 4)), np.ones((25, 1))):
        assert_allclose(K @ V, dense @ V, rtol=1e-12, atol=1e-11)
    for V in (rng.normal(size=40), rng.normal(size=(40, 4))):
        assert_allclose(K.T @ V, dense.T @ V, rtol=1e-12, atol=1e-11)
        assert_allclose(V.T @ K, V.T @ dense, rtol=1e-12, atol=1e-11)
    assert_allclose(K.rmatvec(np.ones(40)), dense.sum(axis=0), rtol=1e-12, atol=1e-11)
    assert_allclose(K.H @ np.ones(40), dense.sum(axis=0), rtol=1e-12, atol=1e-11)


def test_one_set_of_points_gives_the_symmetric_matrix(X):
    K = Gram(RBF(0.5), X)
    assert isinstance(K, LinearOperator)
    assert K.shape == (40, 40)
    assert K.dtype == np.float64
    assert K.T is K
    assert_array_equal(K.dense(), K.dense().T)
    assert_allclose(K @ np.eye(40), K.dense(), rtol=1e-12)
    assert Gram(RBF(0.5), X, X).Y is None


def test_product_with_complex_numbers_keeps_both_parts(X):
    v = np.arange(40) * 1j + 1
    assert_allclose(Gram(RBF(0.5), X) @ v, RBF(0.5)(X) @ v, rtol=1e-12)


def test_iterative_solvers_accept_a_gram(X):
    K = Gram(RBF(0.5), X)
    dense = K.dense()
    system = K + aslinearoperator(0.1 * np.eye(40))
    coef, failed = cg(system, np.ones(40), rtol=1e-12)
    assert not failed
    exact = np.linalg.solve(dense + 0.1 * np.eye(40), np.ones(40))
    assert_allclose(coef, exact, rtol=1e-8)
    largest = eigsh(K, k=3, return_eigenvectors=False)
    assert_allclose(np.sort(largest), np.linalg.eigvalsh(dense)[-3:], rtol=1e-10)


def test_nothing_is_computed_before_it_is_asked_for(X):
    calls = []

    def recorded(X, Y):
        calls.append((len(X), len(Y)))
        return X @ Y.T

    K = Gram(BlockFunction(recorded), X)
    part = K.take([1, 2, 3])
    assert (K.shape, K.T.shape, part.shape) == ((40, 40), (40, 40), (3, 3))
    assert "40 points" in repr(K)
    assert calls == []
    K.rows([4, 5])
    part.dense()
    assert calls == [(2, 40), (3, 3)]


def test_a_product_never_asks_for_more_than_its_block(X, Y):
    sizes = []

    def recorded(X, Y):
        sizes.append(len(X) * len(Y) * 8)
        return X @ Y.T

    block_mb = 1000 / 2**20
    Gram(BlockFunction(recorded), X, Y, block_mb=block_mb) @ np.ones(25)
    assert max(sizes) <= 1000
    assert sum(sizes) == 40 * 25 * 8


@looped("index", [slice(3, 9), [5, 0, 5], np.array([7]), 7, [], np.arange(40) % 3 == 0])
def test_rows_are_rows_of_the_matrix(index, X, Y):
    kernel = RBF(0.5)
    chosen = np.atleast_1d(np.arange(40)[index if not np.isscalar(index) else [index]])
    chosen = chosen.astype(int)
    assert_allclose(Gram(kernel, X, Y).rows(index), kernel(X, Y)[chosen], rtol=1e-12)
    assert_allclose(Gram(kernel, X).rows(index), kernel(X)[chosen], rtol=1e-12)


def test_rows_keep_the_precision_of_the_kernel(X):
    single = X.astype(np.float32)
    assert Gram(RBF(0.5), single).rows([0, 1]).dtype == np.float32
    assert Gram(RBF(0.5), single).dense().dtype == np.float32
    assert (Gram(RBF(0.5), single) @ np.ones(40)).dtype == np.float64


def test_take_restricts_both_sides_of_one_set_and_the_rows_of_two(X, Y):
    kernel, index = Polynomial(2), [3, 1, 8]
    assert_allclose(
        Gram(kernel, X).take(index).dense(), kernel(X)[np.ix_(index, index)], rtol=1e-12
    )
    assert_allclose(
        Gram(kernel, X, Y).take(index).dense(), kernel(X, Y)[index], rtol=1e-12
    )


@looped("kernel", KERNELS, ids=repr)
def test_a_held_gram_says_the_same_and_asks_its_kernel_once(kernel, X, Y):
    sizes = []

    def recorded(A, B):
        sizes.append(len(A) * len(B))
        return kernel(A, B)

    for other in (None, Y):
        lazy = Gram(BlockFunction(recorded), X, other)
        held = lazy.held()
        sizes.clear()
        parts = [
            held.dense(),
            held.rows([3, 1]),
            held.take([3, 1, 8]).dense(),
            held @ np.arange(held.shape[1]),
            held.T @ np.arange(40),
        ]
        assert not sizes
        for part, again in zip(
            parts,
            [
                lazy.dense(),
                lazy.rows([3, 1]),
                lazy.take([3, 1, 8]).dense(),
                lazy @ np.arange(lazy.shape[1]),
                lazy.T @ np.arange(40),
            ],
            strict=True,
        ):
            assert_allclose(part, again, rtol=1e-9, atol=1e-9)
    assert_array_equal(Gram(kernel, X).held().diag(), np.diag(kernel(X)))


@pytest.mark.parametrize(
    "kernel", [2.0 * RBF([0.5, 0.1, 2.0]) + Linear(), FeatureFunction(np.exp)]
)
def test_the_lower_triangle_is_that_of_the_matrix(kernel, X, monkeypatch):
    monkeypatch.setattr(mercer.gram, "STRIP_ROWS", 7)
    K = Gram(kernel, X.astype(np.float32)).lower()
    assert K.dtype == np.float64
    expected = kernel(X.astype(np.float32).astype(float))
    assert_allclose(np.tril(K), np.tril(expected), rtol=1e-14)


def test_one_width_on_scaled_columns_is_the_same_matrix(X):
    gram = Gram(RBF([0.5, 0.1, 2.0]), X)
    scaled = gram.with_one_width()
    assert scaled.kernel == RBF(1.0) and scaled.given is gram
    assert_array_equal(scaled.dense(), gram.dense())
    assert Gram(RBF(0.5), X).with_one_width().given.kernel == RBF(0.5)


def test_diag_is_the_diagonal_of_one_set_of_points(X, Y):
    assert_allclose(
        Gram(Polynomial(3), X).diag(), np.diag(Polynomial(3)(X)), rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"one set of points.*between 40 and 25"):
        Gram(RBF(0.5), X, Y).diag()


@looped("kernel", KERNELS, ids=repr)
def test_centered_is_h_k_h(kernel, X):
    H = np.eye(40) - 1 / 40
    exact = H @ kernel(X) @ H
    scale = np.abs(kernel(X)).max()
    K = Gram(kernel, X, block_mb=1e-3).centered()
    assert_allclose(K.dense(), exact, atol=1e-12 * scale)
    assert_allclose(K @ np.eye(40), exact, atol=1e-12 * scale)
    assert_allclose(K.rows([3, 4]), exact[[3, 4]], atol=1e-12 * scale)
    assert_allclose(K.diag(), np.diag(exact), atol=1e-12 * scale)
    assert_allclose(K @ np.ones(40), np.zeros(40), atol=1e-10 * scale)


def test_centering_two_sets_asks_whose_mean(X, Y):
    with pytest.raises(ValueError, match="whose mean"):
        Gram(RBF(0.5), X, Y).centered()


def test_points_may_be_strings_sparse_rows_or_a_frame(X):
    words = ["kernel", "gram", "mercer", "ridge"]
    kernel = PairFunction(shared_letters)
    K = Gram(kernel, words, ["letters", "gram"])
    assert_array_equal(K @ np.array([1.0, 10.0]), kernel(words, K.Y) @ [1.0, 10.0])
    assert_array_equal(K.rows([1])[0], [1, 4])
    assert_array_equal(K.take([0, 3]).dense(), kernel(["kernel", "ridge"], K.Y))

    sparse = sp.coo_array(np.where(X > 0, X, 0))
    K = Gram(Linear(), sparse)
    assert_allclose(K @ np.ones(40), sparse @ (sparse.T @ np.ones(40)), rtol=1e-12)

    pandas = pytest.importorskip("pandas")
    K = Gram(Linear(), pandas.DataFrame(X))
    assert_allclose(K.take([2, 4]).dense(), Linear()(X[[2, 4]]), rtol=1e-12)


def test_precomputed_values_are_points_by_index():
    values = np.arange(16.0).reshape(4, 4) + np.arange(16.0).reshape(4, 4).T
    K = Gram(Precomputed(values), np.arange(4))
    assert_array_equal(K @ np.eye(4), values)
    assert_array_equal(K.take([0, 2]).dense(), values[np.ix_([0, 2], [0, 2])])


def test_a_parameter_still_to_be_learnt_is_refused_on_use(X):
    K = Gram(RBF(), X)
    with pytest.raises(ValueError, match="resolve"):
        K @ np.ones(40)
    with pytest.raises(ValueError, match="resolve"):
        K.dense()


def test_arguments_that_cannot_be_are_refused(X):
    with pytest.raises(TypeError, match=r"Gram needs a kernel.*BlockFunction"):
        Gram(np.dot, X)
    with pytest.raises(ValueError, match="block_mb > 0"):
        Gram(RBF(0.5), X, block_mb=0)
    with pytest.raises(TypeError, match="Wrap a single point"):
        Gram(PairFunction(shared_letters), "kernel")
    with pytest.raises(ValueError, match="dimension mismatch"):
        Gram(RBF(0.5), X) @ np.ones(39)


def test_repr_names_kernel_and_sizes(X, Y):
    assert repr(Gram(RBF(0.5), X)) == "Gram of RBF(gamma=0.5) on 40 points"
    assert repr(Gram(RBF(0.5), X, Y)) == (
        "Gram of RBF(gamma=0.5) between 40 and 25 points"
    )


def test_dense_refuses_a_matrix_larger_than_the_memory(X, monkeypatch):
    monkeypatch.setattr(mercer.gram, "SMALL_BYTES", 0.0)
    monkeypatch.setattr(memory, "available_memory", lambda: 40 * 40 * 8 - 1.0)
    with pytest.raises(MemoryError, match=r"1.28e-05 GB .* available.*K\.rows"):
        Gram(RBF(0.5), X).dense()
    # In single precision it takes half of that.
    assert Gram(RBF(0.5), X.astype(np.float32)).dense().shape == (40, 40)
    monkeypatch.setattr(memory, "available_memory", lambda: 40 * 40 * 8.0)
    assert Gram(RBF(0.5), X).dense().shape == (40, 40)


def test_a_matrix_of_ten_million_rows_is_refused_at_once():
    X = np.zeros((10_000_000, 1), dtype=np.float32)
    with pytest.raises(MemoryError, match=r"4e\+05 GB"):
        Gram(Linear(), X).dense()


def test_memory_of_a_control_group_counts_its_file_cache_as_free(tmp_path):
    names = mercer.native.memory._NEW
    assert mercer.native.memory._group_memory(tmp_path, names) == np.inf
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 150\n")
    assert mercer.native.memory._group_memory(tmp_path, names) == 450
    (tmp_path / "memory.current").write_text("1300\n")
    assert mercer.native.memory._group_memory(tmp_path, names) == 0
    (tmp_path / "memory.max").write_text("max\n")
    assert mercer.native.memory._group_memory(tmp_path, names) == np.inf


def test_memory_of_the_machine_is_what_the_system_calls_available(tmp_path):
    meminfo = tmp_path / "meminfo"
    assert mercer.native.memory._machine_memory(meminfo) == np.inf
    meminfo.write_text("MemTotal:  900 kB\nMemFree:  100 kB\nMemAvailable:  300 kB\n")
    assert mercer.native.memory._machine_memory(meminfo) == 300 * 1024
    assert 0 <= mercer.native.memory.available_memory()


def peak_mb_of_a_product(kernel: str, n: int, d: int) -> float:
    """Peak memory of a process that multiplies an n × n Gram, beyond that of X."""
    pytest.importorskip("resource")
    script = f"""
        import pathlib
        import resource
        import numpy as np
        from mercer import BlockFunction, Gram, Linear, RBF

        def peak():
            # ru_maxrss would count the memory of the process that started this one.
            status = pathlib.Path("/proc/self/status")
            if status.exists():
                return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

        X = np.random.default_rng(0).random(({n}, {d}), dtype=np.float32)
        K = Gram({kernel}, X)
        before = peak()
        K @ np.ones({n})
        print(peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


@pytest.mark.parametrize(
    "kernel", ["RBF(0.01)", "Linear() + 1", "BlockFunction(lambda X, Y: X @ Y.T)"]
)
def test_a_product_needs_memory_for_blocks_only(kernel):
    # As an array the matrix takes 6000² · 4 bytes = 137 MB, in float64 twice that.
    assert peak_mb_of_a_product(kernel, 6000, 100) < 120


def test_a_product_needs_no_more_memory_for_more_points():
    # As an array the matrix takes 20,000² · 4 bytes = 1.6 GB.
    assert peak_mb_of_a_product("RBF(0.01)", 20_000, 8) < 120


def test_the_lower_triangle_is_row_major_whatever_the_order_of_k():
    K = np.asfortranarray(RBF(0.5)(np.arange(12.0).reshape(6, 2)))
    gram = Gram(Precomputed(K), np.arange(6)).holding(K)
    assert gram.lower().flags.c_contiguous
    assert_allclose(np.tril(gram.lower()), np.tril(K))
