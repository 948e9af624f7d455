"""The loops that a user would write with kafka-python, and the bench's own way to its topics and events."""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from streamnb.bench.pipeline.plan import LABEL, Answer, Plan
from streamnb.bench.pipeline.streams import Pair

SECONDS = 60.0


def run(plan: Plan, answer: Answer | None) -> None:
    """Consume, answer and commit for ever: with `answer`, or the same number of bytes whatever the event says."""
    consumer = KafkaConsumer(
        plan.topic,
        bootstrap_servers=plan.bootstrap,
        group_id=plan.name,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = KafkaProducer(
        bootstrap_servers=plan.bootstrap,
        transactional_id=plan.name,
        linger_ms=100,
        batch_size=1_000_000,
        retry_backoff_ms=5,
    )
    producer.init_transactions()
    payload = bytes(plan.answer_bytes)
    try:
        while True:
            for partition, records in consumer.poll(500, max_records=plan.limit).items():
                producer.begin_transaction()
                sent = []
                for record in records:
                    value = record.value
                    prediction = (None if LABEL in value else payload) if answer is None else answer(value)
                    if prediction is not None:
                        sent.append(producer.send(plan.answers, prediction, record.key, partition=0))
                producer.flush()
                if not all(future.succeeded() for future in sent):
                    raise SystemExit("a record was not delivered")
                offset = OffsetAndMetadata(records[-1].offset + 1, "", -1)
                producer.send_offsets_to_transaction({partition: offset}, consumer.group_metadata())
                producer.commit_transaction()
    finally:
        consumer.close(timeout_ms=1000)
        producer.close(timeout=1)


class Topics:
    """Topics of names that nobody else uses, which are gone once this is left."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap, bootstrap_timeout_ms=10_000)
        self._made: list[str] = []
        self._groups: list[str] = []
        self._run = uuid.uuid4().hex[:8]

    def topic(self, name: str) -> str:
        """Make a topic of one partition."""
        unique = self.name(name)
        self._admin.create_topics([NewTopic(unique, 1, 1)])
        self._made.append(unique)
        _wait_until(lambda: unique in self._admin.list_topics())
        return unique

    def name(self, name: str) -> str:
        """Return a name for a topic or a group; it is deleted in the end."""
        unique = f"streamnb-bench-{self._run}-{name}-{uuid.uuid4().hex[:6]}"
        self._groups.append(unique)
        return unique

    def close(self) -> None:
        """Delete everything."""
        if self._made:
            self._admin.delete_topics(self._made)
        with suppress(KafkaError):
            self._admin.delete_groups(self._groups)
        self._admin.close()


def _wait_until(true: Any, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("the broker did not do what it was asked")
        time.sleep(0.02)


class Feeder:
    """Brings events into topics: all that is given at once can be read at the same moment."""

    def __init__(self, bootstrap: str, name: str) -> None:
        shared = {"bootstrap_servers": bootstrap, "batch_size": 500_000, "linger_ms": 20, "retry_backoff_ms": 5}
        self._producer = KafkaProducer(transactional_id=name, **shared)
        self._producer.init_transactions()

    @contextmanager
    def ready(self, topic: str, pairs: Sequence[Pair]) -> Iterator[None]:
        """Send the events; they become readable when this is left."""
        self._producer.begin_transaction()
        for key, value in pairs:
            self._producer.send(topic, value, key, partition=0)
        self._producer.flush()
        yield
        self._producer.commit_transaction()

    def put(self, topic: str, pairs: Sequence[Pair]) -> None:
        """Send the events."""
        with self.ready(topic, pairs):
            pass

    def close(self) -> None:
        self._producer.close(timeout=5)


class Paced:
    """Sends events one by one, each on its way at once."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=0)
        self._topic = topic

    def send(self, key: bytes, value: bytes) -> None:
        self._producer.send(self._topic, value, key, partition=0)

    def close(self) -> None:
        self._producer.close(timeout=5)


class Answers:
    """Reads a topic from its start, committed records only."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False
        )
        self._partition = TopicPartition(topic, 0)
        self._consumer.assign([self._partition])
        self._consumer.seek_to_beginning(self._partition)

    def poll(self, milliseconds: int = 100) -> Iterable[Any]:
        """Return the records that have come; they have a key, a value and headers."""
        polled = self._consumer.poll(milliseconds, max_records=10_000)
        found: Iterable[Any] = polled.get(self._partition, ())
        return found

    def close(self) -> None:
        self._consumer.close(timeout_ms=500)
