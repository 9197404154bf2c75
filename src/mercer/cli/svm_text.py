"""What LIBSVM's tools read and print alike."""

from __future__ import annotations

import math

import numpy as np

from mercer.cli.options import Refused
from mercer.io.svmlight import Dialect, MalformedLine

LARGEST = 2**31 - 1  # an index of LIBSVM's
# No queries, and a point on every line.
DIALECT = Dialect(query=False, blank=False, largest=LARGEST)


def malformed(error: MalformedLine) -> Refused:
    """The error in LIBSVM's words, and then in ours."""
    return Refused(f"Wrong input format at line {error.line}\n{error}")


def regression_scores(predicted: np.ndarray, y: np.ndarray) -> tuple[str, str]:
    """The mean squared error and the squared correlation, as they are printed."""
    n, v = len(y), predicted
    error = float(np.sum((v - y) ** 2)) / n if n else math.nan
    joint = n * float(v @ y) - float(v.sum()) * float(y.sum())
    spread = (n * float(v @ v) - float(v.sum()) ** 2) * (
        n * float(y @ y) - float(y.sum()) ** 2
    )
    correlation = joint**2 / spread if spread else math.copysign(math.inf, joint)
    if not spread and not joint:
        correlation = math.nan
    return shown(error), shown(correlation)


def shown(value: float) -> str:
    """The number as C prints it; what is 0/0 has a sign there."""
    return "-nan" if math.isnan(value) else f"{value:g}"
