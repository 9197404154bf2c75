"""Damaged, foreign and forged model files: each is refused, and says why."""

import copy
import errno
import hashlib
import json
import os
import random
import stat
from pathlib import Path

import model_cases
import numpy as np
import pytest
from looped import looped

import mercer
from mercer import RBF, SVC
from mercer.io import container


@pytest.fixture(autouse=True)
def no_disk(monkeypatch):
    """Waiting for the disk takes most of the time of these tests."""
    monkeypatch.setattr("os.fsync", lambda number: None)


def bytes_of(machine, folder):
    path = Path(folder) / "machine.mercer"
    mercer.save(machine, path)
    return path.read_bytes()


def small():
    return SVC(gamma=1.0).fit([[0.0], [1.0], [3.0]], ["a", "a", "b"])


def parts_of(raw):
    length = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + length]), raw[8 + length :]


def forged(header, data):
    """A file with a checksum that fits, whatever is in it."""
    if isinstance(header, dict):
        if isinstance(header.get("__metadata__"), dict):
            header["__metadata__"]["checksum"] = "0" * 64
        header = json.dumps(header, separators=(",", ":")).encode()
    start = len(header).to_bytes(8, "little")
    found = hashlib.sha256(start + header + data).hexdigest().encode()
    mark = b'"checksum":"'
    return start + header.replace(mark + b"0" * 64, mark + found, 1) + data


def test_every_truncation_is_refused(tmp_path):
    raw = bytes_of(small(), tmp_path)
    path = tmp_path / "cut.mercer"
    path.write_bytes(raw)
    assert mercer.load(path).predict([[0.1]]) == ["a"]
    for end in range(len(raw) - 1, -1, -1):
        os.truncate(path, end)
        with pytest.raises(ValueError, match=r"cut.mercer' cannot be read: .*again"):
            mercer.load(path)


@looped("mask", [0xFF, 0x20, 0x01])
def test_every_flipped_byte_is_refused(mask, tmp_path):
    raw = bytearray(bytes_of(small(), tmp_path))
    path = tmp_path / "flipped.mercer"
    path.write_bytes(raw)
    with open(path, "r+b", buffering=0) as file:
        for place in range(len(raw)):
            os.pwrite(file.fileno(), bytes([raw[place] ^ mask]), place)
            with pytest.raises(ValueError, match=r"flipped.mercer'"):
                mercer.load(path)
            os.pwrite(file.fileno(), raw[place : place + 1], place)
    mercer.load(path)


def test_what_follows_the_arrays_is_refused(tmp_path):
    path = tmp_path / "long.mercer"
    path.write_bytes(bytes_of(small(), tmp_path) + b"\0")
    with pytest.raises(ValueError, match=r"its arrays take .* follow its header"):
        mercer.load(path)


def test_other_packages_read_the_arrays(tmp_path):
    safetensors = pytest.importorskip("safetensors", reason="safetensors is absent")
    machine = small()
    mercer.save(machine, tmp_path / "m")
    with safetensors.safe_open(tmp_path / "m", "numpy") as file:
        texts = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}
    assert texts["kernel"] == "RBF(gamma=1.0)" and texts["class"] == "SVC"
    assert texts["mercer"] == mercer.__version__ and texts["version"] == "1"
    assert "gamma=1.0" in texts["parameters"] and "'a'" in texts["classes"]
    assert "optimal" in texts["certificate"]
    points = machine.expansion_.points
    assert any(np.array_equal(points, array) for array in arrays.values())


def changed(raw, change):
    """A forged file, its header changed."""
    header, data = parts_of(raw)
    other = change(header, data)
    return forged(header, other if isinstance(other, bytes) else data)


def entry(header):
    """Some array of several numbers."""
    names = [name for name in header if name != "__metadata__"]
    return next(header[n] for n in names if header[n]["shape"] not in ([], [1]))


def overlapping(header, data):
    one = [header[n] for n in header if n != "__metadata__"]
    a, b = [e for e in one if e["data_offsets"][1] - e["data_offsets"][0] == 24][:2]
    a["data_offsets"] = b["data_offsets"]


def with_hole(header, data):
    names = [n for n in header if n != "__metadata__"]
    for name in names:
        header[name]["data_offsets"] = [x + 8 for x in header[name]["data_offsets"]]
    return b"\0" * 8 + data


