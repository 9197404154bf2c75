"""Machines of a loss and a norm: any convex loss, quantiles, robust and logistic ones.

What each minimises is a `Penalized` problem, and by the representer theorem f is an
expansion on the training points.
"""

from mercer.machines.regularized.base import regularization_path
from mercer.machines.regularized.logistic import KernelLogisticRegression
from mercer.machines.regularized.machine import RegularizedMachine
from mercer.machines.regularized.regression import (
    KernelHuberRegression,
    KernelQuantileRegression,
)

__all__ = [
    "KernelHuberRegression",
    "KernelLogisticRegression",
    "KernelQuantileRegression",
    "RegularizedMachine",
    "regularization_path",
]
