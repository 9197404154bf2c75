"""Text to kernel, the inverse of repr: `parse("2*RBF(0.5) + Linear()**2")`.

The notation is the part of Python that builds kernels: constructor calls with numbers,
words, lists and kernels for arguments, joined by +, * and **. The text is read into a
syntax tree and the tree is walked; it is never run.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import math
import operator
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, NoReturn

from mercer import kernels
from mercer.data.checks import describe
from mercer.kernels.base import Kernel
from mercer.kernels.checks import is_finite, is_number

MOST_CHARACTERS = 100_000
MOST_LEVELS = 100  # of calls, operators and lists inside each other

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Kernel]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.Sub: operator.sub,  # only so that Kernel raises its own error
}
_NOTATION = "; write kernels, numbers, strings and lists, and + * ** between kernels"
NUMBERS = {"inf": math.inf, "nan": math.nan}


def parse(text: str) -> Kernel:
    """The kernel that `text` describes, in the notation of its repr.

    Parameters
    ----------
    text : such as "2 * RBF(gamma=0.5) + Linear() ** 2" or "RBF.from_sigma(3)"

    Examples
    --------
    >>> from mercer import parse
    >>> k = parse("2 * RBF(gamma=0.5) + Linear() ** 2")
    >>> k
    2 * RBF(gamma=0.5) + Linear() ** 2
    >>> k.value([1, 0], [1, 0])
    3.0
    """
    if not isinstance(text, str):
        raise TypeError(f"parse reads a text; got {describe(text)}.")
    return _Reader(text).kernel()


@cache
def known_kernels() -> Mapping[str, type[Kernel]]:
    """The kernels of this package by name."""
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__, f"{kernels.__name__}."):
        for name, item in vars(importlib.import_module(module.name)).items():
            if (
                isinstance(item, type)
                and issubclass(item, Kernel)
                and item.__module__ == module.name
                and not (name.startswith("_") or inspect.isabstract(item))
            ):
                found[name] = item
    return dict(sorted(found.items()))


class _Reader:
    """Walks the syntax tree of one text, and knows where in the text it is."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = len(text) - len(text.lstrip())  # Python refuses leading space
        self.lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n|$)", text[self.start :])

    def kernel(self) -> Kernel:
        if len(self.text) > MOST_CHARACTERS:
            raise ValueError(
                f"A kernel is described in at most {MOST_CHARACTERS} characters; got "
                f"{len(self.text)}."
            )
        if not self.text.strip():
            raise ValueError("The description of a kernel is empty; write Linear().")
        try:
            tree = self._tree()
            value = self._value(tree, 0)
        except (RecursionError, MemoryError):
            raise self._too_deep(self.start) from None
        if not isinstance(value, Kernel):
            self._refuse(tree, f"Found {describe(value)}", "; a kernel is needed")
        return value

    def _tree(self) -> ast.expr:
        try:
            return ast.parse(self.text[self.start :], mode="eval").body
        except SyntaxError as error:
            place = self._position(error.lineno or 1, max((error.offset or 1) - 1, 0))
            reason = error.msg.rstrip(".")
            if "<" in self.text:
                reason += "; in a repr <...> stands for data too long to write"
            raise self._error(place, "Cannot read the text", f": {reason}") from None
        except UnicodeEncodeError as error:
            place = self.start + error.start
            raise self._error(
                place, "Cannot read the text", f": {error.reason}"
            ) from None

    def _value(self, node: ast.AST, level: int) -> Any:
        """What a piece of the text stands for."""
        if level > MOST_LEVELS:
            raise self._too_deep(self._place(node))
        match node:
            case ast.Constant(value=None | bool() | str() | int() | float()):
                return self._constant(node)
            case ast.List(elts=items):
                return [self._value(item, level + 1) for item in items]
            case ast.Tuple(elts=items):
                return tuple(self._value(item, level + 1) for item in items)
            case ast.Name(id=name) if name in NUMBERS:
                return NUMBERS[name]
            case ast.Name(id=name):
                kind = self._kernel_named(node, name).__name__
                self._refuse(node, f"{kind} is not called", f"; write {kind}()")
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                return self._signed(node, level)
            case ast.BinOp():
                return self._joined(node, level)
            case ast.Call():
                return self._call(node, level)
        self._refuse(node, "Not part of the notation", _NOTATION)

    def _constant(self, node: ast.Constant) -> Any:
        if type(node.value) is int and not is_finite(node.value):
            self._refuse(node, "Too large a number")
        return node.value

    def _signed(self, node: ast.UnaryOp, level: int) -> Any:
        value = self._value(node.operand, level + 1)
        if isinstance(value, Kernel) and isinstance(node.op, ast.USub):
            self._made(node, "Refused", lambda: -value)
        if not is_number(value):
            self._refuse(node, "A sign", f" before {describe(value)}")
        return -value if isinstance(node.op, ast.USub) else value

    def _joined(self, node: ast.BinOp, level: int) -> Kernel:
        join = OPERATORS.get(type(node.op))
        if join is None:
            self._refuse(node, "Unknown operator", _NOTATION)
        left = self._value(node.left, level + 1)
        right = self._value(node.right, level + 1)
        for side, value in ((node.left, left), (node.right, right)):
            if not (isinstance(value, Kernel) or is_number(value)):
                self._refuse(
                    side,
                    f"Found {describe(value)}",
                    "; an operator joins kernels and numbers",
                )
        if not (isinstance(left, Kernel) or isinstance(right, Kernel)):
            self._refuse(node, "Arithmetic", " is not done here; write the result")
        if join is operator.pow and not is_number(right):
            self._refuse(
                node.right, "Found a kernel", "; an exponent is a whole number"
            )
        return self._made(node, "Refused", lambda: join(left, right))

    def _call(self, node: ast.Call, level: int) -> Any:
        make, name = self._callee(node.func)
        allowed = inspect.signature(make).parameters
        positional = [self._value(argument, level + 1) for argument in node.args]
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            key = keyword.arg
            if key is None:
                self._refuse(keyword, "Not part of the notation", _NOTATION)
            if key in named:
                self._refuse(keyword, f"A second value of {key!r}")
            if key not in allowed:
                choice = _choice(key, allowed, f"{name} has")
                self._refuse(keyword, f"Unknown parameter {key!r}", f"; {choice}")
            named[key] = self._value(keyword.value, level + 1)
        return self._made(
            node, f"Cannot make {name}", lambda: make(*positional, **named)
        )

    def _callee(self, node: ast.expr) -> tuple[Callable[..., Any], str]:
        match node:
            case ast.Name(id="slice"):
                return _slice, "slice"
            case ast.Name(id=name):
                kind = self._kernel_named(node, name)
                self._refuse_functions(node, kind)
                return kind, name
            case ast.Attribute(value=ast.Name(id=name), attr=method):
                kind = self._kernel_named(node, name)
                makers = [
                    key
                    for key, item in vars(kind).items()
                    if isinstance(item, classmethod) and key.startswith("from_")
                ]
                if method in makers:
                    return getattr(kind, method), f"{name}.{method}"
                choice = _choice(method, makers, f"{name} has")
                self._refuse(
                    node, f"Unknown constructor {name}.{method}", f"; {choice}"
                )
        self._refuse(node, "Not part of the notation", _NOTATION)

    def _kernel_named(self, node: ast.AST, name: str) -> type[Kernel]:
        known = known_kernels()
        if name in known:
            return known[name]
        if name == "array":
            tail = "An array", " cannot be written in text; write a list"
        else:
            choice = _choice(name, known, "the kernels are")
            tail = f"Unknown kernel {name!r}", f"; {choice}"
        self._refuse(node, *tail)

    def _refuse_functions(self, node: ast.AST, kind: type[Kernel]) -> None:
        for part in fields(kind):  # type: ignore[arg-type]  # every kernel is a dataclass
            needed = part.default is MISSING and part.default_factory is MISSING
            if needed and str(part.type).startswith("Callable"):
                self._refuse(
                    node,
                    kind.__name__,
                    f" needs a Python function, {part.name}=..., which cannot be "
                    "written in text; build this kernel in Python",
                )

    def _made(self, node: ast.AST, head: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except Exception as error:
            # Any error of a constructor is reported as an error of the text.
            reason = str(error).rstrip(".").replace(".__init__()", "")
            raise self._error(self._place(node), head, f": {reason}") from error

    # Where in the text

    def _refuse(self, node: ast.AST, head: str, tail: str = "") -> NoReturn:
        raise self._error(self._place(node), head, tail)

    def _too_deep(self, position: int) -> ValueError:
        tail = f"; at most {MOST_LEVELS} kernels, operators and lists inside each other"
        return self._error(position, "Nested too deeply", tail)

    def _place(self, node: ast.AST) -> int:
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        before = self.lines[line - 1].encode()[:column]  # Python counts bytes here
        return self._position(line, len(before.decode()))

    def _position(self, line: int, column: int) -> int:
        column = min(column, len("".join(self.lines[line - 1 : line]).rstrip("\r\n")))
        return self.start + sum(map(len, self.lines[: line - 1])) + column

    def _error(self, position: int, head: str, tail: str) -> ValueError:
        """The error, with the piece of the text around it and a caret below."""
        breaks = max(self.text.rfind(end, 0, position) for end in "\r\n")
        first = max(breaks + 1, position - 60)
        piece = re.split(r"[\r\n]", self.text[first : position + 40])[0]
        shown = "".join(c if c.isprintable() else " " for c in piece)
        caret = " " * (position - first) + "^"
        return ValueError(
            f"{head} at position {position}{tail}.\n    {shown}\n    {caret}"
        )


def _slice(*ends: int | None) -> slice:
    if not all(end is None or type(end) is int for end in ends):
        raise ValueError("slice takes whole numbers and None")
    return slice(*ends)


def _choice(word: str, words: Iterable[str], what: str) -> str:
    """The nearest of some words, and all of them."""
    words = list(words)
    lowered = {w.lower(): w for w in words}
    near = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.5)
    listed = f"{what} {', '.join(words) or 'none'}"
    if not near:
        return listed
    return f"did you mean {lowered[near[0]]!r}? {listed[0].upper()}{listed[1:]}"
