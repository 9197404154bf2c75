"""A laboratory on a port of its own, and its answers taken apart."""

import io
import json
import struct
import threading
from contextlib import contextmanager, redirect_stdout

import httpx
import numpy as np
import uvicorn
from numpy.testing import assert_allclose

from mercer.laboratory.launch import Server, bound_socket
from mercer.laboratory.server import make_app

TOKEN = "the-token-of-this-test"


@contextmanager
def served():
    """The address of a server that runs in a thread, and the server."""
    with bound_socket(0) as one:
        port = one.getsockname()[1]
        config = uvicorn.Config(
            make_app(TOKEN, port), log_level="critical", http="h11", ws="none"
        )
        started = threading.Event()
        server = Server(config, started.set)
        thread = threading.Thread(target=server.run, args=([one],), daemon=True)
        thread.start()
        assert started.wait(30)
        yield f"http://127.0.0.1:{port}", server
        server.end()
        thread.join(30)


def make_client(address, token=TOKEN):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=address, headers=headers, timeout=60)


def frames(content):
    """The frames of an answer: (head, arrays) each."""
    found = []
    while content:
        n, m = struct.unpack("<II", content[:8])
        head = json.loads(content[8 : 8 + n])
        numbers = np.frombuffer(content[8 + n : 8 + n + m], "<f4")
        arrays = {}
        for one in head["arrays"]:
            size = int(np.prod(one["shape"]))
            part = numbers[one["offset"] : one["offset"] + size]
            arrays[one["name"]] = part.reshape(one["shape"])
        found.append((head, arrays))
        content = content[8 + n + m :]
    return found


def answer(client, route, **body):
    """The result of a computation: its head and its arrays."""
    response = client.post(f"/api/{route}", json=body)
    assert response.status_code == 200, response.text
    head, arrays = frames(response.content)[-1]
    assert head["event"] == "result", head
    return head, arrays


def refusal(response, status, code):
    """The error of a refusal, with the status and the word that are expected.

    A computation that takes long has begun to answer before it is refused.
    """
    if "frames" in response.headers["content-type"]:
        error = frames(response.content)[-1][0]["error"]
    else:
        assert response.status_code == status, response.text
        error = response.json()["error"]
    assert error["code"] == code, error
    assert error["message"].endswith("."), error
    return error


def copied_numbers(client, **asked):
    """What the copied code gives, and the same numbers as the page is told them."""
    found = client.post("/api/code", json=asked).json()
    names: dict = {}
    with redirect_stdout(io.StringIO()):
        exec(found["code"], names)
    assert names["numbers"].keys() == found["numbers"].keys() != set()
    for name, value in names["numbers"].items():
        assert_allclose(value, found["numbers"][name], rtol=1e-9, err_msg=name)
    return names["numbers"], found["numbers"]
