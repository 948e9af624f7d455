"""What /metrics says is what the engine reported, in names and labels that never surprise a scraper."""

import gc
import math
import threading
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from streamnb.metric_families import FAMILIES, PREFIX
from streamnb.metrics import Metrics
from streamnb.reports import Bin, ClassScore, Drift, ModelView, ScoresView, Status, Step
from tests.statuses import (
    STARTED,
    class_scores,
    labelled,
    model,
    partitions,
    scores,
    status,
    unlabelled,
)

README = (Path(__file__).parents[1] / "README.md").read_text()
OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"

STATES = ["starting", "restoring", "running", "draining", "stopped"]
REASONS = [
    *("not_json", "not_utf8", "no_features", "bad_feature", "bad_label", "bad_weight", "bad_timestamp"),
    *("too_large", "too_many_features", "too_many_classes"),
]
# name -> type, label names, and the children that must be there from the start
METRICS = {
    "build_info": ("gauge", ["app", "instance", "version"], 1),
    "start_timestamp_seconds": ("gauge", [], 1),
    "ready": ("gauge", [], 1),
    "state": ("gauge", ["state"], len(STATES)),
    "events_total": ("counter", ["outcome", "role"], 6),
    "predictions_total": ("counter", [], 1),
    "late_predictions_total": ("counter", [], 1),
    "dead_letters_total": ("counter", ["reason"], len(REASONS)),
    "labels_ignored_total": ("counter", [], 1),
    "lag_events": ("gauge", ["partition", "topic"], 0),
    "open_upstream_transaction_seconds": ("gauge", ["partition", "topic"], 0),
    "learned_offset": ("gauge", ["partition", "topic"], 0),
    "published_offset": ("gauge", ["partition", "topic"], 0),
    "event_age_seconds": ("histogram", [], 1),
    "step_seconds": ("histogram", [], 1),
    "step_events": ("histogram", [], 1),
    "transaction_seconds": ("histogram", [], 1),
    "transactions_total": ("counter", ["outcome"], 3),
    "rebalances_total": ("counter", ["kind"], 2),
    "partitions_owned": ("gauge", [], 1),
    "snapshots_total": ("counter", ["outcome"], 3),
    "snapshot_seconds": ("histogram", [], 1),
    "snapshot_bytes": ("gauge", [], 1),
    "snapshot_timestamp_seconds": ("gauge", [], 1),
    "restore_remaining_events": ("gauge", [], 1),
    "last_step_timestamp_seconds": ("gauge", [], 1),
    "last_commit_timestamp_seconds": ("gauge", [], 1),
    "lost_events_total": ("counter", [], 1),
    "model_events": ("gauge", [], 1),
    "model_classes": ("gauge", [], 1),
    "model_features": ("gauge", [], 1),
    "evaluated_total": ("counter", [], 1),
    "correct_total": ("counter", [], 1),
    "log_loss_nats_total": ("counter", [], 1),
    "unknown_labels_total": ("counter", [], 1),
    "brier_total": ("counter", [], 1),
    "accuracy_ratio": ("gauge", [], 1),
    "majority_correct_total": ("counter", [], 1),
    "prior_log_loss_nats_total": ("counter", [], 1),
    "class_evaluated_total": ("counter", ["class"], 1),
    "class_correct_total": ("counter", ["class"], 1),
    "class_predicted_total": ("counter", ["class"], 1),
    "class_published_total": ("counter", ["class"], 1),
    "calibration_events_total": ("counter", ["bin"], 10),
    "calibration_correct_total": ("counter", ["bin"], 10),
    "calibration_confidence_total": ("counter", ["bin"], 10),
    "drift_detections_total": ("counter", ["direction"], 2),
    "drift_error_before_ratio": ("gauge", [], 1),
    "drift_error_after_ratio": ("gauge", [], 1),
    "features_total": ("counter", [], 1),
    "unseen_features_total": ("counter", [], 1),
}


def metrics(clock: Callable[[], float] = lambda: STARTED) -> Metrics:
    return Metrics("fraud", "host-1", "0.1.0", clock)


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(m: Metrics) -> Samples:
    """Every sample by name (without the prefix) and labels; each may appear once only."""
    text, _ = m.exposition()
    samples = [
        ((s.name.removeprefix("streamnb_"), frozenset(s.labels.items())), s.value)
        for family in parser.text_string_to_metric_families(text.decode())
        for s in family.samples
    ]
    assert len(dict(samples)) == len(samples)
    return dict(samples)


