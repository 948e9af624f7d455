"""bytes -> Event, and what becomes of bytes that are none.

What is refused depends on the event and the configuration alone, so every instance refuses the same.
"""

import hashlib
import reprlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from streamnb.config import FIRST_SECOND, LAST_SECOND, EventConfig, LimitsConfig, time_seconds
from streamnb.errors import EventError
from streamnb.transport import Output, Record, Role

Features = dict[str, Any]
"""JSON scalars, lists and whatever else the event holds under a name: the learner judges the values."""
Parts = tuple[Any, Any, Any, Any, Any]
"""Id, label, weight, timestamp and features, as they stand in a document."""

MAX_DEPTH = 500
"""Objects and lists within each other. The parser's own limit, higher, varies with Python and the caller."""
MAX_WEIGHT = 10**60
MESSAGE_CHARACTERS = 1000
ERROR_HEADER = "streamnb.error."
SOURCE_HEADER = "streamnb.source"
RECORD_OVERHEAD_BYTES = 100
"""Above what Kafka adds to one record in a batch of its own."""
HEADER_OVERHEAD_BYTES = 10

_parse = msgspec.json.Decoder().decode
_CANNOT_PARSE = (ValueError, RecursionError, OverflowError, TypeError, MemoryError)


class Event(msgspec.Struct, frozen=True, gc=False):
    """One decoded event."""

    id: Any
    """Any JSON value, as given; None: the record's source stands for it."""
    x: Features
    y: str | None
    """None is unlabelled."""
    w: float
    t: float | None
    """Seconds since 1970, the record's own where the event has none."""
    label_ignored: bool
    """It came from an unlabelled topic and carried a label all the same."""


class Decoder:
    """Turns records into events, as the configuration's paths and limits say.

    `classes` are the only labels allowed (None: any). With `needs_time` an event without any time is refused.
    `check` raises ValueError or TypeError for features that the learner would refuse.
    """

    def __init__(
        self,
        config: EventConfig,
        limits: LimitsConfig,
        classes: Sequence[str] | None,
        needs_time: bool,
        check: Callable[[Features], object],
    ) -> None:
        self._limits = limits
        self._event_bytes = limits.event_bytes
        self._classes = None if classes is None else frozenset(classes)
        self._needs_time = needs_time
        self._max_ahead = config.max_ahead
        self._check = check
        self._features_path = config.features
        self._take_parts = _taker(config)
        self._flat_objects = 1 if config.features == "." else 2 + config.features.count(".")

    def decode(self, record: Record, role: Role) -> Event:
        """Decode one record; a tombstone, which the engine skips, counts as empty.

        Raise EventError for the first thing wrong: size, UTF-8, JSON, features, label, weight, timestamp.
        The features' values are left to the learner, unless one of the last three is wrong too.
        """
        value = record.value or b""
        if len(value) > self._event_bytes:
            size, allowed = len(value), self._event_bytes
            raise EventError("too_large", f"{size} bytes; limits.event_bytes allows {allowed}")
        event_id, label, weight, timestamp, x = self._take_parts(_document(value))
        if type(x) is not dict:
            got = "nothing" if x is None else reprlib.repr(x)
            raise EventError("no_features", f"{self._features_path}: got {got}; allowed is an object")
        # with no more braces than those of the objects on the way there is nothing to flatten
        if value.count(b"{") > self._flat_objects or len(x) > self._limits.event_features:
            x = _flattened(x, self._limits)
        try:
            y = None if label is None or role == "unlabelled" else self._label(label)
            w = 1.0 if weight is None else _weight(weight)
            t = self.time(timestamp, record.timestamp)
        except EventError:
            self.judge(x)
            raise
        return Event(event_id, x, y, w, t, label is not None and y is None)

    def _label(self, label: object) -> str:
        if type(label) is str:
            y = label
        elif type(label) is bool:
            y = "true" if label else "false"
        elif type(label) is int:
            y = str(label)
        else:
            got = reprlib.repr(label)
            raise EventError("bad_label", f"label {got}: allowed are texts, integers, booleans and null")
        if self._classes is not None and y not in self._classes:
            raise EventError("bad_label", f"label {reprlib.repr(y)} is not one of the configured classes")
        return y

    def time(self, timestamp: object, own: float | None) -> float | None:
        """Return the time of an event that says `timestamp`, of a record of its `own`; raise EventError."""
        if timestamp is None:
            if own is None and self._needs_time:
                raise EventError("bad_timestamp", "no timestamp; half_life needs the time of every event")
            return own
        t = _seconds(timestamp)
        if own is not None and t > own + self._max_ahead:
            got, ahead = reprlib.repr(timestamp), f"{t - own:.0f} s ahead of its record"
            allowed = f"event.max_ahead allows {self._max_ahead:g} s"
            raise EventError("bad_timestamp", f"timestamp {got} is {ahead}; {allowed}")
        return t

    def judge(self, x: Features) -> None:
        """Raise EventError if the learner would refuse these features."""
        try:
            self._check(x)
        except (ValueError, TypeError) as exc:
            raise EventError("bad_feature", str(exc)) from exc


