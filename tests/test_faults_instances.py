"""Several instances of one app: taking over, joining, leaving, coming back too late, two of one name."""

import random
import signal

import pytest

from tests.broker import Cluster, wait_until
from tests.lives import BOTH_CLIENTS, SLOW, Sampler, answered, finish, only, produce_until_dead
from tests.oracle import Workload

BATCHES = {"limits": {"batch_events": 20}}


@pytest.fixture
def wide(broker: Cluster, client: str):
    """A workload of four partitions a topic, so that three instances have something to share."""
    made = Workload(broker, partitions=4, client=client)
    yield made
    made.close()


def test_three_instances_that_are_killed_stopped_and_started_lose_and_double_nothing(wide, fleet):
    pick = random.Random(5)
    daemons = [fleet.daemon(wide, name, **BATCHES) for name in "abc"]
    sampler = Sampler(daemons)
    for daemon in daemons:
        daemon.start()
    for _ in range(6):
        wide.produce(100)
        fated = pick.choice([daemon for daemon in daemons if not daemon.ended])
        if pick.random() < 0.5:
            fated.kill()
        else:
            assert fated.stop() == 0, fated.tail()
        answered(wide, *daemons)
        wide.produce(100)
        fated.start()
    finish(wide, *daemons)
    sampler.stop()
    assert not sampler.complaints


@BOTH_CLIENTS
def test_another_instance_takes_over_what_a_killed_one_was_answering(wide, fleet):
    dying = fleet.daemon(wide, "a", "dying.py", **BATCHES).start(DIE_AT="before_commit", DIE_ON="6")
    other = fleet.daemon(wide, "b").start()
    produce_until_dead(wide, dying)
    answered(wide, other)
    finish(wide, dying.start(), other)


@BOTH_CLIENTS
def test_stopped_past_its_session_and_continued_it_answers_nothing_twice_and_is_not_taken_for_stuck(workload, fleet):
    frozen, other = (fleet.daemon(workload, name, watchdog="2s", **BATCHES).start() for name in "ab")
    for daemon in (frozen, other):
        daemon.ready(SLOW)
    workload.produce(200)
    frozen.signal(signal.SIGSTOP)
    workload.produce(200)
    answered(workload, other)
    frozen.signal(signal.SIGCONT)
    workload.produce(200)
    finish(workload, frozen, other)


@only("kafka-python")
def test_alone_and_stopped_past_its_transactions_timeout_it_goes_on(workload, fleet):
    daemon = fleet.daemon(workload, "a", "breaking.py", kafka={"transaction_timeout": "2s"}, **BATCHES)
    workload.produce(200)
    daemon.start(BREAK="captured_metadata")
    wait_until((daemon.folder / "broken-once").exists, SLOW, daemon.tail)
    wait_until(lambda: _is_stopped(daemon.process.pid), SLOW)
    away = fleet.daemon(workload, "b").start()
    answered(workload, away)
    assert away.stop() == 0
    daemon.signal(signal.SIGCONT)
    workload.produce(100)
    finish(workload, daemon)


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_of_two_processes_of_one_name_one_ends_and_the_other_works_on(workload, fleet, static):
    both = {"kafka": {"static_membership": static, "instance": "same"}}
    first = fleet.daemon(workload, "a", **both).start().ready(SLOW)
    second = fleet.daemon(workload, "b", **both).start().ready(SLOW)

    def one_has_ended() -> bool:
        workload.produce(20)
        return first.ended or second.ended

    wait_until(one_has_ended, SLOW, lambda: first.tail() + second.tail())
    loser, winner = (first, second) if first.ended else (second, first)
    assert loser.wait() == 75, loser.tail()
    assert "instance" in loser.log().splitlines()[-1]
    finish(workload, winner)


def test_a_second_process_on_the_same_snapshots_is_refused_before_it_joins(workload, fleet):
    first = fleet.daemon(workload, "a").start().ready(SLOW)
    second = fleet.daemon(workload, "b", snapshots={"path": str(first.folder / "snapshots")}, kafka={"instance": "a"})
    assert second.start().wait(SLOW) == 75
    assert "in use by process" in second.log()
    finish(workload, first)


def _is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"
