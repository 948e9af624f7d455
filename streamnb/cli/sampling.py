"""A sample of the events that are there now, decoded as the daemon would, for `streamnb check`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from streamnb.cli.tabulating import shortened
from streamnb.cli.verifying import lines_of, longest_line
from streamnb.config import Config
from streamnb.errors import ConfigError, EventError
from streamnb.events import Decoder
from streamnb.learners import build
from streamnb.transport import Extent, Partition, Record, Role

SHOWN_FEATURES = 8
SHOWN_MESSAGE = 150
KINDS = {bool: "boolean", int: "number", float: "number", str: "string", list: "list"}
WORDY = 3
"""Blanks in a string from which on it looks like running text."""


@dataclass(slots=True)
class Sampled:
    """What was read and what became of it."""

    where: str
    read: int = 0
    labelled: int = 0
    unlabelled: int = 0
    tombstones: int = 0
    ignored_labels: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    """For each reason the first event that it struck: where it is, and what is wrong with it."""
    features: dict[str, Counter[str]] = field(default_factory=dict)
    """How often each feature came with which kind of value."""
    wordy: set[str] = field(default_factory=set)
    """Features that look like running text and are not declared as text."""

    @property
    def deserves_a_look(self) -> bool:
        """Whether something about these events may not be as it was meant."""
        return bool(self.rejected or self.ignored_labels or self.wordy or (self.read and not self.labelled))

    def told(self) -> str:
        """Lines for a person."""
        if not self.read:
            return f"none there yet in {self.where}"
        usable = f"{self.labelled} labelled, {self.unlabelled} without a label"
        lines = [f"{self.where}: {self.read} read, {usable}, {self.rejected.total()} would be dead letters"]
        lines += [f"{n} {reason}, the first {self.first[reason]}" for reason, n in self.rejected.most_common()]
        if self.tombstones:
            lines.append(f"{self.tombstones} without a value, which are skipped")
        if self.ignored_labels:
            lines.append(f"{self.ignored_labels} labels in unlabelled topics, which are ignored")
        if not self.labelled and self.unlabelled:
            lines.append("no event has a label, so nothing would be learned from these: see event.label")
        listed = [
            f"{name} ({' or '.join(kind for kind, _ in kinds.most_common())})"
            for name, kinds in islice(sorted(self.features.items()), SHOWN_FEATURES)
        ]
        more = len(self.features) - SHOWN_FEATURES
        if listed:
            lines.append(f"features: {', '.join(listed)}" + (f" and {more} more" if more > 0 else ""))
        lines += [
            f"{name} looks like running text, and is a category as it is: 'model.features: {{{name}: text}}'"
            for name in sorted(self.wordy)
        ]
        return "\n".join(lines)


def sampled(config: Config, n: int, extents: Callable[[], Mapping[Partition, Extent]]) -> Sampled:
    """Read about `n` events: the first lines of a file, the last records of each partition. Raise StreamnbError.

    `extents` is asked where the logs begin and end.
    """
    if config.transport == "files":
        found = Sampled(f"the first lines of {config.files.input}")
        records: Iterable[Record] = ()
        if config.files.input not in (None, "-"):
            path = str(config.files.input)
            records = islice(lines_of(path, None, longest_line(config.limits.event_bytes)), n)
        _take(config, found, records, {str(config.files.input): "labelled"})
    else:
        found = Sampled("the last records")
        _take(config, found, _last_records(config, n, extents()), _roles(config))
    return found


def _roles(config: Config) -> Mapping[str, Role]:
    unlabelled: dict[str, Role] = dict.fromkeys(config.input.unlabelled, "unlabelled")
    return {**unlabelled, **dict.fromkeys(config.input.labelled, "labelled")}


def _last_records(config: Config, n: int, logs: Mapping[Partition, Extent]) -> Iterator[Record]:
    from streamnb.cli.wiring import client_of
    from streamnb.transport.kafka.span import records_between

    extents = {p: e for p, e in logs.items() if e.end > e.start}
    each = max(1, n // max(1, len(extents)))
    begin = {p: max(e.start, e.end - each) for p, e in extents.items()}
    end = {p: e.end for p, e in extents.items()}
    yield from records_between(client_of(config.kafka.client), config.kafka, config.limits.event_bytes, begin, end)


def _take(config: Config, found: Sampled, records: Iterable[Record], roles: Mapping[str, Role]) -> None:
    kind, options = config.model.options()
    try:
        model = build(kind, **options)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"model: {error}") from error
    labels = config.model.labels()
    needs_time = config.model.half_life is not None
    decoder = Decoder(config.event, config.limits, classes=labels, needs_time=needs_time, check=model.check)
    by_type = kind == "mixed" and config.model.default == "auto"
    for record in records:
        found.read += 1
        if record.value is None:
            found.tombstones += 1
            continue
        try:
            event = decoder.decode(record, roles[record.partition.topic])
            decoder.judge(event.x)
        except EventError as error:
            found.rejected[error.reason] += 1
            found.first.setdefault(error.reason, f"at {record.source}: {shortened(str(error), SHOWN_MESSAGE)}")
            continue
        found.labelled += event.y is not None
        found.unlabelled += event.y is None
        found.ignored_labels += event.label_ignored
        for name, value in event.x.items():
            if value is not None:
                found.features.setdefault(name, Counter())[KINDS.get(type(value), type(value).__name__)] += 1
            if by_type and name not in config.model.features and isinstance(value, str) and value.count(" ") >= WORDY:
                found.wordy.add(name)
