"""How much memory there is, and what the library keeps of it between two fits.

`available_memory` asks the machine, the process and its control groups; the files that
answer are read again after `MAX_AGE` seconds. What is kept in memory only to be read
again (a kernel matrix, a cache of its rows) may take a quarter of that: `keeps` and
`cache_bytes` decide, for all solvers and machines. What a result needs may take all of
it: `fits` asks, and `check_room` refuses what does not, in words.

The cache of kernel rows of a fit by `SMO` is kept for the next fit, because memory that
was never touched takes a tenth of the time of a fit. What is kept:

- is never more than the `cache_mb` of the last solve, single and double precision
  together, or twice that where the rows of two working sets took more than `cache_mb`:
  what is larger is freed when that solve ends, or before it begins;
- has, on Linux, pages that the system takes back by itself when it needs memory, and
  writes nowhere (MADV_FREE). Until then they count in the process's resident size, and
  in what `MemAvailable` says is available. Other systems leave them as they are;
- is freed where an allocation of the compiled core is refused, which is then tried
  again; and by `release`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np

from mercer import _core

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

ROOT = Path("/")
KEPT_SHARE = 0.25  # of what is available, for kernel values that are kept to be reused
BLOCKS = 24  # that find room at the same time, where there is little of it
LARGEST_CACHE = 2.0**30  # bytes of kernel rows, where no other number is asked for
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # what glibc calls M_MMAP_THRESHOLD, M_ARENA_MAX
# Seconds for which a reading of the system's files is used again. They take about a
# millisecond to read, as long as a small fit, which asks several times. In this time a
# process can write to about a hundred megabytes of new memory.
MAX_AGE = 0.05


class _Names(NamedTuple):
    """What the files of a control group are called."""

    limits: tuple[str, ...]
    usage: str
    cache: str
    above: str  # of memory.stat: the least limit of the groups it is in


# Above memory.high a process is not ended, but slowed down until it stands still.
_NEW = _Names(("memory.max", "memory.high"), "memory.current", "inactive_file", "")
_OLD = _Names(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    "total_inactive_file",
    "hierarchical_memory_limit",
)


def available_memory(root: Path = ROOT) -> float:
    """Bytes that can be had now, by every limit on this process; ∞ if unknown.

    The machine's memory; the limits of the process's control group and of all groups
    that one is in; and the address space and the data that the process may have.
    """
    # These are set by the process itself and take no file to know: ask every time.
    return min(_recent_memory(root), _own_limits(root))


def fits(size: float) -> bool:
    """Whether so many bytes, which a result needs, can be had now."""
    return size <= available_memory()


def check_room(size: float, what: str, way_out: str) -> None:
    """Refuse, with a MemoryError, what takes more bytes than can be had now.

    Parameters
    ----------
    what : the beginning of a sentence that goes on with the size: "K takes"
    way_out : one or more sentences
    """
    available = available_memory()
    if size > available:
        raise MemoryError(
            f"{what} {size / 1e9:.3g} GB; {available / 1e9:.3g} GB are available. "
            f"{way_out}"
        )


def room_to_keep(cache_mb: float | None = None) -> float:
    """Bytes for kernel values that are kept to be read again.

    Parameters
    ----------
    cache_mb : what was asked for; None for a quarter of what is available
    """
    room = KEPT_SHARE * available_memory() if cache_mb is None else cache_mb * 2.0**20
    return _share.get() * room


def keeps(size: float, cache_mb: float | None = None) -> bool:
    """Whether an array of so many bytes is kept, to be read again."""
    return size <= room_to_keep(cache_mb)


def cache_bytes(cache_mb: float | None) -> float:
    """Bytes for a cache of kernel rows; by default a gigabyte at most."""
    room = room_to_keep(cache_mb)
    most = _share.get() * LARGEST_CACHE
    return min(room, most) if cache_mb is None else room


_share: ContextVar[float] = ContextVar("share", default=1.0)


@contextmanager
def sharing(share: float) -> Iterator[None]:
    """Within, kernel values are kept in this share of the room there would be.

    So a fit on some of the points keeps as much of its K as one on all of them.
    """
    token = _share.set(share)
    try:
        yield
    finally:
        _share.reset(token)


def block_mb(most: float) -> float:
    """Megabytes for one of the blocks that a loop works on: a small share of all."""
    return min(most, max(0.25, available_memory() / 2**20 / BLOCKS))


def kept() -> int:
    """Bytes that are kept from the last fits for the next one."""
    return _core.kept_bytes()


def release() -> int:
    """Free what is kept from the last fits for the next one; how many bytes that was.

    The next fit takes new memory, and a little longer.

    >>> from mercer.native import memory
    >>> freed = memory.release()
    >>> memory.kept()
    0
    """
    freed = _core.release_kept()
    _last.clear()
    return freed


def return_large(size: int = 2**22) -> bool:
    """Give arrays of so many bytes back to the system as soon as they are freed.

    For processes that serve for long in several threads: by itself glibc keeps what
    was freed, up to 32 MB at a time and apart for each thread. Whether it was glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, or Windows
        return False
    return bool(mallopt(_MMAP_THRESHOLD, size) and mallopt(_ARENA_MAX, 2))


