"""Every row of the table of starts, as plain calls."""

import functools
import gc
from dataclasses import replace

import pytest

from streamnb import starting
from streamnb.cli.wiring import store_of
from streamnb.config import load, quick_form
from streamnb.engine import Engine
from streamnb.errors import LostEvents, LostOffsets, StateMismatch
from streamnb.ledger import Ledger
from streamnb.metrics import Metrics
from streamnb.snapshots import Snapshot, TopicNote
from streamnb.starting import Published
from streamnb.transport import Committed, Duty, Extent, Partition
from streamnb.transport.files import FilesTransport

SHAPE = {"kind": "gaussian"}
L0, L1, U0 = Partition("labelled", 0), Partition("labelled", 1), Partition("unlabelled", 0)
LOGS = {
    L0: Extent("labelled", 0, 100, "id-l"),
    L1: Extent("labelled", 0, 50, "id-l"),
    U0: Extent("unlabelled", 0, 70, "id-u"),
}
SNAPSHOT = Snapshot(
    app="app",
    instance="a",
    version="1",
    taken=0.0,
    shape=SHAPE,
    settings={},
    learned={L0: 10, L1: 5},
    learn_from={L0: 0, L1: 0},
    noted={L0: 8},
    topics={"labelled": TopicNote("id-l", "labelled", 2), "unlabelled": TopicNote("id-u", "unlabelled", 1)},
    classes={},
    lost=0,
    scores={},
    marks={},
    model=b"",
)


def cut(start: int, partition: Partition = L0) -> dict[Partition, Extent]:
    return {**LOGS, partition: replace(LOGS[partition], start=start)}


def begin(snapshot=None, logs=LOGS, committed=None, accept=False, others=()):
    chosen = starting.choose(snapshot, lambda: list(others), logs, SHAPE)
    return starting.begin(chosen, logs, committed or {}, accept)


def answer_from(committed=None, noted=None, logs=LOGS, partition=U0, topics=SNAPSHOT.topics, policy="stop"):
    return starting.published(
        partition, committed, noted, logs[partition], topics, lambda _, extent: extent.end, policy
    )


def test_a_first_start_learns_from_where_the_labelled_logs_begin():
    begun = begin(logs=cut(30))
    assert (begun.first_start, begun.learned, begun.learn_from) == (True, {L0: 30, L1: 0}, {L0: 30, L1: 0})


def test_a_fitting_snapshot_goes_on_at_its_offsets():
    begun = begin(SNAPSHOT)
    assert (begun.first_start, begun.learned, begun.lost) == (False, {L0: 10, L1: 5}, ())


def test_others_are_not_asked_while_the_own_snapshot_reaches_the_log():
    def forbidden():
        raise AssertionError("asked")

    assert starting.choose(SNAPSHOT, forbidden, LOGS, SHAPE) is SNAPSHOT


@pytest.mark.parametrize("own", [None, replace(SNAPSHOT, learned={L0: 10, L1: 49})])
def test_a_cut_log_or_a_lost_disk_is_answered_by_the_best_snapshot_of_any_instance(own):
    whole = replace(SNAPSHOT, instance="b", learned={L0: 40, L1: 5})
    further = replace(SNAPSHOT, instance="c", learned={L0: 45, L1: 6})
    holed = replace(SNAPSHOT, instance="d", learned={L0: 29, L1: 50})
    assert begin(own, cut(30), others=[whole, further, holed]).snapshot is further


def test_a_snapshot_of_another_shape_is_no_candidate_when_it_is_anothers():
    assert begin(None, others=[replace(SNAPSHOT, shape={"kind": "mixed"})]).snapshot is None


def test_commits_without_a_snapshot_learn_again_from_where_learning_began():
    committed = {L0: Committed(20, "learn_from=7"), U0: Committed(3)}
    begun = begin(committed=committed)
    assert (begun.first_start, begun.learned) == (False, {L0: 7, L1: 0})


def test_learning_again_over_a_cut_log_names_the_lost_range():
    with pytest.raises(LostEvents, match=r"labelled:0: offsets 7 to 29 were never learned.*on_lost_events"):
        begin(logs=cut(30), committed={L0: Committed(40, "learn_from=7")})


