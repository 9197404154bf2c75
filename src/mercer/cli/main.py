"""The command `mercer`: its options, and which module does what was asked for.

Nothing but the standard library is loaded before that is known, so that help and
completion come at once. Errors are one line, with the remedy; the exit code is 1, and 2
where the command line itself is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

# Which module has the function `run` of a command.
COMMANDS = {
    "train": "training",
    "tune": "tuning",
    "predict": "prediction",
    "evaluate": "prediction",
    "explain": "explaining",
    "plan": "looking",
    "check": "looking",
    "gram": "looking",
    "info": "looking",
    "convert": "conversion",
    "bench": "bench",
    "lab": "lab",
    "completion": "completion",
}
LIBSVM_TOOLS = ("svm-train", "svm-predict", "svm-scale", "svm-grid")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
INTERRUPTED = 130  # the exit code of what Ctrl-C ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in LIBSVM_TOOLS:
        return int(importlib.import_module("mercer.cli.libsvm").main(given) or 0)
    try:
        options = make_parser().parse_args(given)
        options.given = given
    except SystemExit as end:  # argparse has said why
        return int(end.code or 0)
    try:
        module = importlib.import_module(f"mercer.cli.{COMMANDS[options.command]}")
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _warn
            return int(module.run(options) or 0)
    except KeyboardInterrupt:
        print("mercer: stopped; nothing was written.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever reads us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if options.debug:
            raise
        print(f"mercer: {one_line(error)}", file=sys.stderr)
        return 1


def _warn(message: Any, *_: Any, **__: Any) -> None:
    """A warning of the library, as a line of this command."""
    print(f"mercer: {one_line(message)}", file=sys.stderr)


def one_line(error: BaseException) -> str:
    """What an error says, on one line."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        if isinstance(error, FileNotFoundError):
            text += ". Check the name of the file."
    else:
        # A KeyError shows its text in quotes.
        first = error.args[0] if error.args and isinstance(error, KeyError) else error
        text = str(first) or type(error).__name__
    known = isinstance(
        error, (ValueError, TypeError, OSError, ImportError, MemoryError)
    )
    if not known and not isinstance(error, (KeyError, IndexError)):
        text = f"{type(error).__name__}: {text} (--debug shows where)"
    return re.sub(r"\s*\n\s*", " ", text.strip())


# The command line


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands but LIBSVM's."""
    parser = argparse.ArgumentParser(
        prog="mercer",
        description="Kernel methods from the command line.",
        epilog="LIBSVM's tools: mercer " + ", ".join(LIBSVM_TOOLS) + " (-h for help).",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mercer {_version()}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="command", title="commands"
    )
    for name, text, add in _COMMAND_LINES:
        command = commands.add_parser(
            name, help=text, description=_sentence(text), allow_abbrev=False
        )
        add(command)
        if name != "completion":
            _add_common(command)
        else:
            command.set_defaults(debug=False)
    return parser


def _version() -> str:
    return str(importlib.import_module("mercer").__version__)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _add_common(command: argparse.ArgumentParser) -> None:
    common = command.add_argument_group("output")
    common.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    common.add_argument(
        "--json", action="store_true", help="print one JSON object, for programs"
    )
    common.add_argument(
        "--debug", action="store_true", help="show where in the code an error arose"
    )


def _add_reading(command: argparse.ArgumentParser, target: bool = True) -> None:
    reading = command.add_argument_group("reading data")
    if target:
        reading.add_argument(
            "--target",
            metavar="COLUMN",
            help="what is to be learnt: a column by name or number (from 0), an array "
            "of an .npz, a pattern with one group for sequences, 'root' for trees",
        )
    reading.add_argument(
        "--format",
        metavar="FORMAT",
        help="table, numpy, parquet, svmlight, fasta, fastq, strings, trees, tu, edges "
        "or smiles; default: by suffix and content",
    )
    reading.add_argument("--labels", metavar="FILE", help="a table of names and labels")
    reading.add_argument("--columns", metavar="A,B,...", help="columns of the points")
    reading.add_argument("--drop", metavar="A,B,...", help="columns left out")
    reading.add_argument(
        "--type",
        action="append",
        default=[],
        metavar="COLUMN=TYPE",
        help="numbers, words or text, where that is not told by itself",
    )
    reading.add_argument(
        "--header", choices=("yes", "no"), help="whether the first row has names"
    )
    reading.add_argument("--divider", help="between cells, as ';'")
    reading.add_argument("--decimal", choices=(".", ","), help="sign in numbers")
    reading.add_argument(
        "--missing",
        choices=("refuse", "drop", "keep"),
        help="what to do about missing values; default: refuse",
    )


