"""The daemon with its snapshots in a topic: it needs no disk, and goes on from the snapshot of any instance."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamnb.config import KafkaConfig
from streamnb.snapshots import Snapshot
from streamnb.snapshots.topic import TopicStore
from streamnb.transport.kafka.compacted import CompactedTopic
from tests.broker import Cluster, wait_until
from tests.daemon import Daemon
from tests.lives import answered
from tests.oracle import Workload


class Diskless:
    """Daemons over one workload whose snapshots go to a topic."""

    def __init__(self, broker: Cluster, folder: Path) -> None:
        self.workload, self.folder = Workload(broker), folder
        self.topic = f"{self.workload.app}.snapshots"
        self.kafka = KafkaConfig(bootstrap_servers=broker.bootstrap, instance="test")
        self.daemons: list[Daemon] = []

    def daemon(self, instance: str) -> Daemon:
        stored = {"store": "topic", "topic": self.topic, "every": "1s"}
        self.daemons.append(Daemon(self.folder / instance, self.workload.config(snapshots=stored), instance))
        return self.daemons[-1]

    def work_off(self, daemon: Daemon) -> None:
        """Let everything be answered and learned, then stop."""
        answered(self.workload, daemon)
        wait_until(lambda: daemon.metric("model_events") >= len(self.workload.learned), what=daemon.tail)
        assert daemon.stop() == 0, daemon.tail()

    def snapshot(self, instance: str) -> Snapshot:
        log = CompactedTopic(self.kafka, self.topic)
        store = TopicStore(log, self.workload.app, instance, 3, lambda name, error: pytest.fail(f"{name}: {error}"))
        store.open()
        newest = store.newest()
        assert newest is not None
        return newest

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.close()
        self.workload.close()


@pytest.fixture
def diskless(broker: Cluster, tmp_path: Path) -> Iterator[Diskless]:
    made = Diskless(broker, tmp_path)
    yield made
    made.close()


def test_after_retention_has_cut_the_log_a_new_instance_goes_on_from_the_snapshot_of_another(
    diskless: Diskless, broker: Cluster
) -> None:
    workload = diskless.workload
    broker.create(diskless.topic, 2, {"cleanup.policy": "compact"})
    workload.produce(300)
    diskless.work_off(diskless.daemon("a").start())
    for partition, learned in diskless.snapshot("a").learned.items():
        broker.cut(partition.topic, partition.number, learned)
    workload.produce(200)
    diskless.work_off(diskless.daemon("b").start())
    workload.check([diskless.snapshot("b")])
    assert not list(diskless.folder.rglob("*.snapshot"))