def value(m: Metrics, name: str, **labels: str) -> float:
    return scraped(m)[name, frozenset(labels.items())]


def children(m: Metrics, name: str, label: str) -> dict[str, float]:
    return {dict(labels)[label]: n for (found, labels), n in scraped(m).items() if found == name}


@pytest.mark.parametrize(("name", "expected"), METRICS.items())
def test_every_metric_of_the_design_is_there_before_anything_happened(
    name: str, expected: tuple[str, list[str], int]
) -> None:
    kind, labels, count = expected
    text = metrics().exposition()[0].decode()
    family = next(
        f for f in parser.text_string_to_metric_families(text) if f"streamnb_{name}" in (f.name, f.name + "_total")
    )
    samples = [s for s in family.samples if not s.name.endswith(("_bucket", "_sum"))]
    assert (family.type, len(samples)) == (kind, count)
    assert all(sorted(s.labels) == labels for s in samples)


def test_there_are_no_other_metrics() -> None:
    families = parser.text_string_to_metric_families(metrics().exposition()[0].decode())
    names = {f"{f.name}_total" if f.type == "counter" else f.name for f in families}
    assert {name for name in names if not name.startswith("process_")} == {f"streamnb_{name}" for name in METRICS}


def test_the_process_is_told_of_in_the_names_that_everyone_knows() -> None:
    assert 1e7 < value(metrics(), "process_resident_memory_bytes") <= getrusage(RUSAGE_SELF).ru_maxrss * 1024
    assert value(metrics(), "process_cpu_seconds_total") > 0
    assert value(metrics(), "process_open_fds") > 0


