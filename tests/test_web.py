"""The HTTP side as a scraper, a load balancer and a stranger meet it: a real server on a port of its own."""

import contextlib
import json
import logging
import math
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.errors import IoError
from streamnb.metrics import Metrics
from streamnb.reports import Bin, Confusion, Drift, Status, TopFeature, TopFeatures
from streamnb.transport import Partition
from streamnb.web import WebServer
from streamnb.web.history import CAPACITY, Backlog, History, RecentCounts
from tests.statuses import STARTED, class_scores, labelled, model, partitions, scores, status, unlabelled

ACCEPTED = ["application/openmetrics-text", "text/plain"]
PATHS = ["/", "/metrics", "/healthz", "/readyz", "/model"]


def server(
    latest: Status | None = None,
    *,
    port: int = 0,
    stuck: float = 0.0,
    silence: float = 0.0,
    now: Callable[[], float] = time.time,
) -> WebServer:
    metrics = Metrics("fraud", "host-1", "0.1.0")
    if latest is not None:
        metrics.status(latest)
    return WebServer(
        "127.0.0.1", port, metrics, lambda: metrics.latest_status, lambda: stuck, 60.0, lambda: silence, now
    )


@contextlib.contextmanager
def running(web: WebServer) -> Iterator[WebServer]:
    web.start()
    try:
        yield web
    finally:
        web.stop()


