"""Test-then-train scores."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamnb.reports import Bin, ClassScore, Confusion, Drift, ScoresView
from streamnb.scores import CONFUSION_CLASSES, Scores

NAN = math.nan
Batch = tuple[tuple[str, ...], list[list[float]], list[int], list[str | None]]


def updated(scores: Scores, labels: Sequence[str], p: list[list[float]], best: list[int], truth: Any) -> Scores:
    scores.update(labels, np.array(p, dtype=np.float64).reshape(len(best), len(labels)), np.array(best), truth)
    return scores


def state(scores: Scores) -> str:
    return json.dumps(scores.to_dict())


def test_no_event_no_scores() -> None:
    assert Scores().view() == ScoresView()


def test_three_events_scored_by_hand() -> None:
    p = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.0, 0.5, 0.5]]
    view = updated(Scores(), ("a", "b", "c"), p, [0, 1, 1], ["a", "c", "a"]).view()
    assert view == ScoresView(
        evaluated=3,
        correct=1,
        log_loss_nats=math.log(2) + math.log(8) - math.log(1e-15),
        brier=(0.25 + 0.0625 + 0.0625) + (0.015625 + 0.5625 + 0.765625) + (1 + 0.25 + 0.25),
        unknown_labels=0,
        recent_accuracy=1 / 3,
        majority_correct=1,
        classes={"a": ClassScore(2, 1, 1), "b": ClassScore(0, 0, 2), "c": ClassScore(1, 0, 0)},
        prior_log_loss_nats=-math.log(1e-15) - math.log(1e-15) + math.log(2),
        calibration=(*[Bin()] * 5, Bin(2, 1, 1.0), Bin(), Bin(1, 0, 0.75), Bin(), Bin()),
    )


def test_a_row_without_truth_is_not_scored() -> None:
    scores = updated(Scores(), ("a",), [[1.0], [1.0]], [0, 0], [None, "a"])
    assert (scores.view().evaluated, scores.view().classes) == (1, {"a": ClassScore(1, 1, 1)})
    assert state(updated(scores, ("a",), [[1.0]], [0], [None])) == state(scores)


@pytest.mark.parametrize(
    ("labels", "p", "best"), [(("a", "b"), [1.0, NAN], 0), (("a",), [1.0], 0)], ids=["learned later", "never learned"]
)
def test_an_unknown_class_is_wrong_at_the_clipped_probability_and_one_more_class_to_brier(
    labels: tuple[str, ...], p: list[float], best: int
) -> None:
    view = updated(Scores(), labels, [p], [best], ["b"]).view()
    assert (view.evaluated, view.correct, view.unknown_labels) == (1, 0, 1)
    assert (view.log_loss_nats, view.brier) == (-math.log(1e-15), 2.0)
    assert view.classes == {"a": ClassScore(0, 0, 1), "b": ClassScore(1, 0, 0)}


@pytest.mark.parametrize("labels", [(), ("a",), ("a", "b")])
def test_the_first_event_of_a_stream_is_evaluated_though_no_class_is_known(labels: tuple[str, ...]) -> None:
    view = updated(Scores(), labels, [[NAN] * len(labels)], [-1], ["a"]).view()
    assert (view.evaluated, view.correct, view.unknown_labels, view.majority_correct) == (1, 0, 1, 0)
    assert (view.log_loss_nats, view.brier) == (-math.log(1e-15), 1.0)
    assert view.classes == {"a": ClassScore(1, 0, 0)}


def test_a_class_known_but_held_impossible_is_not_unknown() -> None:
    view = updated(Scores(), ("a", "b"), [[1.0, 0.0]], [0], ["b"]).view()
    assert (view.unknown_labels, view.log_loss_nats, view.brier) == (0, -math.log(1e-15), 2.0)


def test_the_majority_is_the_most_frequent_class_before_the_event_and_ties_go_to_the_first() -> None:
    truth = ["b", "a", "a", "c", "c", "c", "a"]
    before = [None, "b", "a", "a", "a", "a", "c"]
    view = updated(Scores(), ("a", "b", "c"), [[1.0, 0.0, 0.0]] * 7, [0] * 7, truth).view()
    assert view.majority_correct == sum(leader == label for leader, label in zip(before, truth, strict=True)) == 1


def test_recent_accuracy_is_that_of_the_last_thousand_events() -> None:
    scores = updated(Scores(), ("a", "b"), [[1.0, 0.0]] * 1500, [0] * 1500, ["a"] * 750 + ["b"] * 750)
    assert scores.view().recent_accuracy == 0.25
    updated(scores, ("a", "b"), [[1.0, 0.0]] * 250, [0] * 250, ["a"] * 250)
    assert scores.view().recent_accuracy == 0.25
    updated(scores, ("a", "b"), [[1.0, 0.0]] * 750, [0] * 750, ["a"] * 750)
    assert scores.view().recent_accuracy == 1.0


def test_the_prior_is_scored_by_the_shares_of_the_classes_before_each_event() -> None:
    truth = ["a", "a", "b", "a", "b"]
    shares = [1e-15, 1 / 1, 1e-15, 2 / 3, 1 / 4]
    view = updated(Scores(), ("a", "b"), [[0.5, 0.5]] * 5, [0] * 5, truth).view()
    assert view.prior_log_loss_nats == pytest.approx(-sum(map(math.log, shares)), rel=1e-15)


@pytest.mark.parametrize(("p", "place"), [(0.0, 0), (0.05, 0), (0.1, 1), (0.75, 7), (0.9, 9), (1.0, 9)])
def test_an_answer_falls_into_the_bin_of_its_probability(p: float, place: int) -> None:
    view = updated(Scores(), ("a", "b"), [[p, 0.0]], [0], ["a"]).view()
    assert {i: held for i, held in enumerate(view.calibration) if held.events} == {place: Bin(1, 1, p)}


def test_confusion_tells_what_was_answered_for_what() -> None:
    truth, best = ["b", "a", "a", "b", "a", None], [0, 0, 1, 1, 0, 0]
    scores = updated(Scores(), ("a", "b"), [[0.5, 0.5]] * 6, best, truth)
    assert scores.confusion() == Confusion(("b", "a"), ((1, 1, 0), (1, 2, 0), (0, 0, 0)))


def test_confusion_is_bounded_and_keeps_the_classes_that_came_first() -> None:
    labels = [f"c{n:03}" for n in range(CONFUSION_CLASSES + 20)]
    n, scores = len(labels), Scores()
    updated(scores, labels, np.full((n, n), 1 / n).tolist(), [0] * n, labels)
    confusion = scores.confusion()
    assert confusion.classes == tuple(labels[:CONFUSION_CLASSES])
    assert [row[0] for row in confusion.counts] == [1] * CONFUSION_CLASSES + [20]
    assert len(json.dumps(scores.to_dict()["confusion"])) < 3000


def test_a_change_of_the_error_is_told_when_it_is_found_and_in_the_view() -> None:
    scores, truth = Scores(), ["a"] * 2000 + ["b"] * 100
    drifts = scores.update(("a", "b"), np.array([[0.9, 0.1]] * 2100), np.zeros(2100, dtype=int), truth)
    (drift,) = drifts
    assert drift == Drift(drift.event, 0.0, 1.0)
    assert drift.direction == "worse"
    assert 2000 < drift.event <= 2064
    view = scores.view()
    assert (view.drifts, view.drifts_worse, view.drifts_better) == ((drift,), 1, 0)


def test_a_state_from_before_confusion_calibration_and_drift_still_loads() -> None:
    saved = updated(Scores(), ("a", "b"), [[0.5, 0.5]] * 4, [0] * 4, ["a", "a", "a", "b"])
    added = {"prior_log_loss_nats", "calibration", "confusion", "drift"}
    old = {name: value for name, value in saved.to_dict().items() if name not in added}
    scores = Scores.from_dict(old)
    assert scores.view().prior_log_loss_nats == pytest.approx(3 * math.log(4 / 3) + math.log(4))
    assert (scores.view().evaluated, scores.view().calibration) == (4, (Bin(),) * 10)
    updated(scores, ("a", "b"), [[0.5, 0.5]], [0], ["a"])
    assert scores.confusion() == Confusion(("a",), ((1, 0), (0, 0)))
    assert Scores.from_dict(scores.to_dict()).view() == scores.view()


def test_an_earlier_view_stays_as_it_was() -> None:
    scores = updated(Scores(), ("a",), [[1.0]], [0], ["a"])
    view = scores.view()
    updated(scores, ("a",), [[1.0]], [0], ["a"])
    assert view.classes == {"a": ClassScore(1, 1, 1)}


@st.composite
def streams(draw: st.DrawFn) -> Batch:
    """A batch as the model would score it: classes become known one after another, from any place in the order."""
    labels = tuple(sorted(draw(st.sets(st.text("abcdefghij", min_size=1, max_size=2), min_size=1, max_size=12))))
    known_from = [draw(st.integers(0, 6)) for _ in labels]
    p, best = [], []
    for row in range(draw(st.integers(1, 12))):
        raw = [draw(st.floats(0, 1)) if start <= row else NAN for start in known_from]
        total = math.fsum(x for x in raw if not math.isnan(x)) or 1.0
        p.append([x / total for x in raw])
        known = [index for index, x in enumerate(raw) if not math.isnan(x)]
        best.append(max(known, key=raw.__getitem__, default=-1))
    truth = [draw(st.none() | st.sampled_from([*labels, "never"])) for _ in p]
    return labels, p, best, truth


@settings(max_examples=150, deadline=None)
@given(streams(), st.data())
def test_a_batch_leaves_bit_for_bit_what_its_events_leave_one_at_a_time(batch: Batch, data: st.DataObject) -> None:
    labels, p, best, truth = batch
    whole, single = updated(Scores(), labels, p, best, truth), Scores()
    for row, index, label in zip(p, best, truth, strict=True):
        # one at a time, a class has no column before it is known
        kept = [at for at, x in enumerate(row) if not math.isnan(x) or data.draw(st.booleans())]
        answer = kept.index(index) if index >= 0 else -1
        updated(single, [labels[at] for at in kept], [[row[at] for at in kept]], [answer], [label])
    assert state(whole) == state(single)
    assert (whole.view(), whole.confusion()) == (single.view(), single.confusion())


def test_a_long_batch_of_many_classes_is_summed_in_order_too() -> None:
    rng = np.random.default_rng(7)
    labels = tuple(f"c{n:03}" for n in range(300))
    p = rng.dirichlet(np.ones(300), size=500)
    truth = [labels[index] for index in rng.integers(0, 300, 500)]
    whole, single = Scores(), Scores()
    whole.update(labels, p, p.argmax(axis=1), truth)
    for row, label in zip(p, truth, strict=True):
        single.update(labels, row[None, :], row[None, :].argmax(axis=1), [label])
    assert state(whole) == state(single)
    assert whole.view().log_loss_nats == pytest.approx(
        math.fsum(-math.log(row[labels.index(label)]) for row, label in zip(p, truth, strict=True)), rel=1e-12
    )


@settings(max_examples=100, deadline=None)
@given(streams(), streams())
def test_restored_scores_go_on_as_the_saved_ones(first: Batch, second: Batch) -> None:
    saved = updated(Scores(), *first)
    restored = Scores.from_dict(json.loads(state(saved)))
    assert (state(restored), restored.view()) == (state(saved), saved.view())
    assert state(updated(restored, *second)) == state(updated(saved, *second))


DETECTOR = {"worse": 0, "better": 0, "last": []}


@pytest.mark.parametrize(
    "damage",
    [
        *({"confusion": {"classes": ["a"], "pairs": [[0, at, 1]]}} for at in (-1, CONFUSION_CLASSES + 1)),
        *({"correct": 10**30}, {"brier": "x"}, {"classes": {"a": [1, 2]}}, {"classes": []}, {"recent": None}),
        *({"calibration": [[1, 1, 1.0]] * 11}, {"calibration": [[1, 1]]}, {"prior_log_loss_nats": None}),
        *({"confusion": {"classes": ["a"]}}, {"confusion": {"classes": [str(i) for i in range(60)], "pairs": []}}),
        *(
            {"drift": None},
            {"drift": {"worse": 0}},
            {"drift": DETECTOR | {"detector": {"events": 9, "errors": "AA=="}}},
        ),
        *({"drift": DETECTOR | {"detector": {"events": n, "errors": "x"}}} for n in (1, -1, 10**12)),
    ],
)
def test_scores_of_another_format_are_refused(damage: dict[str, Any]) -> None:
    whole = updated(Scores(), ("a",), [[1.0]], [0], ["a"]).to_dict()
    without = {name: value for name, value in whole.items() if name not in damage}
    for wrong in (whole | damage, *([] if "drift" in damage else [without])):
        with pytest.raises(ValueError, match="scores of another format"):
            Scores.from_dict(wrong)