def test_the_readme_lists_every_metric_with_its_type_labels_and_meaning() -> None:
    table = README.partition("<!-- metrics:")[2].partition("<!-- end of metrics -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]
    assert rows == [
        [f"`{PREFIX}{name}`", family.kind, ", ".join(f"`{label}`" for label in family.labels), family.help]
        for name, family in FAMILIES.items()
    ]


def test_counters_start_at_zero() -> None:
    counters = [key for key in scraped(metrics()) if key[0].endswith("_total") and not key[0].startswith("process_")]
    assert {scraped(metrics())[key] for key in counters} == {0.0}


def test_a_step_is_counted_by_what_it_did() -> None:
    m = metrics()
    m.stepped(
        Step(
            seconds=0.02,
            records=9,
            events={("labelled", "ok"): 4, ("unlabelled", "dead"): 2, ("unlabelled", "skipped"): 1},
            predictions=3,
            late=1,
            dead_letters={"bad_label": 2},
            labels_ignored=5,
            features=40,
            unseen_features=6,
            published={"spam": 2, "ham": 1},
            ages=[0.003, 0.2, 4.0],
        )
    )
    assert value(m, "events_total", role="labelled", outcome="ok") == 4
    assert value(m, "events_total", role="unlabelled", outcome="dead") == 2
    assert value(m, "dead_letters_total", reason="bad_label") == 2
    assert value(m, "predictions_total") == 3
    assert value(m, "late_predictions_total") == 1
    assert value(m, "labels_ignored_total") == 5
    assert (value(m, "features_total"), value(m, "unseen_features_total")) == (40, 6)
    assert children(m, "class_published_total", "class") == {"ham": 1, "other": 0, "spam": 2}
    assert value(m, "event_age_seconds_count") == 3
    assert value(m, "event_age_seconds_sum") == pytest.approx(4.203)
    assert value(m, "event_age_seconds_bucket", le="0.25") == 2
    assert value(m, "step_events_sum") == 7
    assert value(m, "last_step_timestamp_seconds") == STARTED


def test_a_bucket_holds_what_is_at_most_its_bound() -> None:
    m = metrics()
    m.stepped(Step(ages=[0.25, 0.25000001]))
    assert value(m, "event_age_seconds_bucket", le="0.25") == 1
    assert value(m, "event_age_seconds_bucket", le="0.5") == 2


def test_steps_that_count_no_event_leave_the_step_histograms_alone() -> None:
    m = metrics()
    m.stepped(Step(seconds=0.5, records=2000))
    assert value(m, "step_seconds_count") == value(m, "step_events_count") == 0


def test_transactions_rebalances_snapshots_and_losses_are_counted() -> None:
    m = metrics()
    m.transaction("committed", 0.01)
    m.transaction("unknown", 15.0)
    m.rebalanced("revoked")
    m.snapshot("ok", 0.03, 1234)
    m.snapshot("damaged", 0.0, 0)
    m.lost(17)
    assert children(m, "transactions_total", "outcome") == {"committed": 1, "aborted": 0, "unknown": 1}
    assert value(m, "transaction_seconds_count") == 2
    assert children(m, "rebalances_total", "kind") == {"assigned": 0, "revoked": 1}
    assert children(m, "snapshots_total", "outcome") == {"ok": 1, "failed": 0, "damaged": 1}
    assert (value(m, "snapshot_seconds_count"), value(m, "snapshot_bytes")) == (1, 1234)
    assert value(m, "last_commit_timestamp_seconds") == value(m, "snapshot_timestamp_seconds") == STARTED
    assert value(m, "lost_events_total") == 17


def test_whether_the_daemon_is_ready_is_told_at_the_scrape() -> None:
    m = metrics()
    for ready in (True, False, True):
        assert f"streamnb_ready {float(ready)}\n" in m.exposition(None, ready)[0].decode()


def test_the_start_is_that_of_the_process_whatever_the_clock_says_later() -> None:
    moments = iter([STARTED, STARTED + 50, STARTED + 60])
    m = metrics(lambda: next(moments))
    m.stepped(Step())
    assert value(m, "start_timestamp_seconds") == STARTED


def test_gauges_show_the_last_status() -> None:
    m = metrics()
    parts = partitions("in", [labelled(), labelled(owned=False)])
    m.status(status(partitions=parts, restore_remaining=7, model=model({"a": 3.0, "b": 1.0}, 9)))
    m.status(status(state="draining", partitions=parts, restore_remaining=7, model=model({"a": 3.0}, 9)))
    assert {state for state, on in children(m, "state", "state").items() if on} == {"draining"}
    assert value(m, "partitions_owned") == 1
    assert value(m, "restore_remaining_events") == 7
    assert (value(m, "model_events"), value(m, "model_classes"), value(m, "model_features")) == (3, 1, 9)
    assert value(m, "last_step_timestamp_seconds") == STARTED + 60
    assert value(m, "last_commit_timestamp_seconds") == STARTED + 59
    assert value(m, "snapshot_timestamp_seconds") == STARTED + 30
    assert value(m, "snapshot_bytes") == 3_000_000


def test_the_recent_accuracy_is_not_a_number_before_any_label() -> None:
    m = metrics()
    m.status(status())
    assert math.isnan(value(m, "accuracy_ratio"))
    m.status(status(scores=ScoresView(10, 9, recent_accuracy=0.875)))
    assert value(m, "accuracy_ratio") == 0.875


def test_a_partition_has_the_series_that_are_about_it() -> None:
    m = metrics()
    views = [labelled(held=3.0), labelled(owned=False), unlabelled(), unlabelled(owned=False)]
    m.status(status(partitions=partitions("in", views)))
    assert children(m, "lag_events", "partition") == {"0": 10, "1": 10, "2": 20}
    assert children(m, "open_upstream_transaction_seconds", "partition") == {"0": 3, "1": 0, "2": 0}
    assert children(m, "learned_offset", "partition") == {"0": 90, "1": 90}
    assert children(m, "published_offset", "partition") == {"0": 80, "2": 45}


def test_a_partition_that_leaves_takes_its_series_along() -> None:
    m = metrics()
    m.status(status(partitions=partitions("in", [unlabelled(), unlabelled()])))
    m.status(status(partitions=partitions("in", [unlabelled(), unlabelled(owned=False)])))
    assert set(children(m, "lag_events", "partition")) == {"0"}
    assert set(children(m, "published_offset", "partition")) == {"0"}
    m.status(status(partitions={}))
    assert not [name for name, labels in scraped(m) if "partition" in dict(labels)]


def test_a_position_past_the_end_is_no_negative_lag() -> None:
    m = metrics()
    m.status(status(partitions=partitions("in", [labelled(position=101, end=100)])))
    assert value(m, "lag_events", topic="in", partition="0") == 0


# -- scores: the stream's totals become counters of the process ---------------------------------------------


def test_score_counters_grow_by_what_came_after_the_first_view() -> None:
    m = metrics()
    m.status(status(scores=scores(1000, 900)))
    m.status(status(scores=scores(1010, 907, unknown_labels=4)))
    assert value(m, "evaluated_total") == 10
    assert value(m, "correct_total") == 7
    assert value(m, "log_loss_nats_total") == 5.0
    assert value(m, "brier_total") == 2.5
    assert value(m, "unknown_labels_total") == 3


def test_what_is_learned_again_while_restoring_is_not_counted() -> None:
    m = metrics()
    m.status(status(state="restoring", scores=scores(1000)))
    m.status(status(state="restoring", scores=scores(1050)))
    m.status(status(state="running", scores=scores(1060)))
    assert value(m, "evaluated_total") == 0
    m.status(status(scores=scores(1061)))
    assert value(m, "evaluated_total") == 1


def test_scores_told_twice_are_counted_once() -> None:
    m = metrics()
    m.status(status(scores=scores(100)))
    m.status(status(scores=scores(105)))
    m.status(status(scores=scores(108)))
    m.status(status(scores=scores(108)))
    assert value(m, "evaluated_total") == 8


def test_classes_count_from_the_first_view_on() -> None:
    m = metrics()
    m.status(status(scores=class_scores("ab", 100, 90)))
    m.status(status(scores=class_scores("abc", 103, 91)))
    assert children(m, "class_evaluated_total", "class") == {"a": 3, "b": 3, "c": 103, "other": 0}
    assert children(m, "class_correct_total", "class") == {"a": 1, "b": 1, "c": 91, "other": 0}


def test_classes_beyond_the_first_fifty_in_sorted_order_are_summed_in_other() -> None:
    m = metrics()
    labels = [f"c{i:03}" for i in range(200)]
    m.status(status())
    m.status(status(scores=class_scores(reversed(labels), 2, 1)))
    found = children(m, "class_evaluated_total", "class")
    assert set(found) == {*labels[:50], "other"}
    assert found["other"] == 300
    assert sum(found.values()) == value(m, "evaluated_total")


def test_a_class_known_to_the_model_has_children_before_it_is_scored() -> None:
    m = metrics()
    m.status(status(model=model({"spam": 0.0})))
    assert children(m, "class_evaluated_total", "class") == {"spam": 0, "other": 0}


def test_a_class_named_other_shares_the_child_of_that_name() -> None:
    m = metrics()
    m.status(status())
    m.status(status(scores=class_scores(["other", *(f"a{i:02}" for i in range(60))], 1, 0)))
    assert children(m, "class_evaluated_total", "class")["other"] == 11


def test_no_class_counter_falls_when_a_new_class_pushes_another_into_other() -> None:
    m = metrics()
    labels = [f"m{i:02}" for i in range(50)]
    m.status(status())
    m.status(status(scores=class_scores(labels, 1, 1)))
    before = children(m, "class_evaluated_total", "class")
    m.status(status(scores=class_scores(["a", *labels], 1, 1)))
    after = children(m, "class_evaluated_total", "class")
    assert "m49" not in after
    assert after["other"] == 1
    assert all(after[label] >= n for label, n in before.items() if label in after)


def test_predictions_of_a_class_count_apart_from_its_events() -> None:
    m = metrics()
    m.status(status(scores=scores(10, classes={"a": ClassScore(10, 9, 12)})))
    m.status(status(scores=scores(13, classes={"a": ClassScore(12, 10, 13), "b": ClassScore(1, 0, 2)})))
    assert children(m, "class_evaluated_total", "class") == {"a": 2, "b": 1, "other": 0}
    assert children(m, "class_correct_total", "class") == {"a": 1, "b": 0, "other": 0}
    assert children(m, "class_predicted_total", "class") == {"a": 1, "b": 2, "other": 0}


def test_published_answers_of_the_fifty_first_class_are_others() -> None:
    m = metrics()
    m.stepped(Step(published={f"c{i:02}": i for i in range(60)}))
    found = children(m, "class_published_total", "class")
    assert len(found) == 51
    assert found["other"] == sum(range(50, 60))


def test_calibration_grows_bin_by_bin() -> None:
    m = metrics()
    bins = [Bin()] * 9
    m.status(status(scores=scores(5, calibration=(*bins, Bin(5, 4, 4.75)))))
    m.status(status(scores=scores(8, calibration=(Bin(1, 0, 0.0625), *bins[1:], Bin(7, 6, 6.5)))))
    expected = {"events": (1, 2), "correct": (0, 2), "confidence": (0.0625, 1.75)}
    for name, (low, high) in expected.items():
        found = children(m, f"calibration_{name}_total", "bin")
        assert (found["0-0.1"], found["0.9-1"], sum(found.values())) == (low, high, low + high)


def test_drift_is_counted_by_direction_and_the_last_one_is_shown() -> None:
    m = metrics()
    m.status(status(scores=scores(100, drifts_worse=2, drifts_better=1)))
    assert math.isnan(value(m, "drift_error_after_ratio"))
    drifted = scores(200, drifts_worse=3, drifts_better=1, drifts=(Drift(9, 0.5, 0.4), Drift(150, 0.125, 0.5)))
    m.status(status(scores=drifted))
    assert children(m, "drift_detections_total", "direction") == {"worse": 1, "better": 0}
    assert (value(m, "drift_error_before_ratio"), value(m, "drift_error_after_ratio")) == (0.125, 0.5)


# -- hostile values -----------------------------------------------------------------------------------------

numbers = st.one_of(
    st.floats(), st.integers(-(10**30), 10**30), st.just(10**400), st.none(), st.just("seven"), st.booleans()
)
names = st.text(st.characters(), max_size=300)  # lone surrogates and control characters too


@st.composite
def hostile_status(draw: st.DrawFn) -> Status:
    parts = partitions(draw(names), [labelled(draw(numbers), draw(numbers)), unlabelled(draw(numbers))])
    labels = draw(st.lists(names, max_size=4))
    view = scores(1, classes=class_scores(labels, draw(st.integers(-5, 5)), 1).classes)
    for field in ("evaluated", "correct", "log_loss_nats", "brier", "recent_accuracy"):
        object.__setattr__(view, field, draw(numbers))
    counts: dict[str, Any] = {label: draw(numbers) for label in labels}
    return status(
        state=draw(st.sampled_from(["starting", "running", "nowhere"])),
        partitions=parts,
        model=ModelView("mixed", draw(numbers), draw(numbers), counts),
        scores=view,
        restore_remaining=draw(numbers),
        snapshot_time=draw(numbers),
        last_step=draw(numbers),
    )


@st.composite
def hostile_step(draw: st.DrawFn) -> Step:
    return Step(
        seconds=draw(numbers),
        events={("labelled", "ok"): draw(numbers)},
        predictions=draw(numbers),
        dead_letters={draw(st.sampled_from(["not_json", "no such reason"])): draw(numbers)},
        ages=draw(st.lists(numbers, max_size=4)),
    )


def counters(m: Metrics) -> Mapping[object, float]:
    grows = ("_total", "_count", "_bucket", "_sum")
    return {key: n for key, n in scraped(m).items() if key[0].endswith(grows) and "class" not in dict(key[1])}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(hostile_status(), hostile_step()), max_size=5))