@contextlib.contextmanager
def serving(latest: Status | None = None, stuck: float = 0.0, silence: float = 0.0) -> Iterator[str]:
    with running(server(latest, stuck=stuck, silence=silence)) as web:
        yield web.url


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def raw(url: str, request: bytes) -> bytes:
    """Send these bytes and return everything that comes back until the server closes."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), 10) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture(scope="module")
def ready() -> Iterator[str]:
    """The address of a running daemon that the tests only look at."""
    with serving(status()) as url:
        yield url


# -- routes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/healthz", "text/plain; charset=utf-8"),
        ("/readyz", "text/plain; charset=utf-8"),
        ("/model", "application/json"),
    ],
)
def test_every_route_answers_with_its_own_type(ready: str, path: str, kind: str) -> None:
    answer = httpx.get(ready + path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert answer.content


def test_metrics_come_as_openmetrics_when_asked_for(ready: str) -> None:
    answer = httpx.get(ready + "/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    "path", ["/favicon.ico", "/metrics/", "/Metrics", "/model/x", "//", "/status.js", "/docs", "/..%2f", "/%00"]
)
def test_everything_else_is_not_found(ready: str, path: str) -> None:
    assert httpx.get(ready + path).status_code == 404


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_the_body(ready: str, path: str) -> None:
    head, got = httpx.head(ready + path), httpx.get(ready + path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert head.headers["content-type"] == got.headers["content-type"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_nothing_can_be_sent(ready: str, method: str) -> None:
    answer = httpx.request(method, ready + "/model", content=b"x" * 100)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("framing", ["Content-Length: 1000000000", "Transfer-Encoding: chunked"])
def test_a_request_with_a_body_is_refused_without_reading_it(ready: str, framing: str) -> None:
    answer = raw(ready, f"GET /model HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("request_line", [b"GET /" + b"x" * 70_000, b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000])
def test_a_request_head_of_more_than_a_few_kilobytes_is_refused(ready: str, request_line: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # closed while more was being sent
        assert raw(ready, request_line).startswith(b"HTTP/1.1 400 ")
    assert httpx.get(ready + "/healthz").status_code == 200


@pytest.mark.parametrize("path", [*PATHS, "/nowhere"])
def test_every_answer_says_what_browsers_may_do_and_nothing_of_the_server(ready: str, path: str) -> None:
    headers = httpx.get(ready + path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers
    assert abs(parsedate_to_datetime(headers["date"]).timestamp() - time.time()) < 60


# -- health and readiness -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("stuck", "code"), [(0.0, 200), (59.9, 200), (60.0, 503), (3600.0, 503)])
def test_health_is_the_heartbeat_of_the_loop(stuck: float, code: int) -> None:
    with serving(stuck=stuck) as url:
        answer = httpx.get(url + "/healthz")
    assert answer.status_code == code
    assert code == 200 or "has not moved" in answer.text


@pytest.mark.parametrize(
    "latest", [None, status(state="restoring", not_ready="restoring"), status(not_ready="no broker")]
)
def test_health_depends_neither_on_the_broker_nor_on_readiness(latest: Status | None) -> None:
    with serving(latest, silence=3600.0) as url:
        assert httpx.get(url + "/healthz").status_code == 200


@pytest.mark.parametrize(
    ("latest", "stuck", "silence", "reason"),
    [
        (None, 0.0, 0.0, "starting"),
        (status(state="restoring", not_ready="12 events to learn"), 0.0, 0.0, "12 events to learn"),
        (status(not_ready="no duty yet"), 0.0, 0.0, "no duty yet"),
        (status(state="draining"), 0.0, 0.0, "draining"),
        (status(), 0.0, 9.0, "no broker has answered for 9 s"),
        (status(), 61.0, 0.0, "the loop has not moved for 61 s (watchdog 60 s)"),
    ],
)
def test_what_is_not_ready_says_why(latest: Status | None, stuck: float, silence: float, reason: str) -> None:
    with serving(latest, stuck, silence) as url:
        answer = httpx.get(url + "/readyz")
        told = httpx.get(url + "/model").json()["not_ready"]
    assert (answer.status_code, answer.text) == (503, reason + "\n")
    assert told == reason


@pytest.mark.parametrize(
    ("latest", "stuck", "silence"),
    [(None, 0.0, 0.0), (status(not_ready="no duty yet"), 0.0, 0.0), (status(), 0.0, 9.0), (status(), 61.0, 0.0)],
)
def test_the_ready_metric_says_what_readyz_says(latest: Status | None, stuck: float, silence: float) -> None:
    with serving(latest, stuck, silence) as url:
        assert "\nstreamnb_ready 0.0\n" in httpx.get(url + "/metrics").text
    with serving(status()) as url:
        assert "\nstreamnb_ready 1.0\n" in httpx.get(url + "/metrics").text


def test_a_running_daemon_is_ready() -> None:
    with serving(status(), silence=3.0) as url:
        assert httpx.get(url + "/readyz").status_code == 200
        assert httpx.get(url + "/model").json()["not_ready"] is None


# -- the model in numbers -----------------------------------------------------------------------------------


def test_the_model_is_told_in_numbers() -> None:
    parts = partitions("in", [labelled(), unlabelled(owned=False)])
    latest = status(model=model({"spam": 3.0, "ham": 0.5}), partitions=parts, scores=class_scores(["spam"], 4, 3))
    with serving(latest) as url:
        answer = httpx.get(url + "/model").json()
    assert (answer["n_events"], answer["class_count"]) == (3, {"spam": 3, "ham": 0.5})
    assert answer["scores"]["classes"] == {
        "spam": {"evaluated": 4, "correct": 3, "predicted": 4, "precision": 0.75, "recall": 0.75}
    }
    assert [(p["topic"], p["partition"], p["lag"]) for p in answer["partitions"]] == [("in", 0, 10), ("in", 1, None)]
    assert "history" not in answer


def test_how_well_the_model_answers_is_told() -> None:
    view = scores(10, calibration=(Bin(),) * 9 + (Bin(9, 8, 8.5),), drifts_worse=1, drifts=(Drift(7, 0.125, 0.5),))
    latest = status(
        scores=view,
        confusion=Confusion(("a", "b"), ((4, 1, 0), (0, 5, 0), (0, 0, 0))),
        top_features=TopFeatures(9, classes={"a": (TopFeature("amount", 1.5, "mean", 3.0, 1.0),)}),
        dead_letters={"not_json": 3},
    )
    with serving(latest) as url:
        answer = httpx.get(url + "/model").json()
    assert answer["scores"]["calibration"][9] == {"events": 9, "correct": 8, "confidence": 8.5}
    (drift,) = answer["scores"]["drifts"]["last"]
    assert drift == {"event": 7, "before": 0.125, "after": 0.5, "direction": "worse"}
    assert answer["confusion"] == {"classes": ["a", "b"], "counts": [[4, 1, 0], [0, 5, 0], [0, 0, 0]]}
    (feature,) = answer["top_features"]["classes"]["a"]
    assert feature == {"name": "amount", "nats": 1.5, "measure": "mean", "here": 3.0, "elsewhere": 1.0}
    assert answer["dead_letters_last_hour"] == {"not_json": 3}
    assert {"python", "streamnb"} <= set(answer["versions"])


def test_before_the_first_status_the_model_is_empty() -> None:
    with serving() as url:
        answer = httpx.get(url + "/model").json()
    assert (answer["n_events"], answer["class_count"], answer["state"]) == (0, {}, "starting")


def test_what_json_cannot_say_becomes_null_or_a_question_mark() -> None:
    latest = status(model=model({"\ud800": 1.0}), scores=scores(1, log_loss_nats=math.inf, recent_accuracy=math.nan))
    with serving(latest) as url:
        answer = json.loads(httpx.get(url + "/model").text, parse_constant=pytest.fail)
    assert answer["class_count"] == {"?": 1}
    assert answer["scores"]["log_loss_nats"] is answer["scores"]["recent_accuracy"] is None


@pytest.mark.parametrize("since", ["0", "1e400", "nan", "yesterday", ""])
def test_the_history_since_a_time_comes_along_when_asked_for(ready: str, since: str) -> None:
    answer = httpx.get(ready + "/model", params={"since": since}).json()
    assert answer["history"]["columns"][0] == "time"


def test_the_history_begins_with_the_process() -> None:
    latest = status(scores=scores(8, 6), partitions=partitions("in", [labelled(), unlabelled()]))
    with serving(latest) as url:
        wait_for(lambda: httpx.get(url + "/model?since=0").json()["history"]["rows"])
        history = httpx.get(url + "/model?since=0").json()["history"]
    row = dict(zip(history["columns"], history["rows"][0], strict=True))
    assert (row["evaluated"], row["correct"], row["lag"]) == (8, 6, 30)


# -- history ------------------------------------------------------------------------------------------------

TOTALS = {"events": 1, "predictions": 1}


@pytest.mark.parametrize("samples", [1, CAPACITY - 1, CAPACITY, 20 * CAPACITY])
def test_a_long_history_keeps_its_beginning_and_end_in_bounded_memory(samples: int) -> None:
    history = History(2.0)
    for i in range(samples):
        history.observe(status(), TOTALS, STARTED + 2.0 * i)
    times = [row[0] for row in history.since(0)["rows"]]  # type: ignore[union-attr, attr-defined]
    assert times[0] == STARTED
    assert len(times) < CAPACITY
    assert len(times) > CAPACITY / 2 - 2 or samples < CAPACITY
    assert times[-1] >= STARTED + 2.0 * (samples - 1) * 0.99


def test_what_came_within_the_last_hour_is_known_to_the_minute() -> None:
    recent = RecentCounts()
    assert recent.last_hour({"not_json": 4}) == {"not_json": 4}
    for minute in range(301):
        recent.observe({"not_json": 4 + minute // 2}, STARTED + 60.0 * minute)
    assert recent.last_hour({"not_json": 160, "too_large": 2}) == {"not_json": 160 - (4 + 240 // 2), "too_large": 2}


def test_a_partition_waits_since_its_end_first_passed_the_position() -> None:
    backlog, parts = Backlog(), Partition("in", 0)
    for now, position, end in [(0.0, 10, 10), (2.0, 10, 15), (4.0, 12, 20), (6.0, 15, 20)]:
        backlog.observe({parts: labelled(position, end)}, now)
    assert backlog.waiting_seconds(parts, 14, 7.0) == 3.0  # what came at 2.0 has been handled up to 15
    assert backlog.waiting_seconds(parts, 20, 7.0) == 0.0
    assert backlog.waiting_seconds(Partition("in", 1), 0, 7.0) == 0.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=300))
def test_a_wait_is_never_longer_than_it_was(moves: list[tuple[int, int]]) -> None:
    backlog, part = Backlog(), Partition("in", 0)
    position = end = 0
    arrived: list[float] = []  # arrived[o]: when offset o was seen
    for i, (read, written) in enumerate(moves):
        end += written
        position = min(end, position + read)
        arrived += [float(i)] * written
        backlog.observe({part: labelled(position, end)}, float(i))
        wait = backlog.waiting_seconds(part, position, float(i))
        assert 0.0 <= wait <= (i - arrived[position] if position < end else 0.0)


# -- the life of the server ---------------------------------------------------------------------------------


def test_a_taken_port_is_named_before_anything_else_starts() -> None:
    before = threads()
    with socket.create_server(("127.0.0.1", 0)) as occupant:
        port = occupant.getsockname()[1]
        web = server(port=port)
        with pytest.raises(IoError, match=f"port in use: 127.0.0.1:{port}") as refused:
            web.start()
    assert refused.value.exit_code == 74
    assert threads() == before
    web.stop()


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "\ud800", "x" * 300])
def test_an_address_that_is_not_ours_is_refused(host: str) -> None:
    metrics = Metrics("fraud", "host-1", "0.1.0")
    web = WebServer(host, 0, metrics, lambda: None, lambda: 0.0, 60.0)
    with pytest.raises(IoError, match="cannot listen on"):
        web.start()


def test_two_daemons_serve_side_by_side_and_tell_their_own_story() -> None:
    with serving(status(app="first")) as one, serving(status(app="second")) as two:
        assert one != two
        assert [httpx.get(url + "/model").json()["app"] for url in (one, two)] == ["first", "second"]


def test_a_second_server_on_the_same_port_is_refused_and_the_first_goes_on() -> None:
    with running(server(status())) as web:
        with pytest.raises(IoError, match="port in use"):
            server(port=urlsplit(web.url).port or 0).start()
        assert httpx.get(web.url + "/healthz").status_code == 200


def test_a_port_is_free_again_when_the_server_has_stopped() -> None:
    with running(server(status())) as web:
        httpx.get(web.url + "/healthz")
        port = urlsplit(web.url).port or 0
    with running(server(status(), port=port)) as again:
        assert httpx.get(again.url + "/healthz").status_code == 200


def test_stop_ends_the_thread_and_closes_the_port_even_with_idle_and_half_open_connections() -> None:
    before = threads()
    with running(server(status())) as web, httpx.Client() as client:
        client.get(web.url + "/healthz")
        assert threads() > before
        place = urlsplit(web.url)
        with socket.create_connection((place.hostname, place.port)) as half_open:
            half_open.sendall(b"GET /metrics HTT")
            web.stop()
    assert threads() == before
    with pytest.raises(httpx.TransportError):
        httpx.get(web.url + "/healthz")


def test_stop_does_not_wait_until_the_server_looks_up_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamnb.web.server.TICK_SECONDS", 3600.0)
    before = threads()
    with running(server(status())) as web:
        httpx.get(web.url + "/healthz")
    assert threads() == before


def test_stopping_twice_or_before_the_start_is_harmless() -> None:
    web = server()
    web.stop()
    with running(web):
        web.stop()
    web.stop()


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", "localhost", ""])
def test_the_url_reaches_the_server_whatever_the_host_is_called(host: str) -> None:
    metrics = Metrics("fraud", "host-1", "0.1.0")
    with running(WebServer(host, 0, metrics, lambda: None, lambda: 0.0, 60.0)) as web:
        assert httpx.get(web.url + "/healthz").status_code == 200


def test_a_busy_loop_does_not_keep_anyone_waiting() -> None:
    done = threading.Event()

    def loop() -> None:
        while not done.is_set():
            sum(range(1000))

    busy = threading.Thread(target=loop)
    busy.start()
    try:
        with serving(status(partitions=partitions("in", [labelled()] * 200))) as url:
            assert all(httpx.get(url + path, timeout=5.0).status_code == 200 for path in PATHS)
    finally:
        done.set()
        busy.join()


def test_a_client_that_never_finishes_its_request_blocks_no_one() -> None:
    with serving(status()) as url:
        place = urlsplit(url)
        with contextlib.ExitStack() as slow:
            for _ in range(20):
                connection = slow.enter_context(socket.create_connection((place.hostname, place.port)))
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost")
            assert httpx.get(url + "/healthz").status_code == 200


def test_signals_and_logging_stay_the_callers() -> None:
    def outside() -> tuple[object, ...]:
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        loggers = [logging.getLogger(name) for name in (None, "uvicorn", "uvicorn.error", "asyncio")]
        return handlers, [(log.level, list(log.handlers), log.propagate) for log in loggers]

    before = outside()
    with serving() as url:
        httpx.get(url + "/healthz")
        assert outside() == before
    assert outside() == before


def test_requests_leave_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with serving() as url:
        httpx.get(url + "/secret-path")
    lines = [r.getMessage() for r in caplog.records if not r.name.startswith("httpx")]
    assert not [line for line in lines if "secret-path" in line]


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_thousand_scrapes_leave_memory_flat() -> None:
    parts = partitions("in", [labelled()] * 20)
    with serving(status(partitions=parts)) as url, httpx.Client() as scraper:
        resident = []
        for i in range(100_000):
            assert scraper.get(url + "/metrics", headers={"Accept": ACCEPTED[i % 2]}).status_code == 200
            if i % 10_000 == 9_999:
                resident.append(resident_bytes())
    assert resident[-1] - resident[0] < 4_000_000, resident


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
