"""What the engine needs of a transport, in the engine's words.

Beside this file stand `files`, and `kafka` with the client that carries its data, `kafka_python` or `confluent`; one
contract suite runs over all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Protocol, Self

Role = Literal["labelled", "unlabelled"]
Sink = Literal["predictions", "dead_letters"]
Headers = Sequence[tuple[str, bytes | None]]


class Partition(NamedTuple):
    """One ordered log: a topic's partition, or a file (its path, partition 0)."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.number}"


class Record(NamedTuple):
    """One record as it was read."""

    partition: Partition
    offset: int
    next_offset: int
    """Where reading goes on after this record."""
    timestamp: float | None
    """Seconds since 1970; None where the transport has none."""
    key: bytes | None
    value: bytes | None
    """None is a tombstone."""
    headers: Headers = ()

    @property
    def source(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one partition in the order of their offsets, column by column: see `Record`."""

    partition: Partition
    offsets: Sequence[int]
    next_offsets: Sequence[int]
    timestamps: Sequence[float | None]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]

    @classmethod
    def of(cls, partition: Partition, records: Iterable[Record]) -> Self:
        """Return these records, all of this partition, as a run."""
        _, *columns = zip(*records, strict=True) if records else [()] * len(Record._fields)
        return cls(partition, *columns)

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Record]:
        columns = zip(repeat(self.partition), *self._columns())
        return map(tuple.__new__, repeat(Record), columns)  # half the time of calling Record

    def record(self, index: int) -> Record:
        """Return one of the records."""
        return Record(self.partition, *(column[index] for column in self._columns()))

    def part(self, start: int, stop: int) -> "Run":
        """Return the records from one to before another."""
        if start == 0 and stop >= len(self):
            return self
        return Run(self.partition, *(column[start:stop] for column in self._columns()))

    def _columns(self) -> tuple[Sequence[Any], ...]:
        return self.offsets, self.next_offsets, self.timestamps, self.keys, self.values, self.headers


def runs_of(records: Iterable[Record]) -> list[Run]:
    """Return records as runs, in the order given."""
    return [Run.of(partition, list(run)) for partition, run in groupby(records, attrgetter("partition"))]


class Output(NamedTuple):
    """One record to publish."""

    sink: Sink
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Records in the order they were read, each partition's in the order of its offsets."""

    runs: Sequence[Run] = ()
    positions: Mapping[Partition, int] = field(default_factory=dict)
    """The next offset to read of every partition that moved, past aborted data and control records too."""
    finished: bool = False
    """True when the input has ended for good (a file that is not followed)."""

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    @property
    def records(self) -> list[Record]:
        """The records, one by one."""
        return list(chain.from_iterable(self.runs))


@dataclass(frozen=True, slots=True)
class Extent:
    """What the transport knows of one partition's log."""

    role: Role
    start: int
    """The first offset that can still be read."""
    end: int
    """The read_committed end (last stable offset)."""
    topic_id: str
    """Changes when the topic is deleted and made again."""
    high_watermark: int | None = None
    """The end including open transactions, where known."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What the group knows of one partition."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Duty:
    """The partitions this instance answers for, from one assignment; compared by identity.

    `token` is the transport's own (the group metadata captured at the assignment).
    """

    partitions: frozenset[Partition]
    published: Mapping[Partition, Committed]
    """Without an entry for partitions on which nothing is committed."""
    token: object = None


class Transport(Protocol):
    """Reads the logs, holds the duty, publishes. Only the engine's thread calls it, but for `silence`."""

    def open(self) -> None:
        """Connect and check topics. Raise BrokerUnreachable, ConfigError, InputFileError."""

    def resume(self, marks: Mapping[str, object] | None) -> None:
        """Take up the transport's own marks from the snapshot (None: there is none), before anything is read.

        Files truncate their outputs to the marks here. Raise InputFileError and touch nothing if they do
        not fit.
        """

    def marks(self) -> dict[str, object]:
        """Make all that was published durable; return the transport's own marks for the snapshot (JSON values)."""

    def extents(self) -> Mapping[Partition, Extent]:
        """All partitions of the configured topics as last seen (Kafka: a few seconds ago); never waits long."""

    def restore_ends(self) -> Mapping[Partition, int]:
        """The offsets of labelled partitions that the model must reach before duty is taken (files: none)."""

    def offset_at(self, partition: Partition, seconds: float) -> int:
        """The first offset whose record is not older than this time; the end if there is none."""

    def committed(self) -> Mapping[Partition, Committed]:
        """What the group has committed, asked before joining; `extents` is refreshed after the answer."""

    def join(self) -> None:
        """Start to ask for duty; returns at once."""

    def duty(self) -> Duty | None:
        """The duty in force, None while there is none. A new object after each assignment and each `settle`.

        What `extents` says is never older than the committed offsets that a duty brings.
        """

    def read(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions from now on, each from this offset."""

    def poll(self, seconds: float, limit: int) -> Batch:
        """At most `limit` records, waiting at most `seconds`. A broker that is away yields an empty batch.

        Raise LostEvents if a position is below the log's start or beyond its end, ConfigError if a codec
        is missing.
        """

    def publish(self, duty: Duty, outputs: Sequence[Output], offsets: Mapping[Partition, Committed]) -> None:
        """Publish the outputs and move `published` to these offsets: both or neither.

        Raise DutyLost, PublishUnknown or its case OutputTooLarge (then call `settle`), OutputClosed, Fenced,
        WatchdogError, IoError.
        """

    def settle(self) -> None:
        """After a failed publish: make `duty` None, find out what was committed, then bring a new Duty.

        Returns at once.
        """

    def output_limit(self, sink: Sink) -> int | None:
        """Bytes of key, value and headers that one output may have; None where there is no limit."""

    def drain(self) -> None:
        """From now on give every call only as long as a daemon may take to stop."""

    def silence(self) -> float:
        """Seconds since the broker last answered anything (files: 0). Any thread may ask."""

    def close(self, seconds: float) -> None:
        """Leave the group and let go of everything within this time."""
