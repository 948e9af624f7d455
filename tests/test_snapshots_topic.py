"""Snapshots in a compacted topic, beyond what holds for every store: chunks, manifests, deletions, failing brokers."""

import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.errors import BrokerUnreachable, ConfigError, IoError, StateError
from streamnb.snapshots.topic import TopicStore
from streamnb.transport.kafka.compacted import CompactedTopic
from streamnb.transport.kafka.creation import create
from tests.broker import Broker, Cluster, free_port, wait_until
from tests.stores import KEEP, Topics, snapshot

MODEL = bytes(range(256)) * 8_000


@pytest.fixture
def world(broker: Cluster) -> Iterator[Topics]:
    world = Topics(broker, max_message_bytes="500000")
    yield world
    world.close()


def parts_of(world: Topics, instance: str) -> dict[int, list[Any]]:
    """For every sequence, the parts that have a value, in the order in which they were written last."""
    values: dict[tuple[int, Any], bytes | None] = {}
    for (_, owner, sequence, part), value, _ in world.records():
        if owner == instance:
            values.pop((sequence, part), None)
            values[sequence, part] = value
    found: dict[int, list[Any]] = {}
    for (sequence, part), value in values.items():
        if value is not None:
            found.setdefault(sequence, []).append(part)
    return found


def test_the_manifest_is_written_after_all_chunks(world: Topics) -> None:
    size = world.opened("app", "a").save(snapshot(model=MODEL))
    records = world.records()
    assert [key[3] for key, _, _ in records] == [*range(len(records) - 1), "manifest"]
    assert sum(len(value or b"") for _, value, _ in records[:-1]) == size
    assert len(records) > 5
    assert len({partition for _, _, partition in records}) == 1


def test_the_last_few_are_kept(world: Topics) -> None:
    store = world.opened("app", "a")
    for n in range(KEEP + 2):
        store.save(snapshot(model=b"%d" % n))
    assert sorted(parts_of(world, "a")) == [3, 4, 5]
    store.close()
    world.opened("app", "a").save(snapshot())
    assert sorted(parts_of(world, "a")) == [4, 5, 6]


def test_a_manifest_is_deleted_before_its_chunks(world: Topics) -> None:
    store = world.opened("app", "a")
    for _ in range(KEEP + 1):
        store.save(snapshot(model=MODEL))
    deleted = [key[3] for key, value, _ in world.records() if value is None]
    assert deleted == ["manifest", *range(len(deleted) - 1)]


class Breaking(CompactedTopic):
    """Writes so many records, then fails, as if the process had died there."""

    left = 0

    def append(self, records: Iterable[tuple[bytes, bytes | None]], beside: str) -> list[tuple[int, int]]:
        wanted = list(records)
        done = super().append(islice(wanted, self.left), beside)
        self.left -= len(done)
        if len(done) < len(wanted):
            raise IoError("broken off")
        return done


def breaking(world: Topics, left: int) -> TopicStore:
    log = Breaking(world.kafka, world.topic)
    store = TopicStore(log, "app", "a", KEEP, lambda name, error: pytest.fail(f"{name}: {error}"))
    store.open()
    log.left = left
    return store


@pytest.mark.parametrize("n_records", [0, 1, 4])
def test_a_save_that_breaks_off_leaves_the_older_one_and_is_cleared_away(world: Topics, n_records: int) -> None:
    world.opened("app", "a").save(snapshot(model=b"older"))
    with pytest.raises(IoError):
        breaking(world, n_records).save(snapshot(model=MODEL))
    store = world.opened("app", "a")
    assert store.newest() == snapshot(model=b"older")
    for n in range(KEEP):
        store.save(snapshot(model=b"%d" % n))
        assert store.newest() == snapshot(model=b"%d" % n)
    assert all("manifest" in parts for parts in parts_of(world, "a").values())
    assert world.damaged == []


def test_a_deletion_that_breaks_off_is_no_failure_and_is_done_with_the_next_save(world: Topics) -> None:
    world.opened("app", "a").save(snapshot())
    store = breaking(world, 3 * KEEP + 1)
    for n in range(KEEP):
        store.save(snapshot(model=b"%d" % n))
    assert store.newest() == snapshot(model=b"%d" % (KEEP - 1))
    world.opened("app", "a").save(snapshot(model=b"last"))
    assert sorted(parts_of(world, "a")) == [3, 4, 5]


