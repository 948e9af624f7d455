"""The oracle itself: it complains of a daemon that is broken on purpose, and only then."""

import signal

import pytest

from tests.broker import wait_until
from tests.daemon import Daemon
from tests.lives import SLOW, caught_up, only
from tests.oracle import Workload

pytestmark = only("kafka-python")


def verdict(workload: Workload, daemon: Daemon) -> list[str]:
    """What the oracle says once the daemon believes that everything is done."""
    caught_up(workload, daemon)
    assert daemon.stop() == 0, daemon.tail()
    return workload.complaints([daemon.snapshot()])


def complains(complaints: list[str], words: str) -> bool:
    return any(words in complaint for complaint in complaints)


def test_a_snapshot_older_than_its_model_is_learning_twice(workload, fleet):
    daemon = fleet.daemon(workload, script="breaking.py").start(BREAK="learn_twice").ready(SLOW)
    workload.produce(200)
    caught_up(workload, daemon)
    assert daemon.stop() == 0
    assert complains(verdict(workload, daemon.start(BREAK="learn_twice")), "was learned as ok 2 times")


@pytest.mark.parametrize(
    ("broken", "words"),
    [("no_transaction", "was answered 2 times"), ("commit_before_sending", "was never answered")],
)
def test_answers_and_offsets_apart_are_doubled_or_lost_by_a_death_between_them(workload, fleet, broken, words):
    daemon = fleet.daemon(workload, script="breaking.py", limits={"batch_events": 20})
    workload.produce(200)
    assert daemon.start(BREAK=broken).wait(SLOW) == -signal.SIGKILL, daemon.tail()
    assert complains(verdict(workload, daemon.start(BREAK=broken)), words)


def test_taking_a_failed_batch_for_done_loses_it(workload, fleet):
    daemon = fleet.daemon(workload, script="breaking.py", limits={"batch_events": 20})
    workload.produce(200)
    assert complains(verdict(workload, daemon.start(BREAK="drop_on_error")), "was never answered")


def test_learning_what_was_aborted_is_noticed(workload, fleet):
    daemon = fleet.daemon(workload, script="breaking.py")
    workload.produce_in_transactions(30, aborted=30)
    complaints = verdict(workload, daemon.start(BREAK="read_uncommitted"))
    assert complains(complaints, "but never due")
    assert complains(complaints, "learned as")


@pytest.mark.parametrize(("broken", "doubled"), [("fresh_metadata", True), ("captured_metadata", False)])
def test_metadata_fetched_later_than_the_assignment_doubles_what_another_owner_answered(
    workload, fleet, broken, doubled
):
    slow = {"kafka": {"transaction_timeout": "60s"}, "limits": {"batch_events": 20}}
    workload.produce(200)
    frozen = fleet.daemon(workload, "a", "breaking.py", **slow).start(BREAK=broken)
    wait_until((frozen.folder / "broken-once").exists, SLOW, frozen.tail)
    other = fleet.daemon(workload, "b", **slow).start()
    caught_up(workload, other)
    frozen.signal(signal.SIGCONT)
    frozen.ready(SLOW)
    assert [daemon.stop() for daemon in (frozen, other)] == [0, 0], frozen.tail() + other.tail()
    assert complains(workload.complaints([other.snapshot()]), "was answered 2 times") is doubled