def test_whatever_is_reported_a_scrape_can_be_read_and_no_counter_falls(reports: list[Status | Step]) -> None:
    m = metrics()
    before = counters(m)
    for report in reports:
        m.status(report) if isinstance(report, Status) else m.stepped(report)
        after = counters(m)
        assert all(after[key] >= n for key, n in before.items())
        before = after
        list(openmetrics.text_string_to_metric_families(m.exposition(OPENMETRICS)[0].decode()))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 10**400])
def test_a_bad_number_leaves_the_counter_as_it_was(bad: float) -> None:
    m = metrics()
    m.stepped(Step(predictions=2, ages=[0.1], events={("labelled", "ok"): 1}))
    m.stepped(Step(predictions=bad, ages=[bad], seconds=bad))  # type: ignore[arg-type]
    m.stepped(Step(predictions=3))
    assert value(m, "predictions_total") == 5
    assert value(m, "event_age_seconds_sum") == pytest.approx(0.1)


def test_a_bad_sum_of_the_stream_does_not_poison_the_counter() -> None:
    m = metrics()
    m.status(status(scores=scores(10)))
    m.status(status(scores=scores(20, log_loss_nats=math.nan)))
    m.status(status(scores=scores(30)))
    m.status(status(scores=scores(40)))
    assert value(m, "log_loss_nats_total") >= 5.0


