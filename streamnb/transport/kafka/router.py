"""Which partition each answer goes to, and whether it fits there."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kafka.partitioner.default import murmur2

from streamnb.errors import OutputTooLarge
from streamnb.transport import Output, Sink

ANY = -1
"""The partition of a record whose key is left to the client to place, by the same hash."""
RECORD_BYTES = 128
HEADER_BYTES = 16


class Addressed(NamedTuple):
    """One record, ready to send."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


class Target(NamedTuple):
    """An output topic, its partitions, and the largest record batch that it takes."""

    topic: str
    partitions: Sequence[int]
    largest_bytes: int


def size_of(output: Output | Addressed) -> int:
    """Bytes the record takes at most."""
    size = len(output.key or b"") + len(output.value or b"") + RECORD_BYTES
    for name, value in output.headers:
        size += (len(name) if name.isascii() else len(name.encode())) + len(value) + HEADER_BYTES
    return size


def by_murmur2(key: bytes, partitions: Sequence[int]) -> int:
    """Where Java's producer, and by default kafka-python's, puts a record of this key."""
    place: int = murmur2(key) & 0x7FFFFFFF
    return partitions[place % len(partitions)]


class Router:
    """Sends a key where murmur2 says, with any client; keyless answers of one publish stay together."""

    def __init__(self, targets: Mapping[Sink, Target], place: Callable[[bytes, Sequence[int]], int]) -> None:
        self._targets, self._place = targets, place
        self._turn = 0

    def addressed(self, outputs: Sequence[Output]) -> list[Addressed]:
        """Raise OutputTooLarge, before anything is sent, for an output that its topic does not take."""
        self._turn += 1
        targets, place, make = self._targets, self._place, tuple.__new__  # half the time of calling Addressed
        found: list[Addressed] = []
        for output in outputs:
            sink, key, value, headers = output
            topic, partitions, largest = targets[sink]
            size = size_of(output)
            if size > largest:
                said = f"{topic}: an output of {size} bytes, the topic takes {largest}"
                raise OutputTooLarge(said, len(found))
            if key is not None and len(partitions) > 1:
                partition = place(key, partitions)
            else:
                partition = partitions[self._turn % len(partitions)]
            found.append(make(Addressed, (topic, partition, key, value, list(headers))))
        return found
