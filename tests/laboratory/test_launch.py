"""Starting and ending: ports, the command, open_lab, and many clients at once.

MERCER_LOAD says for how many seconds 64 clients ask; `make test-requests` for a minute.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from labclient import frames

import mercer
from mercer.laboratory.datasets import dataset_state
from mercer.laboratory.launch import bound_socket
from mercer.laboratory.opening import _START

PATIENCE = 60
MOST_MB = 500
CLIENTS = 64
LOAD = float(os.environ.get("MERCER_LOAD", "0"))  # seconds


@pytest.fixture(scope="module")
def launched():
    """The command in a process of its own: the process, and a client of it."""
    options = ["lab", "--no-browser", "--json"]
    code = _START.format(path=sys.path, options=options)
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address, _, token = json.loads(process.stdout.readline())["address"].partition("#")
    headers = {"authorization": f"Bearer {token.removeprefix('token=')}"}
    with httpx.Client(base_url=address, headers=headers, timeout=PATIENCE) as client:
        yield process, client
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_taken_port_moves_to_the_next():
    with bound_socket(0) as first:
        taken = first.getsockname()
        with bound_socket(taken[1]) as second:
            host, port = second.getsockname()
            assert host == "127.0.0.1" and port != taken[1]


def test_it_listens_on_the_loopback_interface_only():
    with bound_socket(0) as one, socket.socket() as other:
        port = one.getsockname()[1]
        assert one.getsockname()[0] == "127.0.0.1"
        # Another interface of this computer is free at the same port.
        assert other.connect_ex(("127.0.0.2", port)) != 0


def test_warnings_reach_the_page(launched):
    _, client = launched
    machine = {"name": "KernelPerceptron", "params": {"max_iter": 1}}
    state = dataset_state("blobs", 60) | {"machine": machine}
    [*_, (head, _)] = frames(client.post("/api/fit", json=state).content)
    assert "max_iter" in head["warnings"][0]


def test_many_clients_at_once(launched):
    process, client = launched

    end = time.monotonic() + LOAD

    def ask(number):
        state = dataset_state("moons", 60 + number) | {"client": f"page-{number}"}
        seen = []
        for C in itertools.cycle((0.1, 1.0, 10.0)):
            state["machine"] = {"name": "SVC", "params": {"C": C}}
            found = client.post("/api/fit", json=state)
            seen.append(found.status_code)
            if found.status_code == 200:
                assert frames(found.content)[-1][0]["event"] == "result"
            if len(seen) >= 3 and time.monotonic() >= end:
                return seen

    with ThreadPoolExecutor(CLIENTS) as pool:
        seen = [one for some in pool.map(ask, range(CLIENTS)) for one in some]
    assert set(seen) <= {200, 429} and seen.count(200) > len(seen) / 2
    status = Path(f"/proc/{process.pid}/status")
    if status.exists():
        [peak] = [line for line in status.read_text().splitlines() if "VmHWM" in line]
        mb = int(peak.split()[1]) / 1024
        print(f"\n{len(seen)} fits for {CLIENTS} clients, at most {mb:.0f} MB")
        assert mb < MOST_MB


def test_interrupt_ends_it_while_it_computes(launched):
    process, client = launched
    state = dataset_state("blobs", 2000)
    state |= {"kernel": "RBF(100) + Linear()**3"}
    state["machine"] = {"name": "SVC", "params": {"C": 1e6}}
    with client.stream("POST", "/api/fit", json=state) as response:
        assert response.status_code == 200
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert process.wait(PATIENCE) == 0
        print(f"\nended {time.monotonic() - begin:.2f} s after Ctrl-C")


def test_open_lab_is_a_link_in_a_notebook():
    with mercer.open_lab(browser=False) as lab:
        assert not lab.closed and lab.address in repr(lab)
        link = lab._repr_html_()
        assert lab.address in link and "<a href" in link
        address = lab.address.partition("#")[0]
        assert httpx.get(address).status_code == 200
    assert lab.closed and repr(lab) == "<Laboratory, closed>"
    lab.close()


def test_missing_extra_is_said_with_its_remedy():
    code = "import sys; sys.modules['uvicorn'] = None\n"
    code += _START.format(path=sys.path, options=["lab"])
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert found.returncode == 1 and 'pip install "mercer[lab]"' in found.stderr


def test_ports_that_are_none_are_refused(capsys):
    from mercer.cli.main import main

    assert main(["lab", "--port", "70000"]) == 2
    assert "1 to 65535" in capsys.readouterr().err
