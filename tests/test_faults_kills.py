"""One instance killed (SIGKILL) at any moment: nothing lost, nothing twice, and the model of the batch fit."""

import random

from tests.broker import wait_until
from tests.dying import POINTS
from tests.lives import BOTH_CLIENTS, SLOW, Sampler, finish, produce_until_dead

STATIC = {"kafka": {"static_membership": True}}
"""Back in the group at once, without waiting for the dead member's session to end."""


@BOTH_CLIENTS
def test_every_event_counts_once_and_the_model_is_the_batch_fit(workload, fleet):
    workload.produce(500)
    daemon = fleet.daemon(workload).start()
    sampler = Sampler([daemon])
    workload.produce(500)
    finish(workload, daemon)
    assert sampler.stop() > 50
    assert not sampler.complaints


@BOTH_CLIENTS
def test_killed_at_twenty_random_moments_it_loses_and_doubles_nothing(workload, fleet):
    moments = random.Random(7)
    daemon = fleet.daemon(workload, limits={"batch_events": 10}, **STATIC)
    sampler = Sampler([daemon])
    for _ in range(20):
        daemon.start()
        workload.produce(60)
        enough = len(workload.asked) - moments.randrange(30)
        wait_until(lambda enough=enough: len(workload.answered()) >= enough, SLOW, daemon.tail)
        daemon.kill()
    finish(workload, daemon.start())
    sampler.stop()
    assert not sampler.complaints


@BOTH_CLIENTS
def test_killed_at_every_point_of_the_loop_it_loses_and_doubles_nothing(workload, fleet):
    moments = random.Random(11)
    workload.produce(200)
    daemon = fleet.daemon(workload, script="dying.py", limits={"batch_events": 20}, **STATIC)
    for point in POINTS:
        daemon.start(DIE_AT=point, DIE_ON=str(moments.randrange(1, 5)))
        produce_until_dead(workload, daemon)
    finish(workload, daemon.start())


def test_killed_without_static_membership_it_is_back_when_its_session_is_over(workload, fleet):
    daemon = fleet.daemon(workload, script="dying.py")
    for point in ("before_commit", "inside_commit"):
        daemon.start(DIE_AT=point, DIE_ON="3")
        produce_until_dead(workload, daemon)
    finish(workload, daemon.start())
