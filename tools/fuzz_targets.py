"""What tools/fuzz.py feeds: every parser of files, with good files to damage.

A target is called with the bytes of one damaged file and its number. ValueError is the
right answer to such a file, or MemoryError where it announces too much; where a parser
is given a path, its message names it. A target that has a slow twin in tests/ is
compared with it on every `COMPARED`-th file.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import re
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import naive_svmlight
import numpy as np

import mercer
from mercer.io import (
    read,
    read_csv,
    read_edges,
    read_fasta,
    read_fastq,
    read_numpy,
    read_strings,
    read_tu,
    tables,
)
from mercer.io.checkpoints import (
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from mercer.io.libsvm import _Reader
from mercer.io.svmlight import Dialect, gathered
from mercer.io.trees import read_trees

COMPARED = 16
ASKED = 4  # of loaded machines, one in so many is asked for predictions
SMALL = 10_000  # bytes of a file that the slow twin reads, too

MASK = 2**64 - 1


class Draws:
    """Numbers that look random, from the number of a file.

    A linear congruential generator (Knuth's multiplier), whose high bits are used. To
    set up one of `random` takes longer than most files take to be parsed.
    """

    def __init__(self, number: int) -> None:
        self.state = (number + 1) * 0x9E3779B97F4A7C15 & MASK

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1, n < 2³²."""
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK
        return (self.state >> 32) * n >> 32

    def of(self, choices: Sequence[Any]) -> Any:
        """One of some."""
        return choices[self.below(len(choices))]


Damage = Callable[[bytes, Draws], bytes]


class Target(NamedTuple):
    """A parser: good files, what it is called with, and how files are damaged."""

    seeds: Sequence[bytes]
    feed: Callable[[bytes, int], None]
    damage: Damage


# Damage

PIECES = (
    b":|,| |\n|\r|\t|#|-|+|.|e|E|0|1|9|99999999999999999999|1e400|1e-400|nan|inf|qid:|"
    b'SV\n|0:|1:1|\x00|\xff|total_sv|nr_class 1|one_class|precomputed|sigmoid|(|)|"|'
    b'""|;|>|@|\\|\\(|%|_|1_0|\xc3\xa9|\xef\xbb\xbf|\r\n|\xe2\x88\x92|\x1c|\xc2\x85'
).split(b"|")
NAMES = (
    b"RBF(|Linear()|Polynomial(|Spectrum(3)|Scaled(|Normalized(|On(|Nystrom(|[|]|(|)|"
    b"gamma=|degree=|None|True|'a'|\"|**|*|+|-|,|1e999|0x1f|1j|2**99|lambda: 0|f''|=|"
    b"slice(|#|\n|.|from_sigma(|inf|nan|9|_|\xc3\xa9|\x00"
).split(b"|")
VALUES = (
    b'null|true|0|-1|9223372036854775808|1.5|""|"rbf"|[]|{}|[[]]|{"object":0}|'
    b'{"array":"0"}|{"tuple":[]}|{"range":[0,9,1]}|{"float":"nan"}|{"dict":[],'
    b'"values":[]}|{"object":1}|{"array":"1"}|{"csr":[],"shape":[1,1],"kind":"array"}'
).split(b"|")
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')


def with_pieces(pieces: Sequence[bytes], most: int = 100) -> Damage:
    """Some bytes cut, copied or replaced, now and then by pieces with a meaning.

    One file in 20,000 is written `most` times, one after the other.
    """

    def damaged(seed: bytes, draw: Draws) -> bytes:
        text = bytearray(seed)
        for _ in range(draw.of((1, 1, 2, 3, 8))):
            at, length = draw.below(len(text) + 1), draw.of((0, 0, 1, 2, 5, 40))
            kind = draw.below(4)
            if kind == 0:
                text[at : at + length] = draw.of(pieces)
            elif kind == 1:
                text[at:at] = text[at : at + length] * draw.of((1, 2, 30))
            elif kind == 2 and text:
                text[at % len(text)] = draw.below(256)
            else:
                del text[at : at + length]
        return bytes(text) * (most if draw.below(20_000) == 0 else 1)

    return damaged


def in_records(seed: bytes, draw: Draws) -> bytes:
    """A file of arrays with other values in its records, and a checksum that fits.

    One in four is damaged byte by byte instead.
    """
    if draw.below(4) == 0:
        return any_bytes(seed, draw)
    length = int.from_bytes(seed[:8], "little")
    entries = json.loads(seed[8 : 8 + length])
    texts = entries["__metadata__"]
    name = "training" if "training" in texts and draw.below(4) == 0 else "content"
    content = texts[name].encode()
    places = [match.span() for match in TOKEN.finditer(content)]
    for _ in range(draw.of((1, 1, 2, 3))):
        begin, end = draw.of(places)
        other = draw.of(places)
        new = draw.of(VALUES) if draw.below(2) else content[slice(*other)]
        if end > len(content):
            continue
        content = content[:begin] + new + content[end:]
    texts[name] = content.decode("utf-8", "replace")
    data = bytearray(seed[8 + length :])
    if data and draw.below(4) == 0:
        data[draw.below(len(data))] = draw.below(256)
    return forged(entries, bytes(data))


def forged(entries: dict[str, Any], data: bytes) -> bytes:
    """The file with this header and these numbers, with its checksum."""
    blank = f'"checksum":"{"0" * 64}"'
    entries["__metadata__"]["checksum"] = "0" * 64
    header = json.dumps(entries, separators=(",", ":")).encode()
    start = len(header).to_bytes(8, "little")
    found = hashlib.sha256(start + header + data).hexdigest()
    filled = header.replace(blank.encode(), f'"checksum":"{found}"'.encode(), 1)
    return start + filled + data


any_bytes = with_pieces(PIECES)
many_lines = with_pieces(PIECES, 4000)  # which several threads read
any_words = with_pieces(NAMES)


# Good files

SVMLIGHT = b"""\
+1 1:0.5 3:2e-1 7:12345678901234567890
-1 2:.25 # a comment
3,4.5,-6 qid:12 1:-7. 2:1E2 3:+4e-310
0 9007199254740992:1
  2:3 4:5\r
1e308 1:1.7976931348623157e308 2:5e-324\f3:0x1
"""
LIBSVM = b"""\
svm_type c_svc
kernel_type polynomial
degree 3
gamma 0.5
coef0 1
nr_class 3
total_sv 3
rho 0.1 0.2 0.3
label 1 2 -3
probA -1 -2 -3
probB 0 0.1 -0.1
nr_sv 1 1 1
SV
1 0.5 1:0.5 3:1
-1 0.25 2:1
-0.5 -0.25 1:2
"""
NUMBERS = b"a,b,y\n1,2.5,0\n-3e-2,+4,1\n.5,6.,0\n1e300,5e-324,1\n"
MIXED = b'age;word;note\n12;red;"a ""b"";c"\n3,5;blue;d\n;red;e\nNA;red;f\n'
SPACED = b"1 2 3\n 4  5 6\n7\t8 9\n"
TABBED = b'x\ty\n"1"\t2\n3\t4\n'
FASTA = b">a site=1\nACGT\nAC-*\n>b site=2\nGGT\n\n>c site=1\nT\n"
FASTQ = b"@r1 x=1\nACGT\n+\nIIII\n@r2 x=2\nAC\nGT\n+r2\n@+\n!~\n"
TREES = b"(S (NP (D a) (N \\(b\\))) (VP sleeps))\n(S\n (NP c))\n3\t(A b)\n"
EDGES = b"a b 2\nb c 3.5\n# none\nc,d\n% e\nd a 1e-3\n"
STRINGS = b"1\tthe first\n2\tthe second\nHUM:x who\n1\tlast\n"
KERNELS = (
    b"2 * RBF(gamma=0.5) + Linear() ** 2",
    b"Normalized(Spectrum(3)) * On(1, Polynomial(degree=2, scale=1, offset=0.5))",
    b"Nystrom(RBF(0.1), 10) + 3 * (On(['a', 'b'], RBF.from_sigma(2)))",
    b"On(slice(0, 3), Exp(Linear())) + Subsequence(2, decay=0.5)",
)
TU = {
    "A": b"1, 2\n2, 1\n2,3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": b"1\n1\n1\n2\n2\n",
    "graph_labels": b"1\n-1\n",
    "node_labels": b"0\n1\n0\n2\n1\n",
    "edge_labels": b"0\n0\n1\n1\n2\n2\n",
    "node_attributes": b"0.5, 1\n1, 2\n3, 4\n-1, 1e-3\n0, 0\n",
    "edge_attributes": b"1.5\n1.5\n2\n2\n3\n3\n",
    "graph_attributes": b"0.5\n1.5, 2\n",
}


def _compressed(text: bytes) -> tuple[bytes, ...]:
    return gzip.compress(text, mtime=0), bz2.compress(text), lzma.compress(text)


def _zipped(files: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()


_WHOLE = {f"T_{ending}.txt": content for ending, content in TU.items()}
TU_SEEDS = [*TU.values(), _zipped(_WHOLE), _zipped(_WHOLE, zipfile.ZIP_DEFLATED)]


def _arrays() -> tuple[bytes, ...]:
    X, out, both = np.arange(6.0).reshape(3, 2), io.BytesIO(), io.BytesIO()
    np.save(out, X)
    np.savez(both, X=X, y=np.array(["a", "b", "a"]))
    return out.getvalue(), both.getvalue()


def _machines(folder: Path) -> tuple[list[bytes], bytes]:
    """Small model files of several kinds of machine, and a checkpoint."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 2)), np.arange(9) % 3
    words = ["abab", "bcbc", "abcc", "cabb"]
    trees = [mercer.Tree(t) for t in ("(a b)", "(a (c d))", "(b c)", "(a c)")]
    graphs = [mercer.Graph([(0, 1), (1, k)], None) for k in (0, 2, 3, 2)]
    made = [
        mercer.SVC(C=2, gamma=0.5).fit(X, y),
        mercer.SVR(kernel=mercer.Nystrom(mercer.RBF(0.5), 4)).fit(X, X[:, 0]),
        mercer.KernelRidge(kernel=mercer.Spectrum(2)).fit(words, [0, 1, 0, 1]),
        mercer.SVC(kernel=mercer.SubsetTree()).fit(trees, [0, 1, 0, 1]),
        mercer.SVC(kernel=mercer.WeisfeilerLehman()).fit(graphs, [0, 1, 0, 1]),
        mercer.KernelPCA(n_components=2).fit(X),
        mercer.KernelKNNClassifier(n_neighbors=1).fit(X, y),
    ]
    files = []
    for machine in made:
        mercer.save(machine, folder / "seed")
        files.append((folder / "seed").read_bytes())
    reached = Checkpoint(made[0], "0" * 64, {"C": "2", "gamma": "0.5"}, 1.5, 10)
    write_checkpoint(reached, folder / "seed")
    return files, (folder / "seed").read_bytes()


# Parsers


def svmlight(text: bytes, number: int) -> None:
    options = {"multilabel": bool(number & 1), "blank": bool(number & 2)}
    parsed = Dialect(**options).parsed(text)
    if number % COMPARED or len(text) > SMALL:
        return
    try:
        rows = naive_svmlight.parsed(text, **options)
    except naive_svmlight.Malformed as error:
        assert parsed.error[0] == error.args[0]
        return
    assert parsed.error[0] == 0
    entries = [entry for row in rows for entry in row[2]]
    labels = [label for row in rows for label in row[0]]
    found = np.empty(parsed.n_labels)
    parsed.labels(found)
    assert found.tobytes() == np.array(labels, dtype=float).tobytes()
    try:
        data = gathered([parsed], "file", multilabel=options["multilabel"])
    except ValueError:
        assert 0 < sum(row[1] is not None for row in rows) < len(rows)
        return
    assert data.X.indices.tolist() == [index for index, _ in entries]
    values = np.array([value for _, value in entries], dtype=float)
    assert data.X.data.tobytes() == values.tobytes()


def libsvm(text: bytes, number: int) -> None:
    try:
        found = _Reader(text, "file").model()
    except ValueError:
        return
    if found.vectors.shape[1] < 10_000 and found.serial.max(initial=0) < 10_000:
        found.values(np.ones((2, 4)))


def kernel(text: bytes, number: int) -> None:
    written = text.decode("utf-8", "surrogateescape")
    try:
        found = mercer.parse(written)
    except ValueError:
        return
    again = repr(found)
    if "<" not in again:  # which stands for data too long to write
        assert repr(mercer.parse(again)) == again


def cell_by_cell(path: str) -> None:
    """A table must be the same where the core does not read it."""
    found, quick = [], tables._plain_table
    for way in (quick, lambda *given: None):
        tables._plain_table = way
        try:
            data = read_csv(path)
        except ValueError as error:
            found.append(str(error))
            assert path in str(error), error
        else:
            X = data.points
            X = X.tobytes() if isinstance(X, np.ndarray) else repr(X)
            found.append((X, data.names, data.notes, dict(data.types)))
        finally:
            tables._plain_table = quick
    assert found[0] == found[1]


class _Files:
    """Parsers that are given paths, in a folder that is held in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tu = folder, folder / "tu"
        self.tu.mkdir()
        for ending, content in TU.items():
            (self.tu / f"T_{ending}.txt").write_bytes(content)

    def __call__(
        self, name: str, *readers: Callable[[str], Any]
    ) -> Callable[[bytes, int], None]:
        """Feeds a file of this name to one of the readers."""
        path = str(self.folder / name)

        def feed(text: bytes, number: int) -> None:
            with open(path, "wb") as file:
                file.write(text)
            named(path, readers[number // 10_007 % len(readers)])

        return feed

    def tu_folder(self, text: bytes, number: int) -> None:
        """One file of the folder is damaged, or the zip of them all."""
        which = seed_of(number, TU_SEEDS)
        if which >= len(TU):
            self("tu.zip", read_tu)(text, number)
            return
        ending = [*TU][which]
        path = self.tu / f"T_{ending}.txt"
        path.write_bytes(text)
        try:
            named(str(self.tu), lambda path: read_tu(path, attributes=True))
        finally:
            path.write_bytes(TU[ending])


def seed_of(number: int, seeds: Sequence[bytes]) -> int:
    """Which of the good files the file of this number is made of."""
    return number // 1000 % len(seeds)


def named(path: str, reader: Callable[[str], Any]) -> None:
    """Read a file; what is wrong with it must be said with its name."""
    try:
        reader(path)
    except (ValueError, MemoryError) as error:
        assert path in str(error), error


def _asked(machine: Any) -> None:
    """What is wrong in a machine may show as any error, but as no crash."""
    for point in (np.ones((1, 2)), ["ab"]):
        try:
            machine.predict(point)
        except Exception:
            pass


def targets(folder: Path) -> dict[str, tuple[int, Target]]:
    """How many files of a thousand each parser gets, and the parser."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    files = _Files(folder)
    models, checkpoint = _machines(folder)
    loaded = 0

    def load(path: str) -> None:
        nonlocal loaded
        machine = mercer.load(path)
        loaded += 1
        if loaded % ASKED == 0:
            _asked(machine)

    table = [NUMBERS, MIXED, SPACED, TABBED] * 4 + [*_compressed(NUMBERS * 9)]
    everything = [SVMLIGHT, NUMBERS, FASTA, FASTQ, TREES] * 2
    everything += _compressed(SVMLIGHT * 9)
    made = {
        "svmlight": (770, Target([SVMLIGHT], svmlight, many_lines)),
        "libsvm model": (130, Target([LIBSVM], libsvm, any_bytes)),
        "csv": (25, Target(table, files(
            "t.csv", cell_by_cell, lambda p: read_csv(p, "y"),
            lambda p: read_csv(p, 0, decimal=",", missing="drop"),
            lambda p: read_csv(p, missing="keep"),
        ), any_bytes)),
        "fasta": (12, Target([FASTA], files(
            "t.fasta", read_fasta, lambda p: read_fasta(p, r"site=(\S+)"),
        ), any_bytes)),
        "fastq": (12, Target([FASTQ], files("t.fastq", read_fastq), any_bytes)),
        "trees": (12, Target([TREES], files(
            "t.trees", read_trees, lambda p: read_trees(p, "root"),
            lambda p: read_trees(p, 0),
        ), any_bytes)),
        "edges": (6, Target([EDGES], files(
            "t.edges", read_edges, lambda p: read_edges(p, labels={"a": "1"}),
        ), any_bytes)),
        "strings": (12, Target([STRINGS], files(
            "t.txt", read_strings, lambda p: read_strings(p, 0),
            lambda p: read_strings(p, r"(\w+)[:\t]"),
        ), any_bytes)),
        "tu": (3, Target(TU_SEEDS, files.tu_folder, any_bytes)),
        "any": (3, Target(everything, files("unnamed", read), any_bytes)),
        "numpy": (3, Target(_arrays(), files("t.npz", read_numpy), any_bytes)),
        "kernel": (5, Target(KERNELS, kernel, any_words)),
        "model": (5, Target(models, files("t.mercer", load), in_records)),
        "checkpoint": (2, Target([checkpoint], files(
            "t.check", read_checkpoint), in_records)),
    }  # fmt: skip
    assert sum(share for share, _ in made.values()) == 1000
    return made


def memory_folder() -> str | None:
    """Where files are held in memory, on systems that have such a place."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()
