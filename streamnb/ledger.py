"""The offsets of every partition: learned, published, and what is noted of them for the next start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from streamnb.snapshots import TopicNote
from streamnb.starting import Beginning, Lost, Published, commit_metadata, first_offset
from streamnb.transport import Committed, Extent, Partition, Role


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The two offsets of every partition, as a batch finds them."""

    learned: Mapping[Partition, int]
    published: Mapping[Partition, int]
    """Of the owned partitions only."""
    handled: Mapping[Partition, int]
    """Below these offsets nothing is counted again."""


@dataclass(slots=True)
class Ledger:
    """Owned by the loop. `published` and `uncommitted` speak of the partitions under the present duty only."""

    learned: dict[Partition, int]
    learn_from: dict[Partition, int]
    topics: dict[str, TopicNote]
    noted: dict[Partition, int]
    """The last published offset seen committed, for every partition ever owned."""
    lost_events: int = 0
    seed: str = ""
    """Names the converted model that learning began with, if it did."""
    kept: dict[Partition, int] = field(default_factory=dict)
    """Learned offsets of topics that are not configured any more."""
    published: dict[Partition, int] = field(default_factory=dict)
    uncommitted: set[Partition] = field(default_factory=set)
    """Owned partitions on which nothing is committed yet."""
    handled: dict[Partition, int] = field(default_factory=dict)
    positions: dict[Partition, int] = field(default_factory=dict)
    """Where reading goes on."""

    @classmethod
    def of(cls, begun: Beginning, committed: Mapping[Partition, Committed]) -> "Ledger":
        """Open the ledger at a start; what the group has committed by now is noted, and not if it was moved back."""
        noted = dict(begun.snapshot.noted) if begun.snapshot else {}
        return cls(
            learned=begun.learned,
            learn_from=begun.learn_from,
            topics=begun.topics,
            noted=noted | {p: max(at.offset, noted.get(p, 0)) for p, at in committed.items()},
            lost_events=(begun.snapshot.lost if begun.snapshot else 0) + _size(begun.lost),
            seed=begun.snapshot.seed if begun.snapshot else "",
            kept=begun.kept,
        )

    @property
    def roles(self) -> dict[str, Role]:
        return {topic: note.role for topic, note in self.topics.items()}

    def watermarks(self) -> Watermarks:
        """The offsets that the next batch is held against."""
        return Watermarks(self.learned, self.published, self.handled)

    def take_up(self, owned: Mapping[Partition, Published]) -> None:
        """Begin a duty: these partitions are answered from these offsets."""
        self.published = {p: at.offset for p, at in owned.items()}
        self.uncommitted = {p for p, at in owned.items() if at.new}
        self.noted.update({p: at.offset for p, at in owned.items() if not at.new})
        self.lost_events += _size([at.lost for at in owned.values() if at.lost])

    def drop_duty(self) -> None:
        """End the duty: nothing is answered any more, learning goes on."""
        self.published, self.uncommitted = {}, set()

    def add_partitions(self, extents: Mapping[Partition, Extent]) -> list[Lost]:
        """Take up labelled partitions that have come since the start; return what was gone of them already."""
        lost = []
        for partition, extent in extents.items():
            if extent.role == "labelled" and partition not in self.learned:
                first = first_offset(partition, extent, self.topics)
                if first < extent.start:
                    lost.append(Lost(partition, first, extent.start, "learned"))
                self.learned[partition] = max(first, extent.start)
                self.learn_from[partition] = first
        self.lost_events += _size(lost)
        return lost

    def skip_lost(self, extents: Mapping[Partition, Extent]) -> list[Lost]:
        """Step over what is gone below the logs' starts, where reading was still to go."""
        lost = []
        for partition, position in self.positions.items():
            start = extents[partition].start
            if position < start:
                learning = self.learned.get(partition, start) < start
                lost.append(Lost(partition, position, start, "learned" if learning else "answered"))
                if partition in self.learned:
                    self.learned[partition] = max(self.learned[partition], start)
                if partition in self.published:
                    self.published[partition] = max(self.published[partition], start)
        self.lost_events += _size(lost)
        return lost

    def read_from(self) -> dict[Partition, int]:
        """Where to read: from the smaller of the two offsets where both are ours, else from the one that is."""
        self.positions = {p: min(offset, self.published.get(p, offset)) for p, offset in self.learned.items()} | {
            p: offset for p, offset in self.published.items() if p not in self.learned
        }
        return dict(self.positions)

    def advance(self, positions: Mapping[Partition, int]) -> None:
        """A batch up to these offsets has been predicted and learned."""
        for partition, position in positions.items():
            self.positions[partition] = position
            self.handled[partition] = max(position, self.handled.get(partition, 0))
            if partition in self.learned:
                self.learned[partition] = max(position, self.learned[partition])

    def due(self) -> dict[Partition, Committed]:
        """The offsets that the next transaction commits: owned partitions that have moved or have none yet."""
        return {
            p: Committed(self.positions[p], self._metadata(p))
            for p, offset in self.published.items()
            if self.positions[p] > offset or p in self.uncommitted
        }

    def committed(self, offsets: Mapping[Partition, Committed]) -> None:
        """These offsets have been committed."""
        for partition, at in offsets.items():
            self.published[partition] = self.noted[partition] = at.offset
            self.uncommitted.discard(partition)

    def remaining(self, ends: Mapping[Partition, int]) -> int:
        """How many offsets are left to learn before these ends."""
        return sum(max(0, end - self.learned[p]) for p, end in ends.items())

    def _metadata(self, partition: Partition) -> str:
        return commit_metadata(self.learn_from.get(partition), self.seed)


def _size(lost: Sequence[Lost]) -> int:
    return sum(gap.end - gap.begin for gap in lost)