class _Reading(NamedTuple):
    """What the files said, and when."""

    time: float
    bytes: float


_last: dict[Path, _Reading] = {}


def _recent_memory(root: Path) -> float:
    """What the machine and the control groups leave, read at most `MAX_AGE` ago."""
    now, last = monotonic(), _last.get(root)
    if last is not None and now - last.time < MAX_AGE:
        return last.bytes
    places = dict.fromkeys(_groups(root))  # each once
    groups = (_group_memory(folder, names) for folder, names in places)
    free = min(_machine_memory(root / "proc/meminfo"), *groups, np.inf)
    _last[root] = _Reading(now, free)
    return free


def _machine_memory(meminfo: Path) -> float:
    kilobytes = _entries(meminfo).get("MemAvailable:")
    return np.inf if kilobytes is None else 1024.0 * float(kilobytes)


def _own_limits(root: Path) -> float:
    """What RLIMIT_AS and RLIMIT_DATA leave beside the pages the process has."""
    if resource is None:
        return np.inf
    # Where /proc/self/statm counts what the limit is on.
    limits = {0: resource.RLIMIT_AS, 5: resource.RLIMIT_DATA}
    most = {place: resource.getrlimit(limit)[0] for place, limit in limits.items()}
    set_ones = {i: m for i, m in most.items() if m != resource.RLIM_INFINITY}
    if not set_ones:
        return np.inf
    try:
        pages = [int(n) for n in (root / "proc/self/statm").read_text().split()]
        used = {place: pages[place] for place in limits}
    except (OSError, ValueError, IndexError):
        used = dict.fromkeys(limits, 0)
    size = float(resource.getpagesize())
    return min(max(0.0, m - used[i] * size) for i, m in set_ones.items())


def _groups(root: Path) -> Iterator[tuple[Path, _Names]]:
    """The folders of the process's control groups, each up to where it is mounted."""
    usual = root / "sys/fs/cgroup"  # also where mounts are hidden
    yield from [(usual, _NEW), (usual / "memory", _OLD)]
    paths = _own_groups(root / "proc/self/cgroup")
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        places, kind = before.split(), after.split()
        if len(places) < 5 or len(kind) < 1:
            continue
        old = kind[0] == "cgroup" and "memory" in kind[-1].split(",")
        if not old and kind[0] != "cgroup2":
            continue
        path = paths.get("memory" if old else "")
        top = root / _unescaped(places[4]).lstrip("/")
        names = _OLD if old else _NEW
        yield top, names
        folder = top
        for part in _below(path, _unescaped(places[3])):
            folder = folder / part
            yield folder, names


def _own_groups(file: Path) -> dict[str, str]:
    """The path of the process's group by controller; "" is the one for all of them."""
    paths = {}
    for line in _lines(file):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _below(path: str | None, mounted: str) -> list[str]:
    """The folders from the group that is mounted down to the process's own."""
    if path is None or ".." in path.split("/"):
        return []
    parts, above = (
        [part for part in place.split("/") if part] for place in (path, mounted)
    )
    # In a container the path may be that of the host, or of the container itself.
    return parts[len(above) :] if parts[: len(above)] == above else parts


def _unescaped(path: str) -> str:
    return path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _group_memory(folder: Path, names: _Names) -> float:
    """What a control group may still take; its file cache gives way when needed."""
    used = _bytes(folder / names.usage)
    if not used < np.inf:
        return np.inf
    stat = _entries(folder / "memory.stat")
    # Groups above that are not mounted here, as in a container, are seen in no file.
    limits = [_bytes(folder / name) for name in names.limits]
    limits.append(float(stat.get(names.above, np.inf)))
    return max(0.0, min(limits) - used + float(stat.get(names.cache, 0)))


def _bytes(path: Path) -> float:
    """The number in a file; ∞ for "max", and where there is none."""
    try:
        text = _text(path).strip()
        return np.inf if text == "max" else float(text)
    except (OSError, ValueError):
        return np.inf


def _entries(path: Path) -> dict[str, str]:
    """The first two words of every line of a file of numbers; {} if there is none."""
    lines = (line.split() for line in _lines(path))
    return {words[0]: words[1] for words in lines if len(words) > 1}


def _lines(path: Path) -> list[str]:
    try:
        return _text(path).splitlines()
    except OSError:
        return []


def _text(path: Path) -> str:
    """What is in a file, without the layers of Python that a small one is not worth."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        parts = []
        while part := os.read(descriptor, 2**16):
            parts.append(part)
        return b"".join(parts).decode(errors="replace")
    finally:
        os.close(descriptor)