def test_accepted_losses_are_stepped_over_and_counted():
    committed = {L0: Committed(40, "learn_from=7")}
    begun = begin(logs=cut(30), committed=committed, accept=True)
    assert (begun.learned[L0], Ledger.of(begun, committed).lost_events) == (30, 23)


def test_a_snapshot_below_the_logs_start_with_no_better_one_is_lost_events():
    with pytest.raises(LostEvents, match="offsets 10 to 29"):
        begin(SNAPSHOT, cut(30))


def test_a_snapshot_beyond_the_end_names_the_range():
    with pytest.raises(StateMismatch, match=r"labelled:0.*100 to 119"):
        begin(replace(SNAPSHOT, learned={L0: 120, L1: 5}))


def test_a_topic_made_again_is_noticed():
    with pytest.raises(StateMismatch, match="'labelled' was deleted and created again"):
        begin(SNAPSHOT, {p: replace(e, topic_id="other") if p != U0 else e for p, e in LOGS.items()})


def test_a_changed_role_is_refused():
    with pytest.raises(StateMismatch, match="'unlabelled' was unlabelled and is now configured as labelled"):
        begin(SNAPSHOT, {**LOGS, U0: replace(LOGS[U0], role="labelled")})


def test_a_topic_no_longer_configured_keeps_its_offsets():
    begun = begin(SNAPSHOT, {U0: LOGS[U0]})
    assert (begun.learned, begun.kept, begun.topics["labelled"].id) == ({}, {L0: 10, L1: 5}, "id-l")


def test_a_snapshot_of_another_shape_names_the_difference():
    with pytest.raises(StateMismatch, match="kind='gaussian', now 'mixed'"):
        starting.choose(SNAPSHOT, list, LOGS, {"kind": "mixed"})


def test_a_new_partition_of_a_known_topic_is_learned_from_0():
    begun = begin(SNAPSHOT, {**LOGS, Partition("labelled", 2): Extent("labelled", 0, 9, "id-l")})
    assert begun.learned[Partition("labelled", 2)] == 0


def test_a_topic_new_to_the_snapshot_is_learned_from_its_start():
    begun = begin(SNAPSHOT, {**LOGS, Partition("more", 0): Extent("labelled", 4, 9, "id-m")})
    assert begun.learned[Partition("more", 0)] == 4


def test_answering_goes_on_at_the_committed_offset():
    assert answer_from(Committed(12)).offset == 12


def test_a_committed_offset_below_the_logs_start_tells_what_was_lost():
    at = answer_from(Committed(12), logs=cut(30, U0))
    assert (at.offset, str(at.lost)) == (30, "unlabelled:0: offsets 12 to 29 were never answered")


def test_a_committed_offset_beyond_the_end_is_refused():
    with pytest.raises(StateMismatch, match="70 to 70"):
        answer_from(Committed(71))


def test_nothing_committed_begins_at_input_start_and_is_committed_at_once():
    at = answer_from()
    assert (at.offset, at.new) == (70, True)


def test_an_unknown_topic_begins_at_input_start():
    assert answer_from(topics={}).offset == 70


def test_a_partition_added_to_a_known_topic_is_answered_from_0():
    added = Partition("unlabelled", 1)
    assert answer_from(partition=added, logs={added: Extent("unlabelled", 0, 9, "id-u")}).offset == 0


def test_an_offset_seen_committed_and_gone_stops():
    with pytest.raises(LostOffsets, match="33 was seen committed before"):
        answer_from(noted=33)


@pytest.mark.parametrize(("policy", "offset"), [("earliest", 2), ("latest", 70), ("snapshot", 33)])
def test_lost_offsets_go_on_where_the_operator_says(policy, offset):
    assert answer_from(noted=33, logs=cut(2, U0), policy=policy).offset == offset


def test_reading_starts_at_the_smaller_of_the_two_offsets():
    ledger = Ledger.of(begin(SNAPSHOT), {})
    ledger.take_up({L0: starting.Published(3), U0: starting.Published(12)})
    assert ledger.read_from() == {L0: 3, L1: 5, U0: 12}


