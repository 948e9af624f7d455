"""A compacted topic as the snapshot store needs it: keys in order, values by their offsets, writes that are safe.

Every call makes the client that it needs: they come once at a start and once a snapshot, and a client that has met
an error is not used again.
"""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from streamnb.config import KafkaConfig
from streamnb.errors import BrokerUnreachable, ConfigError, IoError
from streamnb.transport.kafka import topics
from streamnb.transport.kafka.clients import connected, quiet, settings

_CHUNK_BYTES = 500_000
# What a record and its batch take beside the value, keys included.
_FRAME_BYTES = 4096
_POLL_SECONDS = 0.5
_SAVE_SECONDS = 30.0
# kafka-python's buffer has no bound of its own.
_OUTSTANDING = 16


Place = tuple[int, int]
Offsets = Mapping[TopicPartition, int]


class CompactedTopic:
    """See `streamnb.snapshots.topic.CompactedLog`."""

    def __init__(self, kafka: KafkaConfig, topic: str) -> None:
        self.name = topic
        self.chunk_bytes = _CHUNK_BYTES
        self._kafka = kafka
        self._partitions: list[int] = []
        self._read_to: dict[int, int] = {}

    def open(self) -> None:
        """Look at the topic. Raise BrokerUnreachable, or ConfigError if it is missing, small or not compacted."""
        quiet()
        made = settings(self._kafka, "snapshots")
        admin = connected(lambda: KafkaAdminClient(**made), self._kafka.bootstrap_servers, self._kafka.start_timeout)
        try:
            described = topics.Described(admin, [self.name])
            problems = [*described.problems({}, [self.name]), *described.forgets(self.name)]
            if problems:
                raise ConfigError(f"snapshots.topic: {'; '.join(problems)}")
            target = described.target(self.name)
        except KafkaError as error:
            raise BrokerUnreachable(f"snapshots.topic: {self.name}: cannot be looked at: {error}") from error
        finally:
            admin.close()
        self._partitions = list(target.partitions)
        self.chunk_bytes = max(1, min(_CHUNK_BYTES, target.largest_bytes - _FRAME_BYTES))

    def changes(self) -> list[tuple[bytes, Place | None]]:
        """Read from where the last call ended to the present end. Raise BrokerUnreachable."""
        with self._consumer() as consumer:
            parts = [TopicPartition(self.name, number) for number in self._partitions]
            ends = {tp.partition: end for tp, end in self._asked(consumer.end_offsets, parts).items()}
            starts = {tp.partition: start for tp, start in self._asked(consumer.beginning_offsets, parts).items()}
            begin = {number: max(self._read_to.get(number, 0), start) for number, start in starts.items()}
            found = [
                (record.key, None if record.value is None else (record.partition, record.offset))
                for record in self._records(consumer, begin, ends)
                if record.key is not None
            ]
        self._read_to = ends
        return found

    def values(self, places: Iterable[Place]) -> dict[Place, bytes]:
        """Read each partition from the first of the places to the last. Raise BrokerUnreachable."""
        wanted = set(places)
        offsets: dict[int, list[int]] = {}
        for partition, offset in wanted:
            offsets.setdefault(partition, []).append(offset)
        begin = {partition: min(found) for partition, found in offsets.items()}
        end = {partition: max(found) + 1 for partition, found in offsets.items()}
        with self._consumer() as consumer:
            return {
                (record.partition, record.offset): record.value
                for record in self._records(consumer, begin, end)
                if (record.partition, record.offset) in wanted and record.value is not None
            }

    def append(self, records: Iterable[tuple[bytes, bytes | None]], beside: str) -> list[Place]:
        """Write to the one partition that `beside` names. Raise IoError if not all are safe within 30 seconds."""
        partition = self._partitions[zlib.crc32(beside.encode()) % len(self._partitions)]
        deadline = time.monotonic() + _SAVE_SECONDS
        try:
            producer = connected(self._producer, self._kafka.bootstrap_servers, 0)
        except (BrokerUnreachable, ConfigError) as error:
            raise IoError(f"{self.name}: the snapshot was not written: {error}") from error
        try:
            sent: list[Any] = []
            for key, value in records:
                sent.append(producer.send(self.name, key=key, value=value, partition=partition))
                if len(sent) >= _OUTSTANDING:
                    sent[-_OUTSTANDING].get(timeout=max(0.0, deadline - time.monotonic()))
            acknowledged = [future.get(timeout=max(0.0, deadline - time.monotonic())) for future in sent]
        except KafkaError as error:
            raise IoError(f"{self.name}: the snapshot was not written: {error}") from error
        finally:
            _close(producer)
        return [(partition, one.offset) for one in acknowledged]

    def close(self) -> None:
        """Nothing is kept open between the calls."""

    def _records(self, consumer: KafkaConsumer, begin: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Any]:
        """The records of each partition from `begin` to before `end`. Raise BrokerUnreachable if no more come."""
        parts = {TopicPartition(self.name, number): number for number in begin if begin[number] < end[number]}
        consumer.assign(list(parts))
        for tp, number in parts.items():
            consumer.seek(tp, begin[number])
        deadline = time.monotonic() + self._kafka.start_timeout
        while any(consumer.position(tp) < end[number] for tp, number in parts.items()):
            polled = self._polled(consumer)
            if polled:
                deadline = time.monotonic() + self._kafka.start_timeout
            elif time.monotonic() > deadline:
                raise self._unreachable("gave no records")
            for tp, records in polled.items():
                yield from (record for record in records if record.offset < end[parts[tp]])

    def _polled(self, consumer: KafkaConsumer) -> Mapping[TopicPartition, list[Any]]:
        try:
            polled: Mapping[TopicPartition, list[Any]] = consumer.poll(timeout_ms=int(1000 * _POLL_SECONDS))
        except KafkaError as error:
            if not getattr(error, "retriable", False):
                raise self._unreachable(f"cannot be read: {error}") from error
            return {}
        return polled

    def _asked(self, question: Callable[[list[TopicPartition]], Offsets], parts: list[TopicPartition]) -> Offsets:
        try:
            return question(parts)
        except KafkaError as error:
            raise self._unreachable(f"has no offsets: {error}") from error

    @contextmanager
    def _consumer(self) -> Iterator[KafkaConsumer]:
        made = settings(self._kafka, "snapshots") | {
            "auto_offset_reset": "earliest",  # compaction may have passed the offset where reading ended
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
            "isolation_level": "read_committed",
            "max_partition_fetch_bytes": 16 * _CHUNK_BYTES,
        }
        servers, seconds = self._kafka.bootstrap_servers, self._kafka.start_timeout
        consumer = connected(lambda: KafkaConsumer(**made), servers, seconds)
        try:
            yield consumer
        finally:
            consumer.close(timeout_ms=0)

    def _producer(self) -> KafkaProducer:
        timeout_ms = int(1000 * _SAVE_SECONDS)
        made = settings(self._kafka, "snapshots") | {
            "acks": "all",
            "enable_idempotence": True,
            "bootstrap_timeout_ms": 2000,  # the next snapshot tries again
            "delivery_timeout_ms": timeout_ms,
            "request_timeout_ms": timeout_ms // 3,
            "max_block_ms": timeout_ms,
            "max_request_size": _CHUNK_BYTES + _FRAME_BYTES,
            "allow_auto_create_topics": False,
        }
        return KafkaProducer(**made)

    def _unreachable(self, why: str) -> BrokerUnreachable:
        return BrokerUnreachable(
            f"snapshots.topic: {self.name}: {why} within {self._kafka.start_timeout:g} s; check kafka.bootstrap_servers"
        )


def _close(producer: KafkaProducer) -> None:
    with suppress(KafkaError):  # what it still holds was given up above
        producer.close(timeout=1)
