"""A producer on kafka-python. Its transactional calls may never return once a coordinator has died."""

import time
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.producer.future import FutureRecordMetadata
from kafka.serializer import Serializer

from streamnb.config import KafkaConfig
from streamnb.transport.kafka.client import Commit, Failure
from streamnb.transport.kafka.clients import settings
from streamnb.transport.kafka.outcomes import required_size
from streamnb.transport.kafka.router import Addressed
from streamnb.transport.kafka_python.failures import failure, require_delivered
from streamnb.transport.kafka_python.member import offsets_of

INIT_SECONDS = 15.0
FOREVER_MS = 86_400_000
REFUSED = ("TransactionalIdAuthorizationFailed", "InvalidTransactionTimeout", "ClusterAuthorizationFailed")
APPEND = ["tp", "timestamp_ms", "key", "value", "headers", "now", "abort_on_new_batch"]

NOTHING = object()


class _Values(Serializer):  # type: ignore[misc]  # kafka-python has no types
    """Sends values as they are, and `NOTHING` as null: kafka-python refuses None where there is no key either."""

    def serialize(self, topic: str, headers: object, data: object) -> object:  # noqa: ARG002
        return None if data is NOTHING else data


def transact(producer: KafkaProducer, commit: Commit, seconds: float) -> None:
    """Publish records and offsets in one transaction."""
    assert commit.token.generation_id >= 0, "a commit under generation -1 is accepted from anyone"
    producer.begin_transaction()
    deliver(producer, commit.records, seconds)
    # Everything is acknowledged before the commit: a record that expires meanwhile would not fail it.
    if commit.offsets:
        producer.send_offsets_to_transaction(offsets_of(commit.offsets), commit.token)
    producer.commit_transaction()


def deliver(producer: KafkaProducer, records: Sequence[Addressed], seconds: float) -> None:
    """Send all records, and return when every one is acknowledged."""
    require_delivered(producer, sent(producer, records), seconds)


def sent(producer: KafkaProducer, records: Sequence[Addressed]) -> list[FutureRecordMetadata]:
    """Send all records; each has a future of its own, as `send` gives it.

    Only the first record to a partition is sent by `send`, which checks the topic and makes the partition a part of
    the transaction. The others are what a `send` comes to after its checks, all of which hold: half its time.
    """
    append = _append(producer)
    partitions: dict[tuple[str, int], TopicPartition] = {}
    futures = []
    now = time.monotonic()
    for topic, partition, key, value, headers in records:
        there = partitions.get((topic, partition))
        if there is not None and append is not None:
            future = append(there, None, key, value, headers, now)[0]
        else:
            partitions[topic, partition] = TopicPartition(topic, partition)
            future = producer.send(topic, NOTHING if value is None else value, key, headers, partition)
        futures.append(future)
    return futures


def _append(producer: KafkaProducer) -> Callable[..., tuple[FutureRecordMetadata, bool, bool, bool]] | None:
    """What `send` calls in the end, which is the client's own affair: None in a release where it is not as here."""
    append = getattr(getattr(producer, "_accumulator", None), "append", None)
    return append if callable(append) and list(signature(append).parameters) == APPEND else None


class Producer:
    """See `streamnb.transport.kafka.client.Producer`."""

    def __init__(self, producer: KafkaProducer, transactional: bool) -> None:
        self._producer, self._transactional = producer, transactional

    def prepare(self) -> None:
        if self._transactional:
            try:
                self._producer.init_transactions()
            except KafkaError as exc:
                raise _unprepared(exc) from exc

    def begin(self, records: Sequence[Addressed]) -> None:
        """Nothing: a call that takes records may wait."""

    def transact(self, commit: Commit, seconds: float) -> None:
        self._translated(lambda: transact(self._producer, commit, seconds))

    def deliver(self, records: Sequence[Addressed], seconds: float) -> None:
        self._translated(lambda: deliver(self._producer, records, seconds))

    def close(self, seconds: float) -> bool:
        try:
            self._producer.close(timeout=seconds)
        except KafkaError:  # records still wait for their acknowledgement
            return False
        return True

    def _translated(self, publish: Callable[[], Any]) -> None:
        try:
            publish()
        except Exception as exc:
            raise failure(exc) from exc


def producers(kafka: KafkaConfig, transactional_id: str | None, largest_bytes: int) -> Callable[[], Producer]:
    """See `streamnb.transport.kafka.client.Client`."""
    made = _producer_settings(kafka, transactional_id, largest_bytes)

    def make() -> Producer:
        try:
            return Producer(KafkaProducer(**made), transactional_id is not None)
        except KafkaError as exc:
            raise _unprepared(exc) from exc

    return make


def _unprepared(exc: KafkaError) -> Failure:
    return Failure("refused" if any(word in str(exc) for word in REFUSED) else "passing", exc)


def _producer_settings(kafka: KafkaConfig, transactional_id: str | None, largest_bytes: int) -> dict[str, object]:
    timeout_ms = int(kafka.transaction_timeout * 1000)
    own: dict[str, object] = {
        "bootstrap_timeout_ms": FOREVER_MS,
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout_ms,
        "delivery_timeout_ms": timeout_ms,
        "request_timeout_ms": max(1000, timeout_ms // 2),
        "max_block_ms": int(INIT_SECONDS * 1000),
        "retry_backoff_ms": 5,  # 100 by default, which every second transaction of a busy instance would wait
        "linger_ms": 100,  # costs nothing: each publish ends in a flush
        "batch_size": min(1_000_000, largest_bytes),
        "max_request_size": required_size(largest_bytes),
        "allow_auto_create_topics": False,
        "value_serializer": _Values(),
    }
    return settings(kafka, "publisher") | own