def test_without_duty_only_what_is_left_to_learn_is_read():
    ledger = Ledger.of(begin(SNAPSHOT), {})
    ledger.take_up({L0: starting.Published(3), U0: starting.Published(12)})
    ledger.drop_duty()
    assert ledger.read_from() == {L0: 10, L1: 5}


def test_an_offset_that_began_at_input_start_is_due_before_anything_was_read():
    ledger = Ledger.of(begin(SNAPSHOT), {})
    ledger.take_up({L0: starting.Published(10, new=True), U0: starting.Published(12)})
    ledger.read_from()
    assert ledger.due() == {L0: Committed(10, "learn_from=0")}


def test_read_back_moves_published_and_leaves_learned():
    ledger = Ledger.of(begin(SNAPSHOT), {})
    ledger.take_up({L0: starting.Published(3)})
    ledger.read_from()
    ledger.advance({L0: 6})
    assert (ledger.learned[L0], ledger.due()) == (10, {L0: Committed(6, "learn_from=0")})


SEED = replace(SNAPSHOT, learned={}, learn_from={}, noted={}, topics={}, seed="5eed")
"""A converted model, as no daemon has taken it up yet."""


def test_a_converted_model_begins_where_an_empty_one_would():
    begun = begin(SEED, cut(30))
    assert (begun.snapshot, begun.first_start, begun.learned) == (SEED, True, {L0: 30, L1: 0})
    assert set(begun.topics) == {"labelled", "unlabelled"}


def test_a_converted_model_is_named_in_every_commit_and_learned_upon_again_once_all_snapshots_are_lost():
    ledger = Ledger.of(begin(SEED, cut(30)), {})
    ledger.take_up({p: Published(ledger.learned.get(p, 0), new=True) for p in (L0, U0)})
    ledger.read_from()
    ledger.advance({L0: 60, U0: 5})
    due = ledger.due()
    assert due == {L0: Committed(60, "learn_from=30;seed=5eed"), U0: Committed(5, "seed=5eed")}
    again = begin(SEED, cut(30), due)
    assert (again.snapshot, again.first_start, again.learned[L0]) == (SEED, False, 30)
    with pytest.raises(LostEvents, match="labelled:0: offsets 30 to 39"):
        begin(SEED, cut(40), due)


@pytest.mark.parametrize("snapshot", [None, SNAPSHOT, replace(SEED, seed="0the1")])
def test_learning_that_began_with_a_converted_model_does_not_go_on_without_it(snapshot):
    for metadata in ("learn_from=0;seed=5eed", "seed=5eed"):
        with pytest.raises(StateMismatch, match="converted model 5eed"):
            begin(snapshot, committed={L0: Committed(4, metadata)})


def test_a_converted_model_does_not_take_over_what_an_empty_one_began():
    with pytest.raises(StateMismatch, match="began with an empty model"):
        begin(SEED, committed={L0: Committed(4, "learn_from=0")})
    assert begin(SEED, committed={L0: Committed(4, "moved by an operator")}).snapshot is SEED


class AssignedLate(FilesTransport):
    """On which nothing is committed until the duty comes: another instance began at the same time."""

    @functools.cached_property
    def assigned(self) -> Duty:
        (partition,) = self.extents()
        return Duty(frozenset({partition}), {partition: Committed(0, "learn_from=0;seed=5eed")})

    def duty(self) -> Duty:
        return self.assigned


def test_commits_of_learning_that_began_with_another_model_are_refused_at_an_assignment_too(tmp_path):
    (tmp_path / "events.jsonl").write_text('{"features": {"a": 1}, "label": "x"}\n')
    (tmp_path / "config.yaml").write_text(f"snapshots: {{path: {tmp_path}/snapshots}}")
    form = quick_form(str(tmp_path / "events.jsonl"), str(tmp_path / "answers.jsonl"))
    config = load(tmp_path / "config.yaml", {}, form)
    metrics = Metrics(config.app, config.instance, "1")
    transport = AssignedLate(config.files, config.output, event_bytes=1000)
    with pytest.raises(StateMismatch, match="began with the converted model 5eed, here it would begin with an empty"):
        Engine(config, transport, store_of(config, metrics), metrics).run()
    gc.unfreeze()  # a daemon has its process to itself
