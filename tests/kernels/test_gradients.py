"""Derivatives with respect to parameters and points, by central differences."""

import catalog
import numpy as np
import pytest
from looped import looped
from numpy.testing import assert_allclose

from mercer import RBF, Anova, Linear, Matern, Spectrum, Subsequence, SubsetTree
from mercer.kernels.base import Kernel
from mercer.kernels.differences import moved
from mercer.kernels.gradients import is_exact

# Parameters of type float that k is no smooth function of, each with its reason.
NOT_SMOOTH = {
    "t_max": "says where a rule is tested, and changes no value",
    "error": "decides how many landmarks are taken",
    "origin": "a point",
    "field": "names a column",
    "alphabet": "tokens",
    "reference": "points",
    "landmarks": "points",
    "metric": "a number only where it is one",
    "norm": "says how weights are learnt, and changes no value",
}


def numerical(kernel, name, X, Y, step=1e-5):
    """Differences in one parameter, or in each entry of a list of them."""
    setting, allowed = kernel.get_params()[name], kernel.smooth_parameters()[name]
    starts = np.atleast_1d(np.asarray(setting, dtype=float))
    parts = []
    for r, start in enumerate(starts):

        def at(value, r=r):
            new = starts.tolist()
            new[r] = value
            changed = new if np.ndim(setting) else value
            return np.asarray(moved(kernel, name, changed)(X, Y), dtype=float)

        h = step * (abs(start) or 1.0)
        if start not in (allowed.low, allowed.high):
            parts.append((at(start + h) - at(start - h)) / (2 * h))
        else:  # to the side there is
            h = h if start == allowed.low else -h
            ends = 4 * at(start + h) - at(start + 2 * h) - 3 * at(start)
            parts.append(ends / (2 * h))
    return np.stack(parts) if np.ndim(setting) else parts[0]


@looped("kernel, points", catalog.all_kernels)
def test_gradients_are_central_differences(kernel, points):
    X, Y = points(1, 5), points(2, 4)
    weight = np.random.default_rng(0).normal(size=(5, 4))
    for other in (Y, None):
        found = kernel.parameter_gradient(X, other)
        assert list(found) == list(kernel.smooth_parameters())
        for name, slope in found.items():
            expected = numerical(kernel, name, X, other)
            scale = np.abs(expected).max() + np.abs(kernel(X, other)).max()
            assert_allclose(slope, expected, rtol=0, atol=1e-7 * scale, err_msg=name)
            if other is None:
                assert_allclose(slope, np.swapaxes(slope, -1, -2), atol=1e-9 * scale)
            elif np.ndim(slope) == 2:
                total = kernel.parameter_gradient(X, Y, weight=weight, names=[name])
                assert_allclose(
                    total[name], np.sum(weight * slope), rtol=1e-8, atol=1e-8 * scale
                )
            else:
                total = kernel.parameter_gradient(X, Y, weight=weight, names=[name])
                sums = np.einsum("ij,rij->r", weight, slope)
                assert_allclose(total[name], sums, rtol=1e-8, atol=1e-8 * scale)


def every_node(kernel):
    return list(kernel._distinct())


@looped("kernel, points", catalog.all_kernels)
def test_every_number_that_a_kernel_has_is_smooth_or_known_not_to_be(kernel, points):
    for node in every_node(kernel):
        for name, setting in node._parameters().items():
            listed = setting if isinstance(setting, list) and setting else [setting]
            number = all(isinstance(part, float) for part in listed)
            if number and name not in node.smooth:
                assert name in NOT_SMOOTH, f"{node} says nothing of {name}"


def test_parameters_of_kernels_in_a_list_have_names():
    kernel = Anova(2, [Linear(), RBF(0.3)])
    assert kernel.get_params()["base__1__gamma"] == 0.3
    assert kernel.set_params(base__1__gamma=2.0).base == [Linear(), RBF(2.0)]
    assert kernel.set_params(base__0=RBF(1.0)).base[0] == RBF(1.0)
    assert list(kernel.smooth_parameters()) == ["base__0__gamma", "base__1__gamma"]
    with pytest.raises(ValueError, match="numbered from 0"):
        kernel.set_params(base__2__gamma=1.0)