@looped(
    "change, words",
    [
        (lambda h, d: entry(h).update(shape=[2**40]), "takes .* bytes, and has those"),
        (lambda h, d: entry(h).update(shape=[-3, -1]), "has the shape"),
        (lambda h, d: entry(h).update(shape=[True, 3]), "has the shape"),
        (lambda h, d: entry(h).update(shape=[0, 2**62]), "has the shape"),
        (lambda h, d: entry(h).update(shape=[1] * 40), "has the shape"),
        (lambda h, d: entry(h).update(shape="33"), "has the shape"),
        (lambda h, d: entry(h).update(dtype="F128"), "type F128, which is unknown"),
        (lambda h, d: entry(h).update(dtype=[]), "which is unknown"),
        (lambda h, d: entry(h).update(data_offsets=[-8, 16]), "has the offsets"),
        (lambda h, d: entry(h).update(data_offsets=[0]), "has the offsets"),
        (lambda h, d: entry(h).update(data_offsets=[0.0, 24.0]), "has the offsets"),
        (lambda h, d: entry(h).update(name="x"), "other entries than dtype"),
        (lambda h, d: h.update(x=[]), "other entries than dtype"),
        (overlapping, "begins at byte"),
        (with_hole, "begins at byte"),
        (lambda h, d: d + b"1234", "its arrays take"),
        (lambda h, d: h.pop("__metadata__"), "no __metadata__"),
        (lambda h, d: h.update(__metadata__={"a": 1}), "no __metadata__"),
        (lambda h, d: h["__metadata__"].pop("format"), "not of a machine of mercer"),
        (lambda h, d: h["__metadata__"].update(version="2"), "versions up to 1.*later"),
        (lambda h, d: h["__metadata__"].update(version="01"), "versions up to 1"),
        (lambda h, d: h["__metadata__"].pop("content"), "cannot be read by mercer"),
    ],
)
def test_forged_headers_are_refused(change, words, tmp_path):
    path = tmp_path / "forged.mercer"
    path.write_bytes(changed(bytes_of(small(), tmp_path), change))
    with pytest.raises(ValueError, match=f"forged.mercer'.*{words}"):
        mercer.load(path)


@looped(
    "header, words",
    [
        (b"", "no JSON"),
        (b"[]", "no JSON object"),
        (b" {}", "no JSON object"),
        (b"\xff\xfe", "no JSON"),
        (b'{"a":1,"a":2}', "key 'a' is there twice"),
        (b'{"a":NaN}', "NaN is no number"),
        (b'{"a":1e999}', "beyond every float"),
        (b'{"a":' + b"9" * 5000 + b"}", "no JSON"),
        (b'{"a":' + b"[" * 100_000, "no JSON"),
        (b"{" + b'"a":{' * 100_000, "no JSON"),
    ],
)
def test_headers_that_are_no_json_are_refused(header, words, tmp_path):
    path = tmp_path / "other.mercer"
    path.write_bytes(forged(header, b""))
    with pytest.raises(ValueError, match=words):
        mercer.load(path)


def test_a_file_without_checksum_or_with_two_is_refused(tmp_path):
    header, data = parts_of(bytes_of(small(), tmp_path))
    path = tmp_path / "x"
    for edit in (b"", b',"a\\u0062":{"checksum":"x"}'):
        text = json.dumps(header, separators=(",", ":")).encode()
        text = text.replace(b'"checksum":', b'"other":') if not edit else text
        text = text[:-1] + edit + b"}"
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)
        with pytest.raises(ValueError, match=r"checksum|other entries"):
            mercer.load(path)


# Records: what the header says of the machine


def with_content(raw, change):
    def edit(header, data):
        content = json.loads(header["__metadata__"]["content"])
        content = change(content) or content
        if not isinstance(content, str):
            content = json.dumps(content)
        header["__metadata__"]["content"] = content

    return changed(raw, edit)


def machine_of(content):
    return content["objects"][content["root"]["object"]]


def put(**parts):
    return lambda content: machine_of(content)["parts"].update(parts)


def bomb(content):
    """A list of lists of lists ..., 2**60 entries that take a few bytes."""
    first = len(content["objects"])
    content["objects"].append(["x"] * 20)
    for place in range(first, first + 60):
        content["objects"].append([{"object": place}] * 2)
    machine = {"class": "SVC", "parts": {"class_weight": {"object": first + 60}}}
    content["objects"].append(machine)
    content["root"] = {"object": first + 61}


def many_columns(content):
    parts = {"size": 10**15, "place": {"dict": ["a"], "values": [0]}}
    content["objects"].append({"class": "ColumnIndex", "parts": parts})
    content["root"] = {"object": len(content["objects"]) - 1}


def kernels_of_kernels(content):
    content["objects"] = [{"class": "RBF", "parts": {"gamma": 1.0}}]
    for place in range(60):
        both = {"left": {"object": place}, "right": {"object": place}}
        content["objects"].append({"class": "Sum", "parts": both})
    content.update(root={"object": 60}, expansion=None)