def test_an_observer_never_raises_even_on_what_is_no_report(caplog: pytest.LogCaptureFixture) -> None:
    m = metrics()
    for _ in range(3):
        m.stepped(None)  # type: ignore[arg-type]
        m.status(None)  # type: ignore[arg-type]
    assert [record.message for record in caplog.records] == ["metrics.report_unusable"] * 2
    assert value(m, "predictions_total") == 0


@pytest.mark.parametrize("topic", ['quo"te', "back\\slash", "new\nline", "\ud800", "<script>", "", "x" * 1000])
def test_hostile_names_of_topics_and_classes_can_be_scraped(topic: str) -> None:
    m = metrics()
    m.status(status(partitions=partitions(topic, [labelled()]), model=model({topic: 1.0})))
    m.stepped(Step(published={topic: 1}))
    assert children(m, "lag_events", "partition") == {"0": 10}
    assert len(children(m, "class_evaluated_total", "class")) == 2
    assert len(m.exposition()[0]) < 25_000


# -- formats ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, "text/plain"),
        ("", "text/plain"),
        ("*/*", "text/plain"),
        ("text/html, garbage;q=, ;;;", "text/plain"),
        (OPENMETRICS, "application/openmetrics-text"),
        ("Application/OpenMetrics-Text; version=99.not.a.version", "application/openmetrics-text"),
        ("text/plain;q=0.9, application/openmetrics-text;q=0.1", "text/plain"),
        ("application/openmetrics-text;q=0", "text/plain"),
        ("application/openmetrics-text;q=nonsense", "text/plain"),
    ],
)
def test_the_format_is_the_one_asked_for(accept: str | None, expected: str) -> None:
    assert metrics().exposition(accept)[1].split(";")[0] == expected


