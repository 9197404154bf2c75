"""Starting the laboratory: a free port, a token, the browser, and an orderly end."""

from __future__ import annotations

import errno
import secrets
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from types import FrameType
from typing import Any

from mercer.native import memory

try:
    import uvicorn

    from mercer.laboratory.server import make_app
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] in ("starlette", "uvicorn", "anyio"):
        raise ModuleNotFoundError(
            "The laboratory is served by starlette and uvicorn, which are not "
            'installed: pip install "mercer[lab]".'
        ) from error
    raise

PORT = 8425
SWITCH = 0.001  # seconds after which Python lets another thread run
TRIES = 50  # ports, before any free one is taken


class Server(uvicorn.Server):
    """A server that ends at once when it is told to: jobs end, nobody is waited for."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]):
        super().__init__(config)
        self.on_start = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self.on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.end()
        super().handle_exit(sig, frame)

    def end(self) -> None:
        """End now."""
        app: Any = self.config.app
        app.state.desk.close()
        self.should_exit = self.force_exit = True


def bound_socket(port: int = PORT) -> socket.socket:
    """A socket of the loopback interface; a port that is taken moves to the next."""
    for number in [*range(port, min(port + TRIES, 65536)), 0]:
        # With its protocol named, or asyncio would let small answers wait for others.
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", number))
            one.listen(128)
        except OSError as error:
            one.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            return one
    raise OSError("No port of this computer is free.")


def serve(
    port: int = PORT,
    *,
    opens: bool = True,
    attached: bool = False,
    tell: Callable[[str], None] = print,
) -> None:
    """Serve until Ctrl-C.

    Parameters
    ----------
    port : the first one to try
    opens : whether the browser is opened
    attached : whether to end when standard input does, with the process that writes it
    tell : is given the address with the token, when the server listens
    """
    token = secrets.token_urlsafe(24)
    with bound_socket(port) as one:
        number = one.getsockname()[1]
        address = f"http://127.0.0.1:{number}/#token={token}"

        def started() -> None:
            tell(address)
            if opens:
                # A browser in the terminal would hold up the server.
                threading.Thread(
                    target=webbrowser.open, args=(address,), daemon=True
                ).start()

        config = uvicorn.Config(
            make_app(token, number),
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=30,
            h11_max_incomplete_event_size=16 * 1024,
            http="h11",
            ws="none",
        )
        server = Server(config, started)
        if attached:
            threading.Thread(
                target=_end_with_input, args=(server,), daemon=True
            ).start()
        # The page is answered by one thread while others compute: let it have its turn.
        sys.setswitchinterval(SWITCH)
        memory.return_large()
        try:
            server.run(sockets=[one])
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end_with_input(server: Server) -> None:
    sys.stdin.buffer.read()
    server.end()
