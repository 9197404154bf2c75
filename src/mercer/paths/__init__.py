"""Exact paths: machines for all values of C, ν, ε or λ from one computation.

`svm_path`, `svr_path` and `nu_path` follow the coefficients, which are linear in their
parameter between breakpoints; `ridge_path` reads every λ from one eigendecomposition.
A path is a function: `path(C)` is the fitted machine. Hastie, Rosset, Tibshirani, Zhu,
JMLR 5 (2004).
"""

from mercer._names import loaded_on_use

__getattr__, __dir__, __all__ = loaded_on_use(
    __name__,
    {
        "mercer.paths.curves": "ErrorCurve",
        "mercer.paths.svm": "Path ClassifierPath svm_path svr_path nu_path",
        "mercer.paths.ridge": "RidgePath ridge_path",
    },
)
