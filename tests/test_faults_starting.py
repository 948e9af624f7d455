"""What a daemon finds at its start, and does about it: the rows of the table that take a real log and a real group."""

import json
import signal

import pytest

from streamnb.transport import Partition
from tests.broker import wait_until
from tests.daemon import Daemon
from tests.lives import SLOW, Fleet, answered, caught_up, finish, learned
from tests.oracle import Workload


def lived(workload: Workload, fleet: Fleet, events: int = 100, **sections: object) -> Daemon:
    """A daemon that has learned and answered everything, and was stopped."""
    workload.produce(events)
    daemon = fleet.daemon(workload, **sections).start()
    answered(workload, daemon)
    learned(workload, daemon)
    caught_up(workload, daemon)
    assert daemon.stop() == 0, daemon.tail()
    return daemon


def ends_with_75(daemon: Daemon, *words: str, **environ: str) -> None:
    """Started, it stops by itself and says why in its last line."""
    assert daemon.start(**environ).wait(SLOW) == 75, daemon.tail()
    last = daemon.log().splitlines()[-1]
    for word in words:
        assert word in last, daemon.tail()


def without_snapshots(daemon: Daemon) -> Daemon:
    for file in daemon.snapshots:
        file.unlink()
    return daemon


def test_records_deleted_before_they_were_used_stop_it_and_are_counted_when_accepted(broker, workload, fleet):
    daemon = lived(workload, fleet)
    at = daemon.snapshot().learned[Partition(workload.labelled, 0)]
    published = broker.committed(workload.app)[workload.unlabelled, 0]
    workload.produce(200, poison=0)
    broker.cut(workload.labelled, 0, at + 3)
    ends_with_75(daemon, f"{workload.labelled}:0: offsets {at} to {at + 2} were never learned", "on_lost_events")
    broker.cut(workload.labelled, 0, at)  # no help: what is deleted stays deleted
    ends_with_75(daemon, "never learned")
    accept = {"STREAMNB_INPUT__ON_LOST_EVENTS": "accept"}
    broker.cut(workload.unlabelled, 0, published + 2)
    daemon.start(**accept).ready(SLOW)
    caught_up(workload, daemon)
    assert daemon.metric("lost_events_total") >= 3 + 2
    assert "were never answered" in daemon.log() or '"never": "answered"' in daemon.log()
    before = daemon.metric("model_events")
    assert daemon.stop() == 0
    daemon.start().ready(SLOW)
    assert daemon.metric("model_events") == before
    assert daemon.snapshot().lost == 3 + 2 + 3


def test_records_deleted_while_it_runs_stop_it_and_are_counted_when_accepted(broker, workload, fleet):
    daemon = fleet.daemon(workload).start().ready(SLOW)

    def cut_ahead_of_it(records: int) -> None:
        daemon.signal(signal.SIGSTOP)
        workload.produce(1, poison=0)  # answers the fetch that waits at the broker; the rest is not in its answer
        workload.produce(records, poison=0)
        broker.cut(workload.labelled, 0, workload.ends()[workload.labelled, 0] - 5)
        daemon.signal(signal.SIGCONT)

    cut_ahead_of_it(100)
    assert daemon.wait(SLOW) == 75, daemon.tail()
    assert f"{workload.labelled}:0: offsets" in daemon.log().splitlines()[-1]
    assert "deleted before they were read" in daemon.log().splitlines()[-1]
    daemon.start(STREAMNB_INPUT__ON_LOST_EVENTS="accept").ready(SLOW)
    caught_up(workload, daemon)
    before = daemon.metric("lost_events_total")
    cut_ahead_of_it(100)
    wait_until(lambda: daemon.metric("lost_events_total") > before, SLOW, daemon.tail)
    caught_up(workload, daemon)
    learned_alone = daemon.metric("model_events")
    assert daemon.stop() == 0, daemon.tail()
    assert daemon.snapshot().lost > 0
    assert learned_alone < len(workload.learned)


def test_offsets_moved_by_an_operator_are_obeyed_and_logged(broker, workload, fleet):
    daemon = lived(workload, fleet)
    before = workload.answered()
    broker.commit(workload.app, {(workload.unlabelled, 0): 0, (workload.labelled, 0): 0})
    daemon.start().ready(SLOW)
    caught_up(workload, daemon)
    again = workload.answered() - before
    assert daemon.log().count("offsets.moved_back") == 2
    assert again
    assert all(n == 1 for n in again.values())
    late = [answer for answer in workload.answers() if answer.get("late")]
    assert late
    assert daemon.metric("model_events") == len(workload.learned)
    assert daemon.stop() == 0
    assert not workload.model_complaints(daemon.snapshot())
    broker.commit(workload.app, {(workload.unlabelled, 0): 10_000})
    ends_with_75(daemon, f"{workload.unlabelled}:0: answered up to offset 10000")


