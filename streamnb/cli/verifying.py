"""What `streamnb verify` does, and how it is told."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import typer

from streamnb.cli.progress import counted
from streamnb.cli.sources import Source
from streamnb.cli.tabulating import table
from streamnb.errors import ConfigError, InputFileError, why
from streamnb.events import Decoder
from streamnb.transport import Partition, Record
from streamnb.transport.inputs import CHUNK_BYTES
from streamnb.transport.lines import Lines
from streamnb.verification import Gathered, Reference, Row, compare, gather
from streamnb.verification.gathering import Rules, latest_time, learner
from streamnb.verification.sklearn_fit import SklearnFit

KEPT_EVENTS = 4
"""A line longer than this many events is cut, as the files transport does."""
Records = Callable[[], Iterable[Record]]
"""Reads them from the start, each time it is called."""
STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class Verified:
    source: Source
    input: str
    """What was read, and how far."""
    gathered: Gathered
    rows: Sequence[Row]
    """The model beside the exact fit."""
    sklearn: Sequence[Row]
    why_no_sklearn: str
    """Why there is no such comparison; "" if there is."""

    @property
    def equal(self) -> bool:
        return all(row.equal for row in self.rows)


def verified(source: Source, given: str | None, sample: int, quiet: bool = False) -> Verified:
    """Read the events, counting them on a terminal unless `quiet`, and compare.

    Raise StreamnbError if they cannot be read.
    """
    if source.snapshot.seed:
        raise InputFileError(
            f"{source.name}: began with a converted scikit-learn model, whose events are in no log that could be "
            "read again: there is nothing to verify it against"
        )
    name, records = _records(source, given)
    model = source.model
    half_life = model.options["half_life"]
    decoder = Decoder(
        source.event, source.limits, classes=source.labels, needs_time=half_life is not None, check=model.check
    )
    rules = Rules(decoder, source.limits.classes)
    latest = None
    if half_life is not None:
        if given == STANDARD_INPUT:
            raise ConfigError("--input -: with model.half_life the events are read twice; give a file")
        latest = latest_time(records(), rules)
    reference, other = Reference(model.kind, model.options, latest), SklearnFit(model)
    found = gather(counted(records(), "events read", quiet), rules, sample, learner(reference), other.take)
    reference.finish()
    rows = compare(model, reference, found.sample, found.fractional)
    sklearn = other.rows(reference, found.sample)
    return Verified(source, name, found, rows, sklearn, other.why_not)


def told(found: Verified) -> Iterator[str]:
    """Tables for a person."""
    gathered, model = found.gathered, found.source.model
    yield f"model   {found.source.name}: {model.kind}, {model.n_events} events"
    passed = [f"{n} {reason}" for reason, n in sorted(gathered.refused.items())]
    passed += [f"{gathered.unlabelled} unlabelled"] if gathered.unlabelled else []
    passed += [f"{gathered.tombstones} without a value"] if gathered.tombstones else []
    left_out = f", left out: {', '.join(passed)}" if passed else ""
    yield f"events  {found.input}: {gathered.learned} of {gathered.records} learned{left_out}"
    yield ""
    yield "the model and a fit of all these events at once, in exact arithmetic:"
    yield from _table(found.rows)
    yield ""
    if found.why_no_sklearn:
        yield f"scikit-learn is not compared: {found.why_no_sklearn}"
    else:
        yield "the model and scikit-learn's fit (which rounds; the exact fit decides):"
        yield from _table(found.sklearn, found.equal)
    yield ""
    yield verdict(found)


def verdict(found: Verified) -> str:
    """One line, in green or red."""
    if found.equal and not found.gathered.learned:
        return _coloured("equal, but no event was learned yet when the snapshot was taken", True)
    if found.equal:
        return _coloured("equal: the model is the batch fit of these events", True)
    return _coloured(f"different: {', '.join(row.what for row in found.rows if not row.equal)}", False)


def told_as_json(found: Verified) -> str:
    """One object."""
    values = {
        "equal": found.equal,
        "model": {"source": found.source.name, "kind": found.source.model.kind, "events": found.source.model.n_events},
        "input": found.input,
        "records": found.gathered.records,
        "learned": found.gathered.learned,
        "unlabelled": found.gathered.unlabelled,
        "refused": dict(found.gathered.refused),
        "exact": [_row_as_json(row) for row in found.rows],
        "scikit_learn": None if found.why_no_sklearn else [_row_as_json(row) for row in found.sklearn],
        "why_no_scikit_learn": found.why_no_sklearn or None,
    }
    return json.dumps(values, ensure_ascii=False, allow_nan=False)


def _row_as_json(row: Row) -> dict[str, object]:
    largest = row.largest if math.isfinite(row.largest) else None
    return asdict(row) | {"largest": largest, "equal": row.equal}


def _table(rows: Sequence[Row], decided: bool = False) -> Iterator[str]:
    """`decided`: the exact fit has found the model right, so what differs here is the other side's rounding."""
    head = ("", "compared", "largest difference", "allowed", "in units of", "")
    verdicts = ["equal" if row.equal else "its rounding" if decided else "different" for row in rows]
    cells = [
        (row.what, str(row.compared), f"{row.largest:.2g}", f"{row.allowed:g}", row.measured_by or "1", verdict)
        for row, verdict in zip(rows, verdicts, strict=True)
    ]
    first, *lines = table(head, cells, right=(1, 2, 3))
    yield first
    for line, row in zip(lines, rows, strict=True):
        yield _coloured(line if row.equal else f"{line}  {row.where}".rstrip(), row.equal, decided)


