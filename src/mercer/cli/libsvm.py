"""Look-alikes of LIBSVM's tools: svm-train, svm-predict, svm-scale and svm-grid.

`main(["svm-train", ...])` is what the commands `mercer svm-train ...` and
`mercer-svm-train ...` do. What computes is loaded once the options are understood, so
that help is quick.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from mercer.cli.options import (
    USAGE,
    Refused,
    UsageError,
    grid_options,
    predict_options,
    scale_options,
    train_options,
)

TOOLS: dict[str, tuple[Callable[[Sequence[str]], Any], str]] = {
    "svm-train": (train_options, "mercer.cli.svm_train"),
    "svm-predict": (predict_options, "mercer.cli.svm_predict"),
    "svm-scale": (scale_options, "mercer.cli.svm_scale"),
    "svm-grid": (grid_options, "mercer.cli.svm_grid"),
}


def main(words: Sequence[str]) -> int:
    """Run one of the tools; returns its exit code, 0 or 1.

    Parameters
    ----------
    words : the name of the tool, and what is on its command line
    """
    if not words or words[0] not in TOOLS:
        sys.stderr.write(f"The tools are {', '.join(TOOLS)}.\n")
        return 1
    tool, *rest = words
    if rest[:1] == ["--help"]:
        sys.stdout.write(USAGE[tool])
        return 0
    parse, module = TOOLS[tool]
    try:
        options = parse(rest)
        code = importlib.import_module(module).run(options)
        sys.stdout.flush()
    except UsageError as error:
        if str(error):
            sys.stderr.write(f"{error}\n")
        sys.stdout.write(USAGE[tool])
        return 1
    except Refused as error:
        sys.stdout.flush()
        sys.stderr.write(f"{error}\n")
        return 1
    except MemoryError:
        sys.stderr.write(f"{tool}: there is not enough memory.\n")
        return 1
    except BrokenPipeError:
        # Who read our output has gone; Python would complain of it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"{tool}: interrupted.\n")
        return 130
    return code


def svm_train() -> int:
    """The command mercer-svm-train."""
    return main(["svm-train", *sys.argv[1:]])


def svm_predict() -> int:
    """The command mercer-svm-predict."""
    return main(["svm-predict", *sys.argv[1:]])


def svm_scale() -> int:
    """The command mercer-svm-scale."""
    return main(["svm-scale", *sys.argv[1:]])


def svm_grid() -> int:
    """The command mercer-svm-grid."""
    return main(["svm-grid", *sys.argv[1:]])
