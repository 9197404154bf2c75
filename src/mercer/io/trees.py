"""Trees in brackets: one after the other, on a line each or on several."""

from __future__ import annotations

from mercer.data.trees import Tree
from mercer.io.dataset import Dataset
from mercer.io.files import Source, lines, refused, shown
from mercer.io.strings import as_labels

ROOT = "ROOT"  # the label of the root, where its own was the target


def read_trees(
    path: Source, target: str | int | None = None, *, limit: float | None = None
) -> Dataset:
    """Trees in bracket text, as `(S (NP (D the) (N cat)) (VP sleeps))`.

    Parameters
    ----------
    path : of the file, which may be compressed; a tree may run over several lines
    target : None; "root" where the label of the root is the class (it is then "ROOT" in
        the points); or 0 where a label and a tab stand before each tree
    limit : bytes that the file may have, unpacked; None for half of the memory

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mercer.io import read_trees
    >>> path = pathlib.Path(tempfile.mkdtemp(), "reviews.txt")
    >>> _ = path.write_text("(3 (2 Very) (3 good))\\n(1 (2 So) (1 bad))\\n")
    >>> data = read_trees(path, "root")
    >>> str(data.points[0]), data.target.tolist()
    ('(ROOT (2 Very) (3 good))', [3, 1])
    """
    if target not in (None, "root", 0):
        raise ValueError(
            f"The target of trees is None, 'root' or 0 (before a tab); got {target!r}."
        )
    trees: list[Tree] = []
    found: list[str] = []
    text, begin, depth = "", 0, 0
    for number, line in lines(path, limit):
        if not text and not line.strip():
            continue  # between trees, where it means nothing
        if not text and target == 0:
            label, tab, line = line.partition("\t")
            if not tab:
                raise refused(path, "no tab after a label.", number)
            found.append(label.strip())
        begin = begin if text else number
        text += line if not text else "\n" + line
        depth += _opened(line)
        if depth <= 0:
            trees.append(_tree(text, path, begin))
            text, depth = "", 0
    if text:
        raise refused(path, f"{depth} brackets are never closed.", begin)
    if not trees:
        raise refused(path, "has no trees.")
    if target == "root":
        found = [str(tree.label) for tree in trees]
        trees = [_relabelled(tree) for tree in trees]
    return Dataset(trees, None if target is None else as_labels(found), kind="trees")


def _opened(line: str) -> int:
    """Brackets that open in a line, less those that close."""
    if "\\" in line:
        line = line.replace("\\\\", "").replace("\\(", "").replace("\\)", "")
    return line.count("(") - line.count(")")


def _tree(text: str, path: Source, line: int) -> Tree:
    if "(" not in text:
        raise refused(path, f"{shown(text.strip())} is no tree: no brackets.", line)
    try:
        return Tree(text)
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        raise refused(path, reason, line) from error


def _relabelled(tree: Tree) -> Tree:
    """The tree without the label of its root."""
    return Tree((ROOT, *tree.children)) if tree.arity[0] else Tree((ROOT,))
