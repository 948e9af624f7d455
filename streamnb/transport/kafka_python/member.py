"""The membership on kafka-python: a consumer that joins, is given partitions and never reads them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata

from streamnb.config import KafkaConfig
from streamnb.transport import Committed, Partition
from streamnb.transport.kafka.client import Failure
from streamnb.transport.kafka.clients import connected, settings
from streamnb.transport.kafka_python.failures import failure

SLICE_SECONDS = 0.05

Given = Callable[[frozenset[Partition], ConsumerGroupMetadata], None]
Lost = Callable[[], None]


class Member:
    """See `streamnb.transport.kafka.client.Member`; the token is kafka-python's group metadata."""

    def __init__(self, app: str, kafka: KafkaConfig) -> None:
        self._kafka = kafka
        self._settings = _member_settings(app, kafka)
        self._told = False

    def start(self) -> None:
        self._consumer = connected(self.make_consumer, self._kafka.bootstrap_servers, self._kafka.start_timeout)
        # The client offers no other way to say that a join which has begun must also be heard to its end.
        self._rejoin: Callable[[], None] = self._consumer._coordinator.request_rejoin

    def make_consumer(self) -> KafkaConsumer:
        return KafkaConsumer(**self._settings)

    def subscribe(self, topics: Sequence[str], given: Given, lost: Lost) -> None:
        def told(partitions: frozenset[Partition], token: ConsumerGroupMetadata) -> None:
            self._told = bool(partitions)  # none may mean that this client has not heard of the topics yet
            given(partitions, token)

        self._consumer.subscribe(list(topics), listener=_Listener(self._consumer, self._rejoin, told, lost))

    def poll(self, seconds: float) -> None:
        """In slices, back to back, since the client's own poll goes on after it has joined: it waits for records."""
        deadline, self._told = time.monotonic() + seconds, False
        while True:
            left = deadline - time.monotonic()
            with _translated():
                self._consumer.poll(timeout_ms=int(1000 * max(0.0, min(left, SLICE_SECONDS))))
            if self._told or left <= 0:
                return

    def holds(self, token: ConsumerGroupMetadata) -> bool:
        now = self._consumer.group_metadata()
        same = (now.generation_id, now.member_id) == (token.generation_id, token.member_id)
        return bool(token.generation_id >= 0 and same and now.state == MemberState.STABLE)

    def committed(self, partitions: Iterable[Partition], seconds: float) -> dict[Partition, Committed]:
        deadline = time.monotonic() + seconds
        found = {}
        for partition in partitions:
            left = max(1, int((deadline - time.monotonic()) * 1000))
            with _translated():
                at = self._consumer.committed(TopicPartition(*partition), metadata=True, timeout_ms=left)
            if at is not None:
                found[partition] = Committed(at.offset, at.metadata or "")
        return found

    def commit(self, offsets: Mapping[Partition, Committed], seconds: float) -> None:
        try:
            self._consumer.commit(offsets_of(offsets), timeout_ms=int(seconds * 1000))
        except kafka_errors.FencedInstanceIdError as exc:
            raise Failure("replaced", exc) from exc
        except KafkaError as exc:
            raise failure(exc) from exc

    def close(self, seconds: float) -> None:
        with _translated():
            self._consumer.close(timeout_ms=int(seconds * 1000))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Hears what is given and taken. It runs on the client's own thread, where nothing may be asked of the broker."""

    def __init__(self, consumer: KafkaConsumer, rejoin: Callable[[], None], given: Given, lost: Lost) -> None:
        self._consumer, self._rejoin, self._given, self._lost = consumer, rejoin, given, lost

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        given = list(assigned)
        if given:
            self._consumer.pause(*given)
        for partition in given:
            self._consumer.seek(partition, 0)  # never read; without a position every poll would ask for one
        self._given(frozenset(Partition(*tp) for tp in given), self._consumer.group_metadata())

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002  # all are, always
        # A leader that joins again because partitions were added forgets why as soon as it has shared them out; if
        # that falls between two polls, the next one takes the group for stable, and nobody ever hears the assignment.
        self._rejoin()
        self._lost()

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:  # noqa: ARG002
        self._lost()


_REFUSALS = (
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.GroupMaxSizeReachedError,
    kafka_errors.InvalidGroupIdError,
)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except kafka_errors.FencedInstanceIdError as exc:
        raise Failure("replaced", exc) from exc
    except _REFUSALS as exc:
        raise Failure("refused", exc) from exc
    except KafkaError as exc:
        raise Failure("passing", exc) from exc


def offsets_of(offsets: Mapping[Partition, Committed]) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets as kafka-python wants them."""
    return {TopicPartition(*p): OffsetAndMetadata(at.offset, at.metadata, -1) for p, at in offsets.items()}


def _member_settings(app: str, kafka: KafkaConfig) -> dict[str, object]:
    session_ms = int(kafka.session_timeout * 1000)
    own: dict[str, object] = {
        "group_id": app,
        "group_instance_id": kafka.instance if kafka.static_membership else None,
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": min(1000, session_ms // 3),
        "max_poll_interval_ms": max(60_000, 3 * session_ms),
        "partition_assignment_strategy": (RoundRobinPartitionAssignor,),
        "isolation_level": "read_committed",  # what makes `committed` wait for a pending transaction
        "auto_offset_reset": "none",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "metadata_max_age_ms": 5000,  # how soon added partitions are shared out
    }
    return settings(kafka, "duty") | own