def test_a_missing_chunk_and_a_newer_manifest_are_reported(world: Topics) -> None:
    store = world.opened("app", "a")
    for _ in range(3):
        store.save(snapshot(model=MODEL))
    partition = world.records()[0][2]
    world.write(["app", "a", 3, 1], None, partition)
    world.write(["app", "a", 2, "manifest"], b'{"format":2,"chunks":1,"bytes":1}', partition)
    world.write(["app", "a", 1, "manifest"], b"{}", partition)
    assert store.newest() is None
    messages = [f"{name} {error}" for name, error in world.damaged]
    assert [f"{world.topic}: snapshot {n} of app/a" in messages[3 - n] for n in (3, 2, 1)] == [True] * 3
    for message, expected in zip(messages, ["cut off: ", "format 2, this", "manifest cannot be read"], strict=True):
        assert expected in message


def test_records_of_others_in_the_topic_are_passed_over(world: Topics) -> None:
    for key in ([], ["app"], ["app", "a", "x", 1], ["app", "a", 9, None], {"app": 1}):
        world.write(key, b"x", 0)  # type: ignore[arg-type]
    assert world.opened("app", "a").newest() is None


def test_saving_needs_an_open_topic(world: Topics) -> None:
    store = world.opened("app", "a")
    store.close()
    with pytest.raises(StateError, match="must be opened"):
        store.save(snapshot())


def opened_topic(cluster: Cluster, topic: str, start_timeout: float = 20) -> CompactedTopic:
    log = CompactedTopic(
        KafkaConfig(bootstrap_servers=cluster.bootstrap, instance="one", start_timeout=start_timeout), topic
    )
    log.open()
    return log


def test_a_topic_that_is_missing_or_forgets_is_refused(broker: Cluster) -> None:
    with pytest.raises(ConfigError, match=r"snapshots\.topic: .*no topic missing; make"):
        opened_topic(broker, "missing")
    with pytest.raises(ConfigError, match=r"cleanup\.policy is delete; it must be compact"):
        opened_topic(broker, broker.topic("snapshots", cleanup_policy="delete"))
    with pytest.raises(ConfigError, match=r"cleanup\.policy is compact,delete; it must be compact"):
        opened_topic(broker, broker.topic("snapshots", cleanup_policy="compact,delete"))


def test_the_topic_that_the_command_makes_will_do(broker: Cluster) -> None:
    kafka, topic = KafkaConfig(bootstrap_servers=broker.bootstrap, instance="one"), f"snapshots.{uuid.uuid4().hex}"
    first, again = (create(kafka, InputConfig(), OutputConfig(), 2, 1, snapshots=topic) for _ in range(2))
    assert (list(first.made), list(again.made), again.found) == ([topic], [], first.made)
    opened_topic(broker, topic).close()


def test_a_broker_that_is_away_at_the_start_is_named() -> None:
    away = Cluster(f"127.0.0.1:{free_port()}")
    with pytest.raises(BrokerUnreachable, match=away.bootstrap):
        opened_topic(away, "snapshots", start_timeout=0.1)


def test_a_save_while_the_broker_is_away_is_an_io_error_and_the_next_one_works(own_broker: Broker) -> None:
    world = Topics(own_broker)
    store = world.opened("app", "a")
    store.save(snapshot(model=b"before"))
    own_broker.kill()
    with pytest.raises(IoError, match="the snapshot was not written"):
        store.save(snapshot(model=b"meanwhile"))
    own_broker.start()
    assert store.newest() == snapshot(model=b"before")
    store.save(snapshot(model=b"after"))
    assert store.newest() == snapshot(model=b"after")


def test_compaction_takes_only_what_is_not_kept(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker", log_cleaner_backoff_ms="50").start()
    try:
        quickly = {"segment_ms": "50", "min_cleanable_dirty_ratio": "0.01", "delete_retention_ms": "0"}
        world = Topics(broker, **quickly)
        store, other = world.opened("app", "a"), world.opened("app", "b")
        other.save(snapshot("app", "b", model=MODEL))
        n_saved = 0

        def compacted() -> bool:
            nonlocal n_saved
            n_saved += 1
            store.save(snapshot(model=b"%d" % n_saved + MODEL))
            assert store.newest() == snapshot(model=b"%d" % n_saved + MODEL)
            return ["app", "a", 1, "manifest"] not in [key for key, _, _ in world.records()]

        wait_until(compacted, 120, "the first snapshot to be compacted away")
        assert world.opened("app", "a").newest() == snapshot(model=b"%d" % n_saved + MODEL)
        assert store.others() == [snapshot("app", "b", model=MODEL)]
    finally:
        broker.close()
