"""The events that the daemon has learned, from the records that it has read."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamnb.errors import EventError, Reason
from streamnb.events import Decoder, Event
from streamnb.transport import Partition, Record
from streamnb.verification.reference import Reference

Sink = Callable[[Event], None]


@dataclass(slots=True)
class Gathered:
    """What the records were."""

    records: int = 0
    learned: int = 0
    unlabelled: int = 0
    tombstones: int = 0
    refused: Counter[Reason] = field(default_factory=Counter)
    fractional: bool = False
    """Whether a weight or count was not a whole number."""
    sample: list[Mapping[str, Any]] = field(default_factory=list)
    """Features of some of the learned events, each equally likely to be among them."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Which records become events: those of the daemon."""

    decoder: Decoder
    classes: int
    """How many labels each partition may bring."""


def gather(records: Iterable[Record], rules: Rules, sample: int, *sinks: Sink) -> Gathered:
    """Hand every learned event to the sinks, in order; a bad one is passed over as by the daemon."""
    found, chance = Gathered(), random.Random(0)
    for event in _learned(records, rules, found):
        found.learned += 1
        found.fractional = found.fractional or not event.w.is_integer()
        if len(found.sample) < sample:
            found.sample.append(event.x)
        elif (place := chance.randrange(found.learned)) < sample:
            found.sample[place] = event.x
        for sink in sinks:
            sink(event)
    return found


def latest_time(records: Iterable[Record], rules: Rules) -> float | None:
    """The latest event time that was learned, which weights with a half-life are read at."""
    times = (event.t for event in _learned(records, rules, Gathered()) if event.w > 0 and event.t is not None)
    return max(times, default=None)


def learner(reference: Reference) -> Sink:
    """What has a reference learn the events it is handed."""

    def learn(event: Event) -> None:
        reference.learn(event.x, event.y, event.w, event.t)

    return learn


def _learned(records: Iterable[Record], rules: Rules, found: Gathered) -> Iterator[Event]:
    labels: dict[Partition, set[str]] = {}
    for record in records:
        found.records += 1
        if record.value is None:
            found.tombstones += 1
            continue
        try:
            event = rules.decoder.decode(record, "labelled")
            rules.decoder.judge(event.x)
            if event.y is None:
                found.unlabelled += 1
                continue
            known = labels.setdefault(record.partition, set())
            if event.y not in known and len(known) >= rules.classes:
                raise EventError("too_many_classes", f"label {event.y!r}")
            known.add(event.y)
        except EventError as error:
            found.refused[error.reason] += 1
            continue
        yield event
