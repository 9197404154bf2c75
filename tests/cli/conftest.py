"""Small data in files, and the command run in this process."""

import json

import numpy as np
import pytest

from mercer.cli.main import main


@pytest.fixture
def mercer(capsys):
    """Runs the command: its exit code, stdout and stderr; with --json, the object."""

    def run(*words):
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        if "--json" in words and code == 0:
            return code, json.loads(out), err
        return code, out, err

    return run


@pytest.fixture
def rings(tmp_path):
    """Two classes in the plane, as a table."""
    rng = np.random.default_rng(0)
    angle, radius = rng.uniform(0, 6.3, 60), np.repeat([1.0, 3.0], 30)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    path = tmp_path / "rings.csv"
    rows = [f"{a!r},{b!r},{'in' if r < 2 else 'out'}" for (a, b), r in
            zip(X.tolist(), radius, strict=True)]  # fmt: skip
    path.write_text("\n".join(["a,b,place", *rows]) + "\n")
    return path
