"""The server of the laboratory: routes, guards, and answers in frames.

It listens on the loopback interface only (`launch.py`). Every route checks Host and
Origin, those that compute or tell anything a token of the launch besides; what is wrong
with a request is said with a status from 400 on.
"""

from __future__ import annotations

import asyncio
import hmac
import importlib
import re
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mercer.laboratory.fields import MOST_BYTES, read_json
from mercer.laboratory.frames import MEDIA_TYPE, Answer, frame, json_bytes
from mercer.laboratory.jobs import Desk, Job, superseded, warnings_to_jobs
from mercer.laboratory.refusals import Refusal

LISTS = ("catalog", "course", "datasets/{name}")
JOBS = tuple(
    "paste kernel fit bounds gram features gap path steps structures match figure code"
    .split()
)  # fmt: skip
STATIC = Path(__file__).parent / "static"
FIRST_REPORT = 0.08  # seconds after which an answer begins as a stream
READERS = 4  # threads that read requests and files
REPORTS = 0.1  # seconds between two reports
BODY_SECONDS = 0.9  # in which the body of a request must have come
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
}
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")


def make_app(token: str, port: int) -> Starlette:
    """The application, for requests to this port of the loopback interface."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        app.state.library.start()
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = READERS  # each thread has memory of its own
        with warnings_to_jobs():
            yield
        app.state.desk.close()

    routes = [
        Route("/", _page, methods=["GET"]),
        Route("/static/{name:path}", _static, methods=["GET"]),
    ]
    for name in LISTS:
        routes.append(Route(f"/api/{name}", _listed(name), methods=["GET"]))
    for name in JOBS:
        routes.append(Route(f"/api/{name}", _computed(name), methods=["POST"]))
    app = Starlette(
        routes=routes,
        lifespan=life,
        exception_handlers={
            Refusal: _refused,
            HTTPException: _no_route,
            Exception: _failed,
        },
    )
    app.router.redirect_slashes = False
    app.state.desk, app.state.library = Desk(), Library()
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
    app.add_middleware(Guard, hosts=frozenset(hosts), token=token)
    return app


class Library:
    """What computes answers: loaded by a thread, while the page is on its way."""

    def __init__(self) -> None:
        self.loaded = asyncio.Event()
        self.answers: Any = None
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin to load."""
        loop = asyncio.get_running_loop()

        def load() -> None:
            try:
                self.answers = importlib.import_module("mercer.laboratory.answers")
            except BaseException as error:
                self.error = error
            try:
                loop.call_soon_threadsafe(self.loaded.set)
            except RuntimeError:  # the server has ended meanwhile
                pass

        threading.Thread(target=load, name="mercer-load", daemon=True).start()

    async def call(self, kind: str, name: str, *arguments: Any) -> Any:
        """The answer of a route, or what was read of its request."""
        # No thread waits for it: those are for the files of the page meanwhile.
        await self.loaded.wait()
        if self.error is not None:
            raise self.error
        return await run_in_threadpool(getattr(self.answers, kind)[name], *arguments)