def _add_machine(command: argparse.ArgumentParser) -> None:
    machine = command.add_argument_group("the machine")
    machine.add_argument(
        "--machine",
        default="auto",
        metavar="CLASS",
        help="SVC, SVR, KernelRidge, ...; default: SVC for classes, SVR for numbers",
    )
    machine.add_argument(
        "--kernel",
        default="auto",
        help="as 'RBF(0.1) + Linear()'; default: by the kind of data",
    )
    machine.add_argument(
        "--task",
        choices=("classification", "regression"),
        help="what the target is, where that is not told by itself",
    )
    for name, text in (
        ("C", "the price of errors"),
        ("gamma", "of kernels named by a word, as rbf"),
        ("epsilon", "half the width of the tube"),
        ("nu", "a share of the points"),
        ("alpha", "the strength of the ridge"),
        ("tol", "when the solver stops"),
    ):
        machine.add_argument(f"--{name}", metavar="NUMBER", help=text)
    machine.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other parameter, as class_weight=balanced",
    )
    machine.add_argument(
        "--scale",
        choices=("none", "standard", "range"),
        default="none",
        help="bring columns of numbers to mean 0 and variance 1, or to [-1, 1]; the "
        "model remembers how",
    )


def _duration(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|)", text.strip())
    if match is None or not float(match[1]) > 0:
        raise argparse.ArgumentTypeError(
            f"a time is a number > 0 with s, m or h, as 60s; got {text!r}"
        )
    return float(match[1]) * _UNITS[match[2]]


def _folds(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"folds are a number from 2 on; got {text!r}")
    return int(text)


def _train(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "data", help="a file of data; 'digits', 'iris' or 'wine' for scikit-learn's"
    )
    command.add_argument("-o", "--output", metavar="MODEL", help="the model file")
    command.add_argument(
        "--cv", type=_folds, metavar="K", help="cross-validate, K folds"
    )
    command.add_argument(
        "--report", metavar="FILE", help="a page of HTML with pictures"
    )
    command.add_argument(
        "--no-plan", action="store_true", help="train at once, without a plan"
    )
    long = command.add_argument_group("long training")
    long.add_argument(
        "--time-limit", type=_duration, metavar="TIME", help="end after so long, as 5m"
    )
    long.add_argument(
        "--checkpoint", metavar="FILE", help="keep what was reached there"
    )
    long.add_argument(
        "--every",
        type=_duration,
        default=60.0,
        metavar="TIME",
        help="time between two checkpoints; default: 60s",
    )
    long.add_argument(
        "--resume",
        action="store_true",
        help="go on from the checkpoint, if there is one",
    )
    _add_reading(command)
    _add_machine(command)


def _tune(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "data", help="a file of data; 'digits', 'iris' or 'wine' for scikit-learn's"
    )
    command.add_argument("-o", "--output", metavar="MODEL", help="the best, as a model")
    command.add_argument(
        "--picture", metavar="FILE", help="the scores as a heat map, .png or .pdf"
    )
    search = command.add_argument_group("the search")
    search.add_argument(
        "--try",
        action="append",
        default=[],
        dest="trials",
        metavar="NAME=A,B,...",
        help="values to try, as C=1,10 or kernel='RBF(0.1),Linear()'; default: kernels "
        "by the kind of data, and a few values of C or the like",
    )
    search.add_argument(
        "--cv", type=_folds, default=5, metavar="K", help="folds; default: 5"
    )
    search.add_argument("--scoring", metavar="NAME", help="a score of scikit-learn's")
    search.add_argument(
        "--draw", type=_count, metavar="N", help="try N of them, drawn at random"
    )
    search.add_argument(
        "--halving",
        action="store_true",
        help="judge all on few points, the better ones on more",
    )
    search.add_argument(
        "--jobs", type=int, metavar="N", help="fits at once; -1 for all cores"
    )
    search.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the folds; default: 0"
    )
    search.add_argument(
        "--time-limit", type=_duration, metavar="TIME", help="end after so long, as 5m"
    )
    search.add_argument(
        "--resume", metavar="FILE", help="keep every score there, and go on from there"
    )
    _add_reading(command)
    _add_machine(command)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on is needed; got {text!r}")
    return int(text)


