"""The routes: what each address answers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streamnb.reports import Status
from streamnb.web import page
from streamnb.web.history import Backlog, History, RecentCounts
from streamnb.web.instruments import Instruments
from streamnb.web.view import Seen, plain, view

SAMPLE_SECONDS = 2.0
SILENCE_SECONDS = 8.0
"""A broker that is silent for longer makes the daemon not ready, whatever the loop is waiting for."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the answers come from."""

    instruments: Instruments
    latest_status: Callable[[], Status | None]
    stuck_seconds: Callable[[], float]
    watchdog_seconds: float
    silence_seconds: Callable[[], float]
    clock: Callable[[], float]

    def hung(self) -> str | None:
        """Why the loop counts as hung; None while it moves."""
        stuck = self.stuck_seconds()
        if stuck < self.watchdog_seconds:
            return None
        return f"the loop has not moved for {stuck:.0f} s (watchdog {self.watchdog_seconds:g} s)"

    def not_ready(self, status: Status | None) -> str | None:
        """Why the daemon is not ready; None when it is."""
        if status is None:
            return "starting"
        if status.not_ready is not None or status.state != "running":
            return status.not_ready or status.state
        silence = self.silence_seconds()
        if silence > SILENCE_SECONDS:
            return f"no broker has answered for {silence:.0f} s"
        return self.hung()


def build(sources: Sources) -> Starlette:
    """Return the application of one daemon."""
    history, seen = History(SAMPLE_SECONDS), Seen(Backlog(), RecentCounts())

    async def metrics(request: Request) -> Response:
        ready = sources.not_ready(sources.latest_status()) is None
        text, content_type = sources.instruments.exposition(request.headers.get("accept"), ready)
        return Response(text, headers={"Content-Type": content_type})

    async def healthz(_: Request) -> Response:
        return _told(sources.hung(), "ok")

    async def readyz(_: Request) -> Response:
        return _told(sources.not_ready(sources.latest_status()), "ready")

    async def model(request: Request) -> Response:
        status, now = sources.latest_status(), sources.clock()
        answer = view(status, sources.not_ready(status), sources.instruments.totals(), seen, now)
        since = request.query_params.get("since")
        if since is not None:
            answer["history"] = history.since(_seconds(since))
        return Response(json.dumps(plain(answer)), media_type="application/json")

    async def home(_: Request) -> Response:
        return HTMLResponse(page.html())

    async def sample() -> None:
        while True:
            status, now = sources.latest_status(), sources.clock()
            if status is not None:
                seen.backlog.observe(status.partitions, now)
                seen.dead_letters.observe(status.dead_letters, now)
                history.observe(status, sources.instruments.totals(), now)
            await asyncio.sleep(SAMPLE_SECONDS)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        sampling = asyncio.create_task(sample())
        yield
        sampling.cancel()

    routes = [
        Route(path, endpoint, methods=["GET"])
        for path, endpoint in {
            "/": home,
            "/metrics": metrics,
            "/healthz": healthz,
            "/readyz": readyz,
            "/model": model,
        }.items()
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(OnlyReads)],
        exception_handlers={404: _not_found},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


class OnlyReads:
    """Refuse all but GET and HEAD without a body, and close such connections: nobody reads what they send."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


def _refusal(scope: Scope) -> Response | None:
    close = {"Connection": "close"}
    if scope["method"] not in ("GET", "HEAD"):
        return PlainTextResponse("only GET and HEAD\n", 405, headers=close | {"Allow": "GET, HEAD"})
    headers = dict(scope["headers"])
    if headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers:
        return PlainTextResponse("requests have no body here\n", 413, headers=close)
    return None


def _told(trouble: str | None, well: str) -> Response:
    text = plain(trouble or well)
    return PlainTextResponse(f"{text}\n", 503 if trouble else 200)


async def _not_found(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    return PlainTextResponse("not found; try /, /metrics, /healthz, /readyz or /model\n", exc.status_code)


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
