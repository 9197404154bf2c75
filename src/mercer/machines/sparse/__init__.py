"""Machines on few points, by a penalty on Σⱼ|coefⱼ|: classes, numbers, and paths.

The penalty makes most coefficients 0 whatever k is: no Mercer condition is needed, and
any similarity of two points will do.
"""

from mercer.machines.sparse.classifier import SparseKernelClassifier
from mercer.machines.sparse.regressor import SparseKernelRegressor

__all__ = ["SparseKernelClassifier", "SparseKernelRegressor"]
