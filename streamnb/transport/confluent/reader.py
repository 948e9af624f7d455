"""The log reader on confluent-kafka: assigned partitions from given offsets, never what was aborted.

It takes no part in the group, whose name librdkafka wants to be told all the same.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import filterfalse, groupby
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import BrokerUnreachable, ConfigError, IoError, LostEvents, StreamnbError
from streamnb.transport import Batch, Extent, Headers, Partition, Run
from streamnb.transport.confluent.clients import made, settings
from streamnb.transport.confluent.failures import NOT_ALLOWED, error_of
from streamnb.transport.kafka.client import next_offsets
from streamnb.transport.kafka.outcomes import lost_events
from streamnb.transport.kafka_python.reader import Reader as SlowReader

log = logs.get("transport.kafka")

POLL_SECONDS = 0.5
MEND_SECONDS = 10.0
LEADERS_SECONDS = 1.0
MOST_BYTES = 1_000_000_000
UNREADABLE = {
    KafkaError._BAD_MSG,
    KafkaError._BAD_COMPRESSION,
    KafkaError._NOT_IMPLEMENTED,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError.INVALID_MSG,
}

_message: Any = Message  # its types have it that nothing need be there, of a record too
ERROR, TOPIC, NUMBER, OFFSET = _message.error, _message.topic, _message.partition, _message.offset
TIMESTAMP, KEY, VALUE = _message.timestamp, _message.key, _message.value
# Only to be mapped: a plain `message.headers()`, as any second one, may return a list with holes in it unchecked, which
# ends the process when it is looked at.
HEADERS = _message.headers

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
        self._led: set[str] = set()
        self._again = False
        self._trouble: StreamnbError | None = None

    def start(self) -> None:
        self._consumer = made(Consumer, self._settings)

    def read(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions, each from its offset."""
        self._learn_leaders({partition.topic for partition in positions})
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
        runs, moved, troubles = self._sorted(self._consumed(min(seconds, POLL_SECONDS), limit))
        self._positions |= moved
        self._trouble = self._explained(troubles)
        if not runs:
            self._raise_trouble()
        return Batch(runs, moved)

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

    def _learn_leaders(self, topics: set[str]) -> None:
        """Have the client know who leads the partitions of topics: by itself it asks once a second only."""
        try:
            for topic in topics - self._led:
                self._open().list_topics(topic, LEADERS_SECONDS)
                self._led.add(topic)
        except KafkaException as exc:  # the broker is away: nobody else answers either
            log.debug("reader.leaders_unknown", error=exc)

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

    def _sorted(self, messages: Sequence[Any]) -> tuple[list[Run], dict[Partition, int], list[Trouble]]:
        """Records, where every partition is then (an end is behind aborted data and control records), and errors."""
        failed = list(filter(ERROR, messages))
        runs = self._runs(list(filterfalse(ERROR, messages)) if failed else messages)
        moved = {run.partition: run.next_offsets[-1] for run in runs}
        troubles: list[Trouble] = []
        for message in failed if not self._again else ():
            partition = self._partitions.get((message.topic(), message.partition()))
            offset, error = message.offset(), message.error()
            if partition is None:
                log.debug("client.says", words=error)
            elif error.code() == KafkaError._PARTITION_EOF:
                moved[partition] = max(offset, moved.get(partition, offset))
            else:
                troubles.append(Trouble(partition, offset, error))
        return runs, moved, troubles

    def _runs(self, messages: Sequence[Any]) -> list[Run]:
        """The records; if not all can be had now, those before, and `_again`.

        Column by column, which takes half the time of message by message.
        """
        headers = self._headers(messages)
        messages = messages[: len(headers)]
        if messages and len(self._partitions) == 1:  # what was fetched for others would come first
            return [_run(self._partitions[messages[0].topic(), messages[0].partition()], messages, headers)]
        runs, start = [], 0
        for place, found in groupby(zip(map(TOPIC, messages), map(NUMBER, messages), strict=True)):
            stop = start + len(list(found))
            runs.append(_run(self._partitions[place], messages[start:stop], headers[start:stop]))
            start = stop
        return runs

    def _headers(self, messages: Sequence[Any]) -> list[Headers]:
        """The headers of the records, up to the first whose headers cannot be had now. Each message can be asked once.

        On header names that are not UTF-8 confluent-kafka fails for all headers of their record.
        """
        found: list[Headers | None] = []
        slowly: dict[Position, Headers] = {}
        answers = map(HEADERS, messages)
        while len(found) < len(messages):
            try:
                found.extend(answers)
            except (SystemError, UnicodeDecodeError):
                message = messages[len(found)]
                partition, offset = self._partitions[message.topic(), message.partition()], message.offset()
                if (partition, offset) not in slowly:
                    last = max(m.offset() for m in messages if (m.topic(), m.partition()) == partition)
                    slowly |= self._read_slowly(partition, offset, last)
                if (partition, offset) not in slowly:
                    self._again = True  # from here
                    break
                found.append(slowly[partition, offset])
        return [headers or () for headers in found] if any(found) else [()] * len(found)

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

    def _read_slowly(self, partition: Partition, first: int, last: int) -> dict[Position, Headers]:
        """The headers of these records as kafka-python, which can be made to replace such names, reads them."""
        deadline = time.monotonic() + MEND_SECONDS
        found: dict[Position, Headers] = {}
        slow = self._slow()
        try:
            slow.start()
            slow.read({partition: first})
            while (partition, last) not in found and time.monotonic() < deadline:
                for run in slow.poll(POLL_SECONDS, last - first + 1).runs:
                    found |= {(partition, at): headers for at, headers in zip(run.offsets, run.headers, strict=True)}
        except BrokerUnreachable as exc:
            log.warning("reader.retry", partition=partition, error=exc)
        finally:
            slow.close(0)
        return found


def _run(partition: Partition, messages: Sequence[Any], headers: Sequence[Headers]) -> Run:
    first, last = messages[0].offset(), messages[-1].offset()
    offsets: Sequence[int] = range(first, last + 1)
    if len(offsets) != len(messages):  # there are gaps where transactions end
        offsets = list(map(OFFSET, messages))
    return Run(
        partition,
        offsets=offsets,
        next_offsets=next_offsets(offsets),
        timestamps=[milliseconds / 1000 if kind else None for kind, milliseconds in map(TIMESTAMP, messages)],
        keys=list(map(KEY, messages)),
        values=list(map(VALUE, messages)),
        headers=headers,
    )


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
