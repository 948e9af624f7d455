"""SIGTERM, once and twice, at every kind of moment; and a loop that hangs."""

import signal

from tests.broker import wait_until
from tests.lives import SLOW, answered, finish, stop_in_time
from tests.oracle import Workload


def test_terminated_at_idle_in_a_batch_and_in_a_rebalance_it_is_clean_and_goes_on_where_it_was(workload, fleet):
    daemon = fleet.daemon(workload, limits={"batch_events": 10}).start().ready(SLOW)
    stop_in_time(daemon)  # idle
    daemon.start().ready(SLOW)
    before = len(workload.answered())
    workload.produce(400)
    wait_until(lambda: len(workload.answered()) > before + 10, SLOW, daemon.tail)
    stop_in_time(daemon)  # in a batch
    daemon.start().ready(SLOW)
    other = fleet.daemon(workload, "b").start()
    other.says("state.running")
    stop_in_time(daemon)  # in a rebalance
    finish(workload, daemon.start(), other)


def test_a_clean_stop_leaves_nothing_to_read_again(workload, fleet):
    daemon = fleet.daemon(workload).start()
    for _ in range(2):
        workload.produce(50)
        answered(workload, daemon)
        stop_in_time(daemon)
        ends = workload.ends()
        assert {tuple(p): at for p, at in daemon.snapshot().learned.items()}.items() <= ends.items()
        daemon.start().ready(SLOW)
        assert daemon.metric("late_predictions_total") == 0
    assert daemon.stop() == 0
    workload.check([daemon.snapshot()])


def test_terminated_while_it_restores_it_is_clean_and_goes_on(workload, fleet):
    workload.produce(300)
    daemon = fleet.daemon(workload, script="ailing.py", limits={"batch_events": 10}).start(AIL="learning_is_slow")
    (daemon.folder / "ill").touch()
    wait_until(lambda: daemon.metric("restore_remaining_events") > 0, SLOW, daemon.tail)
    wait_until(lambda: daemon.metric("model_events") > 0, SLOW, daemon.tail)
    assert daemon.get("/readyz")[0] == 503
    stop_in_time(daemon)
    assert "state.running" not in daemon.log()
    (daemon.folder / "ill").unlink()
    finish(workload, daemon.start(AIL="learning_is_slow"))


def test_the_second_signal_ends_it_at_once(workload: Workload, fleet):
    daemon = fleet.daemon(workload, script="ailing.py").start(AIL="loop_hangs").ready(SLOW)
    (daemon.folder / "ill").touch()
    daemon.signal(signal.SIGTERM)
    daemon.signal(signal.SIGINT)
    assert daemon.wait(5) == 1
    (daemon.folder / "ill").unlink()
    finish(workload, daemon.start(AIL="loop_hangs"))


def test_a_loop_that_hangs_ends_the_process_with_all_stacks(workload, fleet):
    daemon = fleet.daemon(workload, script="ailing.py", watchdog="3s").start(AIL="loop_hangs").ready(SLOW)
    (daemon.folder / "ill").touch()
    workload.produce(50)
    assert daemon.wait(SLOW) == 70
    log = daemon.log()
    assert "watchdog: the loop has hung for 3 s" in log
    assert "in hang" in log
    assert "streamnb-duty" in log or log.count("Thread 0x") > 3
    (daemon.folder / "ill").unlink()
    finish(workload, daemon.start(AIL="loop_hangs"))


def test_a_clock_that_steps_back_changes_nothing(workload, fleet):
    daemon = fleet.daemon(workload, script="ailing.py").start(AIL="clock_steps_back").ready(SLOW)
    workload.produce(100)
    answered(workload, daemon)
    (daemon.folder / "ill").touch()
    workload.produce(100)
    answered(workload, daemon)
    assert daemon.is_ready()
    assert daemon.get("/healthz")[0] == 200
    assert daemon.metric("event_age_seconds_sum") >= 0
    finish(workload, daemon)