def _predict(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="a model file")
    command.add_argument("data", help="a file of data")
    command.add_argument(
        "-o", "--output", metavar="FILE", help="a CSV; default: stdout"
    )
    command.add_argument("--values", action="store_true", help="f(x) too")
    command.add_argument(
        "--probabilities", action="store_true", help="probabilities too"
    )
    _add_reading(command, target=False)


def _evaluate(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="a model file")
    command.add_argument("data", help="a file of data with the targets")
    _add_reading(command)


def _explain(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="a model file")
    command.add_argument("data", help="a file of data")
    command.add_argument(
        "--by",
        choices=("features", "items", "coordinates", "terms", "points"),
        help="what the parts are; default: the finest that the kernel has",
    )
    command.add_argument(
        "--parts", type=_at_least_one, default=10, metavar="N", help="parts at most"
    )
    command.add_argument(
        "--points",
        type=_at_least_one,
        default=5,
        metavar="N",
        help="how many points, from the first; default: 5",
    )
    command.add_argument(
        "--function",
        metavar="NAME",
        help="one function of several, by name or number, as 'a against b'",
    )
    command.add_argument(
        "--html", metavar="FILE", help="a page of HTML with pictures of the points"
    )
    _add_reading(command, target=False)


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on is needed; got {text!r}")
    return int(text)


def _plan(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", help="a file of data")
    command.add_argument(
        "--pilot", action="store_true", help="estimate what ways out cost in score"
    )
    _add_reading(command)
    _add_machine(command)


def _check(command: argparse.ArgumentParser) -> None:
    command.add_argument("kernel", help="as 'RBF(0.1) * Linear()', or 'auto'")
    command.add_argument("data", nargs="?", help="points to try it on")
    command.add_argument("--most", type=int, default=2000, help="points at most")
    _add_reading(command)


def _gram(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", help="a file of data")
    command.add_argument("--kernel", default="auto", help="as 'RBF(0.1)'")
    command.add_argument("--other", metavar="FILE", help="k of data with these points")
    command.add_argument(
        "-o", "--output", metavar="FILE", required=True, help=".npy or .csv"
    )
    _add_reading(command)


def _info(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", help="a model or a file of data")
    _add_reading(command)


def _convert(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", help="a model: .mercer, or LIBSVM's")
    command.add_argument("output", help="a model: .mercer, .onnx, or .model (LIBSVM's)")
    command.add_argument(
        "--to", choices=("mercer", "libsvm", "onnx"), help="default: by the suffix"
    )


def _bench(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", nargs="?", help="a file of data; default: several")
    command.add_argument(
        "--time",
        type=_duration,
        default=60.0,
        metavar="TIME",
        help="about how long to take; default: 60s",
    )
    _add_reading(command)
    _add_machine(command)


def _lab(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--port",
        type=_port,
        default=8425,
        metavar="N",
        help="the first port to try; default: 8425",
    )
    command.add_argument(
        "--no-browser", action="store_true", help="print the address, open nothing"
    )
    command.add_argument(
        "--attached", action="store_true", help="end when standard input ends"
    )


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"a port is 1 to 65535; got {text!r}")
    return int(text)


def _completion(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=("bash", "zsh"))


_COMMAND_LINES: list[tuple[str, str, Any]] = [
    ("train", "learn a machine from a file of data", _train),
    ("tune", "try kernels and parameters on folds, and learn the best", _tune),
    ("predict", "what a model says of new points", _predict),
    ("evaluate", "how well a model does on points with targets", _evaluate),
    ("explain", "what f(x) is made of at each point", _explain),
    ("plan", "what training would take, before it is done", _plan),
    ("check", "whether a kernel is one: its proof, and a test on points", _check),
    ("gram", "the matrix of kernel values of points", _gram),
    ("convert", "a model in another format: ours, LIBSVM's, ONNX", _convert),
    ("info", "what is in a model or in a file of data", _info),
    ("bench", "this library against its installed peers, on this computer", _bench),
    ("lab", "the laboratory: a page to see and step through kernel methods", _lab),
    ("completion", "what makes a shell complete the command", _completion),
]
