"""`delivery: at_least_once`: nothing lost, learned once, and doubles only by a crash or a rebalance."""

from tests.dying import POINTS
from tests.lives import BOTH_CLIENTS, answered, finish, learned, produce_until_dead

AT_LEAST_ONCE = {"kafka": {"delivery": "at_least_once", "static_membership": True}, "limits": {"batch_events": 20}}


@BOTH_CLIENTS
def test_without_a_crash_every_event_counts_once(workload, fleet):
    daemon = fleet.daemon(workload, **AT_LEAST_ONCE).start()
    workload.produce(200)
    answered(workload, daemon)
    assert daemon.stop() == 0, daemon.tail()
    workload.produce(200)
    finish(workload, daemon.start())


@BOTH_CLIENTS
def test_after_crashes_answers_may_be_doubled_and_nothing_is_lost_or_learned_twice(workload, fleet):
    daemon = fleet.daemon(workload, script="dying.py", **AT_LEAST_ONCE)
    points = ("before_group_commit", "after_poll", "after_first_send", "inside_snapshot", "before_group_commit")
    for point in points:
        assert point in (*POINTS, "before_group_commit")
        daemon.start(DIE_AT=point, DIE_ON="3")
        produce_until_dead(workload, daemon)
    daemon.start()
    answered(workload, daemon)
    daemon.ready()
    learned(workload, daemon)
    assert daemon.stop() == 0, daemon.tail()
    assert 1 < max(workload.answered().values()) <= 1 + len(points)  # once more by each crash, at most
    assert not workload.complaints([daemon.snapshot()], doubles=False)
