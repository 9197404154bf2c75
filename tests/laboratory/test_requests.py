"""Requests made up from the contract, and good ones with a part changed: never a 5xx.

MERCER_REQUESTS says how many; `make test-requests` asks for 10,000.
"""

import copy
import os
import time

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from labclient import TOKEN, frames

from mercer.laboratory.course import course
from mercer.laboratory.server import STATIC
from mercer.laboratory.structures import CATALOG

schemathesis = pytest.importorskip("schemathesis", reason="it is not installed")

REQUESTS = int(os.environ.get("MERCER_REQUESTS", "100"))
SCHEMA = schemathesis.openapi.from_path(STATIC.with_name("openapi.yaml"))
# Those of which a request can be bad: with a body, or a name in the address.
OPERATIONS = [
    one
    for one in (found.ok() for found in SCHEMA.get_all_operations())
    if one.method == "post" or "datasets" in one.path
]
MODES = (schemathesis.GenerationMode.NEGATIVE, schemathesis.GenerationMode.POSITIVE)
AUTH = {"authorization": f"Bearer {TOKEN}"}


def so_many(number):
    return settings(
        max_examples=max(1, number),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        deadline=None,
        database=None,
    )


SLOWEST: dict = {"seconds": 0.0, "count": 0}


@pytest.fixture(scope="module", autouse=True)
def told():
    """Says at the end how long refusals took at most."""
    yield
    count, seconds = SLOWEST["count"], SLOWEST["seconds"]
    print(f"\n{count} refusals, the slowest after {seconds:.2f} s")


def check_answer(status, kind, content, asked, seconds):
    if 400 <= status < 500:
        SLOWEST["count"] += 1
        SLOWEST["seconds"] = max(SLOWEST["seconds"], seconds)
    assert status < 500, (asked, content[:500])
    if "frames" in kind:
        head, _ = frames(content)[-1]
        assert head["event"] in ("result", "error"), head
        failed = head["event"] == "error" and head["error"]["code"] == "failure"
        assert not failed, (asked, head)
    elif status >= 400:
        assert b'"error"' in content


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.label)
def test_requests_from_the_contract_never_fail_the_server(laboratory, operation, mode):
    @so_many(REQUESTS // (2 * len(MODES) * len(OPERATIONS)))
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case):
        begin = time.monotonic()
        found = case.call(base_url=laboratory[0], headers=AUTH)
        seconds = time.monotonic() - begin
        [kind] = found.headers.get("content-type", [""])
        check_answer(found.status_code, kind, found.content, case.body, seconds)

    ask()


# Good requests, of which one part is changed

_ROUTES = {"plane": "fit", "step": "steps"}
GOOD = [
    (_ROUTES.get(one["tab"], one["tab"]), one["state"]) for one in course()["examples"]
]
GOOD += [
    (route, one["state"])
    for one in course()["examples"]
    if one["tab"] == "plane"
    for route in ("gram", "features", "bounds", "path", "gap")
]
GOOD += [
    ("structures", one["state"])
    for make in CATALOG.values()
    for one in make()["examples"]
]
JUNK = [
    *(None, True, 0, -1, 1e-300, 1e300, 2**63, "", "a", "RBF(1)", "Linear()", [], {}),
    *("Sigmoid(1, -3)", "RBF(1e-9)", "RBF(1e9)", "Constant(0)", "0 * RBF(1)"),
    *("Spline()", "Intersection()", "RBF()", "ChiSquared(1)"),
    *("Exp(Exp(Linear()))", "Polynomial(64)", "Matern(0.5, 1e-9)", "Anova(2, RBF(1))"),
    *("Normalized(Linear())", "Nystrom(RBF(1), 3)", "RandomFourier(RBF(1), 7)"),
    *("Spectrum(0)", "Subsequence(9, 0)", "PartialTree(1, 1)", "RandomWalk(5)"),
    *("SVC", "SVDD", "NuSVC", "RVC", "cluster", "density", "pca", "regress"),
    *([[0, 0, 0]], [[0, 0, 0], [0, 0, 1]], [[1, 1, 0], [1e6, -1e6, 1]], [0, 1e-6]),
]  # fmt: skip


def places(value, path=()):
    """The paths to all parts of a value, lists of many by their first items."""
    yield path
    if isinstance(value, dict):
        for name, one in value.items():
            yield from places(one, (*path, name))
    elif isinstance(value, list):
        for number, one in enumerate(value[:4]):
            yield from places(one, (*path, number))


@st.composite
def changed(draw):
    """A good request with a part replaced by another value, or taken away."""
    route, state = draw(st.sampled_from(GOOD))
    body = copy.deepcopy(state)
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from([one for one in places(body) if one]))
        inner = body
        for name in path[:-1]:
            inner = inner[name]
        if draw(st.booleans()):
            inner[path[-1]] = copy.deepcopy(draw(st.sampled_from(JUNK)))
        else:
            del inner[path[-1]]
        if not body:
            break
    return route, body


@pytest.mark.filterwarnings("ignore")
def test_good_requests_with_a_part_changed_never_fail_the_server(client):
    @so_many(REQUESTS // 2)
    @given(changed())
    def ask(asked):
        route, body = asked
        begin = time.monotonic()
        found = client.post(f"/api/{route}", json=body)
        seconds = time.monotonic() - begin
        kind = found.headers.get("content-type", "")
        check_answer(found.status_code, kind, found.content, asked, seconds)

    ask()
