"""The log reader: reads assigned partitions from given offsets, in no group, and never what was aborted."""

import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.net.selector import NetworkSelector

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import ConfigError, IoError, LostEvents
from streamnb.transport import Batch, Extent, Partition, Run
from streamnb.transport.kafka.clients import connected, settings
from streamnb.transport.kafka.outcomes import lost_events
from streamnb.transport.kafka_python.fetched import Fetched, Piece, Unreadable, warm_up

log = logs.get("transport.kafka")

POLL_SECONDS = 0.5
LEADERS_MS = 1000
ALL = sys.maxsize
FETCHED_BYTES = 4 << 20
"""By one request, which costs as much as reading 100 kB: all of it is unpacked at once."""


class _Loop(NetworkSelector):  # type: ignore[misc]  # kafka-python has no types
    """Driven by the calls that wait for something, not by a thread of its own, which would fight them for the GIL."""

    def start(self) -> None:
        pass


def _client(**configs: Any) -> KafkaNetClient:
    return KafkaNetClient(net=_Loop(**configs), **configs)


class Reader:
    """Owns the consumer. `extents` answers with what the broker says now."""

    def __init__(
        self,
        app: str,  # noqa: ARG002  # reads in no group
        kafka: KafkaConfig,
        event_bytes: int,
        extents: Callable[[], Mapping[Partition, Extent]],
    ) -> None:
        self._kafka = kafka
        self._settings = _reader_settings(kafka, event_bytes)
        self._extents = extents
        self._consumer: KafkaConsumer | None = None
        self._partitions: dict[TopicPartition, Partition] = {}
        self._positions: dict[Partition, int] = {}
        self._fetched: deque[tuple[Piece, int]] = deque()
        """What the client has given, and how many of its records have been handed on."""
        self._led: set[str] = set()

    def start(self) -> None:
        warm_up()
        self._consumer = connected(self._made, self._kafka.bootstrap_servers, self._kafka.start_timeout)

    def read(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions, each from its offset; what is buffered of an unmoved one is kept."""
        consumer = self._open()
        self._partitions = {TopicPartition(*partition): partition for partition in positions}
        moved = {partition for partition, at in positions.items() if self._positions.get(partition) != at}
        kept = positions.keys() - moved
        self._fetched = deque((piece, at) for piece, at in self._fetched if piece.run.partition in kept)
        consumer.assign(list(self._partitions))
        for partition in moved:
            consumer.seek(TopicPartition(*partition), positions[partition])
        self._positions = dict(positions)
        self._learn_leaders()

    def poll(self, seconds: float, limit: int) -> Batch:
        if not self._partitions:
            time.sleep(min(seconds, POLL_SECONDS))
            return Batch()
        if not self._fetched:
            self._fetch(int(min(seconds, POLL_SECONDS) * 1000))
        runs: list[Run] = []
        moved: dict[Partition, int] = {}
        while self._fetched and limit > 0:
            (run, end), start = self._fetched.popleft()
            stop = min(start + limit, len(run))
            if stop < len(run):
                self._fetched.appendleft((Piece(run, end), stop))
                end = run.next_offsets[stop - 1]
            if stop > start:
                runs.append(run.part(start, stop))
            moved[run.partition] = end
            limit -= stop - start
        self._positions |= moved
        return Batch(runs, moved)

    def close(self, seconds: float) -> None:  # noqa: ARG002  # it has nothing to wait for
        if self._consumer is not None:
            self._consumer.close(timeout_ms=0)
            self._consumer = None

    def _open(self) -> KafkaConsumer:
        assert self._consumer is not None, "open() comes first"
        return self._consumer

    def _made(self) -> KafkaConsumer:
        consumer = KafkaConsumer(**self._settings)
        consumer._fetcher.PartitionRecords = Fetched
        return consumer

    def _learn_leaders(self) -> None:
        """Have the client know who leads the partitions of new topics, before it looks for them between its sleeps."""
        new = [tp for tp in self._partitions if tp.topic not in self._led]
        try:
            if new:
                self._open().end_offsets(new, timeout_ms=LEADERS_MS)
                self._led |= {tp.topic for tp in new}
        except (KafkaError, KeyError) as exc:  # the broker is away, or one of the partitions has no leader
            log.debug("reader.leaders_unknown", error=exc)

    def _fetch(self, timeout_ms: int) -> None:
        """Take what the client has. Its positions are not asked for: that would start questions of its own."""
        try:
            polled = self._open().poll(timeout_ms=timeout_ms, max_records=ALL)
        except Exception as exc:
            self._explain(exc)
        else:
            self._fetched.extend((piece, 0) for pieces in polled.values() for piece in pieces)

    def _explain(self, exc: Exception) -> None:
        """Raise what the engine can act on; return if the broker is only away."""
        match exc:
            case kafka_errors.OffsetOutOfRangeError():
                asked = exc.args[0] if exc.args and isinstance(exc.args[0], dict) else {}
                raise lost_events({Partition(*tp): at for tp, at in asked.items()}, self._extents()) from exc
            case kafka_errors.LogTruncationError():
                raise LostEvents(f"the log was cut below what had been read of it: {exc}") from exc
            case Unreadable(__cause__=kafka_errors.UnsupportedCodecError() as cause):
                codec = next((c for c in ("gzip", "snappy", "lz4", "zstd") if c in str(cause)), "unknown")
                how = "pip install 'streamnb[codecs]'"
                said = f"records are compressed with {codec}, and no module here reads that"
                raise ConfigError(f"{exc}: {said}: {how}") from exc
            case Unreadable():
                raise IoError(f"{exc}: the record batch cannot be read: {exc.__cause__!r}") from exc
            case kafka_errors.AuthorizationError():
                raise ConfigError(f"kafka: not allowed to read: {exc}") from exc
            case KafkaError() if getattr(exc, "retriable", False):
                log.warning("reader.retry", error=exc)
            case _:
                raise IoError(f"kafka: reading failed: {exc!r}") from exc


def _reader_settings(kafka: KafkaConfig, event_bytes: int) -> dict[str, object]:
    own: dict[str, object] = {
        "kafka_client": _client,
        "isolation_level": "read_committed",
        "auto_offset_reset": "none",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "max_partition_fetch_bytes": max(FETCHED_BYTES, event_bytes),
        "fetch_max_bytes": max(FETCHED_BYTES, event_bytes),
        "fetch_max_wait_ms": 100,  # a jump waits for the fetch under way
        "retry_backoff_ms": 25,  # so long it sleeps where it has nothing to wait for; its loop stands still meanwhile
    }
    return settings(kafka, "reader") | own
