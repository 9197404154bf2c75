"""What the server of the laboratory refuses, and how; every response is guarded."""

import json

import pytest
import yaml
from labclient import TOKEN, make_client, refusal

from mercer.laboratory import server
from mercer.laboratory.fields import MOST_BYTES

STATE = {
    "task": "classify",
    "points": [[0, 0, 0], [1, 1, 1], [0, 1, 1]],
    "machine": {"name": "SVC", "params": {"C": 1.0}},
    "kernel": "RBF(1)",
    "grid": [4, 4],
}


def post(client, body=STATE, route="fit", **headers):
    headers = {"content-type": "application/json", **headers}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(f"/api/{route}", content=content, headers=headers)


def routes():
    contract = yaml.safe_load(server.STATIC.with_name("openapi.yaml").read_text())
    for path, methods in contract["paths"].items():
        for method in methods:
            yield method, path.format(name="moons" if "data" in path else "style.css")


ROUTES = list(routes())


def test_contract_names_the_routes_there_are():
    known = [("get", "/"), ("get", "/static/style.css")]
    known += [("get", f"/api/{name}".format(name="moons")) for name in server.LISTS]
    known += [("post", f"/api/{name}") for name in server.JOBS]
    assert sorted(known) == sorted(ROUTES)


@pytest.mark.parametrize("method, path", ROUTES)
def test_every_route_checks_host_and_origin(client, method, path):
    port = client.base_url.port
    for host in ("evil.example", f"127.0.0.1:{port + 1}", f"127.0.0.1:{port}.evil.com"):
        refusal(client.request(method, path, headers={"host": host}), 421, "host")
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port + 1}"):
        found = client.request(method, path, headers={"origin": origin})
        refusal(found, 403, "origin")


@pytest.mark.parametrize("method, path", [r for r in ROUTES if "/api/" in r[1]])
def test_every_route_of_the_api_needs_the_token(client, method, path):
    for word in ("", "Bearer", "Bearer other", f"Basic {TOKEN}", f"Bearer {TOKEN}x"):
        found = client.request(method, path, headers={"authorization": word})
        refusal(found, 401, "token")
        assert found.headers["www-authenticate"] == "Bearer"
    found = client.request(method, path, headers={"sec-fetch-site": "cross-site"})
    refusal(found, 403, "origin")


def test_names_of_this_computer_are_hosts(client):
    port = client.base_url.port
    for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"):
        assert client.get("/api/catalog", headers={"host": host}).status_code == 200
    own = {"origin": f"http://127.0.0.1:{port}", "sec-fetch-site": "same-origin"}
    assert post(client, **own).status_code == 200


def test_two_tokens_are_none(client):
    own = client.headers["authorization"]
    two = [("authorization", own), ("authorization", own)]
    with make_client(client.base_url, token=None) as other:
        refusal(other.get("/api/catalog", headers=two), 401, "token")


def test_page_is_served_without_a_token(client):
    with make_client(client.base_url, token=None) as stranger:
        assert stranger.get("/").status_code == 200
        assert stranger.get("/static/style.css").status_code == 200


@pytest.mark.parametrize(
    "name",
    [
        "../server.py",
        "..%2fserver.py",
        "%2e%2e/server.py",
        "/etc/passwd",
        "a/../../x.js",
        "nothing.js",
        "",
        ".hidden.js",
        "style.css/",
        "style.css%00",
        "c:\\x.js",
    ],
)
def test_static_files_are_those_of_the_page_only(client, name):
    refusal(client.get(f"/static/{name}"), 404, "not_found")


def test_responses_allow_no_script_from_elsewhere(client):
    for found in (
        client.get("/"),
        client.get("/nothing"),
        post(client),
        post(client, b"{"),
        client.get("/", headers={"host": "evil.example"}),
    ):
        policy = found.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["x-frame-options"] == "DENY"


def test_page_has_no_inline_script_or_style(client):
    page = client.get("/").text
    assert "<style" not in page and " style=" not in page and "javascript:" not in page
    assert all("src=" in tag for tag in page.split("<script")[1:])
    assert not any(word in page for word in (' onclick="', ' onload="', "https://"))


def test_what_is_not_there_is_said(client):
    refusal(client.get("/nothing"), 404, "not_found")
    refusal(client.get("/api/nothing"), 404, "not_found")
    refusal(client.get("/api/datasets/nothing"), 404, "not_found")
    refusal(client.get("/api/fit"), 405, "method")
    refusal(client.put("/api/catalog"), 405, "method")
    assert client.head("/api/catalog", headers={"host": "x"}).status_code == 421


