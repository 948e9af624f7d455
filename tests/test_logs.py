"""A log line is an event and its fields: readable on a terminal, one JSON object elsewhere."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from streamnb import logs
from streamnb.transport import Partition

log = logs.get("engine")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("streamnb")
    before = (root.handlers[:], root.level, ours.level)
    yield
    root.handlers[:], root.level, ours.level = before
    logging.captureWarnings(False)


def lines_of(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_that_is_not_for_a_terminal_is_one_json_object() -> None:
    logs.configure("info", stream := io.StringIO())
    log.info("snapshot.saved", offsets={Partition("payments", 0): 17}, seconds=0.5, to="two\nlines")
    (line,) = lines_of(stream)
    assert str(line.pop("time")).endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "streamnb.engine",
        "event": "snapshot.saved",
        "offsets": {"payments:0": 17},
        "seconds": 0.5,
        "to": "two\nlines",
    }


def test_a_line_for_a_terminal_reads_as_event_and_fields() -> None:
    logs.configure("info", stream := Terminal())
    log.warning("lost", offsets={Partition("payments", 0): 17}, seconds=0.1 + 0.2, why="a b", note="x\x1b[1m")
    _, _, rest = stream.getvalue().partition(" ")
    assert rest == ('warning engine lost offsets={"payments:0": 17} seconds=0.3 why="a b" note="x\\u001b[1m"\n')


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), '"nan"'),
        (float("inf"), '"inf"'),
        (Partition("payments", 3), '"payments:3"'),
        (OSError("no space"), '"no space"'),
        ((1, "a", None), '[1, "a", null]'),
        ("\ud800", '"\\ud800"'),
    ],
    ids=repr,
)
def test_every_value_becomes_strict_json(value: object, text: str) -> None:
    logs.configure("info", stream := io.StringIO())
    log.info("event", value=value)
    assert stream.getvalue().rstrip().endswith(f'"value": {text}}}')


def test_a_field_cannot_hide_what_every_line_has() -> None:
    logs.configure("info", stream := io.StringIO())
    log.info("the.event", event="mine", level=3)
    (line,) = lines_of(stream)
    assert (line["event"], line["event_"], line["level"], line["level_"]) == ("the.event", "mine", "info", 3)


def test_what_is_below_the_level_is_not_written() -> None:
    logs.configure("warning", stream := io.StringIO())
    log.info("quiet")
    log.error("loud")
    logging.getLogger("someone.else").info("chatter")
    assert [line["event"] for line in lines_of(stream)] == ["loud"]


def test_other_libraries_write_the_same_lines() -> None:
    logs.configure("error", stream := io.StringIO())
    logging.getLogger("someone.else").warning("connection to %s lost", "broker 1")
    (line,) = lines_of(stream)
    assert (line["logger"], line["event"]) == ("someone.else", "connection to broker 1 lost")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["json", "terminal"])
def test_an_exception_brings_its_traceback(stream: io.StringIO) -> None:
    logs.configure("info", stream)
    try:
        raise ValueError("deep down")
    except ValueError:
        log.exception("turn.failed")
    assert "turn.failed" in stream.getvalue()
    assert "ValueError: deep down" in stream.getvalue()
