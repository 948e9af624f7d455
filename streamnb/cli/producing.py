"""Rows of a table as events, and their journey to a topic."""

import csv
import gzip
import io
import json
import math
import os
import re
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from streamnb.cli.progress import counter
from streamnb.config import EventConfig, KafkaConfig, load
from streamnb.errors import ConfigError, InputFileError, why

NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""Not 007, which is a name."""
TICK_SECONDS = 0.05
ALMOST = 1e-9
START_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent where."""

    file: str
    topic: str
    unlabelled_topic: str
    label: str | None
    id: str | None
    unlabelled_share: float
    event: EventConfig
    missing: frozenset[str] = frozenset()
    """What a cell of a CSV file says where it has no value, besides nothing."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    topic: str
    key: bytes | None
    value: bytes
    labelled: bool


def brokers(servers: str | None, config: Path | None) -> tuple[KafkaConfig, EventConfig]:
    """How to reach the brokers, and where an event's parts are. Raise ConfigError if nothing says."""
    if config is not None:
        settings = load(config, os.environ)
        kafka = settings.kafka if servers is None else settings.kafka.model_copy(update={"bootstrap_servers": servers})
        return kafka, settings.event
    if servers is None:
        raise ConfigError("which brokers? give --bootstrap-servers HOST:PORT or --config CONFIG")
    try:
        return KafkaConfig(bootstrap_servers=servers, instance="produce", start_timeout=START_SECONDS), EventConfig()
    except ValueError as error:
        raise ConfigError(
            f"--bootstrap-servers {servers}: allowed is HOST:PORT, or several joined by commas"
        ) from error


@dataclass(slots=True)
class Sent:
    """What has gone out so far."""

    topics: Sequence[str]
    events: int = 0
    labelled: int = 0
    seconds: float = 0.0
    stopped: bool = False
    """Whether the end of the file was not reached."""

    def told(self) -> str:
        """One sentence for a person."""
        rate = self.events / max(self.seconds, ALMOST)
        return (
            f"{'stopped: ' if self.stopped else ''}{self.events} events sent to {' and '.join(self.topics)} "
            f"in {self.seconds:.1f} s ({rate:.0f} a second): "
            f"{self.labelled} labelled, {self.events - self.labelled} unlabelled"
        )


def produce_all(plan: Plan, kafka: KafkaConfig, rate: float | None, stop: threading.Event, quiet: bool) -> Sent:
    """Send everything, until `stop` is set. Raise StreamnbError, which says how much was sent before."""
    from streamnb.transport.kafka.sending import EventSender

    sent = Sent(list(dict.fromkeys([plan.topic, plan.unlabelled_topic])))
    if plan.file != "-":
        with _opened(plan.file):
            pass  # said before a broker is waited for
    with EventSender(kafka) as sender, counter("events sent", quiet) as bar:
        for topic in sent.topics:
            sender.check(topic)
        task = bar.add_task("sent", total=None)
        begun = time.monotonic()
        try:
            with _opened(plan.file) as file:
                for event in events(plan, rows(plan, file)):
                    if rate is not None and stop.wait(max(0.0, begun + sent.events / rate - time.monotonic())):
                        break
                    if stop.is_set():
                        break
                    sender.send(event.topic, event.key, event.value)
                    sent.events, sent.labelled = sent.events + 1, sent.labelled + event.labelled
                    bar.update(task, completed=sent.events)
        except InputFileError as error:
            sender.flush()
            raise InputFileError(f"{error}; the {sent.events} events before it were sent") from error
        sender.flush()
        sent.seconds, sent.stopped = time.monotonic() - begun, stop.is_set()
    return sent


def rows(plan: Plan, file: IO[str]) -> Iterator[Mapping[str, Any]]:
    """The rows of a table as mappings from columns to values; what is missing is left out."""
    name = plan.file.removesuffix(".gz")
    head = file.readline()
    lines = _again(head, file)
    if name.endswith((".jsonl", ".ndjson", ".json")) or (not name.endswith(".csv") and head.lstrip().startswith("{")):
        return _json_rows(plan, lines)
    return _csv_rows(plan, lines)


