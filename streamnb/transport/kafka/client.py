"""What the transport needs of a Kafka client, in the transport's words: `kafka_python` and `confluent` each wrap one.

Questions about topics and logs are not among it: kafka-python's admin client asks them, whichever client has the data.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from streamnb.config import KafkaConfig
from streamnb.transport import Batch, Committed, Extent, Partition
from streamnb.transport.kafka.router import Addressed

Kind = Literal["passing", "regrouped", "replaced", "refused", "too_large"]
Extents = Callable[[], Mapping[Partition, Extent]]


class Failure(Exception):
    """A call to the client failed.

    `passing` may be gone at the next try; `regrouped`: the group has moved on; `replaced`: another process has our
    name, or we were away for too long; `refused`: it will never be allowed; `too_large`: the record at `index` is.
    """

    def __init__(self, kind: Kind, cause: object, index: int = 0) -> None:
        super().__init__(str(cause))
        self.kind, self.index = kind, index


def next_offsets(offsets: Sequence[int]) -> Sequence[int]:
    """Return where reading goes on behind the records of these offsets, a range for a range."""
    if isinstance(offsets, range):
        return range(offsets.start + 1, offsets.stop + 1)
    return [offset + 1 for offset in offsets]


class Commit(NamedTuple):
    """What one publish moves: records, and offsets under the token of a duty."""

    records: Sequence[Addressed]
    offsets: Mapping[Partition, Committed]
    token: Any


class Reader(Protocol):
    """The log reader: assigned partitions, explicit offsets, no group, read_committed. See `Transport.read`, `poll`."""

    def start(self) -> None:
        """Raise BrokerUnreachable, ConfigError."""

    def read(self, positions: Mapping[Partition, int]) -> None: ...

    def poll(self, seconds: float, limit: int) -> Batch: ...

    def close(self, seconds: float) -> None: ...


class Member(Protocol):
    """This instance's membership in the group. Once started, only the duty thread calls it; all may raise Failure."""

    def start(self) -> None:
        """Raise BrokerUnreachable, ConfigError."""

    def subscribe(
        self, topics: Sequence[str], given: Callable[[frozenset[Partition], Any], None], lost: Callable[[], None]
    ) -> None:
        """Ask for partitions; `poll` will call `given` with them and the token of their assignment, and `lost`."""

    def poll(self, seconds: float) -> None:
        """Join, or stay. `seconds` is time for joining, 0 once a member."""

    def holds(self, token: Any) -> bool:
        """Whether the group still is what it was when it gave this token."""

    def committed(self, partitions: Iterable[Partition], seconds: float) -> dict[Partition, Committed]:
        """Ask the group, waiting for transactions under way."""

    def commit(self, offsets: Mapping[Partition, Committed], seconds: float) -> None:
        """Commit without a transaction."""

    def close(self, seconds: float) -> None:
        """Leave the group (a static member stays)."""


class Producer(Protocol):
    """One producer, used until it fails once. Its calls, but for `begin` and `close`, are made in one thread."""

    def prepare(self) -> None:
        """Decide the last transaction of our id. Raise Failure."""

    def begin(self, records: Sequence[Addressed]) -> None:
        """Take what can be taken of the records that are published next, without waiting or raising: that is later.

        The thread that made the records does so, for whom they are at hand.
        """

    def transact(self, commit: Commit, seconds: float) -> None:
        """Publish records and offsets in one transaction; nothing is sent to be committed before all is acknowledged.

        Raise Failure.
        """

    def deliver(self, records: Sequence[Addressed], seconds: float) -> None:
        """Return when every record is acknowledged. Raise Failure."""

    def close(self, seconds: float) -> bool:
        """Let go, so that nothing more is sent and nothing aborted; whether that was done in time. Any thread may."""


@dataclass(frozen=True, slots=True)
class Client:
    """How to make the parts of one client."""

    reader: Callable[[str, KafkaConfig, int, Extents], Reader]
    """For this app, records of this size, and a way to ask for the extents now."""
    member: Callable[[str, KafkaConfig], Member]
    producers: Callable[[KafkaConfig, str | None, int], Callable[[], Producer]]
    """Makes producers of this transactional id (None: without transactions) for records of at most this size."""
    place: Callable[[bytes, Sequence[int]], int]
    """Which of these partitions a record of this key goes to, by murmur2; ANY if its producers see to that."""
    reads: Callable[[str], bool]
    """Whether records compressed with this codec can be read here."""
