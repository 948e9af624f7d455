"""The membership on confluent-kafka: a consumer that joins, and takes none of the partitions it is given.

Assigning nothing answers the group as well as assigning all of them paused, and cannot read by mistake. The assignor
is an eager one: librdkafka's cooperative one changes the generation without a poll.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from streamnb.config import KafkaConfig
from streamnb.errors import ConfigError
from streamnb.transport import Committed, Partition
from streamnb.transport.confluent.clients import made, settings
from streamnb.transport.confluent.failures import FENCED, grouping, grouping_errors, publishing
from streamnb.transport.kafka.client import Failure

SLICE_SECONDS = 0.05
METADATA = b"CGMDv2:"

Given = Callable[[frozenset[Partition], bytes], None]
Lost = Callable[[], None]
Offsets = dict[tuple[str, int], int]


def generation(metadata: bytes) -> int:
    """The generation within librdkafka's group metadata, which it calls opaque; -1 is no member of anything."""
    if not metadata.startswith(METADATA):
        raise ConfigError(f"kafka.client: this version of confluent-kafka has another group metadata: {metadata!r}")
    return int.from_bytes(metadata[len(METADATA) : len(METADATA) + 4], sys.byteorder, signed=True)


class Member:
    """See `streamnb.transport.kafka.client.Member`; the token is librdkafka's group metadata."""

    def __init__(self, app: str, kafka: KafkaConfig) -> None:
        self._settings = _member_settings(app, kafka) | {"on_commit": self._confirmed}
        self._told = False
        self._confirmations: list[tuple[Offsets, KafkaError | None]] = []

    def start(self) -> None:
        self._consumer = made(Consumer, self._settings)

    def subscribe(self, topics: Sequence[str], given: Given, lost: Lost) -> None:
        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self._told = True
            consumer.assign([])
            given(frozenset(Partition(tp.topic, tp.partition) for tp in partitions), consumer.consumer_group_metadata())

        def on_end(consumer: Consumer, partitions: list[TopicPartition]) -> None:  # noqa: ARG001  # all, always
            lost()

        with grouping_errors():
            self._consumer.subscribe(list(topics), on_assign=on_assign, on_revoke=on_end, on_lost=on_end)

    def poll(self, seconds: float) -> None:
        """Serve the group; it goes on joining between the polls, so that they may end early."""
        deadline, self._told = time.monotonic() + seconds, False
        while True:
            left = deadline - time.monotonic()
            with grouping_errors():
                message = self._consumer.poll(max(0.0, min(left, SLICE_SECONDS)))
            error = message and message.error()
            if error:
                raise grouping(error, error)
            if self._told or left <= 0:
                return

    def holds(self, token: bytes) -> bool:
        return generation(token) >= 0 and bool(self._consumer.consumer_group_metadata() == token)

    def committed(self, partitions: Iterable[Partition], seconds: float) -> dict[Partition, Committed]:
        asked = [TopicPartition(*partition) for partition in partitions]
        if not asked:
            return {}
        with grouping_errors():
            answers = self._consumer.committed(asked, timeout=seconds)
        for at in answers:
            if at.error is not None:
                raise grouping(at.error, at.error)
        return {
            Partition(at.topic, at.partition): Committed(at.offset, at.metadata or "")
            for at in answers
            if at.offset >= 0
        }

    def commit(self, offsets: Mapping[Partition, Committed], seconds: float) -> None:
        """Commit without waiting inside the client, whose own waiting has no end."""
        deadline, positions = time.monotonic() + seconds, positions_of(offsets)
        wanted = _numbers(positions)
        self._confirmations.clear()
        with grouping_errors():
            self._consumer.commit(offsets=positions, asynchronous=True)
        while (error := self._answer(wanted)) is ...:
            if time.monotonic() > deadline:
                raise Failure("passing", f"the group did not confirm offsets within {seconds:g} s")
            with grouping_errors():
                self._consumer.poll(SLICE_SECONDS)
        if error is not None:
            raise grouping(error, error) if error.code() in FENCED else publishing(error, error)

    def close(self, seconds: float) -> None:  # noqa: ARG002  # librdkafka takes the time it takes, in this thread
        with grouping_errors():
            self._consumer.close()

    def _confirmed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        error = error or next((at.error for at in partitions if at.error is not None), None)
        self._confirmations.append((_numbers(partitions), error))

    def _answer(self, wanted: Offsets) -> Any:
        """What came of committing these offsets, an error or None; `...` while nobody has said."""
        return next((error for offsets, error in self._confirmations if offsets == wanted), ...)


def positions_of(offsets: Mapping[Partition, Committed]) -> list[TopicPartition]:
    """The offsets as confluent-kafka wants them."""
    return [TopicPartition(p.topic, p.number, at.offset, at.metadata) for p, at in offsets.items()]


def _numbers(positions: Iterable[TopicPartition]) -> Offsets:
    return {(at.topic, at.partition): at.offset for at in positions}


def _member_settings(app: str, kafka: KafkaConfig) -> dict[str, Any]:
    session_ms = int(kafka.session_timeout * 1000)
    own: dict[str, Any] = {
        "group.id": app,
        "session.timeout.ms": session_ms,
        "heartbeat.interval.ms": max(1, min(1000, session_ms // 3)),
        "max.poll.interval.ms": max(60_000, 3 * session_ms),
        "partition.assignment.strategy": "roundrobin",
        "isolation.level": "read_committed",  # what makes `committed` wait for a pending transaction
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 5000,  # how soon added partitions are shared out
    }
    static = {"group.instance.id": kafka.instance} if kafka.static_membership else {}
    return settings(kafka, "duty") | own | static
