"""A batch of records in, its answers out: decode, predict and learn, in order, one event at a time.

Pure but for the model, the scores and the sets of classes, which it owns; it reads no clock and no transport.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamnb.config import Config
from streamnb.errors import EventError, Reason, StateError
from streamnb.events import Decoder, Event, dead_letter, output_bytes, prediction
from streamnb.learners import build
from streamnb.ledger import Watermarks
from streamnb.reports import Drift, Outcome
from streamnb.scores import Scores
from streamnb.snapshots import Snapshot
from streamnb.transport import Output, Partition, Record, Role


@dataclass(slots=True)
class Answers:
    """What one batch brought. Counts leave out records that are not `fresh`."""

    outputs: list[Output] = field(default_factory=list)
    events: dict[tuple[Role, Outcome], int] = field(default_factory=dict)
    labels_ignored: int = 0
    features: int = 0
    unseen_features: int = 0
    published: dict[str, int] = field(default_factory=dict)
    """Predictions, by the class that they name."""
    drifts: list[Drift] = field(default_factory=list)
    late: int = 0
    predictions: int = 0
    dead_letters: dict[Reason, int] = field(default_factory=dict)
    answered_times: list[float] = field(default_factory=list)
    """Record times (seconds since 1970) of the predictions that are not late, where known."""


@dataclass(slots=True)
class _Row:
    """An event that waits for the kernel, and the place of its answer among the outputs (None: it gets none)."""

    record: Record
    event: Event
    truth: str | None
    slot: int | None
    fresh: bool
    late: bool
    explanation: list[tuple[str, float]] | None = None


class Processor:
    """Owns the model and everything that is learned beside it."""

    def __init__(self, config: Config, version: str) -> None:
        kind, options = config.model.options()
        self.model = build(kind, **options)
        self.scores = Scores()
        self.classes: dict[Partition, set[str]] = {}
        self.dead_letter_bytes: int | None = None
        """The largest dead letter that can be published."""
        self.prediction_bytes: int | None = None
        self._has_dead_letters = config.output.dead_letters is not None
        self._config, self._version = config, version
        self._app, self._instance = config.app, config.instance
        self._limits, self._publish_all = config.limits, config.output.publish == "all"
        self._explain = config.output.explain
        self._decoder = Decoder(
            config.event,
            config.limits,
            classes=config.model.labels(),
            needs_time=config.model.half_life is not None,
            check=self.model.check,
        )
        self._rows = self.model.rows()
        self._waiting: list[_Row] = []

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what a snapshot of the same shape has learned."""
        self.model.restore(snapshot.model)
        self.scores = Scores.from_dict(snapshot.scores)
        self.classes = {p: set(labels) for p, labels in snapshot.classes.items()}

    def warm_up(self) -> None:
        """Have the kernels compiled, which takes a new machine many seconds, with a model that is thrown away."""
        model = self.model.copy()
        rows = model.rows()
        rows.append({}, (self._config.model.labels() or ["any"])[0], 1.0, 0.0)
        model.predict_learn_rows(rows)
        if self._explain:
            model.explain_one({})

    def class_sets(self) -> dict[Partition, list[str]]:
        """The labels that each labelled partition has brought, for the snapshot."""
        return {p: sorted(labels) for p, labels in self.classes.items()}

    def settings(self) -> dict[str, object]:
        """What decides which events are accepted and how the state is read; a restart may change it."""
        config = self._config
        return {
            "event": config.event.model_dump(mode="json"),
            "limits": config.limits.model_dump(mode="json"),
            "model": config.model.model_dump(mode="json"),
        }

    def process(self, records: Sequence[Record], roles: Mapping[str, Role], marks: Watermarks) -> Answers:
        """Answer and learn every record that is due, in the order given.

        Raise StateError when the model has outgrown `limits.model_features`.
        """
        answers = Answers()
        for record in records:
            role = roles[record.partition.topic]
            learn = role == "labelled" and record.offset >= marks.learned[record.partition]
            owned_from = marks.published.get(record.partition)
            answer = owned_from is not None and record.offset >= owned_from
            if learn or answer:
                fresh = record.offset >= marks.handled.get(record.partition, 0)
                self._take(record, role, learn, answer, fresh, answers)
        self._flush(answers)
        self._hold_limit()
        return answers

    def _take(self, record: Record, role: Role, learn: bool, answer: bool, fresh: bool, answers: Answers) -> None:
        outcome: Outcome = "ok"
        try:
            if record.value is None:
                outcome = "skipped"
            else:
                self._append(record, role, learn, answer, fresh, answers)
        except EventError as error:
            outcome = "dead"
            if answer and self._has_dead_letters:
                answers.outputs.append(self._dead_letter(record, error, answers))
        if fresh:
            answers.events[role, outcome] = answers.events.get((role, outcome), 0) + 1

    def _dead_letter(self, record: Record, error: EventError, answers: Answers) -> Output:
        answers.dead_letters[error.reason] = answers.dead_letters.get(error.reason, 0) + 1
        return dead_letter(record, error, self._instance, self._version, self.dead_letter_bytes)

    def _append(self, record: Record, role: Role, learn: bool, answer: bool, fresh: bool, answers: Answers) -> None:
        """Put one event into the waiting rows; raise EventError and leave everything as it was if it is bad."""
        event = self._decoder.decode(record, role)
        label = event.y
        if label is not None:
            self._hold_class_limit(record.partition, event)
        published = answer and (label is None or self._publish_all)
        if not published and (label is None or not learn):
            self._checked(event)
            return
        if published and self._explain:
            self._flush(answers)
        try:
            self._rows.append(event.x, label if learn else None, event.w, event.t)
        except (ValueError, TypeError) as error:
            raise EventError("bad_feature", str(error)) from error
        if learn and label is not None:
            self.classes.setdefault(record.partition, set()).add(label)
        if event.label_ignored and fresh:
            answers.labels_ignored += 1
        row = _Row(record, event, label if learn else None, None, fresh, late=role == "labelled" and not learn)
        if published:
            self._expect_answer(row, answers)
        self._waiting.append(row)

    def _expect_answer(self, row: _Row, answers: Answers) -> None:
        row.slot = len(answers.outputs)
        answers.outputs.append(Output("predictions", None, None))
        if self._explain:
            row.explanation = self._explained(row.event)

    def _checked(self, event: Event) -> None:
        """An event that is neither answered nor learned is still held to the rules: they decide its dead letter."""
        try:
            self.model.check(event.x)
        except (ValueError, TypeError) as error:
            raise EventError("bad_feature", str(error)) from error

    def _hold_class_limit(self, partition: Partition, event: Event) -> None:
        """Refuse a label beyond `limits.classes`, as decided by this partition's own log so that instances agree."""
        known = self.classes.get(partition, set())
        if event.y not in known and len(known) >= self._limits.classes:
            self._checked(event)
            raise EventError(
                "too_many_classes",
                f"label {event.y!r} would be class {len(known) + 1} of {partition}; "
                f"limits.classes allows {self._limits.classes}",
            )

    def _flush(self, answers: Answers) -> None:
        """Predict and learn the waiting rows in order, and write their answers where they belong."""
        if not self._waiting:
            return
        waiting, n_events = self._waiting, self.model.n_events
        scored = self.model.predict_learn_rows(self._rows)
        labels = [str(label) for label in scored.labels]
        truths = [row.truth for row in waiting]
        answers.drifts += self.scores.update(labels, scored.probabilities, scored.best, truths)
        fresh = np.array([row.fresh for row in waiting])
        for buffer in self._rows.buffers:
            answers.features += int(np.diff(buffer.starts[: len(waiting) + 1])[fresh].sum())
        answers.unseen_features += int(scored.unseen[fresh].sum())
        rows = zip(waiting, scored.best.tolist(), scored.probabilities.tolist(), strict=True)
        for row, best, probabilities in rows:
            if row.slot is not None:
                label = labels[best] if best >= 0 else None
                known = {name: p for name, p in zip(labels, probabilities, strict=True) if p == p}
                answers.outputs[row.slot] = self._answer(row, label, known, n_events, answers)
            n_events += row.truth is not None and row.event.w > 0
        self._rows.clear()
        self._waiting = []

    def _answer(
        self, row: _Row, label: str | None, probabilities: dict[str, float], n_events: int, answers: Answers
    ) -> Output:
        """The prediction, or a dead letter if no record can hold it."""
        output = prediction(
            row.event,
            row.record,
            label=label,
            probabilities=probabilities,
            app=self._app,
            n_events=n_events,
            version=self._version,
            late=row.late,
            actual=row.event.y,
            explanation=row.explanation,
        )
        if self.prediction_bytes is not None and self._has_dead_letters:
            size = output_bytes(output)
            if size > self.prediction_bytes:
                error = EventError(
                    "too_large", f"its prediction is {size} bytes, the topic takes {self.prediction_bytes}"
                )
                return self._dead_letter(row.record, error, answers)
        self._count(row, label, answers)
        return output

    def _count(self, row: _Row, label: str | None, answers: Answers) -> None:
        answers.predictions += 1
        if label is not None:
            answers.published[label] = answers.published.get(label, 0) + 1
        if row.late:
            answers.late += 1
        elif row.record.timestamp is not None:
            answers.answered_times.append(row.record.timestamp)

    def _explained(self, event: Event) -> list[tuple[str, float]]:
        """What speaks most for the answer against the runner-up: differences of log-likelihoods in nats.

        With every feature's share and the prior's they add up to the log odds between the two.
        """
        joint = self.model.joint_log_likelihood_one(event.x)
        best = self.model.predict_one(event.x)
        if best is None:
            return []
        rivals = [label for label in joint if label != best]
        shares = self.model.explain_one(event.x)
        against = shares[max(rivals, key=joint.__getitem__)].features if rivals else {}
        weights = {
            name: nats - rival if nats != rival else 0.0  # equal infinities cancel
            for name, nats in shares[best].features.items()
            for rival in [against.get(name, 0.0)]
        }
        strongest = sorted(weights, key=lambda name: -abs(weights[name]))[: self._explain]
        return [(_spelled(name), weights[name]) for name in strongest]

    def _hold_limit(self) -> None:
        if self.model.n_features > self._limits.model_features:
            raise StateError(
                f"the model has {self.model.n_features} features, limits.model_features allows "
                f"{self._limits.model_features}; declare the features and set 'model.default: ignore', hash text "
                "('hash_buckets'), or raise the limit"
            )


def _spelled(name: object) -> str:
    """A feature as JSON can name it: a token of a text feature reads `name=token`."""
    return "=".join(map(str, name)) if isinstance(name, tuple) else str(name)