def test_web_sockets_do_not_open(client):
    wanted = {"connection": "upgrade", "upgrade": "websocket"}
    wanted |= {
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": "13",
    }
    assert client.get("/api/fit", headers=wanted).status_code == 405


def test_bodies_are_json_of_a_mebibyte(client):
    refusal(post(client, **{"content-type": "text/plain"}), 415, "media_type")
    refusal(post(client, **{"content-type": ""}), 415, "media_type")
    refusal(post(client, b" " * (MOST_BYTES + 1)), 413, "too_large")

    def endless():
        for _ in range(40):
            yield b" " * 2**16

    headers = {"content-type": "application/json"}
    found = client.post("/api/fit", content=endless(), headers=headers)
    refusal(found, 413, "too_large")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nothing",
        b"\xff\xfe",
        b'{"a": NaN}',
        b"[" * 100_000,
        b"1" * 10_000,
        b'{"task": "\\ud800"}',
        b"[]",
        b"null",
        b'"text"',
        b"1e999",
        b"-Infinity",
    ],
)
def test_what_is_no_request_is_refused(client, body):
    found = post(client, body)
    assert found.status_code == 400, found.text


@pytest.mark.parametrize(
    "change, field",
    [
        ({"task": "cook"}, "/task"),
        ({"task": 1}, "/task"),
        ({"extra": 1}, "/extra"),
        ({"points": 7}, "/points"),
        ({"points": []}, "/points"),
        ({"points": [[0, 0]]}, "/points/0"),
        ({"points": [[0, 0, 1], [1, 1, 1]]}, "/points"),
        ({"points": [[0, 0, 0], [0, 0, 6]]}, "/points/1"),
        ({"points": [[0, 1e7, 0]]}, "/points/0"),
        ({"points": [[0, True, 0]]}, "/points/0"),
        ({"points": [[0, 10**400, 0]]}, "/points/0"),
        ({"points": [[0, 0, 0]] * 5001}, "/points"),
        ({"machine": "SVC"}, "/machine"),
        ({"machine": {"name": "SVR"}}, "/machine/name"),
        ({"machine": {"name": "os"}}, "/machine/name"),
        ({"machine": {"name": "SVC", "params": {"C": -1}}}, "/machine/params/C"),
        ({"machine": {"name": "SVC", "params": {"C": "1"}}}, "/machine/params/C"),
        ({"machine": {"name": "SVC", "params": {"tol": 1}}}, "/machine/params/tol"),
        ({"machine": {"name": "SVC", "params": [1]}}, "/machine/params"),
        ({"kernel": ""}, "/kernel"),
        ({"kernel": 3}, "/kernel"),
        ({"kernel": "R" * 1001}, "/kernel"),
        ({"set": {"gamma": "x"}}, "/set/gamma"),
        ({"set": {"nothing": 1}}, "/set/nothing"),
        ({"view": {"x": [0, 1]}}, "/view/y"),
        ({"view": {"x": [1, 0], "y": [0, 1]}}, "/view/x"),
        ({"view": {"x": [0, 1e9], "y": [0, 1]}}, "/view/x"),
        ({"grid": [1, 4]}, "/grid"),
        ({"grid": [4.5, 4]}, "/grid"),
        ({"grid": [4, 1000]}, "/grid"),
        ({"client": "a b"}, "/client"),
        ({"request": -1}, "/request"),
    ],
)
def test_faults_of_a_state_are_placed(client, change, field):
    found = post(client, STATE | change)
    assert found.status_code == 400, found.text
    assert found.json()["error"]["place"]["field"] == field


def test_queries_are_checked(client):
    for query in ("n=1", "n=5001", "n=x", "seed=-1", "other=1", "n=5&n=6", "n=٣"):
        assert client.get(f"/api/datasets/moons?{query}").status_code == 400
    found = client.get("/api/datasets/moons?n=7&seed=3").json()
    assert len(found["points"]) == 7


def test_errors_of_the_library_are_refusals_without_paths(client):
    negative = STATE | {"points": [[-1, 0, 0], [1, 1, 1]], "kernel": "Intersection()"}
    vast = STATE | {
        "kernel": "Exp(1000 * Linear())",
        "points": [[9e5, 1, 0], [1, 1, 1]],
    }
    for state in (negative, vast):
        error = refusal(post(client, state), 400, "value")
        assert "mercer/" not in error["message"] and ".py" not in error["message"]
