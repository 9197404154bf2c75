"""A cluster of processes of its own, for tests that lose some of them."""

import json
import os
import signal
import subprocess
import sys
import time

START = 60.0  # seconds that processes may take to start


class Cluster:
    """A scheduler and workers with their nannies, each a process.

    Parameters
    ----------
    folder : for its files
    memory : of a worker, in Dask's words
    """

    def __init__(self, folder, workers=2, memory="1GB"):
        self.folder, self.memory = folder, memory
        self.file, self.processes = folder / "scheduler.json", []
        self.scheduler = self._started(
            "scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1"
        )
        for _ in range(workers):
            self.add()

    def _started(self, what, *options):
        name = f"distributed.cli.dask_{what}"
        file = ["--scheduler-file", str(self.file)]
        command = [sys.executable, "-m", name, *file, *options]
        log = open(self.folder / f"{what}-{len(self.processes)}.log", "w")
        with log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,  # ended with all that it starts
            )
        self.processes.append(process)
        return process

    def add(self):
        """One more worker, with a nanny that starts it again."""
        self._started(
            *("worker", "--nthreads", "1", "--nworkers", "1", "--no-dashboard"),
            *("--memory-limit", self.memory, "--local-directory", str(self.folder)),
        )

    def address(self):
        """That of the scheduler, once it is there."""
        end = time.monotonic() + START
        while True:
            try:
                return json.loads(self.file.read_text())["address"]
            except (OSError, ValueError):
                assert time.monotonic() < end, "the scheduler did not start"
                time.sleep(0.05)

    def pause(self, seconds):
        """Stop the scheduler for a while."""
        self.scheduler.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.scheduler.send_signal(signal.SIGCONT)

    def close(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:  # all of it has ended
                pass
            process.wait(10)


def workers_of(client):
    """The processes of the workers."""
    return list(client.run(os.getpid).values())
