"""One small world per snapshot store, for the contract suite, and a snapshot to keep in it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest
from kafka import KafkaProducer

from streamnb.config import KafkaConfig
from streamnb.errors import SnapshotError
from streamnb.snapshots import DirectoryStore, Snapshot, SnapshotStore, TopicNote
from streamnb.snapshots.topic import TopicStore
from streamnb.transport import Partition
from streamnb.transport.kafka.compacted import CompactedTopic
from tests.broker import Cluster
from tests.transports import committed_records

KEEP = 3


def snapshot(app: str = "app", instance: str = "a", **changes: Any) -> Snapshot:
    """A snapshot with something in every field, and these changes."""
    partition = Partition("topic", 1)
    whole = Snapshot(
        app=app,
        instance=instance,
        version="0.1.0",
        taken=1.5,
        shape={"kind": "gaussian", "classes": None},
        settings={"event": {"id": "id"}},
        learned={partition: 12, Partition("events.jsonl", 0): 0},
        learn_from={partition: 3},
        noted={partition: 10},
        topics={"topic": TopicNote("mXq", "labelled", 2)},
        classes={partition: ["ham", "spam"]},
        lost=1,
        scores={"evaluated": 7, "log_loss": 0.1},
        marks={"position": 12},
        model=b"model",
    )
    return replace(whole, **changes)


class StoreWorld(Protocol):
    """A place where the stores of many instances keep their snapshots."""

    damaged: list[tuple[str, SnapshotError]]
    """What the stores have reported."""

    def opened(self, app: str, instance: str) -> SnapshotStore:
        """The store of this instance, as a new process would open it."""

    def damage_newest(self, app: str, instance: str) -> None:
        """Flip one bit in the model of the newest snapshot, behind the back of the store."""

    def close(self) -> None:
        """Close every store."""


class Directories:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._stores: list[DirectoryStore] = []
        self.damaged: list[tuple[str, SnapshotError]] = []

    def opened(self, app: str, instance: str) -> DirectoryStore:
        store = DirectoryStore(self._path, app, instance, KEEP, lambda *report: self.damaged.append(report))
        store.open()
        self._stores.append(store)
        return store

    def damage_newest(self, app: str, instance: str) -> None:
        newest = max((self._path / app / instance).glob("*.snapshot"))
        data = bytearray(newest.read_bytes())
        data[-1] ^= 1
        newest.write_bytes(data)

    def close(self) -> None:
        for store in self._stores:
            store.close()


class Topics:
    """All in one compacted topic, of several partitions."""

    def __init__(self, cluster: Cluster, **configs: str) -> None:
        self.kafka = KafkaConfig(bootstrap_servers=cluster.bootstrap, instance="one", start_timeout=20)
        self.topic = cluster.topic("snapshots", 3, cleanup_policy="compact", **configs)
        self._stores: list[TopicStore] = []
        self.damaged: list[tuple[str, SnapshotError]] = []

    def opened(self, app: str, instance: str) -> TopicStore:
        log = CompactedTopic(self.kafka, self.topic)
        store = TopicStore(log, app, instance, KEEP, lambda *report: self.damaged.append(report))
        store.open()
        self._stores.append(store)
        return store

    def records(self) -> list[tuple[list[Any], bytes | None, int]]:
        """Key, value and partition of every record, in the order of each partition."""
        return [(json.loads(r.key), r.value, r.partition) for r in committed_records(self._servers, self.topic)]

    def write(self, key: list[Any], value: bytes | None, partition: int) -> None:
        with KafkaProducer(bootstrap_servers=self._servers) as producer:
            producer.send(self.topic, value, json.dumps(key, separators=(",", ":")).encode(), partition=partition)

    def damage_newest(self, app: str, instance: str) -> None:
        chunks = [r for r in self.records() if r[0][:2] == [app, instance] and r[0][3] != "manifest" and r[1]]
        key, value, partition = max(chunks, key=lambda record: record[0])
        assert value is not None
        self.write(key, value[:-1] + bytes([value[-1] ^ 1]), partition)

    def close(self) -> None:
        for store in self._stores:
            store.close()

    @property
    def _servers(self) -> str:
        servers: str = self.kafka.bootstrap_servers
        return servers


STORES: dict[str, Callable[[pytest.FixtureRequest], StoreWorld]] = {
    "directory": lambda request: Directories(request.getfixturevalue("tmp_path") / "snapshots"),
    "topic": lambda request: Topics(request.getfixturevalue("broker")),
}
