"""What a snapshot holds, and what the engine needs of the place where snapshots are kept."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from streamnb.errors import SnapshotError
from streamnb.transport import Partition, Role

OnDamaged = Callable[[str, SnapshotError], None]
"""Told of each damaged snapshot that was passed over: where it lies, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class TopicNote:
    """What is remembered of a topic, to notice when it was made again or has changed its role."""

    id: str
    role: Role
    partitions: int = 1
    """How many it had when it was first seen."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Model, learned offsets and scores of one moment: one atomic unit.

    Mappings to `object` hold JSON values.
    """

    app: str
    instance: str
    version: str
    """Of the streamnb that took it."""
    taken: float
    """Seconds since 1970."""
    shape: Mapping[str, object]
    """Of the model: states are exchangeable only between equal shapes."""
    settings: Mapping[str, object]
    """Event paths, limits and reading options, to log what has changed since."""
    learned: Mapping[Partition, int]
    learn_from: Mapping[Partition, int]
    noted: Mapping[Partition, int]
    """The last published offset seen committed, of every partition ever owned."""
    topics: Mapping[str, TopicNote]
    classes: Mapping[Partition, list[str]]
    """The labels each partition has brought, for `limits.classes`."""
    lost: int
    """Events lost and accepted so far."""
    scores: Mapping[str, object]
    marks: Mapping[str, object]
    """The transport's own."""
    model: bytes
    seed: str = ""
    """Names the converted model that learning began with; "" if it began with an empty one."""

    @property
    def is_bare_seed(self) -> bool:
        """Whether this is a converted model that no daemon has taken up yet: it knows no topic and no offset."""
        return bool(self.seed) and not self.topics


class SnapshotStore(Protocol):
    """Keeps the snapshots of one instance of one app. One thread at a time calls it."""

    def open(self) -> None:
        """Take possession. Raise StateError if a living process has it, IoError if it cannot be written."""

    def save(self, snapshot: Snapshot) -> int:
        """Write the snapshot whole or not at all, and forget all but the last few.

        Return the bytes written. Raise IoError if they were refused; what was saved before is then untouched.
        """

    def newest(self) -> Snapshot | None:
        """The own newest whole one; damaged ones are passed over and reported."""

    def others(self) -> list[Snapshot]:
        """The newest whole one of every other instance of this app that can be reached."""

    def close(self) -> None:
        """Let go of it."""
