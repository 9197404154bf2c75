"""MultipleKernel: a weighted sum of kernels, whose weights a machine learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from mercer.data.checks import brief
from mercer.data.points import Points
from mercer.kernels.base import Kernel, Rule, check_kernels, closed
from mercer.kernels.checks import Range, is_finite, is_number
from mercer.kernels.operators import Scaled, Sum

LEARNERS = "SVC, NuSVC, SVR, NuSVR, OneClassSVM and KernelRidge"


@dataclass
class MultipleKernel(Kernel):
    """k(x, y) = Σₘ dₘ kₘ(x, y), dₘ ≥ 0: several kernels, each with a weight to learn.

    A machine that fits f = Σₘ fₘ + b with it minimises its loss and ½ Σₘ ‖fₘ‖²/dₘ over
    all fₘ and over all weights with (Σₘ dₘᵖ)^(1/p) ≤ 1. With p = 1 most weights become
    0; the larger p, the more alike they are; with p = ∞ all are 1, the plain sum.

    Weights depend on the sizes of the kernels: k/100 needs a hundred times the weight
    of k. `Normalized` brings kernels to one size.

    Parameters
    ----------
    kernels : one kernel or more, all over the same points
    norm : p ≥ 1, or inf
    weights : a number ≥ 0 for each kernel, not all of them 0; None for weights to be
        learnt, by SVC, NuSVC, SVR, NuSVR, OneClassSVM or KernelRidge

    Examples
    --------
    >>> from mercer import RBF, SVC, Linear, MultipleKernel
    >>> X, y = [[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0]
    >>> kernel = MultipleKernel([Linear(), RBF(1.0)], norm=1)
    >>> machine = SVC(C=10, kernel=kernel).fit(X, y)
    >>> machine.kernel_weights_.round(3).tolist()  # no line tells these apart
    [0.0, 1.0]
    >>> machine.expansion_.kernel
    RBF(gamma=1.0)
    """

    # Weights, where they are given; the norm says how they are learnt.
    smooth: ClassVar[Mapping[str, Range]] = Range.not_negative(
        "weights", learnt=False, optional=True
    )

    kernels: Sequence[Kernel]
    norm: float = 2.0
    weights: Any = None

    def __post_init__(self) -> None:
        listed = isinstance(self.kernels, list | tuple)
        if not listed or not len(self.kernels):
            raise ValueError(
                "MultipleKernel needs a list of kernels, one or more; got "
                f"kernels={brief(self.kernels)}."
            )
        check_kernels(self, *self.kernels)
        for i, kernel in enumerate(self.kernels):
            self._check_part(i, kernel)
        if not (is_number(self.norm) and self.norm >= 1):
            raise ValueError(
                "MultipleKernel needs norm ≥ 1, or inf for the plain sum; got "
                f"norm={brief(self.norm)}."
            )
        if self.weights is not None:
            self._check_weights()

    @staticmethod
    def _check_part(i: int, kernel: Kernel) -> None:
        if any(isinstance(part, MultipleKernel) for part in kernel._distinct()):
            raise ValueError(
                f"MultipleKernel cannot hold another one; kernel {i} is {kernel}. List "
                "all kernels in one, or give the inner one its weights."
            )
        if kernel.psd is False:
            raise ValueError(
                f"MultipleKernel weighs positive semidefinite kernels; kernel {i}, "
                f"{kernel}, is not one. Leave it out, or see `proof`."
            )

    def _check_weights(self) -> None:
        listed = isinstance(self.weights, list | tuple | np.ndarray)
        if not listed or len(self.weights) != len(self.kernels):
            raise ValueError(
                f"MultipleKernel of {len(self.kernels)} kernels needs as many weights; "
                f"got weights={brief(self.weights)}."
            )
        if not all(is_finite(weight) and weight >= 0 for weight in self.weights) or (
            not any(self.weights)
        ):
            raise ValueError(
                "MultipleKernel needs finite weights ≥ 0, not all of them 0; got "
                f"weights={brief(self.weights)}."
            )

    def total(self, weights: Sequence[float] | np.ndarray | None = None) -> Kernel:
        """Σₘ dₘ kₘ by + and *, of the kernels with a weight dₘ > 0.

        Parameters
        ----------
        weights : d; None for those of this kernel, which must have some
        """
        if weights is None:
            if self.weights is None:
                raise ValueError(
                    f"The weights of {self} are learnt with the targets, by "
                    f"{LEARNERS}. For other uses fix them: MultipleKernel(kernels, "
                    "weights=mercer.theory.align(kernels, X, y)), or any others."
                )
            weights = self.weights
        pairs = zip(weights, self.kernels, strict=True)
        parts = [k if d == 1 else Scaled(float(d), k) for d, k in pairs if d > 0]
        return reduce(Sum, parts)

    def __call__(self, X: Points, Y: Points | None = None) -> np.ndarray:
        return self.total()(X, Y)

    def diag(self, X: Points) -> np.ndarray:
        return self.total().diag(X)

    def rule(self) -> Rule:
        return closed(self, "a sum of kernels with weights ≥ 0 is a kernel")
