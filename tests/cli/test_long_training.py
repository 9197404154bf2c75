"""Trainings that are stopped, killed and resumed."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mercer as library
from mercer.cli import training as training_module
from mercer.cli.live import Training
from mercer.io.checkpoints import read_checkpoint


@pytest.fixture
def noisy(tmp_path):
    """A problem of many steps, and of too many points for a single round, as arrays."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 5))
    y = np.where(rng.random(2400) < 0.3, -1, 1) * np.where(X[:, 0] > 0, 1, -1)
    path = tmp_path / "noisy.npz"
    np.savez(path, X=X, y=y)
    return path


COMMON = ["--kernel", "RBF(0.3)", "--C", "100", "--tol", "1e-4", "--no-plan"]


def stopping_after(monkeypatch, reports):
    """The next training ends at its so many-th report, as by Ctrl-C."""

    class Stopped(Training):
        seen = 0

        def __call__(self, progress):
            self.seen += 1
            self.stop = self.stop or self.seen >= reports
            return super().__call__(progress)

    monkeypatch.setattr(training_module, "Training", Stopped)


@pytest.mark.parametrize(
    "options",
    [
        COMMON,
        ["--kernel", "Nystrom(RBF(0.3), 50)", *COMMON[2:]],
        ["--machine", "KernelLogisticRegression", "--kernel", "RBF(0.3)", "--no-plan"],
        ["--machine", "KernelRidge", "--kernel", "RBF(0.3)", "--no-plan", "--alpha",
         "0.01"],
    ],
)  # fmt: skip
def test_a_training_that_was_stopped_goes_on_to_the_same_end(
    mercer, noisy, tmp_path, monkeypatch, options
):
    kept = tmp_path / "kept"
    words = ("train", noisy, *options, "--checkpoint", kept, "--every", "10s")
    with monkeypatch.context() as patch:
        stopping_after(patch, 1 if "KernelLogisticRegression" in options else 2)
        code, found, _ = mercer(*words, "--json", "-o", tmp_path / "part.mercer")
    assert code == 0 and kept.exists()
    if "KernelRidge" not in options:  # factors, of few points, come to their end
        assert found["status"] == "stopped" and found["certificate"]["gap"] > 0
        assert not read_checkpoint(kept).done
    assert hasattr(library.load(tmp_path / "part.mercer"), "expansion_")
    code, found, _ = mercer(*words, "--json", "--resume", "-o", tmp_path / "m.mercer")
    assert code == 0 and found["status"] == "optimal" and read_checkpoint(kept).done
    _, whole, _ = mercer("train", noisy, *options, "--json")
    np.testing.assert_allclose(
        found["certificate"]["primal"], whole["certificate"]["primal"], rtol=1e-4
    )


def checkpointed(data, path):
    """The words of a quick training with a checkpoint."""
    words = f"train {data} --target place --no-plan --checkpoint {path} -q"
    return words.split()


def test_a_checkpoint_of_another_training_is_refused(mercer, rings, tmp_path):
    kept, other = tmp_path / "kept", tmp_path / "other.csv"
    words = checkpointed(rings, kept)
    assert mercer(*words)[0] == 0
    code, _, err = mercer(*words)
    assert code == 1 and "is there already" in err
    assert mercer(*words, "--resume")[0] == 0
    code, _, err = mercer(*words, "--resume", "--C", "3")
    assert code == 1 and "another training: its C is 1.0, here it is 3" in err
    other.write_text(rings.read_text().replace("in\n", "out\n", 1))
    code, _, err = mercer("train", other, *words[2:], "--resume")
    assert code == 1 and "the checkpoint of other data" in err
    model = tmp_path / "m.mercer"
    assert mercer(*words[:5], "-o", model, "-q")[0] == 0
    code, _, err = mercer(*words[:6], model, "--resume")
    assert code == 1 and "no checkpoint" in err


def test_a_damaged_checkpoint_is_refused(mercer, rings, tmp_path):
    kept = tmp_path / "kept"
    words = checkpointed(rings, kept)
    assert mercer(*words)[0] == 0
    good = kept.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [good[: rng.integers(len(good))] for _ in range(5)]
    for place in rng.integers(len(good), size=25):
        damaged.append(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
    for content in [b"", b"nothing", *damaged]:
        kept.write_bytes(content)
        code, _, err = mercer(*words, "--resume")
        assert code == 1 and err.startswith("mercer: ") and err.count("\n") == 1
        assert kept.read_bytes() == content


def test_a_machine_that_cannot_go_on_is_refused_at_the_start(mercer, rings, tmp_path):
    words = ("train", rings, "--target", "place", "--checkpoint", tmp_path / "kept")
    for options in (("--machine", "RVC"), ("--set", "probability=True")):
        code, _, err = mercer(*words, *options)
        assert code == 1 and "cannot go on from a checkpoint" in err
    assert not (tmp_path / "kept").exists()


def started(noisy, *words):
    command = [sys.executable, "-m", "mercer", "train", noisy, *COMMON, "--C", "1e5"]
    return subprocess.Popen(
        [*command, "--tol", "1e-9", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_what_was_reached_outlives_kill_9(noisy, tmp_path):
    kept = tmp_path / "kept"
    spent = 0.0
    for attempt in range(2):
        words = ["--checkpoint", str(kept), "--every", "0.3s", "--resume", "--quiet"]
        process = started(noisy, *words)
        before = kept.stat().st_mtime_ns if kept.exists() else 0
        while process.poll() is None:
            if kept.exists() and kept.stat().st_mtime_ns > before:
                break
            time.sleep(0.01)
        time.sleep(0.05 * attempt)
        process.kill()
        process.communicate()
        found = read_checkpoint(kept)
        assert found.seconds >= spent and found.iterations > 0
        spent = found.seconds
    left = [name for name in os.listdir(tmp_path) if name not in ("kept", "noisy.npz")]
    # A kill in the midst of writing may leave the file that was to be renamed.
    assert len(left) <= 2


def test_ctrl_c_ends_with_the_model_so_far(noisy, tmp_path):
    model, kept = tmp_path / "m.mercer", tmp_path / "kept"
    words = ["-o", str(model), "--checkpoint", str(kept), "--every", "0.3s", "--json"]
    process = started(noisy, *words)
    while not kept.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert '"status": "stopped"' in out or '"status": "optimal"' in out
    assert '"gap": ' in out and library.load(model).certificate_.gap >= 0
