"""Events that need no second look, decoded by type: numbers of features that the model knows, in runs of one layout.

Anything else is left to `events.Decoder`, which alone knows what is refused and why. What is taken here is, to the
bit, what would be taken there.
"""

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from struct import pack
from typing import Any

import msgspec

from streamnb.config import EventConfig, LimitsConfig
from streamnb.errors import EventError
from streamnb.learners.dense import Layout, layout_of
from streamnb.learners.model import Model
from streamnb.transport import Record

PARTS = ("id", "label", "weight", "timestamp", "features")
FORBIDDEN = ('"', "\\", ".")
CANNOT_DECODE = (ValueError, TypeError, RecursionError, OverflowError, MemoryError)
PARTS_OF = [attrgetter(part) for part in PARTS]
VALUE_OF, TIME_OF = attrgetter("value"), attrgetter("timestamp")
PLAIN_IDS = {int, str, type(None)}
MOST_LAYOUTS = 100
LONGEST_PAUSE = 64
PIECE = 250
"""Events decoded at once: what they take up stays in the processor's cache, and one that is odd slows down few."""


@dataclass(slots=True)
class TypedRun:
    """Events of one layout, column by column: none has a weight of its own."""

    layout: Layout
    records: list[Record] = field(default_factory=list)
    ids: list[int | str | None] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)
    times: list[float | None] = field(default_factory=list)
    values: "array[float]" = field(default_factory=lambda: array("d"))
    """Of the first event, in the order of the layout, then of the next."""

    def extend(self, more: "TypedRun") -> None:
        """Take these events, of the same layout, after its own."""
        self.records += more.records
        self.ids += more.ids
        self.labels += more.labels
        self.times += more.times
        self.values += more.values


class TypedReader:
    """Takes out of runs of records what it can. `seconds` gives the time of an event, or refuses it."""

    def __init__(
        self,
        config: EventConfig,
        limits: LimitsConfig,
        model: Model,
        seconds: Callable[[object, float | None], float | None],
    ) -> None:
        self._decode = _decoder(config)
        self._limits, self._model, self._seconds = limits, model, seconds
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._pause = self._left_out = 0

    def forget_layouts(self) -> None:
        """The model has other names now."""
        self._layouts.clear()

    def sorted(self, run: Sequence[Record], known: Collection[str]) -> Iterator[Record | TypedRun]:
        """Yield the records of the run in order; `known` are the labels that may be taken without a question.

        Where few can be taken, most runs are not tried, so that trying costs next to nothing.
        """
        if self._decode is None or self._left_out < self._pause:
            self._left_out += 1
            yield from run
            return
        taken, decode = 0, self._decode
        pieces = (run[start : start + PIECE] for start in range(0, len(run), PIECE))
        for part in _joined(chain.from_iterable(self._tried(decode, piece, known) for piece in pieces)):
            if isinstance(part, TypedRun):
                taken += len(part.records)
            yield part
        self._left_out = 0
        self._pause = 0 if 2 * taken >= len(run) else min(LONGEST_PAUSE, 2 * self._pause + 1)

    def _tried(
        self, decode: Callable[[Any], Any], run: Sequence[Record], known: Collection[str]
    ) -> Iterator[Record | TypedRun]:
        whole = self._whole(decode, run, known)
        if whole is not None:
            yield whole
            return
        event_bytes, seconds = self._limits.event_bytes, self._seconds
        names: list[str] = []
        typed: TypedRun | None = None
        for record in run:
            value, time = record.value, record.timestamp
            try:
                event = decode(value)  # a tombstone is a TypeError
                label, x, name = event.label, event.features, event.id
                taken = (
                    bool(x)
                    and self._is_plain_label(label, known)
                    and event.weight is None
                    and type(name) in PLAIN_IDS
                    and len(value) <= event_bytes  # type: ignore[arg-type]  # decode has refused None
                )
                if taken and (event.timestamp is not None or time is None):
                    time = seconds(event.timestamp, time)
            except (*CANNOT_DECODE, EventError):
                taken = False
            if taken and (typed is None or list(x) != names):
                if typed is not None:
                    yield typed
                names = list(x)
                layout = self._layout(names)
                typed = TypedRun(layout) if layout else None
            if taken and typed is not None:
                typed.records.append(record)
                typed.ids.append(name)
                typed.labels.append(label)
                typed.times.append(time)
                typed.values.extend(x.values())
            else:
                if typed is not None:
                    yield typed
                    typed = None
                yield record
        if typed is not None:
            yield typed

    def _whole(self, decode: Callable[[Any], Any], run: Sequence[Record], known: Collection[str]) -> TypedRun | None:
        """Return all of the run if it is as plain as most are: the same as `_tried`, in a fraction of its time."""
        documents, times = list(map(VALUE_OF, run)), list(map(TIME_OF, run))
        try:
            events = list(map(decode, documents))
            ids, labels, weights, timestamps, features = (list(map(part, events)) for part in PARTS_OF)
            names = list(features[0])
            usual = (
                weights.count(None) == timestamps.count(None) == len(run)
                and list(chain.from_iterable(features)) == names * len(run)
                and all(self._is_plain_label(label, known) for label in set(labels))
                and max(map(len, documents)) <= self._limits.event_bytes
                and set(map(type, ids)) <= PLAIN_IDS
                and None not in times
            )
        except CANNOT_DECODE:
            return None
        layout = self._layout(names) if usual else None
        if layout is None:
            return None
        values = list(chain.from_iterable(map(dict.values, features)))
        packed = array("d", pack(f"{len(values)}d", *values))  # a third of the time of array("d", values)
        return TypedRun(layout, list(run), ids, labels, times, packed)

    def _is_plain_label(self, label: object, known: Collection[str]) -> bool:
        return label is None or (type(label) is str and label in known and label in self._model.labels.slots)

    def _layout(self, names: list[str]) -> Layout | None:
        key = tuple(names)
        if key not in self._layouts and len(names) <= self._limits.event_features:
            if len(self._layouts) == MOST_LAYOUTS:
                self._layouts.clear()
            if layout := layout_of(self._model, names):
                self._layouts[key] = layout
        return self._layouts.get(key)


def _joined(parts: Iterable[Record | TypedRun]) -> Iterator[Record | TypedRun]:
    """Yield the parts in order, runs of one layout that follow each other as one."""
    held: TypedRun | None = None
    for part in parts:
        if isinstance(part, TypedRun) and held is not None and part.layout is held.layout:
            held.extend(part)
            continue
        if held is not None:
            yield held
        held = part if isinstance(part, TypedRun) else None
        if held is None:
            yield part
    if held is not None:
        yield held


def _decoder(config: EventConfig) -> Callable[[Any], Any] | None:
    """Return what decodes an event whose features are all numbers, and raises one of CANNOT_DECODE for any other.

    Every key must be one that is looked for: of what is skipped nobody would know whether it is JSON. None if the
    configured paths are not plain keys.
    """
    keys = {part: getattr(config, part) for part in PARTS}
    present = {part: key for part, key in keys.items() if key is not None}
    plain = all(key.isprintable() and not any(sign in key for sign in FORBIDDEN) for key in present.values())
    if not plain or len(set(present.values())) < len(present):
        return None
    absent: dict[str, Any] = {part: None for part in PARTS if part not in present}
    fields: list[Any] = [(part, dict[str, float] if part == "features" else Any, None) for part in present]
    typed = msgspec.defstruct(
        "TypedEvent", fields, rename=present, forbid_unknown_fields=True, gc=False, namespace=absent
    )
    decode: Callable[[Any], Any] = msgspec.json.Decoder(typed).decode
    return decode
