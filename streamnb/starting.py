"""Where learning and answering begin: the decisions at start and at every assignment, as functions of what was found.

Nothing here talks to a broker or a disk, so every row of the table in the README ("What it finds at the start") is a
plain call.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from streamnb.errors import LostEvents, LostOffsets, StateMismatch
from streamnb.snapshots import Snapshot, TopicNote
from streamnb.transport import Committed, Extent, Partition

LEARN_FROM = re.compile(r"(?:^|;)learn_from=(\d+)(?:;|$)")
SEED = re.compile(r"(?:^|;)seed=(\w+)(?:;|$)")


@dataclass(frozen=True, slots=True)
class Lost:
    """A range of offsets that was due and is gone: from `begin` up to, not including, `end`."""

    partition: Partition
    begin: int
    end: int
    what: Literal["learned", "answered"]

    def __str__(self) -> str:
        return f"{self.partition}: offsets {self.begin} to {self.end - 1} were never {self.what}"


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where this process begins to learn."""

    snapshot: Snapshot | None
    learned: dict[Partition, int]
    learn_from: dict[Partition, int]
    topics: dict[str, TopicNote]
    lost: Sequence[Lost] = ()
    first_start: bool = False
    kept: dict[Partition, int] = field(default_factory=dict)
    """Learned offsets of topics that are no longer configured."""


def commit_metadata(learn_from: int | None, seed: str) -> str:
    """What a commit says of where learning began: an offset on a labelled partition, and a converted model."""
    parts = [f"learn_from={learn_from}"] if learn_from is not None else []
    return ";".join([*parts, *([f"seed={seed}"] if seed else [])])


def learn_from_of(committed: Committed | None) -> int:
    """Read the offset of `commit_metadata` back; 0 where a commit says nothing."""
    found = LEARN_FROM.search(committed.metadata) if committed else None
    return int(found[1]) if found else 0


def check_seed(seed: str, committed: Mapping[Partition, Committed]) -> None:
    """Raise StateMismatch if the group's commits are of learning that began with another model than ours.

    A commit that says nothing of where learning began (an operator's, say) is taken as it is.
    """
    for partition, at in committed.items():
        found = SEED.search(at.metadata)
        began_with = found[1] if found else ""
        if began_with != seed and (found or LEARN_FROM.search(at.metadata)):
            raise StateMismatch(
                f"{partition}: this group's learning began with {_named(began_with)}, here it would begin with "
                f"{_named(seed)}; 'streamnb convert' the model it began with, or use another app name"
            )


def _named(seed: str) -> str:
    return f"the converted model {seed}" if seed else "an empty model"


def choose(
    own: Snapshot | None,
    others: Callable[[], Iterable[Snapshot]],
    extents: Mapping[Partition, Extent],
    shape: Mapping[str, object],
) -> Snapshot | None:
    """Return the snapshot to go on from: the own one, or the best of any instance if the logs were cut above it.

    `others` is asked only then, or when there is no own snapshot. Raise StateMismatch if the own one has another shape.
    """
    labelled = {p: e for p, e in extents.items() if e.role == "labelled"}
    if own is not None:
        check_shape(own, shape)
        if not _missing(own, labelled):
            return own
    fitting = [s for s in others() if s.shape == shape]
    return _best([*([own] if own else []), *fitting], labelled)


def begin(
    snapshot: Snapshot | None,
    extents: Mapping[Partition, Extent],
    committed: Mapping[Partition, Committed],
    accept_lost: bool,
) -> Beginning:
    """Decide the offsets to learn from. Raise StateMismatch, or LostEvents unless `accept_lost`.

    A converted model that no daemon has taken up yet has no offsets: learning begins as without a snapshot, with it.
    """
    check_seed(snapshot.seed if snapshot else "", committed)
    if snapshot is not None and not snapshot.is_bare_seed:
        begun = _from_snapshot(snapshot, extents)
    elif committed:
        begun = replace(_from_commits(extents, committed), snapshot=snapshot)
    else:
        begun = replace(_first_start(extents), snapshot=snapshot)
    return _within(begun, extents, accept_lost)


def _first_start(extents: Mapping[Partition, Extent]) -> Beginning:
    starts = {p: e.start for p, e in extents.items() if e.role == "labelled"}
    return Beginning(None, starts, dict(starts), topic_notes(extents, {}), first_start=True)


def _from_commits(extents: Mapping[Partition, Extent], committed: Mapping[Partition, Committed]) -> Beginning:
    starts = {p: learn_from_of(committed.get(p)) for p, e in extents.items() if e.role == "labelled"}
    return Beginning(None, starts, dict(starts), topic_notes(extents, {}))


def check_shape(snapshot: Snapshot, shape: Mapping[str, object]) -> None:
    """Raise StateMismatch if the snapshot's state cannot go on under the configured model."""
    if snapshot.shape != shape:
        raise StateMismatch(
            f"the snapshot of app {snapshot.app!r} was learned with {_difference(snapshot.shape, shape)}; "
            "give the new model another app name, or remove the snapshots and the group's offsets to begin anew"
        )


def _from_snapshot(snapshot: Snapshot, extents: Mapping[Partition, Extent]) -> Beginning:
    check_topics(snapshot.topics, extents)
    learned, learn_from = dict(snapshot.learned), dict(snapshot.learn_from)
    for partition, extent in extents.items():
        if extent.role == "labelled" and partition not in learned:
            learned[partition] = first_offset(partition, extent, snapshot.topics)
            learn_from.setdefault(partition, learned[partition])
    kept = {p: o for p, o in learned.items() if p not in extents}
    learned = {p: o for p, o in learned.items() if p in extents}
    return Beginning(snapshot, learned, learn_from, topic_notes(extents, snapshot.topics), kept=kept)


