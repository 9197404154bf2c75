"""Gaussian processes: numbers and classes, with the evidence of the kernel."""

from mercer.machines.gp.classifier import GaussianProcessClassifier
from mercer.machines.gp.regressor import GaussianProcessRegressor

__all__ = ["GaussianProcessClassifier", "GaussianProcessRegressor"]