@looped(
    "change, words",
    [
        (lambda c: c.update(more=1), "other entries"),
        (lambda c: c.pop("root"), "other entries"),
        (lambda c: c.update(objects={}), "no list of objects"),
        (lambda c: "[]", "cannot be read"),
        (lambda c: "[" * 100_000, "cannot be read"),
        (lambda c: machine_of(c).update({"class": "os.system"}), "does not know"),
        (lambda c: machine_of(c).update({"class": "object"}), "does not know"),
        (lambda c: machine_of(c).update({"class": []}), "is of no class"),
        (lambda c: machine_of(c).update(parts=3), "is of no class"),
        (lambda c: machine_of(c).update({"module": "os"}), "has the entries"),
        (put(fit=1), "SVC has no 'fit' in this release; a later one may"),
        (put(__class__="x"), "SVC has no '__class__'"),
        (put(kernel={"function": "os.system"}), "kind 'function' is damaged"),
        (put(kernel={"function": "builtins.eval"}), "kind 'function' is damaged"),
        (put(kernel={"object": 10**6}), "which is not there"),
        (put(kernel={"object": -1}), "which is not there"),
        (put(kernel={"object": "0"}), "damaged"),
        (put(kernel={"eval": "1"}), "kind 'eval', which is unknown"),
        (put(kernel={}), "kind '', which is unknown"),
        (put(C={"float": "1e5"}), "kind 'float' is damaged"),
        (put(C={"range": [0, 10**18]}), "more values than its size allows"),
        (put(C={"range": [0, 10**30]}), "kind 'range' is damaged"),
        (put(C={"range": [0, 10**6]}), "more values than its size allows"),
        (put(C={"range": ["a"]}), "kind 'range' is damaged"),
        (put(C={"array": "999"}), "kind 'array' is damaged"),
        (put(C={"array": "0", "dtype": "O"}), "is of the type 'O'"),
        (put(C={"array": "0", "dtype": "<U1"}), "stands for one of <U1"),
        (put(C={"array": "0", "order": "K"}), "in the order 'K'"),
        (put(C={"dict": [[1]], "values": [2]}), "kind 'dict' is damaged"),
        (put(C={"dict": [1, 1], "values": [2, 3]}), "key twice"),
        (put(C={"dict": [1], "values": []}), "zip"),
        (put(C={"bytes": "xyz"}), "non-hexadecimal"),
        (put(C={"texts": "0", "lengths": "0"}), "texts are in arrays"),
        (put(C={"frame": "os", "columns": []}), "'os' makes no data frames"),
        (put(C=json.loads("[" * 200 + "]" * 200)), "deeper than 100"),
        (
            lambda c: (
                c["objects"].append({"class": "RBF", "parts": {"gamma": -1}})
                or c.update(root={"object": len(c["objects"]) - 1})
            ),
            "is no RBF: RBF needs gamma > 0",
        ),
        (
            lambda c: (
                c["objects"].append({"class": "RBF", "parts": {"sigma": 1}})
                or c.update(root={"object": len(c["objects"]) - 1})
            ),
            "RBF has no 'sigma' in this release",
        ),
        (
            lambda c: (
                c["objects"].append({"class": "Sum", "parts": {}})
                or c.update(root={"object": len(c["objects"]) - 1})
            ),
            "Sum needs 'left', which is not there",
        ),
        (bomb, "more values than its size allows"),
        (many_columns, "ColumnIndex needs the places"),
        (kernels_of_kernels, "is no Sum: .*at most 10,000"),
    ],
)
def test_forged_records_are_refused(change, words, tmp_path):
    path = tmp_path / "forged.mercer"
    path.write_bytes(with_content(bytes_of(small(), tmp_path), change))
    with pytest.raises(ValueError, match=f"forged.mercer'.*{words}"):
        mercer.load(path)


def test_indices_that_compiled_code_would_trust_are_checked(tmp_path):
    machine, _ = model_cases.case("on CSR")
    raw = bytes_of(machine, tmp_path)
    header, data = parts_of(raw)
    content = json.loads(header["__metadata__"]["content"])
    text = json.dumps(content)
    found = json.loads(text[text.index('"csr": ') + 7 :].split("]")[0] + "]")
    begin, end = header[found[1]["array"]]["data_offsets"]
    assert header[found[1]["array"]]["dtype"].startswith("I")
    data = data[:begin] + b"\x7f" * (end - begin) + data[end:]
    path = tmp_path / "forged.mercer"
    path.write_bytes(forged(header, data))
    with pytest.raises(ValueError, match=r"damaged|column"):
        mercer.load(path)


