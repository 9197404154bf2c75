"""The laboratory in a real browser: the server, the page, and where its points are."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import zlib
from contextlib import contextmanager

import numpy as np
from sklearn.datasets import make_moons

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT = 120_000  # ms; far more than anything here takes, also on a busy machine


def found_browser():
    """The path of a Chromium, or None."""
    named = os.environ.get("MERCER_CHROMIUM")
    return named or next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def served():
    """The address of a laboratory that runs in a process of its own."""
    command = [sys.executable, "-m", "mercer", "lab", "--no-browser", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def packed(state):
    """A state as the fragment of an address holds it."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = squeeze.compress(json.dumps(state).encode()) + squeeze.flush()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unpacked(text):
    """The state in such a fragment."""
    padded = text + "=" * (-len(text) % 4)
    return json.loads(zlib.decompress(base64.urlsafe_b64decode(padded), -15))


def moons(n, seed=0):
    """Points of two classes, as the page holds them."""
    X, y = make_moons(n, noise=0.2, random_state=seed)
    return [
        [*np.round(x, 3).tolist(), int(label)] for x, label in zip(X, y, strict=True)
    ]


def plane(points, kernel="RBF(1)", machine="SVC", task="classify", **more):
    """A state of the plane with a view of two units around the origin."""
    state = {
        "task": task,
        "points": points,
        "machine": {"name": machine, "params": {}},
        "kernel": kernel,
        "view": {"x": [-2.5, 2.5], "y": [-2.5, 2.5]},
    }
    return state | more


def pixel(page, x, y, state):
    """Where a place of the plane is on the screen."""
    box = page.locator("#plane-canvas").bounding_box()
    size = np.array([box["width"], box["height"]])
    view = np.array([state["view"]["x"], state["view"]["y"]])
    unit = np.ptp(view, axis=1) / size
    if state["task"] != "regress":  # circles stay round
        unit = unit.max()
    shift = (np.array([x, y]) - view.mean(axis=1)) / unit * [1, -1]
    return (np.array([box["x"], box["y"]]) + size / 2 + shift).tolist()
