"""The options of LIBSVM's tools, and how to use them; loads the standard library only.

An option is known by the letter after its first dash, as in LIBSVM; what follows it is
the next word. Other than there, a value that is no number is an error and not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

TRAIN = """\
Usage: svm-train [options] data_file [model_file]
Fits a support vector machine to the points of data_file and writes it to model_file
(default: the name of data_file, without its folder, and .model).
  -s type      what is fitted (default 0)
                 0  classes, priced by C            (C-SVC)
                 1  classes, by the fraction nu     (nu-SVC)
                 2  where most points are           (one-class)
                 3  numbers, with a tube of width p (epsilon-SVR)
                 4  numbers, by the fraction nu     (nu-SVR)
  -t kernel    k(u, v) (default 2)
                 0  u'v
                 1  (gamma u'v + coef0)^degree
                 2  exp(-gamma |u - v|^2)
                 3  tanh(gamma u'v + coef0)
                 4  read from data_file: 0:number 1:k(u, x1) 2:k(u, x2) ...
  -d degree    of the kernel (default 3)
  -g gamma     of the kernel (default 1 / the largest index)
  -r coef0     of the kernel (default 0)
  -c C         price of an error, of types 0, 3 and 4 (default 1)
  -n nu        fraction of errors and support vectors, of types 1, 2 and 4 (default 0.5)
  -p epsilon   half the width of the tube of type 3 (default 0.1)
  -m megabytes for kernel values (default 100)
  -e epsilon   the most that two variables may violate optimality (default 0.001)
  -h 0 or 1    shrinking; taken and without effect: the solver always does (default 1)
  -b 0 or 1    whether to fit probabilities as well (default 0)
  -wL weight   C of class L is weight times C, of type 0; -w-1 2 for class -1
  -v folds     only judge, by cross validation in so many folds
  -q           print nothing on the way
"""

PREDICT = """\
Usage: svm-predict [options] data_file model_file output_file
Writes what the model says of each point of data_file to output_file, a line each.
  -b 0 or 1    whether to write probabilities as well (default 0)
  -q           print nothing
"""

SCALE = """\
Usage: svm-scale [options] data_file > scaled_file
Moves and stretches every column to the same range.
  -l lower         where the least value of a column goes (default -1)
  -u upper         where the largest goes (default 1)
  -y lower upper   the same for labels (default: labels stay)
  -s file          keep what was done to each column in file
  -r file          do what is kept in file
"""

GRID = """\
Usage: svm-grid [grid options] [options of svm-train] data_file
Cross-validates svm-train on a grid of C and gamma, and names the best pair.
  -log2c begin,end,step    logarithms of C (default -5,15,2); null for C as given
  -log2g begin,end,step    logarithms of gamma (default 3,-15,-2); null likewise
  -v folds                 of the cross validation (default 5)
  -svmtrain path           runs this program for every pair, and not the library
  -gnuplot path            draws with this program, if it is there; null for no drawing
  -out path                the rate of each pair (default data_file.out); null for none
  -png path                the drawing (default data_file.png)
  -resume [path]           takes the rates that this file has (default data_file.out)
"""

USAGE = {
    "svm-train": TRAIN,
    "svm-predict": PREDICT,
    "svm-scale": SCALE,
    "svm-grid": GRID,
}


class UsageError(Exception):
    """A command line that cannot be followed, and why; nothing where none was given."""


class Refused(Exception):
    """What a tool says on standard error before it ends with code 1."""


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"Option {option} needs a number; got {text!r}.") from None


def _whole(option: str, text: str) -> int:
    value = _number(option, text)
    if value != int(value) if abs(value) < 2**31 else True:
        raise UsageError(f"Option {option} needs a whole number; got {text!r}.")
    return int(value)


def _file_title(path: str) -> str:
    return path.rpartition("/")[2]


@dataclass
class TrainOptions:
    """What svm-train is asked for."""

    svm_type: int = 0
    kernel_type: int = 2
    degree: int = 3
    gamma: float = 0.0  # 1 / the largest index
    coef0: float = 0.0
    C: float = 1.0
    nu: float = 0.5
    p: float = 0.1
    cache_mb: float = 100.0
    eps: float = 1e-3
    shrinking: int = 1
    probability: int = 0
    weights: list[tuple[int, float]] = field(default_factory=list)
    folds: int = 0  # 0: no cross validation
    quiet: bool = False
    data_file: str = ""
    model_file: str = ""

    def reason_to_refuse(self) -> str | None:
        """In LIBSVM's words, why no machine can have these parameters."""
        rules: list[tuple[bool, str]] = [
            (not 0 <= self.svm_type <= 4, "unknown svm type"),
            (not 0 <= self.kernel_type <= 4, "unknown kernel type"),
            (self.kernel_type in (1, 2, 3) and not self.gamma >= 0, "gamma < 0"),
            (
                self.kernel_type == 1 and self.degree < 0,
                "degree of polynomial kernel < 0",
            ),
            (not self.cache_mb > 0, "cache_size <= 0"),
            (not self.eps > 0, "eps <= 0"),
            (self.svm_type in (0, 3, 4) and not self.C > 0, "C <= 0"),
            (self.svm_type in (1, 2, 4) and not 0 < self.nu <= 1, "nu <= 0 or nu > 1"),
            (self.svm_type == 3 and not self.p >= 0, "p < 0"),
            (self.shrinking not in (0, 1), "shrinking != 0 and shrinking != 1"),
            (self.probability not in (0, 1), "probability != 0 and probability != 1"),
        ]
        return next((why for wrong, why in rules if wrong), None)


_TRAIN: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "s": ("svm_type", _whole),
    "t": ("kernel_type", _whole),
    "d": ("degree", _whole),
    "g": ("gamma", _number),
    "r": ("coef0", _number),
    "n": ("nu", _number),
    "m": ("cache_mb", _number),
    "c": ("C", _number),
    "e": ("eps", _number),
    "p": ("p", _number),
    "h": ("shrinking", _whole),
    "b": ("probability", _whole),
    "v": ("folds", _whole),
}


def train_options(words: Sequence[str]) -> TrainOptions:
    """What a command line of svm-train asks for."""
    options, rest = TrainOptions(), list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        letter = option[1:2]
        if not rest:
            raise UsageError()
        if letter == "q":
            options.quiet = True
        elif letter == "w":
            weight = _whole("-w", option[2:]), _number(option, rest.pop(0))
            options.weights.append(weight)
        elif letter in _TRAIN:
            name, convert = _TRAIN[letter]
            setattr(options, name, convert(f"-{letter}", rest.pop(0)))
            if letter == "v" and options.folds < 2:
                raise UsageError("n-fold cross validation: n must >= 2")
        else:
            raise UsageError(f"Unknown option: -{letter}")
    if not rest:
        raise UsageError()
    options.data_file = rest[0]
    options.model_file = rest[1] if len(rest) > 1 else f"{_file_title(rest[0])}.model"
    return options


@dataclass
class PredictOptions:
    """What svm-predict is asked for."""

    probability: int = 0
    quiet: bool = False
    data_file: str = ""
    model_file: str = ""
    output_file: str = ""


def predict_options(words: Sequence[str]) -> PredictOptions:
    """What a command line of svm-predict asks for."""
    options, rest = PredictOptions(), list(words)
    while rest and rest[0].startswith("-"):
        letter = rest.pop(0)[1:2]
        if letter == "q":
            options.quiet = True
        elif letter == "b" and rest:
            options.probability = _whole("-b", rest.pop(0))
        else:
            raise UsageError("" if letter == "b" else f"Unknown option: -{letter}")
    if len(rest) < 3:
        raise UsageError()
    options.data_file, options.model_file, options.output_file = rest[:3]
    return options


@dataclass
class ScaleOptions:
    """What svm-scale is asked for."""

    lower: float = -1.0
    upper: float = 1.0
    y_range: tuple[float, float] | None = None
    save_file: str | None = None
    restore_file: str | None = None
    data_file: str = ""


def scale_options(words: Sequence[str]) -> ScaleOptions:
    """What a command line of svm-scale asks for."""
    options, rest = ScaleOptions(), list(words)
    while rest and rest[0].startswith("-"):
        letter = rest.pop(0)[1:2]
        if letter not in tuple("luysr") or len(rest) < (2 if letter == "y" else 1):
            raise UsageError("" if letter in tuple("luysr") else "unknown option")
        value = rest.pop(0)
        if letter == "l":
            options.lower = _number("-l", value)
        elif letter == "u":
            options.upper = _number("-u", value)
        elif letter == "y":
            options.y_range = _number("-y", value), _number("-y", rest.pop(0))
        elif letter == "s":
            options.save_file = value
        else:
            options.restore_file = value
    y = options.y_range
    if not options.upper > options.lower or (y is not None and not y[1] > y[0]):
        raise Refused("inconsistent lower/upper specification")
    if options.save_file is not None and options.restore_file is not None:
        raise Refused("cannot use -r and -s simultaneously")
    if len(rest) != 1:
        raise UsageError()
    options.data_file = rest[0]
    return options


Range = tuple[float, float, float]  # begin, end, step


@dataclass
class GridOptions:
    """What svm-grid is asked for."""

    log2c: Range | None = (-5, 15, 2)
    log2g: Range | None = (3, -15, -2)
    folds: int = 5
    svmtrain: str | None = None
    gnuplot: str | None = "/usr/bin/gnuplot"
    out_file: str | None = None
    png_file: str = ""
    resume_file: str | None = None
    train: TrainOptions = field(default_factory=TrainOptions)
    passed_on: list[str] = field(default_factory=list)
    data_file: str = ""


def grid_options(words: Sequence[str]) -> GridOptions:
    """What a command line of svm-grid asks for."""
    if not words:
        raise UsageError()
    *rest, data_file = words
    title = _file_title(data_file)
    options = GridOptions(
        out_file=f"{title}.out", png_file=f"{title}.png", data_file=data_file
    )
    while rest:
        option = rest.pop(0)
        if option == "-resume":
            named = rest and not rest[0].startswith("-")
            options.resume_file = rest.pop(0) if named else f"{title}.out"
        elif option in ("-log2c", "-log2g", "-v", *_PATHS):
            if not rest:
                raise UsageError(f"Option {option} needs a value.")
            _set_grid(options, option, rest.pop(0))
        elif option in ("-c", "-g"):
            raise UsageError("Use -log2c and -log2g.")
        else:
            options.passed_on.append(option)
    if options.log2c is None and options.log2g is None:
        raise UsageError("-log2c and -log2g should not be null simultaneously")
    options.train = train_options([*options.passed_on, data_file])
    options.train.folds = options.folds
    return options


_PATHS = {
    "-svmtrain": "svmtrain",
    "-gnuplot": "gnuplot",
    "-out": "out_file",
    "-png": "png_file",
}


def _set_grid(options: GridOptions, option: str, value: str) -> None:
    if option == "-v":
        options.folds = _whole("-v", value)
        if options.folds < 2:
            raise UsageError("n-fold cross validation: n must >= 2")
    elif option in _PATHS:
        null = value == "null" and option in ("-gnuplot", "-out")
        setattr(options, _PATHS[option], None if null else value)
    else:
        setattr(options, option[1:], None if value == "null" else _range(option, value))


def _range(option: str, text: str) -> Range:
    parts = [_number(option, part) for part in text.split(",")]
    if len(parts) != 3 or not parts[2] or not all(abs(part) < 1e6 for part in parts):
        raise UsageError(f"Option {option} needs begin,end,step; got {text!r}.")
    if abs(parts[1] - parts[0]) / abs(parts[2]) > 1e4:
        raise UsageError(f"Option {option} asks for more than 10,000 values.")
    return parts[0], parts[1], parts[2]