# Writing


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "machine.mercer"
    mercer.save(RBF(1.0), path)

    def fails(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(container.os, name, fails)
            with pytest.raises(OSError, match="No space left"):
                mercer.save(RBF(2.0), path)
        assert mercer.load(path) == RBF(1.0)
        assert [*tmp_path.iterdir()] == [path]


def test_file_and_folder_reach_the_disk_before_and_after_the_new_name(
    tmp_path, monkeypatch
):
    done = []

    def fsync(number):
        done.append(stat.S_ISDIR(os.fstat(number).st_mode))

    def replace(draft, target, move=os.replace):
        assert Path(draft).parent == Path(target).parent
        done.append("replace")
        move(draft, target)

    monkeypatch.setattr(container.os, "fsync", fsync)
    monkeypatch.setattr(container.os, "replace", replace)
    mercer.save(RBF(2.0), tmp_path / "machine.mercer")
    assert done == [False, "replace", True]


def test_a_link_is_followed_and_permissions_stay(tmp_path):
    path, link = tmp_path / "machine.mercer", tmp_path / "link"
    mercer.save(RBF(1.0), path)
    path.chmod(0o640)
    link.symlink_to(path)
    mercer.save(RBF(2.0), link)
    assert link.is_symlink() and mercer.load(path) == RBF(2.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_paths_that_are_none_are_refused(tmp_path):
    with pytest.raises(OSError, match="is a folder"):
        mercer.save(RBF(1.0), tmp_path)
    with pytest.raises(OSError, match="a folder that is not there"):
        mercer.save(RBF(1.0), tmp_path / "none" / "x")
    with pytest.raises(FileNotFoundError):
        mercer.load(tmp_path / "none")
    with pytest.raises(OSError):
        mercer.load(tmp_path)


# Fuzzing

SEEDS = (
    "SVC on landmarks",
    "SVC of many classes",
    "KernelSGDClassifier, streamed on features",
    "KernelPerceptron, streamed on features",
    "FeatureMap of words",
    "on CSR",
    "on graphs",
    "on polars",
    "on trees",
    "of a chain",
)


def fuzz_load(seed, executions, folder):
    """Load `executions` damaged files; whatever is not refused must answer or raise.

    Half of them are damaged at random, with a checksum that no longer fits or, half of
    these, does; the others have records that were changed, with one that fits. Returns
    how many were loaded.
    """
    rng = random.Random(seed)
    bases = [(model_cases.case(name)[1], name) for name in SEEDS]
    raws = [bytes_of(model_cases.case(name)[0], folder) for _, name in bases]
    path, loaded = Path(folder) / "fuzzed.mercer", 0
    for _ in range(executions):
        number = rng.randrange(len(raws))
        path.write_bytes(_damaged(raws[number], rng))
        try:
            machine = mercer.load(path)
        except ValueError as error:
            assert "fuzzed.mercer'" in str(error)
            continue
        loaded += 1
        _asked(machine, bases[number][0])
    return loaded


def _asked(machine, new):
    """What is wrong in a machine may show as any error, but as no crash."""
    calls = [
        lambda: machine.predict(new),
        lambda: machine.transform(new),
        lambda: machine.decision_function(new),
        lambda: machine.partial_fit(new[:2], machine.classes_[:2]),
    ]
    for call in calls:
        try:
            call()
        except Exception:
            pass


def _damaged(raw, rng):
    if rng.random() < 0.5:
        return with_content(raw, lambda content: _edited(content, rng))
    raw = bytearray(raw)
    for _ in range(rng.choice([1, 2, 20])):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    if rng.random() < 0.3:
        del raw[rng.randrange(len(raw)) :]
    if rng.random() < 0.5:
        try:
            return forged(*parts_of(bytes(raw)))
        except (ValueError, TypeError, AttributeError):
            pass
    return bytes(raw)


VALUES = [
    *(None, True, 0, -1, 2**63, 1.5, "", "rbf", [], {}, [[]]),
    *({"object": 0}, {"array": "0"}, {"tuple": []}, {"range": [0, 9, 1]}),
    {"float": "nan"},
]


def _edited(content, rng):
    """One to three places of the content replaced, removed or exchanged."""
    for _ in range(rng.randint(1, 3)):
        places, pending = [], [content]
        while pending:
            one = pending.pop()
            keys = range(len(one)) if isinstance(one, list) else list(one)
            places += [(one, key) for key in keys]
            pending += [one[key] for key in keys if isinstance(one[key], list | dict)]
        (one, key), (other, place) = rng.choice(places), rng.choice(places)
        how = rng.randrange(4)
        if how == 0:
            one[key] = copy.deepcopy(rng.choice(VALUES))
        elif how == 1 and type(one[key]) is int:
            one[key] += rng.choice([-1, 1, 1000])
        elif how == 2:
            one[key] = copy.deepcopy(other[place])
        else:
            del one[key]
    return content


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_refused_or_harmless(tmp_path):
    assert fuzz_load(seed=0, executions=1500, folder=tmp_path) > 0
