"""open_lab: the laboratory from Python and notebooks, in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import webbrowser
from types import TracebackType
from typing import Self

from mercer import _html

PORT = 8425
# The same library as here, wherever this process has it from.
_START = """\
import sys
sys.path[:] = {path!r}
from mercer.cli.main import main
sys.exit(main({options!r}))
"""
PATIENCE = 5.0  # seconds until an end is forced


def open_lab(port: int = PORT, *, browser: bool = True) -> Laboratory:
    """Open the laboratory: a local page that computes with this library.

    Returns a `Laboratory`, which a notebook shows as a link. It runs in a process of
    its own, until `close()` or the end of this one.

    Parameters
    ----------
    port : of this computer, the first to try; a port that is taken moves to the next
    browser : whether a browser is opened

    Examples
    --------
    >>> from mercer import open_lab
    >>> with open_lab(browser=False) as lab:
    ...     lab.address.startswith("http://127.0.0.1:")
    True
    """
    for name in ("starlette", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise ImportError(
                f"The laboratory is served with {name}, which is not installed: pip "
                'install "mercer[lab]".'
            )
    options = ["lab", "--json", "--no-browser", "--port", str(port)]
    options.append("--attached")  # so that it ends with this process, however that does
    process = subprocess.Popen(
        [sys.executable, "-c", _START.format(path=sys.path, options=options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    lab = Laboratory(json.loads(line)["address"] if line else "", process)
    if not line:
        process.wait()
        lab.close()
        raise RuntimeError(
            "The laboratory did not start; its process ended with code "
            f"{process.returncode}. `mercer lab` in a terminal says why."
        )
    if browser:
        webbrowser.open(lab.address)
    return lab


class Laboratory:
    """The laboratory while it runs; made by `open_lab`.

    Attributes
    ----------
    address : of its page, with the token of this launch
    """

    def __init__(self, address: str, process: subprocess.Popen[str]):
        self.address, self._process = address, process

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End it; a second time does nothing."""
        if not self.closed:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "closed" if self.closed else f"at {self.address}"
        return f"<Laboratory, {where}>"

    def _repr_html_(self) -> str:
        if self.closed:
            return "<p>The laboratory is closed.</p>"
        return (
            f'<p><a href="{_html.escaped(self.address)}" target="_blank" '
            'rel="noopener">The laboratory</a>, until this process ends.</p>'
        )