def test_lost_group_offsets_are_asked_for_again_and_then_stop_it_unless_a_policy_says_where_to_go_on(
    broker, workload, fleet
):
    daemon = lived(workload, fleet)
    broker.forget(workload.app)
    ends_with_75(daemon, "was seen committed before", "on_lost_offsets")
    before = sum(workload.answered().values())
    daemon.start(STREAMNB_INPUT__ON_LOST_OFFSETS="snapshot").ready(SLOW)
    caught_up(workload, daemon)
    assert daemon.stop() == 0
    assert sum(workload.answered().values()) == before
    assert broker.committed(workload.app)
    broker.forget(workload.app)
    daemon.start(STREAMNB_INPUT__ON_LOST_OFFSETS="earliest").ready(SLOW)
    caught_up(workload, daemon)
    assert sum(workload.answered().values()) == 2 * before
    assert daemon.metric("model_events") == len(workload.learned)


def test_a_passing_answer_that_nothing_is_committed_is_not_believed(workload, fleet):
    daemon = lived(workload, fleet)
    ailing = fleet.daemon(workload, "a", "ailing.py")
    workload.produce(50)
    finish(workload, ailing.start(AIL="offsets_are_forgotten"))
    assert daemon.folder == ailing.folder


def test_a_topic_made_again_stops_it_at_the_start_and_while_it_runs(broker, workload, fleet):
    daemon = lived(workload, fleet)
    for topic in (workload.unlabelled, workload.labelled):
        broker.delete(topic)
        broker.create(topic, workload.partitions)
        ends_with_75(daemon, f"topic '{topic}' was deleted and created again")
        without_snapshots(daemon)
        broker.forget(workload.app)
        daemon.start().ready(SLOW)
        broker.delete(topic)
        broker.create(topic, workload.partitions)
        assert daemon.wait(SLOW) == 75, daemon.tail()
        assert "deleted and created again" in daemon.log().splitlines()[-1] or "beyond the end" in daemon.log()


def test_another_shape_and_another_role_are_refused_and_other_settings_are_logged(workload, fleet):
    daemon = lived(workload, fleet)
    other = {"uid": "categorical", "x": "categorical", "colour": "categorical"}
    ends_with_75(daemon, "features=", "now [", "['x', 'categorical']", STREAMNB_MODEL__FEATURES=json.dumps(other))
    roles = {
        "STREAMNB_INPUT__LABELLED": json.dumps([workload.unlabelled]),
        "STREAMNB_INPUT__UNLABELLED": json.dumps([workload.labelled]),
    }
    ends_with_75(daemon, "is now configured as", **roles)
    daemon.start(STREAMNB_MODEL__ALPHA="0.5", STREAMNB_EVENT__ID="uuid").ready(SLOW)
    assert "settings.changed" in daemon.log()
    assert daemon.stop() == 0
    finish(workload, daemon.start())


def test_a_topic_that_is_no_longer_configured_keeps_its_offsets(broker, workload, fleet):
    other = broker.topic("other")
    daemon = lived(workload, fleet)
    before = daemon.snapshot().learned
    daemon.start(STREAMNB_INPUT__LABELLED=json.dumps([other])).ready(SLOW)
    assert "topic.not_configured" in daemon.log()
    assert daemon.stop() == 0
    assert daemon.snapshot().learned.items() >= before.items()
    workload.produce(100)
    finish(workload, daemon.start())


def test_partitions_added_while_it_runs_are_learned_and_answered_from_their_start(workload, fleet):
    daemon = fleet.daemon(workload).start().ready(SLOW)
    workload.produce(100)
    workload.grow(4)
    workload.produce(200)
    finish(workload, daemon)


def test_without_any_snapshot_it_learns_again_and_answers_nothing_again(broker, workload, fleet):
    broker.cut(workload.labelled, 0, 0)
    daemon = lived(workload, fleet)
    workload.produce(100)
    finish(workload, without_snapshots(daemon).start())
    first = daemon.snapshot().learn_from
    assert set(first.values()) == {0}


def test_learning_that_began_late_is_remembered_by_the_group(broker, workload, fleet):
    workload.produce(100, poison=0)
    broker.cut(workload.labelled, 0, 10)
    daemon = fleet.daemon(workload).start()
    caught_up(workload, daemon)
    events = daemon.metric("model_events")
    assert daemon.stop() == 0
    assert "log.begins_late" in daemon.log()
    without_snapshots(daemon).start().ready(SLOW)
    assert daemon.metric("model_events") == events
    assert daemon.stop() == 0
    broker.cut(workload.labelled, 0, 12)
    ends_with_75(without_snapshots(daemon), "offsets 10 to 11 were never learned")


@pytest.mark.parametrize("start", ["latest", "2100-01-01T00:00:00Z"])
def test_answering_begins_where_the_input_starts_and_learning_at_the_beginning(workload, fleet, start):
    workload.produce(100, poison=0)
    before, workload.asked = workload.asked, set()
    daemon = fleet.daemon(workload, input={"start": start}).start().ready(SLOW)
    workload.produce(100, poison=0)
    finish(workload, daemon)
    assert not before & set(workload.answered())


def test_a_compacted_labelled_topic_is_refused(broker, workload, fleet):
    broker.configure(workload.labelled, {"cleanup.policy": "compact"})
    daemon = fleet.daemon(workload)
    assert daemon.start().wait(SLOW) == 64
    assert "cleanup.policy is compact" in daemon.log()
