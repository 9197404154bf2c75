"""Machines: scikit-learn estimators around an expansion."""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__, {"mercer.machines.regularized": "regularization_path"}
)
