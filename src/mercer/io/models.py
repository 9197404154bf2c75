"""Machines in files: `save` and `load`, and `load_expansion` for f alone.

A model file holds numbers and texts, and no code; reading it runs none. `container.py`
is its layout, `records.py` says how a machine is written, `classes.py` which classes
may be named.
"""

from __future__ import annotations

import json
import os
from typing import Any

from mercer.data.checks import describe
from mercer.expansion import Expansion
from mercer.io import classes, container
from mercer.io.container import Path
from mercer.io.records import Reader, Writer
from mercer.kernels.parameters import version
from mercer.maps import FeatureExpansion
from mercer.multiclass import PairExpansion

FORMAT = "mercer model"
VERSION = 1  # of the records; a release reads all up to its own


def save(machine: Any, path: Path) -> None:
    """Write a machine to one file, which `load` reads without running any code.

    The file has the layout of safetensors: arrays, and a header with the kernel, the
    parameters and all that was learnt. It is written whole or not at all: what was
    there before stays until the new one is complete and on the disk. A loaded machine
    says what this one says, to the last bit.

    Parameters
    ----------
    machine : a machine, fitted or not; also a kernel, a density, an `Expansion`, or a
        pipeline of a StandardScaler or a MinMaxScaler with a machine at its end.
        Functions of your own, in a kernel or as a callback, are refused: a file holds
        no code
    path : of the file; by custom it ends in .mercer

    Examples
    --------
    >>> import mercer, os, tempfile
    >>> machine = mercer.SVC(C=10, gamma=1).fit([[0], [1], [3]], ["a", "a", "b"])
    >>> path = os.path.join(tempfile.mkdtemp(), "machine.mercer")
    >>> mercer.save(machine, path)
    >>> mercer.load(path).predict([[0.5], [2.9]]).tolist()
    ['a', 'b']
    """
    name = type(machine).__name__
    if classes.name_of(type(machine)) is None:
        searched = hasattr(machine, "best_estimator_")
        raise TypeError(
            f"save writes machines, kernels, densities and expansions of mercer; got "
            f"{describe(machine)}. "
            + (
                "Save what it found: best_estimator_."
                if searched
                else "A class of your own has no place in a file without code."
            )
        )
    writer, f = Writer(), _function(machine)
    try:
        content = {
            "root": writer.record(machine, name),
            "expansion": writer.record(f, f"{name}.expansion_"),
            "objects": writer.objects,
        }
    except RecursionError as error:
        raise TypeError(
            f"{name} is made of kernels in kernels that are too deep for Python. Add "
            "them in pairs: (a + b) + (c + d)."
        ) from error
    texts = {
        "format": FORMAT,
        "version": str(VERSION),
        "mercer": version(),
        **_summary(machine, f),
        "content": json.dumps(content, separators=(",", ":"), allow_nan=False),
    }
    container.write(path, writer.arrays, texts)


def load(path: Path) -> Any:
    """The machine that `save` wrote: fitted as it was, with its certificate.

    No code runs, and no more memory is taken than the size of the file allows. A file
    that was cut, of which a byte was changed, or that a later release wrote in another
    form, is refused with a ValueError that says so.

    Examples
    --------
    >>> import mercer, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "ridge.mercer")
    >>> mercer.save(mercer.KernelRidge(alpha=0.1).fit([[0], [1], [2]], [0, 1, 2]), path)
    >>> mercer.load(path)
    KernelRidge(alpha=0.1)
    """
    reader, content = _opened(path)
    return _value(reader, content["root"], path)


def load_expansion(path: Path) -> Expansion | FeatureExpansion:
    """f(x) = Σᵢ coefᵢ k(xᵢ, x) + bias of the machine in a file, without the machine.

    scikit-learn is not imported. Of a sparse machine on="features" it is the sum over
    these, f(x) = Σⱼ coefⱼ φⱼ(x) + bias.

    Examples
    --------
    >>> import mercer, os, tempfile
    >>> from mercer.io import load_expansion
    >>> path = os.path.join(tempfile.mkdtemp(), "ridge.mercer")
    >>> mercer.save(mercer.KernelRidge(alpha=0.1).fit([[0], [1], [2]], [0, 1, 2]), path)
    >>> load_expansion(path)
    Expansion of Linear() on 3 points, bias 0
    """
    reader, content = _opened(path)
    if content["expansion"] is None:
        raise ValueError(
            f"{os.fspath(path)!r} holds no f = Σᵢ coefᵢ k(xᵢ, ·) + bias, as k nearest "
            "neighbours, densities, maps, pipelines and machines before their fit have "
            "none. Use mercer.load."
        )
    f = _value(reader, content["expansion"], path)
    return f.expansion() if isinstance(f, PairExpansion) else f


def _opened(path: Path) -> tuple[Reader, dict[str, Any]]:
    arrays, texts = container.read(path, _check_version)
    try:
        content = container.parsed(texts["content"])
        if content.keys() != {"objects", "root", "expansion"}:
            raise ValueError("its content has other entries")
        reader = Reader(content["objects"], arrays, os.path.getsize(path))
    except (ValueError, KeyError, AttributeError, RecursionError) as error:
        raise _unreadable(path, error) from error
    return reader, content


def _value(reader: Reader, record: Any, path: Path) -> Any:
    try:
        return reader.value(record)
    except ImportError as error:
        raise ImportError(
            f"{os.fspath(path)!r} holds points in a data frame of a library that is "
            f"not installed ({error}). Install it."
        ) from error
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{os.fspath(path)!r} cannot be read by mercer {version()}: {error}. "
        f"{container.AGAIN}"
    )


def _check_version(texts: dict[str, str], path: Path) -> None:
    if texts.get("format") != FORMAT:
        raise ValueError(
            f"{os.fspath(path)!r} is a file of arrays (safetensors), and not of a "
            "machine of mercer. Pass one that mercer.save wrote."
        )
    known = {str(number) for number in range(1, VERSION + 1)}
    if texts.get("version") not in known:
        raise ValueError(
            f"{os.fspath(path)!r} is in version {texts.get('version')!r:.40} of the "
            f"format, written by mercer {texts.get('mercer', '?')[:40]}; mercer "
            f"{version()} reads versions up to {VERSION}. Install a later release."
        )


_FUNCTIONS = Expansion | FeatureExpansion | PairExpansion


def _function(machine: Any) -> Any:
    """f, where a machine has one; by pairs where that is how it is held."""
    if isinstance(machine, _FUNCTIONS):
        return machine
    f = getattr(machine, "__dict__", {}).get("_pair_function")
    f = f or getattr(machine, "expansion_", None)
    return f if isinstance(f, _FUNCTIONS) else None


def _summary(machine: Any, f: Any) -> dict[str, str]:
    """What people read of a machine in the header; nothing is read from it again."""
    found = {"class": type(machine).__name__}
    _, last = getattr(machine, "steps", [("", machine)])[-1]
    f = f or _function(last)
    kernel = getattr(f, "kernel", None) or getattr(last, "kernel_", None)
    if kernel is not None:
        found["kernel"] = str(kernel)
    if hasattr(machine, "get_params"):
        parameters = machine.get_params(deep=False)
        found["parameters"] = ", ".join(
            f"{k}={v!r:.200}" for k, v in parameters.items()
        )
    for name in ("classes_", "certificate_"):
        value = getattr(last, name, None)
        if value is not None:
            found[name.removesuffix("_")] = f"{value!r:.2000}"
    return found