def events(plan: Plan, table: Iterable[Mapping[str, Any]]) -> Iterator[Outgoing]:
    """Each row as an event. Without a label column, a row is an event already."""
    for number, row in enumerate(table):
        event, key, labelled = _event(plan, row, _held_back(number, plan.unlabelled_share))
        value = json.dumps(event, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
        yield Outgoing(plan.topic if labelled else plan.unlabelled_topic, key, value, labelled)


def number_or_text(cell: str) -> int | float | str | None:
    """What a cell of a CSV file holds; None if it is empty or says that it is no number."""
    text = cell.strip()
    if not text or text.lower() == "nan":
        return None
    if not NUMBER.fullmatch(text):
        return cell
    value = float(text)
    if not math.isfinite(value):
        return cell
    return int(text) if text.lstrip("+-").isdigit() else value


def _event(plan: Plan, row: Mapping[str, Any], held_back: bool) -> tuple[dict[str, Any], bytes | None, bool]:
    features = dict(row)
    event: dict[str, Any] = {}
    if plan.label is None:
        _put(event, ".", features)
        identity = _at(event, plan.id if plan.id else plan.event.id)
        if held_back:
            _put(event, plan.event.label, None)
        return event, _key(identity), _at(event, plan.event.label) is not None
    label, identity = features.pop(plan.label, None), features.pop(plan.id, None) if plan.id else None
    _put(event, plan.event.features, features)
    if identity is not None:
        _put(event, plan.event.id, identity)
    if label is None or held_back:
        return event, _key(identity), False
    if plan.event.label is None:
        raise ConfigError("event.label is null in the configuration: events have no place for a label")
    _put(event, plan.event.label, label)
    return event, _key(identity), True


def _held_back(number: int, share: float) -> bool:
    """Whether this row loses its label: of any n rows `n * share` do, to within one."""
    return math.floor((number + 1) * share + ALMOST) > math.floor(number * share + ALMOST)


def _put(event: dict[str, Any], path: str | None, value: Any) -> None:
    if path == ".":
        event.update(value)
    elif path is not None:
        *way, last = path.split(".")
        for name in way:
            event = event.setdefault(name, {})
        event[last] = value


def _at(event: Any, path: str | None) -> Any:
    for name in path.split(".") if path else ():
        event = event.get(name) if isinstance(event, dict) else None
    return event if path else None


def _key(identity: Any) -> bytes | None:
    if identity is None:
        return None
    return (identity if isinstance(identity, str) else json.dumps(identity)).encode()


def _csv_rows(plan: Plan, lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    reader = csv.DictReader(lines, restkey="")
    columns = [name.strip() for name in reader.fieldnames or []]
    reader.fieldnames = columns
    twice = sorted(name for name, n in Counter(columns).items() if n > 1)
    if twice:
        raise InputFileError(f"{plan.file}: several columns are called {', '.join(map(repr, twice))}")
    if plan.label is None:
        raise ConfigError(f"--label is missing: which column of {plan.file}? It has {', '.join(columns)}")
    if not columns:
        raise InputFileError(f"{plan.file}: has no first line that names the columns")
    for wanted in (plan.label, plan.id):
        if wanted is not None and wanted not in columns:
            raise ConfigError(f"{plan.file}: no column {wanted!r}; it has {', '.join(columns)}")
    as_they_are, missing = (plan.label, plan.id), plan.missing
    for row in reader:
        if "" in row and "" not in columns:
            raise InputFileError(f"{plan.file}:{reader.line_num}: more cells than the {len(columns)} columns")
        there = {name: text for name, cell in row.items() if (text := (cell or "").strip()) and text not in missing}
        cells = {name: text if name in as_they_are else number_or_text(text) for name, text in there.items()}
        yield {name: value for name, value in cells.items() if value is not None}


def _json_rows(plan: Plan, lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refused)
        except (ValueError, RecursionError) as error:
            raise InputFileError(f"{plan.file}:{number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InputFileError(f"{plan.file}:{number}: got {type(row).__name__}; allowed is an object")
        yield {name: value for name, value in row.items() if value is not None}


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _again(head: str, file: IO[str]) -> Iterator[str]:
    if head:
        yield head
    yield from file


@contextmanager
def _opened(path: str) -> Iterator[IO[str]]:
    try:
        if path == "-":
            yield io.TextIOWrapper(sys.stdin.buffer, "utf-8-sig", newline="")
        elif path.endswith(".gz"):
            with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
                yield file
        else:
            with open(path, encoding="utf-8-sig", newline="") as file:
                yield file
    except (EOFError, zlib.error) as error:
        raise InputFileError(f"{path}: is cut off or damaged: {str(error).lower()}") from error
    except UnicodeDecodeError as error:
        raise InputFileError(f"{path}: is not UTF-8: {error.reason} at byte {error.start}") from error
    except (FileNotFoundError, IsADirectoryError, PermissionError, gzip.BadGzipFile) as error:
        raise InputFileError(f"{path}: cannot be read: {why(error)}") from error
