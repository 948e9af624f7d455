"""A broker that dies, stays away and comes back: waited for, and nothing lost or doubled on the way."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker import Broker, Cluster, wait_until
from tests.daemon import Daemon
from tests.lives import BOTH_CLIENTS, SLOW, Fleet, answered, finish, learned, stop_in_time
from tests.oracle import Workload


@pytest.fixture
def work(own_broker: Broker, client: str):
    made = Workload(own_broker, client=client)
    yield made
    made.close()


def unready(daemon: Daemon) -> None:
    """Not ready within ten seconds (of a machine with nothing else to do), and alive all the same."""
    wait_until(lambda: daemon.get("/readyz")[0] == 503, 15, daemon.tail)
    assert daemon.get("/healthz")[0] == 200


def alive_for(seconds: float, daemon: Daemon) -> bool:
    until = time.monotonic() + seconds
    wait_until(lambda: daemon.ended or time.monotonic() > until, 2 * seconds)
    return not daemon.ended


@BOTH_CLIENTS
def test_a_broker_killed_at_any_moment_and_brought_back_is_waited_for(own_broker: Broker, work: Workload, fleet: Fleet):
    moments = random.Random(3)
    daemon = fleet.daemon(work, script="ailing.py", limits={"batch_events": 5}).start(AIL="commits_wait").ready(SLOW)
    own_broker.kill()  # idle
    unready(daemon)
    own_broker.start()
    for _ in range(2):  # in a batch
        before = len(work.answered())
        work.produce(300)
        enough = before + moments.randrange(1, 100)
        wait_until(lambda enough=enough: len(work.answered()) >= enough, SLOW, daemon.tail)
        own_broker.kill()
        own_broker.start()
        answered(work, daemon)
    (daemon.folder / "ill").touch()  # in a commit
    work.produce(300)
    wait_until((daemon.folder / "committing").exists, SLOW, daemon.tail)
    own_broker.kill()
    (daemon.folder / "ill").unlink()
    own_broker.start()
    finish(work, daemon)
    assert daemon.log().count("state.running") == 1


def test_a_broker_away_for_half_a_minute_is_waited_for_and_a_stop_meanwhile_is_clean(
    own_broker: Broker, work: Workload, fleet: Fleet
):
    one, other = (fleet.daemon(work, name, watchdog="10s").start().ready(SLOW) for name in "ab")
    work.produce(200)
    answered(work, one, other)
    own_broker.freeze()
    unready(one)
    stop_in_time(other)
    assert alive_for(30, one), one.tail()
    own_broker.kill()
    own_broker.start()
    work.produce(200)
    finish(work, one, other.start())


def test_no_broker_at_the_start_is_said_and_a_late_one_is_found(own_broker: Broker, work: Workload, fleet: Fleet):
    own_broker.kill()
    impatient = fleet.daemon(work, "a", kafka={"start_timeout": "1s"}).start()
    assert impatient.wait(SLOW) == 69
    patient, stopped = (fleet.daemon(work, name, kafka={"start_timeout": "5m"}).start() for name in "bc")
    for daemon in (patient, stopped):
        daemon.says("web.serves")
    assert stopped.stop() == 0, stopped.tail()
    own_broker.start()
    work.produce(50)
    finish(work, patient)


@pytest.fixture
def leader(own_broker: Broker, tmp_path: Path) -> Iterator[Broker]:
    """A second node, which leads the topics of groups and transactions, and those of `led`."""
    with closing(Broker(tmp_path / "second", second_of=own_broker).start()) as second:
        yield second


@pytest.fixture
def led(leader: Broker) -> Iterator[Cluster]:
    with closing(Cluster(leader.bootstrap, nodes=[2, 1])) as cluster:
        for internal in ("__consumer_offsets", "__transaction_state"):
            cluster.create(internal, configs={"cleanup.policy": "compact"})
        yield cluster


@BOTH_CLIENTS
def test_the_leader_and_coordinator_of_everything_dies_and_it_goes_on_with_the_other_replicas(
    own_broker: Broker, leader: Broker, led: Cluster, client: str, fleet: Fleet
):
    with closing(Workload(led, client=client)) as work:
        led.configure(work.predictions, {"min.insync.replicas": "2"})
        servers = f"{leader.bootstrap},{own_broker.bootstrap}"
        kafka = {"bootstrap_servers": servers, "transaction_timeout": "3s"}
        one, other = (fleet.daemon(work, name, kafka=kafka).start() for name in "ab")
        work.produce(100)
        answered(work, one, other)
        leader.kill()
        before = own_broker.committed(work.app)
        work.produce(100)
        for daemon in (one, other):
            learned(work, daemon)
        one.says("transaction.failed", seconds=SLOW)
        assert own_broker.committed(work.app) == before  # nothing is held to be published by too few
        leader.start()
        finish(work, one, other)
