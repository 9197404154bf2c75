"""KernelSGDClassifier, KernelSGDRegressor: any convex loss, point by point."""

from mercer.machines.sgd.classifier import KernelSGDClassifier
from mercer.machines.sgd.regressor import KernelSGDRegressor

__all__ = ["KernelSGDClassifier", "KernelSGDRegressor"]
