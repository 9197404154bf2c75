import pytest

for package in ("starlette", "uvicorn", "httpx"):
    pytest.importorskip(package, reason=f"{package} is not installed")

from labclient import make_client, served  # noqa: E402 - it imports these


@pytest.fixture(scope="session")
def laboratory():
    """The address of a laboratory, and its server."""
    with served() as found:
        yield found


@pytest.fixture(scope="session")
def client(laboratory):
    with make_client(laboratory[0]) as one:
        yield one
