"""Which partition each answer goes to, and whether it fits there."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, repeat
from operator import attrgetter, itemgetter
from typing import NamedTuple

from kafka.partitioner.default import murmur2

from streamnb.errors import OutputTooLarge
from streamnb.transport import Output, Sink

ANY = -1
"""The partition of a record whose key is left to the client to place, by the same hash."""
RECORD_BYTES = 128
HEADER_BYTES = 16

SINK_OF, NAME_OF, CONTENT_OF = attrgetter("sink"), itemgetter(0), itemgetter(1)


Headers = Sequence[tuple[str, bytes]]
Addressed = tuple[str, int, bytes | None, bytes | None, list[tuple[str, bytes]]]
"""Topic, partition, key, value and headers of a record, ready to send: made in a third of the time of a NamedTuple."""


class Target(NamedTuple):
    """An output topic, its partitions, and the largest record batch that it takes."""

    topic: str
    partitions: Sequence[int]
    largest_bytes: int


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Bytes that such a record takes at most."""
    size = len(key or b"") + len(value or b"") + RECORD_BYTES
    for name, content in headers:
        size += len(name.encode()) + len(content) + HEADER_BYTES
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
        found: list[Addressed] = []
        for sink, stretch in groupby(outputs, SINK_OF):
            found += self._to(self._targets[sink], list(stretch), len(found))
        return found

    def _to(self, target: Target, outputs: Sequence[Output], before: int) -> Iterator[Addressed]:
        topic, partitions, largest = target
        _, keys, values, headers = zip(*outputs, strict=True)
        if _bound(keys, values, headers) > largest:
            sizes = map(size_of, keys, values, headers)
            if too_large := next(((i, size) for i, size in enumerate(sizes) if size > largest), None):
                index, size = too_large
                said = f"{topic}: an output of {size} bytes, the topic takes {largest}"
                raise OutputTooLarge(said, before + index)
        one, place = partitions[self._turn % len(partitions)], self._place
        where: Iterable[int] = repeat(one)
        if len(partitions) > 1:
            where = [one if key is None else place(key, partitions) for key in keys]
        lists = [found if type(found) is list else list(found) for found in headers]
        return zip(repeat(topic), where, keys, values, lists)  # the first may be endless, both


def _bound(keys: Iterable[bytes | None], values: Iterable[bytes | None], headers: Sequence[Headers]) -> int:
    """Bytes that no record of these columns takes more than: a fraction of the time of asking `size_of` for each."""
    pairs = list(chain.from_iterable(headers))
    names = max((len(name.encode()) for name in set(map(NAME_OF, pairs))), default=0)
    contents = max(map(len, map(CONTENT_OF, pairs)), default=0)
    most = max(map(len, headers)) * (names + contents + HEADER_BYTES)
    return RECORD_BYTES + most + sum(max(map(len, filter(None, column)), default=0) for column in (keys, values))