def _taker(config: EventConfig) -> Callable[[dict[Any, Any]], Parts]:
    """What takes id, label, weight, timestamp and features out of a document; None for what is not there.

    They are taken out, not read: what lies inside the features must not be learned. So the features go last.
    """
    whole = config.features == "."
    paths = (config.id, config.label, config.weight, config.timestamp, None if whole else config.features)
    at_id, at_label, at_weight, at_timestamp, at_features = paths
    ways = [(path or "").split(".") for path in paths]

    def take(document: dict[Any, Any]) -> Parts:
        pop = document.pop  # a path that is null is no key of any document
        event_id, label, weight = pop(at_id, None), pop(at_label, None), pop(at_weight, None)
        timestamp = pop(at_timestamp, None)
        return event_id, label, weight, timestamp, document if whole else pop(at_features, None)

    def take_below(document: dict[Any, Any]) -> Parts:
        event_id, label, weight, timestamp = (_taken(document, way) for way in ways[:4])
        return event_id, label, weight, timestamp, document if whole else _taken(document, ways[4])

    return take_below if any(len(way) > 1 for way in ways) else take


def _taken(document: dict[str, Any], way: list[str]) -> Any:
    for name in way[:-1]:
        document = document.get(name)  # type: ignore[assignment]  # the next line looks
        if type(document) is not dict:
            return None
    return document.pop(way[-1], None) if way[-1] else None


def _document(value: bytes) -> Features:
    try:
        document = _parse(value)
    except _CANNOT_PARSE as exc:
        raise _unreadable(value, exc) from exc
    if len(value) > 2 * MAX_DEPTH and _is_deeper(document, MAX_DEPTH, value.count(b"{") + value.count(b"[")):
        raise EventError("not_json", f"nested more than {MAX_DEPTH} levels deep")
    if type(document) is not dict:
        raise EventError("no_features", f"got {reprlib.repr(document)}; allowed is an object")
    return document


def _is_deeper(document: object, levels: int, brackets: int) -> bool:
    if brackets <= levels:
        return False
    level: list[Any] = [document]
    for _ in range(levels):
        held = (item.values() if type(item) is dict else item for item in level)
        level = [item for items in held for item in items if type(item) in (dict, list)]
    return bool(level)


def _unreadable(value: bytes, exc: Exception) -> EventError:
    framing = ""
    if value.startswith(b"\0"):
        framing = "starts with a zero byte, as schema registry framing does (allowed is plain JSON): "
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as bad:
        return EventError("not_utf8", f"{framing}byte {bad.start} is not UTF-8")
    if value.startswith(b"\xef\xbb\xbf"):
        return EventError("not_json", "starts with a byte order mark, which JSON does not have")
    if isinstance(exc, RecursionError):
        return EventError("not_json", f"nested more than {MAX_DEPTH} levels deep")
    return EventError("not_json", f"{framing}{exc}")


