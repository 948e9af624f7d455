"""The log reader: reads assigned partitions from given offsets, in no group, and never what was aborted."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.errors import KafkaError

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import ConfigError, IoError, LostEvents
from streamnb.transport import Batch, Extent, Partition, Run
from streamnb.transport.kafka.clients import connected, settings
from streamnb.transport.kafka.outcomes import lost_events
from streamnb.transport.kafka_python import header_names

log = logs.get("transport.kafka")

POLL_SECONDS = 0.5
LOOK_SECONDS = 0.25
CULPRIT_MS = 2000


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
        self._next_look = 0.0

    def make_consumer(self) -> KafkaConsumer:
        header_names.tolerate()
        return KafkaConsumer(**self._settings)

    def start(self) -> None:
        self._consumer = connected(self.make_consumer, self._kafka.bootstrap_servers, self._kafka.start_timeout)

    def read(self, positions: Mapping[Partition, int]) -> None:
        """Read exactly these partitions, each from its offset; what is buffered of an unmoved one is kept."""
        consumer = self._open()
        self._partitions = {TopicPartition(*partition): partition for partition in positions}
        consumer.assign(list(self._partitions))
        for tp, partition in self._partitions.items():
            if self._positions.get(partition) != positions[partition]:
                consumer.seek(tp, positions[partition])
        self._positions = dict(positions)

    def poll(self, seconds: float, limit: int) -> Batch:
        if not self._partitions:
            time.sleep(min(seconds, POLL_SECONDS))
            return Batch()
        timeout_ms = int(min(seconds, POLL_SECONDS) * 1000)
        try:
            polled = self._open().poll(timeout_ms=timeout_ms, max_records=limit)
        except Exception as exc:
            self._explain(exc)
            return Batch()
        runs = [_run(self._partitions[tp], raws) for tp, raws in polled.items() if raws and tp in self._partitions]
        return Batch(runs, self._moved(polled))

    def close(self, seconds: float) -> None:  # noqa: ARG002  # it has nothing to wait for
        if self._consumer is not None:
            self._consumer.close(timeout_ms=0)
            self._consumer = None

    def _open(self) -> KafkaConsumer:
        assert self._consumer is not None, "open() comes first"
        return self._consumer

    def _moved(self, polled: Mapping[TopicPartition, object]) -> dict[Partition, int]:
        """The client's positions that changed: they pass aborted data and control records too."""
        now = time.monotonic()
        everywhere = not polled or now >= self._next_look
        if everywhere:
            self._next_look = now + LOOK_SECONDS
        moved = {}
        for tp in self._partitions if everywhere else polled:
            partition = self._partitions[tp]
            position = self._open().position(tp, timeout_ms=0)
            if position is not None and position != self._positions[partition]:
                moved[partition] = self._positions[partition] = position
        return moved

    def _explain(self, exc: Exception) -> None:
        """Raise what the engine can act on; return if the broker is only away."""
        match exc:
            case kafka_errors.OffsetOutOfRangeError():
                asked = exc.args[0] if exc.args and isinstance(exc.args[0], dict) else {}
                raise lost_events({Partition(*tp): at for tp, at in asked.items()}, self._extents()) from exc
            case kafka_errors.LogTruncationError():
                raise LostEvents(f"the log was cut below what had been read of it: {exc}") from exc
            case kafka_errors.UnsupportedCodecError():
                codec = next((c for c in ("gzip", "snappy", "lz4", "zstd") if c in str(exc)), "unknown")
                where = self._culprit()
                how = "pip install 'streamnb[codecs]'"
                said = f"records are compressed with {codec}, and no module here reads that"
                raise ConfigError(f"{where}: {said}: {how}") from exc
            case kafka_errors.AuthorizationError():
                raise ConfigError(f"kafka: not allowed to read: {exc}") from exc
            case KafkaError() if getattr(exc, "retriable", False):
                log.warning("reader.retry", error=exc)
            case _:
                raise IoError(f"{self._culprit()}: the record batch cannot be read: {exc!r}") from exc

    def _culprit(self) -> str:
        """The partition and offset that cannot be read: the error does not say, so ask each partition alone."""
        self._replace_consumer()
        found = "one of " + ", ".join(f"{p} from offset {at}" for p, at in self._positions.items())
        for tp, partition in self._partitions.items():
            position = self._positions[partition]
            self._open().assign([tp])
            self._open().seek(tp, position)
            try:
                while records := self._open().poll(timeout_ms=CULPRIT_MS).get(tp):
                    position = records[-1].offset + 1
            except KafkaError:
                found = f"{partition} at offset {position}"
                break
        self._replace_consumer()
        self._positions = {}
        return found

    def _replace_consumer(self) -> None:
        """A consumer that once failed to unpack a batch spins for ever in its next poll."""
        self.close(0)
        self.start()


def _run(partition: Partition, raws: Sequence[Any]) -> Run:
    offsets = [raw.offset for raw in raws]
    return Run(
        partition,
        offsets=offsets,
        next_offsets=[offset + 1 for offset in offsets],
        timestamps=[None if (at := raw.timestamp) is None or at < 0 else at / 1000 for raw in raws],
        keys=[raw.key for raw in raws],
        values=[raw.value for raw in raws],
        headers=[raw.headers or () for raw in raws],
    )


def _reader_settings(kafka: KafkaConfig, event_bytes: int) -> dict[str, object]:
    own: dict[str, object] = {
        "isolation_level": "read_committed",
        "auto_offset_reset": "none",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "max_partition_fetch_bytes": max(1_048_576, event_bytes),
        "fetch_max_wait_ms": 100,  # a jump waits for the fetch under way
    }
    return settings(kafka, "reader") | own