def test_openmetrics_says_the_same_and_ends_as_it_must() -> None:
    m = metrics()
    m.status(status(partitions=partitions("in", [labelled()]), model=model({"a": 1.0})))
    m.status(status(scores=scores(3)))
    text = m.exposition(OPENMETRICS)[0].decode()
    families = openmetrics.text_string_to_metric_families(text)
    samples = {
        (s.name.removeprefix("streamnb_"), frozenset(s.labels.items())): s.value
        for family in families
        for s in family.samples
    }
    assert text.endswith("# EOF\n")
    assert steady(samples) == steady(scraped(m))


def steady(samples: Samples) -> Samples:
    """Those of the daemon that equal themselves from one scrape to the next."""
    return {k: v for k, v in samples.items() if not (math.isnan(v) or k[0].startswith("process_"))}


# -- several daemons, several threads -----------------------------------------------------------------------


def test_two_daemons_in_one_process_count_apart() -> None:
    first, second = metrics(), metrics()
    first.lost(3)
    assert (value(first, "lost_events_total"), value(second, "lost_events_total")) == (3, 0)


def test_a_scrape_never_sees_half_a_step() -> None:
    m, done = metrics(), threading.Event()

    def loop() -> None:
        while not done.is_set():
            m.stepped(Step(seconds=1.0, events={("labelled", "ok"): 1}, predictions=1, ages=[1.0]))

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        for _ in range(20):
            seen = scraped(m)
            counts = {
                seen[name, frozenset()] for name in ("predictions_total", "event_age_seconds_count", "step_events_sum")
            }
            assert len(counts) == 1
    finally:
        done.set()
        thread.join()


def test_a_scrape_does_not_wait_for_a_loop_that_hangs_in_a_report() -> None:
    m, entered, go_on = metrics(), threading.Event(), threading.Event()

    class Hanging(dict[Any, Any]):
        def items(self) -> Any:
            entered.set()
            go_on.wait()
            return super().items()

    loop = threading.Thread(target=m.stepped, args=[Step(events=Hanging())])
    loop.start()
    try:
        assert entered.wait(10)
        assert value(m, "predictions_total") == 0
    finally:
        go_on.set()
        loop.join()


@pytest.mark.parametrize("accept", [None, OPENMETRICS])
def test_scrapes_leave_memory_as_it_was(accept: str | None) -> None:
    m = metrics()
    m.status(
        status(partitions=partitions("in", [labelled()] * 20), model=model(dict.fromkeys(map(str, range(60)), 1.0)))
    )
    for _ in range(20):
        m.exposition(accept)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            m.exposition(accept)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
