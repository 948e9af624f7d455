"""One small world per transport, a log to append to and outputs to read back, for the contract suite."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from streamnb.cli.wiring import client_of
from streamnb.config import FilesConfig, InputConfig, KafkaConfig, OutputConfig
from streamnb.transport import Duty, Partition, Record, Sink, Transport
from streamnb.transport.files import FilesTransport
from streamnb.transport.kafka import KafkaTransport
from tests.broker import Cluster, wait_until

EVENT_BYTES = 1000


class World(Protocol):
    """A log of one labelled partition, empty at first."""

    partition: Partition

    def transport(self) -> Transport:
        """A new transport over this log and these outputs, as a new process would make it; not opened."""

    def append(self, *values: bytes) -> None:
        """Add one record for each value."""

    def published(self, sink: Sink) -> list[tuple[bytes | None, dict[str, bytes]]]:
        """Value and headers of every output that a careful reader sees, in order."""


class FilesWorld:
    """Predictions have no headers in files; a dead letter's come back as they were sent."""

    def __init__(self, folder: Path) -> None:
        self.input, self.predictions, self.dead_letters = (folder / n for n in ("in.jsonl", "out.jsonl", "dead.jsonl"))
        self.input.touch()
        self.partition = Partition(str(self.input), 0)

    def transport(self) -> FilesTransport:
        output = OutputConfig(predictions=str(self.predictions), dead_letters=str(self.dead_letters))
        return FilesTransport(FilesConfig(input=str(self.input), follow=True), output, event_bytes=EVENT_BYTES)

    def append(self, *values: bytes) -> None:
        with self.input.open("ab") as file:
            file.writelines(value + b"\n" for value in values)

    def published(self, sink: Sink) -> list[tuple[bytes | None, dict[str, bytes]]]:
        path = self.predictions if sink == "predictions" else self.dead_letters
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [(line, {}) if sink == "predictions" else _dead_letter(line) for line in lines]


class KafkaWorld:
    def __init__(self, cluster: Cluster, client: str) -> None:
        self._client = client_of(client)
        self._bootstrap = cluster.bootstrap
        self.partition = Partition(cluster.topic("labelled"), 0)
        self._topics: dict[Sink, str] = {
            "predictions": cluster.topic("predictions"),
            "dead_letters": cluster.topic("dead"),
        }

    def transport(self) -> KafkaTransport:
        return KafkaTransport(
            f"app-{self.partition.topic}",
            KafkaConfig(bootstrap_servers=self._bootstrap, instance="one", transaction_timeout=10),
            InputConfig(labelled=[self.partition.topic]),
            OutputConfig(**self._topics),
            self._client,
            event_bytes=EVENT_BYTES,
        )

    def append(self, *values: bytes) -> None:
        with KafkaProducer(bootstrap_servers=self._bootstrap) as producer:
            for value in values:
                producer.send(self.partition.topic, value)

    def published(self, sink: Sink) -> list[tuple[bytes | None, dict[str, bytes]]]:
        records = committed_records(self._bootstrap, self._topics[sink])
        return [(record.value, dict(record.headers)) for record in records]


def committed_records(bootstrap: str, topic: str) -> list[Any]:
    """Every record that a read_committed reader sees up to the end, each partition's in order.

    The end is that of all records: a transaction is committed a little before its records can be read, and until then
    the committed end is before them.
    """
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    with KafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_uncommitted") as other:
        ends = other.end_offsets(partitions)
    consumer.assign(partitions)
    records: list[Any] = []

    def at_the_end() -> bool:
        for some in consumer.poll(timeout_ms=100).values():
            records.extend(some)
        return all(consumer.position(tp) >= end for tp, end in ends.items())

    wait_until(at_the_end, 60, f"the end of {topic}")
    consumer.close()
    return records


def _dead_letter(line: bytes) -> tuple[bytes | None, dict[str, bytes]]:
    letter = json.loads(line)
    value = None if letter["value"] is None else base64.b64decode(letter["value"], validate=True)
    return value, {name: text.encode() for name, text in letter["headers"].items()}


def opened(world: World, marks: dict[str, object] | None = None) -> Transport:
    """A transport that is ready to read, as after a start without a snapshot or with these marks of one."""
    transport = world.transport()
    transport.open()
    transport.resume(marks)
    return transport


def on_duty(transport: Transport) -> Duty:
    """The duty, once there is one."""
    transport.join()
    return wait_until(transport.duty, 60, "duty")


def read(transport: Transport, n_records: int, limit: int = 100) -> list[Record]:
    """Poll until this many records have come."""
    records: list[Record] = []

    def enough() -> bool:
        records.extend(transport.poll(0.1, limit).records)
        return len(records) >= n_records

    wait_until(enough, 60, f"{n_records} records")
    return records


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]


WORLDS: dict[str, Callable[[pytest.FixtureRequest], World]] = {
    "files": lambda request: FilesWorld(request.getfixturevalue("tmp_path")),
    "kafka-python": lambda request: KafkaWorld(request.getfixturevalue("broker"), "kafka-python"),
    "confluent": lambda request: KafkaWorld(request.getfixturevalue("broker"), "confluent"),
}
