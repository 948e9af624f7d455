"""The log reader on confluent-kafka: assigned partitions from given offsets, never what was aborted.

It takes no part in the group, whose name librdkafka wants to be told all the same.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import BrokerUnreachable, ConfigError, IoError, LostEvents, StreamnbError
from streamnb.transport import Batch, Extent, Headers, Partition, Record
from streamnb.transport.confluent.clients import made, settings
from streamnb.transport.confluent.failures import NOT_ALLOWED, error_of
from streamnb.transport.kafka.outcomes import lost_events
from streamnb.transport.kafka_python.reader import Reader as SlowReader

log = logs.get("transport.kafka")

POLL_SECONDS = 0.5
MEND_SECONDS = 10.0
MOST_BYTES = 1_000_000_000
UNREADABLE = {
    KafkaError._BAD_MSG,
    KafkaError._BAD_COMPRESSION,
    KafkaError._NOT_IMPLEMENTED,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError.INVALID_MSG,
}

# A plain `message.headers()` may return, unchecked, a list with holes in it that ends the process when it is looked at.
headers_of: Callable[[Any], Headers | None] = methodcaller("headers")

Extents = Callable[[], Mapping[Partition, Extent]]
Position = tuple[Partition, int]


class Trouble(NamedTuple):
    """An error that came in place of a record."""

    partition: Partition
    offset: int
    error: KafkaError


class Reader:
    """Owns the consumer. `extents` answers with what the broker says now."""

    def __init__(self, app: str, kafka: KafkaConfig, event_bytes: int, extents: Extents) -> None:
        self._settings = _reader_settings(app, kafka, event_bytes)
        self._extents = extents
        self._slow: Callable[[], SlowReader] = partial(SlowReader, app, kafka, event_bytes, extents)
        self._consumer: Consumer | None = None
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._positions: dict[Partition, int] = {}
        self._again = False
        self._trouble: StreamnbError | None = None
        self._headers: dict[Position, Headers] = {}

    def start(self) -> None:
        self._consumer = made(Consumer, self._settings)

    def read(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions, each from its offset."""
        self._partitions = {(p.topic, p.number): p for p in positions}
        self._positions = dict(positions)
        self._trouble = None
        self._assign()

    def poll(self, seconds: float, limit: int) -> Batch:
        if not self._partitions:
            time.sleep(min(seconds, POLL_SECONDS))
            return Batch()
        self._raise_trouble()
        if self._again:
            self._assign()
        records, moved, troubles = self._sorted(self._consumed(min(seconds, POLL_SECONDS), limit))
        self._positions |= moved
        self._trouble = self._explained(troubles)
        if not records:
            self._raise_trouble()
        return Batch(records, moved)

    def close(self, seconds: float) -> None:  # noqa: ARG002  # it has nothing to wait for
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _open(self) -> Consumer:
        assert self._consumer is not None, "open() comes first"
        return self._consumer

    def _assign(self) -> None:
        self._again = False
        self._open().assign([TopicPartition(p.topic, p.number, at) for p, at in self._positions.items()])

    def _consumed(self, seconds: float, limit: int) -> list[Any]:
        """What there is, at once: left alone, the client would wait until it has `limit` messages."""
        consumer = self._open()
        try:
            if ready := consumer.consume(limit, 0):
                return ready
            first = consumer.consume(1, seconds)
            return first + consumer.consume(limit - 1, 0) if first and limit > 1 else first
        except KafkaException as exc:
            raise IoError(f"kafka: the client cannot go on reading: {error_of(exc) or exc}") from exc

    def _sorted(self, messages: Sequence[Any]) -> tuple[list[Record], dict[Partition, int], list[Trouble]]:
        """Records, where every partition is then (an end is behind aborted data and control records), and errors."""
        records: list[Record] = []
        moved: dict[Partition, int] = {}
        troubles: list[Trouble] = []
        partitions, make = self._partitions, tuple.__new__  # half the time of calling Record
        for message in messages:
            partition = partitions.get((message.topic(), message.partition()))
            offset, error = message.offset(), message.error()
            if partition is None:
                log.debug("client.says", words=error)
            elif error is None:
                try:
                    headers = headers_of(message) or ()
                except (SystemError, UnicodeDecodeError):
                    found = self._mended(partition, offset, messages)
                    if found is None:
                        self._again = True  # from here
                        break
                    headers = found
                kind, milliseconds = message.timestamp()
                timestamp = milliseconds / 1000 if kind else None
                key, value, after = message.key(), message.value(), offset + 1
                records.append(make(Record, (partition, offset, after, timestamp, key, value, headers)))
                moved[partition] = after
            elif error.code() == KafkaError._PARTITION_EOF:
                moved[partition] = offset
            else:
                troubles.append(Trouble(partition, offset, error))
        self._headers = {}
        return records, moved, troubles

    def _explained(self, troubles: Sequence[Trouble]) -> StreamnbError | None:
        """What the engine must act on; None if the broker is only away."""
        lost = {}
        for partition, offset, error in troubles:
            where = f"{partition} at offset {offset}"
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                lost[partition] = self._positions[partition]
            elif error.code() == KafkaError._LOG_TRUNCATION:
                return LostEvents(f"{where}: the log was cut below what had been read of it: {error.str()}")
            elif error.code() in NOT_ALLOWED:
                return ConfigError(f"kafka: {partition}: not allowed to read: {error.str()}")
            elif error.code() in UNREADABLE:
                return IoError(f"{where}: the record batch cannot be read: {error.str()}")
            else:
                log.warning("reader.retry", partition=partition, error=error.str())
        return lost_events(lost, self._extents()) if lost else None

    def _raise_trouble(self) -> None:
        """Raise what came after the last records. Librdkafka is done with such a partition: it is assigned anew."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            self._again = True
            raise trouble

    # Header names that are not UTF-8, on which confluent-kafka fails for all headers of their record

    def _mended(self, partition: Partition, offset: int, messages: Sequence[Any]) -> Headers | None:
        """The headers of the record at this offset, among these; None if they cannot be had now."""
        if (partition, offset) not in self._headers:
            offsets = (m.offset() for m in messages if (m.topic(), m.partition()) == partition and m.error() is None)
            self._headers |= self._read_slowly(partition, offset, max(offsets))
        return self._headers.get((partition, offset))

    def _read_slowly(self, partition: Partition, first: int, last: int) -> dict[Position, Headers]:
        """The headers of these records as kafka-python, which can be made to replace such names, reads them."""
        deadline = time.monotonic() + MEND_SECONDS
        found: dict[Position, Headers] = {}
        slow = self._slow()
        try:
            slow.start()
            slow.read({partition: first})
            while (partition, last) not in found and time.monotonic() < deadline:
                records = slow.poll(POLL_SECONDS, last - first + 1).records
                found |= {(partition, record.offset): record.headers for record in records}
        except BrokerUnreachable as exc:
            log.warning("reader.retry", partition=partition, error=exc)
        finally:
            slow.close(0)
        return found


def _reader_settings(app: str, kafka: KafkaConfig, event_bytes: int) -> dict[str, Any]:
    own: dict[str, Any] = {
        "group.id": app,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,  # the only way to hear of a position behind aborted data
        "check.crcs": True,
        "max.partition.fetch.bytes": min(MOST_BYTES, max(1_048_576, event_bytes)),
        "receive.message.max.bytes": MOST_BYTES,  # a larger record than event_bytes must be read to be refused
        "fetch.wait.max.ms": 100,  # a jump waits for the fetch under way
        "queued.min.messages": 20_000,
        "queued.max.messages.kbytes": 16_384,  # for each partition
        "fetch.queue.backoff.ms": 10,  # a second by default, in which a fast reader would have nothing to read
    }
    return settings(kafka, "reader") | own
