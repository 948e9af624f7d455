"""What failures mean: who owns the offsets, whether anybody knows, whether trying again can help, what is gone."""

from collections.abc import Mapping

from streamnb.errors import DutyLost, Fenced, IoError, LostEvents, OutputTooLarge, PublishUnknown, StreamnbError
from streamnb.transport import Extent, Partition
from streamnb.transport.kafka.client import Failure

FRAME_BYTES = 1024


def required_size(largest_bytes: int) -> int:
    """The request that carries a record of this size, with its frame."""
    return largest_bytes + FRAME_BYTES


def outcome(failure: Failure, transactional_id: str | None, age: float, timeout: float) -> StreamnbError:
    """Translate what ended a publish of this age, seconds, whose transaction may last `timeout`.

    A transaction that timed out at the broker and a second process with our id look the same: only the age tells
    them apart.
    """
    match failure.kind:
        case "too_large":
            said = f"the broker refuses output {failure.index} as too large: {failure}"
            return OutputTooLarge(said, failure.index)
        case "refused":
            return IoError(f"kafka refuses what is published: {failure}")
        case "regrouped":
            return DutyLost(f"the group has moved on: {failure}")
        case "replaced" if age < timeout:
            who = f"another process uses transactional.id {transactional_id}"
            return Fenced(f"kafka: {who}; give each process its own kafka.instance")
        case _:
            return PublishUnknown(f"nobody knows whether this transaction was committed: {failure}")


def lost_events(asked: Mapping[Partition, int], extents: Mapping[Partition, Extent]) -> LostEvents:
    """Name what is gone of what was asked for: the range below the log's start, or beyond its end."""
    said = []
    for partition, offset in asked.items():
        extent = extents.get(partition)
        if extent is None:
            said.append(f"{partition}: offset {offset} is out of range")
        elif offset < extent.start:
            said.append(f"{partition}: offsets {offset} to {extent.start - 1} were deleted before they were read")
        else:
            said.append(f"{partition}: offset {offset} is beyond the end, {extent.end}")
    return LostEvents("; ".join(said))