def first_offset(partition: Partition, extent: Extent, topics: Mapping[str, TopicNote]) -> int:
    """Where to begin on a partition without a learned offset: at 0 when its topic was already known without it."""
    known = topics.get(partition.topic)
    return 0 if known and partition.number >= known.partitions else extent.start


def _within(begun: Beginning, extents: Mapping[Partition, Extent], accept_lost: bool) -> Beginning:
    """Hold the learned offsets against the logs: nothing below their start, nothing beyond their end."""
    learned, lost = dict(begun.learned), []
    for partition, offset in learned.items():
        moved = within(partition, offset, extents[partition], "learned")
        if moved:
            lost.append(moved)
            learned[partition] = moved.end
    refuse_lost(lost, accept_lost)
    return replace(begun, learned=learned, lost=tuple(lost))


def within(partition: Partition, offset: int, extent: Extent, what: Literal["learned", "answered"]) -> Lost | None:
    """Return the range that is gone below the log's start; raise StateMismatch if the offset is beyond its end."""
    if offset > extent.end:
        raise StateMismatch(
            f"{partition}: {what} up to offset {offset}, but the log ends at {extent.end}: "
            f"offsets {extent.end} to {offset - 1} are gone, so this is another log than the one that was read"
        )
    return Lost(partition, offset, extent.start, what) if offset < extent.start else None


def refuse_lost(lost: Sequence[Lost], accept: bool) -> None:
    """Raise LostEvents naming every range, unless lost events are accepted."""
    if lost and not accept:
        ranges = "; ".join(str(gap) for gap in lost)
        raise LostEvents(
            f"records were deleted before they were used: {ranges}. "
            "Set 'input.on_lost_events: accept' to go on without them"
        )


def check_topics(notes: Mapping[str, TopicNote], extents: Mapping[Partition, Extent]) -> None:
    """Raise StateMismatch if a topic was made again or has changed its role since the notes were taken."""
    for partition, extent in extents.items():
        note = notes.get(partition.topic)
        if note is None:
            continue
        if note.role != extent.role:
            raise StateMismatch(
                f"topic {partition.topic!r} was {note.role} and is now configured as {extent.role}; "
                "use another app name for another use of the topic"
            )
        if note.id != extent.topic_id:
            raise StateMismatch(
                f"topic {partition.topic!r} was deleted and created again (topic id {note.id}, now {extent.topic_id}); "
                "its offsets mean other events now. Use another app name, or remove snapshots and group offsets"
            )


def topic_notes(extents: Mapping[Partition, Extent], known: Mapping[str, TopicNote]) -> dict[str, TopicNote]:
    """Note every configured topic as it was first seen, and keep the notes of topics no longer configured."""
    notes = dict(known)
    for topic in {p.topic for p in extents}:
        numbers = [p.number for p in extents if p.topic == topic]
        extent = extents[Partition(topic, min(numbers))]
        notes.setdefault(topic, TopicNote(extent.topic_id, extent.role, max(numbers) + 1))
    return notes


@dataclass(frozen=True, slots=True)
class Published:
    """Where answering goes on for one owned partition."""

    offset: int
    lost: Lost | None = None
    new: bool = False
    """Nothing was committed yet: the owner commits this offset at once."""


def published(
    partition: Partition,
    committed: Committed | None,
    noted: int | None,
    extent: Extent,
    topics: Mapping[str, TopicNote],
    starts: Callable[[Partition, Extent], int],
    on_lost_offsets: Literal["stop", "earliest", "latest", "snapshot"],
) -> Published:
    """Decide where to answer from, for one owned partition, at an assignment.

    `noted` is the last offset that this application saw committed; `starts` applies `input.start`.
    Raise LostOffsets (the caller may ask the group again first) or StateMismatch.
    """
    if committed is not None:
        lost = within(partition, committed.offset, extent, "answered")
        return Published(lost.end if lost else committed.offset, lost)
    if noted is not None:
        return Published(_lost_offset(partition, noted, extent, on_lost_offsets), new=True)
    known = topics.get(partition.topic)
    if known and partition.number >= known.partitions:
        lost = within(partition, 0, extent, "answered")
        return Published(lost.end if lost else 0, lost, new=True)
    return Published(starts(partition, extent), new=True)


def _lost_offset(partition: Partition, noted: int, extent: Extent, policy: str) -> int:
    match policy:
        case "earliest":
            return extent.start
        case "latest":
            return extent.end
        case "snapshot":
            return min(max(noted, extent.start), extent.end)
    raise LostOffsets(
        f"{partition}: the group has no committed offset, but {noted} was seen committed before. "
        "Set 'input.on_lost_offsets' to earliest, latest or snapshot to go on"
    )


def _missing(snapshot: Snapshot, labelled: Mapping[Partition, Extent]) -> int:
    """How many offsets between the snapshot and the logs' starts are gone."""
    return sum(max(0, e.start - snapshot.learned[p]) for p, e in labelled.items() if p in snapshot.learned)


def _best(snapshots: Sequence[Snapshot], labelled: Mapping[Partition, Extent]) -> Snapshot | None:
    """First those with no lost range, then the greatest sum of learned offsets."""

    def merit(snapshot: Snapshot) -> tuple[bool, int]:
        return _missing(snapshot, labelled) == 0, sum(snapshot.learned.get(p, 0) for p in labelled)

    return max(snapshots, key=merit, default=None)


def _difference(found: Mapping[str, object], wanted: Mapping[str, object]) -> str:
    keys = [k for k in {**found, **wanted} if found.get(k) != wanted.get(k)]
    return ", ".join(f"{k}={found.get(k)!r}, now {wanted.get(k)!r}" for k in keys)