class Guard:
    """Host, Origin and token of every request, and headers of every response."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], token: str):
        self.app, self.hosts, self.token = app, hosts, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":  # a web socket is closed before it opens
            return await send({"type": "websocket.close", "code": 1008})

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = dict(message.get("headers", []))
                given.setdefault(b"cache-control", b"no-store")
                message["headers"] = [*(HEADERS | given).items()]
            await send(message)

        refusal = self.refusal(scope)
        if refusal is not None:
            response = _refusal_response(refusal)
            return await response(scope, receive, send_guarded)
        await self.app(scope, receive, send_guarded)

    def refusal(self, scope: Scope) -> Refusal | None:
        """Why a request may not pass; None where it may."""
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        host = headers.get(b"host", [])
        if len(host) != 1 or host[0].lower() not in self.hosts:
            return Refusal(
                "This server answers to its own address on this computer only.",
                status=421,
                code="host",
            )
        own = {f"http://{name}" for name in self.hosts}
        foreign = any(one.lower() not in own for one in headers.get(b"origin", []))
        site = headers.get(b"sec-fetch-site", [])
        # Following a link to the page is a visit; asking it for data is not.
        asks = scope["path"].startswith("/api/") or scope["method"] != "GET"
        if foreign or (
            asks and any(one in ("cross-site", "same-site") for one in site)
        ):
            return Refusal(
                "Only the page of the laboratory may ask this server.",
                status=403,
                code="origin",
            )
        if scope["path"].startswith("/api/"):
            return self._without_token(headers.get(b"authorization", []))
        return None

    def _without_token(self, given: list[str]) -> Refusal | None:
        if len(given) == 1:
            scheme, _, word = given[0].partition(" ")
            same = hmac.compare_digest(word.strip().encode("latin-1"), self.token)
            if scheme.lower() == "bearer" and same:
                return None
        return Refusal(
            "The token of this launch is missing or is another one's. Open the address "
            "that `mercer lab` printed.",
            status=401,
            code="token",
        )


# Routes


async def _page(request: Request) -> Response:
    return _file("index.html")


async def _static(request: Request) -> Response:
    return _file(request.path_params["name"])


def _file(name: str) -> Response:
    """A file of the page; only names of plain letters, and none that lead elsewhere."""
    path = STATIC / name
    known = NAME.fullmatch(name) is not None and ".." not in name
    if not known or path.suffix not in MEDIA or not path.is_file():
        raise Refusal("There is no such file.", status=404, code="not_found")
    if STATIC.resolve() not in path.resolve().parents:
        raise Refusal("There is no such file.", status=404, code="not_found")
    # The browser asks whether it changed; a new version is seen at once.
    headers = {"cache-control": "no-cache"}
    return FileResponse(path, media_type=MEDIA[path.suffix], headers=headers)


def _listed(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        library: Library = request.app.state.library
        given = dict(request.path_params), _query(request)
        return _json(await library.call("LISTS", name, *given))

    return route


def _query(request: Request) -> dict[str, str]:
    items = request.query_params.multi_items()
    query = dict(items)
    if len(query) != len(items):
        raise Refusal("A parameter of the address is given twice.", code="field")
    return query


def _computed(name: str) -> Callable[[Request], Awaitable[Response]]:
    """A route that computes: it reads the request, and a job does the rest."""

    async def route(request: Request) -> Response:
        desk: Desk = request.app.state.desk
        library: Library = request.app.state.library
        body = await _body(request)
        made = await library.call("JOBS", name, body)
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def ended() -> None:
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:  # the server has ended meanwhile
                pass

        key = None if made.client is None else (made.client, name)
        number = body.get("request")
        job = Job(made.compute, ended, key, made.plain, made.heavy, number)
        desk.submit(job)
        try:
            wait = None if made.plain else FIRST_REPORT
            await asyncio.wait_for(done.wait(), wait)
        except TimeoutError:
            stream = _stream(desk, job, done)
            return StreamingResponse(stream, media_type=MEDIA_TYPE)
        except BaseException:
            job.abort()
            raise
        return _ended(job)

    return route


def _ended(job: Job) -> Response:
    """The answer of a job that ended before anything was sent."""
    if job.refusal is not None:
        raise job.refusal
    if job.body is None:
        raise superseded()
    kind = "application/json" if job.plain else MEDIA_TYPE
    return Response(job.body, media_type=kind)


async def _stream(desk: Desk, job: Job, done: asyncio.Event) -> AsyncIterator[bytes]:
    """Reports until the job has ended, then what came of it."""
    begin = time.perf_counter()
    try:
        while not done.is_set():
            told = {**job.progress, "seconds": time.perf_counter() - begin}
            if not job.begun:
                told["ahead"] = desk.ahead(job)
            yield frame("progress", Answer(told, {}))
            try:
                await asyncio.wait_for(done.wait(), REPORTS)
            except TimeoutError:
                continue
        if job.refusal is not None:
            yield frame("error", Answer({"error": job.refusal.content()}, {}))
        elif job.body is None:
            yield frame("aborted", Answer({}, {}))
        else:
            yield job.body
    finally:
        job.abort()


async def _body(request: Request) -> Any:
    """The JSON of a request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(
            "A request is JSON, with Content-Type: application/json.",
            status=415,
            code="media_type",
        )
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:20]) > MOST_BYTES:
        raise _too_long()
    try:
        body = await asyncio.wait_for(_read(request), BODY_SECONDS)
    except TimeoutError:
        raise Refusal(
            "The body of the request did not come.", status=408, code="time"
        ) from None
    except ClientDisconnect:
        raise Refusal("The body of the request is not whole.", code="json") from None
    return read_json(body)


async def _read(request: Request) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise _too_long()
        parts.append(part)
    return b"".join(parts)


def _too_long() -> Refusal:
    return Refusal(
        f"A request has at most {MOST_BYTES} bytes.", status=413, code="too_large"
    )


# Refusals


def _json(value: Any, status: int = 200) -> Response:
    return Response(json_bytes(value), status, media_type="application/json")


def _refusal_response(refusal: Refusal) -> Response:
    response = _json({"error": refusal.content()}, refusal.status)
    if refusal.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _refusal_response(error)


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: ("There is nothing here.", "not_found")}
    words[405] = ("This address is not asked in this way.", "method")
    message, code = words.get(error.status_code, (str(error.detail), "value"))
    response = _refusal_response(Refusal(message, status=error.status_code, code=code))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of ours, without where it is; the terminal has that."""
    traceback.print_exception(error, file=sys.stderr)
    message = "The laboratory failed here; the terminal in which it runs says where."
    return _refusal_response(Refusal(message, status=500, code="failure"))
