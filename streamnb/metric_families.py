"""Which metrics there are: names without the prefix, kinds, labels from closed sets, buckets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from streamnb.errors import Reason
from streamnb.reports import CALIBRATION_BINS, Direction, Outcome, State, TransactionOutcome
from streamnb.transport import Role

PREFIX = "streamnb_"

Kind = Literal["counter", "gauge", "histogram", "info"]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: `children` are the label values there from the start, `bounds` a histogram's buckets."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    children: tuple[tuple[str, ...], ...] = ((),)
    bounds: tuple[float, ...] = ()


def _each(*values: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(product(*values))


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
AGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
_SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0)
_PARTITION = ("topic", "partition")
BINS = tuple(f"{i / CALIBRATION_BINS:g}-{(i + 1) / CALIBRATION_BINS:g}" for i in range(CALIBRATION_BINS))
"""Label values: the bins of the answers' probabilities."""

FAMILIES: Mapping[str, Family] = {
    "build_info": Family("info", "The running daemon.", ("app", "instance", "version")),
    "start_timestamp_seconds": Family("gauge", "When the process began."),
    "ready": Family("gauge", "1 when /readyz says ready, else 0; decided at the scrape."),
    "state": Family("gauge", "1 for the state the daemon is in.", ("state",), _each(get_args(State))),
    "events_total": Family("counter", "Events handled.", ("role", "outcome"), _each(get_args(Role), get_args(Outcome))),
    "predictions_total": Family("counter", "Predictions published and committed."),
    "late_predictions_total": Family("counter", "Predictions answered on read-back."),
    "dead_letters_total": Family(
        "counter", "Dead letters published and committed.", ("reason",), _each(get_args(Reason))
    ),
    "labels_ignored_total": Family("counter", "Labels found in unlabelled topics."),
    "lag_events": Family("gauge", "Offsets from the position to the read_committed end.", _PARTITION, ()),
    "open_upstream_transaction_seconds": Family(
        "gauge", "How long an open upstream transaction has held the partition's end back.", _PARTITION, ()
    ),
    "learned_offset": Family("gauge", "The next offset to learn.", _PARTITION, ()),
    "published_offset": Family("gauge", "The next offset to answer for, while owned.", _PARTITION, ()),
    "event_age_seconds": Family("histogram", "From an event's record to its answer's commit.", bounds=AGES),
    "step_seconds": Family("histogram", "Duration of the steps that handled events.", bounds=_SECONDS),
    "step_events": Family("histogram", "Events in the steps that handled any.", bounds=_SIZES),
    "transaction_seconds": Family("histogram", "Duration of publishing a batch.", bounds=_SECONDS),
    "transactions_total": Family(
        "counter",
        "Batches published, by what became of them.",
        ("outcome",),
        _each(get_args(TransactionOutcome)),
    ),
    "rebalances_total": Family("counter", "Assignments and revocations.", ("kind",), _each(("assigned", "revoked"))),
    "partitions_owned": Family("gauge", "Partitions this instance answers for."),
    "snapshots_total": Family(
        "counter", "Snapshots, by what became of them.", ("outcome",), _each(("ok", "failed", "damaged"))
    ),
    "snapshot_seconds": Family("histogram", "Duration of saving a snapshot.", bounds=_SECONDS),
    "snapshot_bytes": Family("gauge", "Size of the newest snapshot."),
    "snapshot_timestamp_seconds": Family("gauge", "When the newest snapshot was taken; 0 before any."),
    "restore_remaining_events": Family("gauge", "Offsets still to learn before duty is taken."),
    "last_step_timestamp_seconds": Family(
        "gauge", "When the loop last came round, with events or without; 0 before that."
    ),
    "last_commit_timestamp_seconds": Family("gauge", "When answers were last committed; 0 before any."),
    "lost_events_total": Family("counter", "Events that were due and are gone from the log."),
    "model_events": Family("gauge", "Events the model has learned."),
    "model_classes": Family("gauge", "Classes the model knows."),
    "model_features": Family("gauge", "Features the model knows."),
    "evaluated_total": Family("counter", "Labelled events scored before they were learned."),
    "correct_total": Family("counter", "Scored events whose class was the answer."),
    "log_loss_nats_total": Family("counter", "Sum of -log p of the true class, p clipped at 1e-15."),
    "unknown_labels_total": Family("counter", "Labelled events whose class was not known when they came."),
    "brier_total": Family("counter", "Sum of the Brier scores."),
    "accuracy_ratio": Family("gauge", "Share of the last 1000 labelled events answered correctly; NaN before any."),
    "majority_correct_total": Family(
        "counter", "Scored events that always answering the most frequent class so far would have got right."
    ),
    "prior_log_loss_nats_total": Family("counter", "The log loss, were every answer the classes' shares so far."),
    "class_evaluated_total": Family("counter", "Scored events of the class.", ("class",), _each(("other",))),
    "class_correct_total": Family("counter", "Correctly answered events of the class.", ("class",), _each(("other",))),
    "class_predicted_total": Family(
        "counter", "Scored events for which the class was the answer.", ("class",), _each(("other",))
    ),
    "class_published_total": Family(
        "counter", "Predictions published and committed that name the class.", ("class",), _each(("other",))
    ),
    "calibration_events_total": Family(
        "counter", "Scored events by the probability of their answer.", ("bin",), _each(BINS)
    ),
    "calibration_correct_total": Family("counter", "Those of them answered correctly.", ("bin",), _each(BINS)),
    "calibration_confidence_total": Family("counter", "Sum of their answers' probabilities.", ("bin",), _each(BINS)),
    "features_total": Family("counter", "Features, categories and tokens that events came with."),
    "unseen_features_total": Family("counter", "Those of them that the model had never learned."),
    "drift_detections_total": Family(
        "counter", "Changes of the error found by ADWIN.", ("direction",), _each(get_args(Direction))
    ),
    "drift_error_before_ratio": Family("gauge", "Share of errors before the last change; NaN before any."),
    "drift_error_after_ratio": Family(
        "gauge", "Share of errors from the last change until it was found; NaN before any."
    ),
}
