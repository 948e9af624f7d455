"""Runs the HTTP side on a thread of its own: binds the port first, serves until it is stopped."""

import asyncio
import errno
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from streamnb.errors import IoError
from streamnb.reports import Status
from streamnb.web import page
from streamnb.web.app import Sources, build
from streamnb.web.instruments import Instruments

HEADER_BYTES = 16_384
CONNECTIONS = 128
STOP_SECONDS = 5.0
TICK_SECONDS = 1.0
ACCEPT_SECONDS = 0.05


class WebServer:
    """Serves one daemon. Takes no lock of the loop and shares nothing: many can run in one process.

    `stuck_seconds` is how long the loop has given no sign of life, `silence_seconds` how long the broker
    has not; they are asked at each request, on the HTTP thread.
    """

    def __init__(
        self,
        host: str,
        port: int,
        instruments: Instruments,
        latest_status: Callable[[], Status | None],
        stuck_seconds: Callable[[], float],
        watchdog_seconds: float,
        silence_seconds: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._host, self._port = host, port
        self._sources = Sources(instruments, latest_status, stuck_seconds, watchdog_seconds, silence_seconds, clock)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Bind and listen in the caller's thread, then serve in another. Port 0 takes a free one, see `url`.

        Raise IoError if the port is in use or the address cannot be had.
        """
        listening = _listen(self._host, self._port)
        self._port = listening.getsockname()[1]
        self._server = _Server(_config(self._sources))
        self._thread = threading.Thread(target=self._server.run, args=([listening],), name="streamnb-web", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port and end the thread; requests in flight get a second. Harmless when not running."""
        if self._server and self._thread:
            self._server.end()
            self._thread.join(STOP_SECONDS)
        self._server = self._thread = None

    @property
    def url(self) -> str:
        """Where this machine reaches the server, without a slash at the end."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"


class _Server(uvicorn.Server):
    """uvicorn's server, woken when it is to end: by itself it looks ten times a second, each time beside the loop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()
        self._running: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """Serve until `end`, and see once a second to what uvicorn sees to: the date in the answers."""
        self._running = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._ending.wait()
        await asyncio.sleep(ACCEPT_SECONDS)  # who is being let in just now is to be shown out with the others

    def end(self) -> None:
        """Have the server end now. Any thread may."""
        self.should_exit = True
        if self._running is not None:
            with suppress(RuntimeError):  # it has ended by itself, and its loop is closed
                self._running.call_soon_threadsafe(self._ending.set)


def _listen(host: str, port: int) -> socket.socket:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
        listening = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as exc:
        raise IoError(f"cannot listen on {place}: {exc}; set 'http.host' to an address of this machine") from exc
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(CONNECTIONS)
    except (OSError, OverflowError) as exc:
        listening.close()
        if isinstance(exc, OSError) and exc.errno == errno.EADDRINUSE:
            message = f"port in use: {place}; stop the other process or set 'http.port' (0 takes a free one)"
        else:
            message = f"cannot listen on {place}: {exc}; set 'http.host' and 'http.port'"
        raise IoError(message) from exc
    listening.setblocking(False)
    return listening


def _config(sources: Sources) -> uvicorn.Config:
    return uvicorn.Config(
        build(sources),
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[
            ("Content-Security-Policy", page.content_security_policy()),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ],
        backlog=CONNECTIONS,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=1,
    )