def _flattened(features: Features, limits: LimitsConfig) -> Features:
    """Nested objects as dotted names, in the event's order; two features of one name are refused.

    All the names may be as long as an event: a long one above many others is written out for each of them.
    """
    flat: Features = {}
    characters = 0
    pending: list[tuple[str, Iterator[tuple[str, Any]]]] = [("", iter(features.items()))]
    while pending:
        prefix, items = pending[-1]
        for key, value in items:
            characters += len(prefix) + len(key)
            if characters > limits.event_bytes:
                allowed = f"limits.event_bytes allows {limits.event_bytes} characters of dotted names"
                raise EventError("too_many_features", allowed)
            name = prefix + key
            if type(value) is dict:
                pending.append((name + ".", iter(value.items())))
                break
            if name in flat:
                twice = "there twice, as a name and as nested objects"
                raise EventError("bad_feature", f"feature {reprlib.repr(name)}: {twice}")
            flat[name] = value
            if len(flat) > limits.event_features:
                allowed = f"limits.event_features allows {limits.event_features} features"
                raise EventError("too_many_features", allowed)
        else:
            pending.pop()
    return flat


def _weight(weight: Any) -> float:
    if type(weight) in (int, float) and 0 <= weight <= MAX_WEIGHT:
        return float(weight)
    raise EventError("bad_weight", f"weight {reprlib.repr(weight)}: allowed is a number from 0 to {MAX_WEIGHT:.0e}")


def _seconds(timestamp: Any) -> float:
    if type(timestamp) is str:
        try:
            return time_seconds(timestamp)
        except ValueError as exc:
            raise EventError("bad_timestamp", f"timestamp {reprlib.repr(timestamp)}: {exc}") from exc
    if type(timestamp) in (int, float) and FIRST_SECOND <= timestamp < LAST_SECOND:
        return float(timestamp)
    allowed = "RFC 3339 texts, and seconds since 1970 in the years 1 to 9999"
    raise EventError("bad_timestamp", f"timestamp {reprlib.repr(timestamp)}: allowed are {allowed}")


def spelled_feature(name: object) -> str:
    """A feature as JSON can name it: a token of a text feature reads `name=token`."""
    return "=".join(map(str, name)) if isinstance(name, tuple) else str(name)


def dead_letter(
    record: Record, error: EventError, instance: str, version: str, limit_bytes: int | None = None
) -> Output:
    """The record as it came, and why it could not be used.

    Where that would exceed `limit_bytes`, size and SHA-256 stand for the value; if it still does, the
    record's own headers go, then its key. Never without key and value: kafka-python cannot send that.
    """
    letters = _dead_letters(record, _error_headers(record, error, instance, version))
    letter = next(letters)
    while limit_bytes is not None and output_bytes(letter) > limit_bytes:
        smaller = next(letters, None)
        if smaller is None:
            break
        letter = smaller
    return letter


def output_bytes(output: Output) -> int:
    """The most that this output takes up as a Kafka record in a batch of its own."""
    headers = sum(HEADER_OVERHEAD_BYTES + len(name.encode()) + len(value) for name, value in output.headers)
    return RECORD_OVERHEAD_BYTES + len(output.key or b"") + len(output.value or b"") + headers


def _dead_letters(record: Record, ours: list[tuple[str, bytes]]) -> Iterator[Output]:
    """From the whole one to the smallest."""
    value = record.value or b""
    theirs = [(name, header or b"") for name, header in record.headers if not name.startswith(ERROR_HEADER)]
    key = record.key if record.key is not None or record.value is not None else b""
    yield Output("dead_letters", key, record.value, (*theirs, *ours))
    ours = [
        *ours,
        (ERROR_HEADER + "size", str(len(value)).encode()),
        (ERROR_HEADER + "sha256", hashlib.sha256(value).hexdigest().encode()),
    ]
    yield Output("dead_letters", record.key or b"", None, (*theirs, *ours))
    yield Output("dead_letters", record.key or b"", None, tuple(ours))
    yield Output("dead_letters", b"", None, tuple(ours))


def _error_headers(record: Record, error: EventError, instance: str, version: str) -> list[tuple[str, bytes]]:
    headers = {
        "reason": error.reason,
        "message": str(error)[:MESSAGE_CHARACTERS],
        "topic": record.partition.topic,
        "partition": str(record.partition.number),
        "offset": str(record.offset),
        "timestamp": "" if record.timestamp is None else repr(record.timestamp),
        "instance": instance,
        "version": version,
    }
    return [(ERROR_HEADER + name, text.encode("utf-8", "backslashreplace")) for name, text in headers.items()]
