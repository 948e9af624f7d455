"""The daemon as a process over a real broker: nothing lost, nothing twice, and the model of the batch fit."""

import random
import signal
from pathlib import Path

import pytest

from tests.broker import Broker, Cluster, wait_until
from tests.daemon import Daemon
from tests.dying import POINTS
from tests.oracle import Workload

DYING = str(Path(__file__).with_name("dying.py"))


@pytest.fixture
def workload(broker: Cluster):
    made = Workload(broker)
    yield made
    made.close()


@pytest.fixture
def daemons(tmp_path):
    """Makes daemons, each in a folder of its own, and ends them all."""
    made: list[Daemon] = []

    def make(workload: Workload, instance: str = "a", script: str | None = None, **sections) -> Daemon:
        made.append(Daemon(tmp_path / instance, workload.config(**sections), instance, script))
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


def finish(workload: Workload, *running: Daemon) -> None:
    """Let everything be answered, stop the daemons, and hold all that was committed against what is due."""
    workload.wait_answered()
    for daemon in running:
        daemon.ready()
        wait_until(
            lambda daemon=daemon: daemon.metric("model_events") >= len(workload.learned),
            what=f"{daemon.instance} to learn everything; {daemon.tail()}",
        )
    for daemon in running:
        assert daemon.stop() == 0, daemon.tail()
    workload.check([daemon.snapshot() for daemon in running])


def produce_until_dead(workload: Workload, daemon: Daemon) -> None:
    """Keep events coming until the daemon has reached the point where it is to die."""

    def dead() -> bool:
        workload.produce(20)
        return daemon.process.poll() is not None

    try:
        wait_until(dead, 60)
    except AssertionError:
        raise AssertionError(f"{daemon.instance} did not die; {daemon.tail()}") from None
    assert daemon.wait() == -signal.SIGKILL, daemon.tail()


def test_every_event_counts_once_and_the_model_is_the_batch_fit(workload, daemons):
    workload.produce(500)
    daemon = daemons(workload).start()
    workload.produce(500)
    finish(workload, daemon)


def test_killed_at_ten_random_moments_it_loses_and_doubles_nothing(workload, daemons):
    moments = random.Random(7)
    daemon = daemons(workload)
    for _ in range(10):
        daemon.start()
        workload.produce(200)
        answered = sum(workload.answered().values())
        enough = answered + moments.randrange(0, 150)
        wait_until(lambda enough=enough: sum(workload.answered().values()) >= min(enough, len(workload.asked)), 60)
        daemon.kill()
    finish(workload, daemon.start())


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_this_point_of_the_loop_it_loses_and_doubles_nothing(workload, daemons, point):
    workload.produce(300)
    daemon = daemons(workload, script=DYING)
    for nth in (1, 2, 5):
        daemon.start(DIE_AT=point, DIE_ON=str(nth))
        produce_until_dead(workload, daemon)
    finish(workload, daemon.start())


def test_another_instance_takes_over_what_a_killed_one_was_answering(broker, daemons):
    workload = Workload(broker, partitions=4)
    dying = daemons(workload, "a", script=DYING).start(DIE_AT="before_commit", DIE_ON="6")
    other = daemons(workload, "b").start()
    produce_until_dead(workload, dying)
    workload.wait_answered()
    finish(workload, dying.start(), other)


def test_stopped_past_its_session_and_continued_it_answers_nothing_twice(workload, daemons):
    frozen, other = daemons(workload, "a").start(), daemons(workload, "b").start()
    for daemon in (frozen, other):
        daemon.ready()
    workload.produce(300)
    frozen.signal(signal.SIGSTOP)
    workload.produce(300)
    workload.wait_answered()
    frozen.signal(signal.SIGCONT)
    workload.produce(300)
    finish(workload, frozen, other)


def test_a_broker_killed_in_a_commit_and_brought_back_is_waited_for(own_broker: Broker, daemons):
    workload = Workload(own_broker)
    daemon = daemons(workload).start().ready()
    workload.produce(200)
    wait_until(lambda: workload.answered())
    own_broker.kill()
    wait_until(lambda: daemon.get("/readyz")[0] == 503, 10, "not to be ready without a broker")
    own_broker.start()
    workload.produce(200)
    finish(workload, daemon)
    assert "state.running" in daemon.log()