def test_a_kernel_of_a_users_own_is_differenced():
    from dataclasses import dataclass

    from mercer.kernels.checks import Range

    @dataclass
    class Wave(Kernel):
        smooth = Range.positive("width")
        width: float = 1.0

        def __call__(self, X, Y=None):
            X, Y = np.asarray(X), np.asarray(X if Y is None else Y)
            return np.cos(self.width * (X - Y.T))

    X = np.linspace(0, 2, 4)[:, None]
    slope = Wave(0.7).parameter_gradient(X)["width"]
    gaps = X - X.T
    assert_allclose(slope, -gaps * np.sin(0.7 * gaps), atol=1e-10)
    assert not is_exact(Wave(0.7), "width")


def test_what_is_differenced_is_told_from_formulas():
    kernel = 2 * RBF(0.5) + Matern(1.2)
    exact = {name: is_exact(kernel, name) for name in kernel.smooth_parameters()}
    assert exact == {
        "left__factor": True,
        "left__kernel__gamma": True,
        "right__length": True,
        "right__nu": False,
    }
    assert not is_exact(Subsequence(2), "decay")
    assert is_exact(Spectrum(2, [1.0, 2.0]), "weights")


def test_long_strings_and_deep_decays_keep_ten_digits():
    # k is a polynomial of the decay: its derivative from the coefficients is exact.
    s = "abracadabra" * 6
    decays = np.array([0.9, 1.0])
    for decay in decays:
        k = Subsequence(2, float(decay))
        slope = k.parameter_gradient([s])["decay"][0, 0]
        spans = {}
        for i in range(len(s)):
            for j in range(i + 1, len(s)):
                spans.setdefault((s[i], s[j]), []).append(j - i + 1)
        exact = 0.0
        for lengths in spans.values():
            both = np.add.outer(lengths, lengths)
            exact += float(np.sum(both * decay ** (both - 1.0)))
        assert slope == pytest.approx(exact, rel=1e-9)


def test_the_names_asked_for_are_checked():
    with pytest.raises(ValueError, match=r"no smooth parameter 'nu'; it has gamma"):
        RBF(0.5).parameter_gradient([[0.0]], names=["nu"])
    with pytest.raises(ValueError, match=r"shape \(1, 1\); got shape \(2,\)"):
        RBF(0.5).parameter_gradient([[0.0]], weight=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"call RBF\(\).resolve\(X\) first"):
        RBF().parameter_gradient([[0.0]])
    assert Linear().parameter_gradient([[0.0]]) == {}
    assert list(SubsetTree(1.0).smooth_parameters()) == ["decay"]


@looped("kernel, points", catalog.vector_kernels)
def test_point_gradients_are_central_differences(kernel, points):
    x, Y = points(1, 3)[1] + 0.05, points(2, 4)
    found = kernel.point_gradient(x, Y)
    assert found.shape == Y.shape
    expected = np.empty_like(found)
    for j in range(len(x)):
        h = 1e-5
        up, down = x.copy(), x.copy()
        up[j] += h
        down[j] -= h
        expected[:, j] = (kernel(up[None], Y) - kernel(down[None], Y))[0] / (2 * h)
    scale = np.abs(expected).max() + np.abs(kernel(x[None], Y)).max()
    assert_allclose(found, expected, rtol=0, atol=2e-5 * scale)


def test_point_gradients_need_one_vector():
    with pytest.raises(ValueError, match="one point x"):
        RBF(1.0).point_gradient([1.0, 2.0], [[1.0]])
    with pytest.raises(TypeError):
        Spectrum(2).point_gradient("abc", ["abc"])
