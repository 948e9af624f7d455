"""Structured log lines on the standard logging module: an event's name and its fields.

    log = logs.get("engine")
    log.info("snapshot.saved", offsets={"payments:0": 17}, seconds=0.03)

A terminal's line reads `12:00:01 info engine snapshot.saved seconds=0.03`, elsewhere it is one JSON object.
"""

import json
import logging
import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal, TextIO

Level = Literal["debug", "info", "warning", "error"]

ROOT = "streamnb"


class Log:
    """Writes the events of one part of the program."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: object) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """Write an error with the traceback of the exception being handled."""
        self._write(logging.ERROR, event, fields, exc_info=True)

    def _write(self, level: int, event: str, fields: dict[str, object], exc_info: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", event, extra={"fields": fields}, exc_info=exc_info, stacklevel=3)


def get(name: str) -> Log:
    """Return the log of one part: `engine`, `transport.kafka`, `web` ..."""
    return Log(logging.getLogger(f"{ROOT}.{name}"))


def configure(level: Level, stream: TextIO) -> None:
    """Send streamnb's lines from `level` up, and other libraries' from warning up, to the stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TerminalFormatter() if stream.isatty() else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level.upper())
    logging.captureWarnings(True)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger, event, then the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in line else name] = _plain(value)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


class TerminalFormatter(logging.Formatter):
    """Local time, level, part, event and key=value fields; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%H:%M:%S", time.localtime(record.created))
        words = [when, record.levelname.lower(), record.name.removeprefix(f"{ROOT}."), record.getMessage()]
        words += [f"{name}={_word(value)}" for name, value in _fields(record).items()]
        line = " ".join(words)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields: Mapping[str, object] = getattr(record, "fields", {})
    return fields


def _plain(value: object) -> object:
    """The value as JSON can say it; a partition or an exception becomes its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return [_plain(item) for item in value]  # type: ignore[attr-defined]  # mypy does not narrow `type(x) in`
    return str(value)


def _word(value: object) -> str:
    plain = _plain(value)
    if isinstance(plain, str):
        bare = plain.isprintable() and plain and not set(plain) & set(' "=')
        return plain if bare else json.dumps(plain, ensure_ascii=not plain.isprintable())
    if isinstance(plain, float):
        return repr(round(plain, 6))
    return json.dumps(plain, ensure_ascii=False)
