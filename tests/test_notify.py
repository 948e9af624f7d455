"""The supervisor hears what the daemon says, and the daemon never suffers from a supervisor that does not listen."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamnb.cli.supervision import Supervision
from streamnb.notify import notify, watchdog_interval


@pytest.fixture(params=["path", "abstract"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A listening socket, and how NOTIFY_SOCKET names it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@streamnb{tmp_path}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(5)
        listening.bind("\0" + name[1:] if name.startswith("@") else name)
        yield listening, name


def test_a_message_reaches_the_socket_that_the_environment_names(supervisor: tuple[socket.socket, str]) -> None:
    listening, name = supervisor
    assert notify("READY=1\nSTATUS=läuft", {"NOTIFY_SOCKET": name})
    assert listening.recv(1024) == "READY=1\nSTATUS=läuft".encode()


def test_each_message_is_one_datagram(supervisor: tuple[socket.socket, str]) -> None:
    listening, name = supervisor
    for message in ("WATCHDOG=1", "STOPPING=1"):
        assert notify(message, {"NOTIFY_SOCKET": name})
    assert [listening.recv(1024), listening.recv(1024)] == [b"WATCHDOG=1", b"STOPPING=1"]


@pytest.mark.parametrize(
    "place", [None, "", "/nobody/listens/here", "@nobody-listens-here", "vsock:2:1234", "/a\0b", "/" + "x" * 200]
)
def test_without_a_listener_nothing_is_sent_and_nothing_is_raised(place: str | None) -> None:
    assert not notify("READY=1", {} if place is None else {"NOTIFY_SOCKET": place})


def test_where_no_supervisor_asks_nobody_looks_at_the_daemon() -> None:
    Supervision({}, lambda: None, lambda: 0.0, done=threading.Event()).run()


def test_a_supervisor_that_reads_nothing_does_not_stop_the_daemon(supervisor: tuple[socket.socket, str]) -> None:
    _, name = supervisor
    for _ in range(1000):
        if not notify("STATUS=" + "x" * 1000, {"NOTIFY_SOCKET": name}):
            break
    else:
        pytest.fail("the socket never filled")


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "90000000"}, 45.0),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": "12"}, 45.0),
        ({"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": "13"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_the_watchdog_is_fed_at_half_the_time_it_allows(environ: dict[str, str], seconds: float | None) -> None:
    assert watchdog_interval(environ, pid=12) == seconds