def _coloured(text: str, good: bool, decided: bool = False) -> str:
    return typer.style(text, fg="green" if good else "yellow" if decided else "red")


def _records(source: Source, given: str | None) -> tuple[str, Records]:
    """What is read, in words, and how."""
    config, learned = source.config, source.snapshot.learned
    path = given
    if path is None:
        if config is None:
            raise ConfigError("--input is missing: a snapshot does not say where its events are; or give the CONFIG")
        if config.transport == "kafka":
            from streamnb.cli.wiring import client_of
            from streamnb.transport.kafka.span import records_between

            client = client_of(config.kafka.client)
            begin = {partition: source.snapshot.learn_from.get(partition, 0) for partition in learned}
            said = ", ".join(f"{partition} up to {offset}" for partition, offset in sorted(learned.items()))
            return said, lambda: records_between(client, config.kafka, source.limits.event_bytes, begin, learned)
        path = config.files.input or STANDARD_INPUT
    own = source.snapshot.marks.get("input")
    end = learned.get(Partition(own, 0)) if isinstance(own, str) else None
    longest = longest_line(source.limits.event_bytes)
    return _said(path, end), lambda: lines_of(path, end, longest)


def longest_line(event_bytes: int) -> int:
    """How much of a line is kept, as the files transport does."""
    return max(KEPT_EVENTS * event_bytes, CHUNK_BYTES)


def _said(path: str, end: int | None) -> str:
    if path == STANDARD_INPUT:
        return "standard input"
    try:
        if os.path.isdir(path):
            raise InputFileError(f"--input {path}: is a folder; allowed is a file of JSON lines")
        size = os.stat(path).st_size
    except OSError as error:
        raise InputFileError(f"--input {path}: cannot be read: {why(error)}") from error
    if end is None or end == size:
        return path
    if size < end:
        return f"{path} ({end - size} bytes shorter than what was learned)"
    return f"{path} up to byte {end}, which is how far it was learned"


def lines_of(path: str, end: int | None, longest: int) -> Iterator[Record]:
    """The lines of a file, up to this byte if given; - is standard input. Raise InputFileError."""
    lines = Lines(Partition(path, 0), 0, longest)
    left = math.inf if end is None else end
    with _opened(path) as file:
        while chunk := os.read(file, int(min(CHUNK_BYTES, left))):
            left -= len(chunk)
            yield from lines.feed(chunk)
    yield from lines.finish()


class _opened:  # noqa: N801  # a context manager, used like a function
    """A file's descriptor; standard input, which is not ours, stays open."""

    def __init__(self, path: str) -> None:
        self._path, self._file = path, 0

    def __enter__(self) -> int:
        if self._path == STANDARD_INPUT:
            return sys.stdin.fileno()
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputFileError(f"--input {self._path}: cannot be read: {why(error)}") from error
        return self._file

    def __exit__(self, *ending: object) -> None:
        if self._file:
            os.close(self._file)
