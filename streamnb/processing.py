"""A batch of records in, its answers out: decode, predict and learn, in order, one event at a time.

Pure but for the model, the scores and the sets of classes, which it owns; it reads no clock and no transport.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, count, pairwise, repeat
from operator import gt
from typing import NamedTuple

import numpy as np

from streamnb.config import Config
from streamnb.errors import EventError, Reason, StateError
from streamnb.events import Decoder, Event, dead_letter, output_bytes, spelled_feature
from streamnb.learners import build, dense
from streamnb.learners.kernels.types import Ints
from streamnb.learners.rows import Scored
from streamnb.ledger import Watermarks
from streamnb.predictions import Answered, Asked, Writer, sources
from streamnb.reports import Drift, Outcome
from streamnb.scores import Scores
from streamnb.snapshots import Snapshot
from streamnb.transport import Output, Partition, Record, Role, Run
from streamnb.typed import Typed, TypedReader

EXPECTED = Output("predictions", None, None)
"""Holds the place of an answer."""


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


class _Turn(NamedTuple):
    """What is due for a run of records of one partition."""

    role: Role
    learn: bool
    answer: bool
    fresh: bool
    """Never handled before, so that it counts."""

    @property
    def late(self) -> bool:
        return self.role == "labelled" and not self.learn


@dataclass(slots=True)
class _Waiting:
    """The events that wait for the kernel, column by column: first what there is of each,"""

    truths: list[str | None] = field(default_factory=list)
    """The labels that are scored and learned."""
    learned: bytearray = field(default_factory=bytearray)
    """1 where there is a truth whose weight is above 0, else 0."""
    fresh: bytearray = field(default_factory=bytearray)
    """1 or 0, too."""
    # then of those that get an answer
    rows: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    """The places of the answers among the outputs."""
    places: list[tuple[Run, Sequence[int]]] = field(default_factory=list)
    """The runs that the records are of, and their places there."""
    asked: Asked = field(default_factory=Asked)

    def record(self, answer: int) -> Record:
        """Return the record that gets this one of the answers."""
        for run, indexes in self.places:
            if answer < len(indexes):
                return run.record(indexes[answer])
            answer -= len(indexes)
        raise IndexError(answer)


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
        self._waiting = _Waiting()
        self._writer = Writer(config.app, version)
        self._typed = TypedReader(config.event, config.limits, self.model, self._decoder.time, self._publish_all)

    def restore(self, snapshot: Snapshot) -> None:
        """Take over what a snapshot of the same shape has learned."""
        self.model.restore(snapshot.model)
        self._typed.forget_layouts()
        self.scores = Scores.from_dict(snapshot.scores)
        self.classes = {p: set(labels) for p, labels in snapshot.classes.items()}

    def warm_up(self) -> None:
        """Have the kernels compiled, which takes a new machine many seconds, with a model that is thrown away."""
        model, x = self.model.copy(), self._config.model.example()
        label = (self._config.model.labels() or ["any"])[0]
        rows = model.rows()
        for _ in range(2):  # the second time, all is known
            rows.append(x, label, 1.0, 0.0)
            scored = model.predict_learn_rows(rows)
            Scores().update(list(map(str, scored.labels)), scored.probabilities, scored.best, [label])
            rows.clear()
        self._typed.warm_up()
        if self._explain:
            model.predict_one(x)
            model.joint_log_likelihood_one(x)
            model.explain_one(x)

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

    def process(self, runs: Sequence[Run], roles: Mapping[str, Role], marks: Watermarks) -> Answers:
        """Answer and learn every record that is due, in the order given.

        Raise StateError when the model has outgrown `limits.model_features`.
        """
        answers = Answers()
        for run in runs:
            for turn, part in _turns(run, roles[run.partition.topic], marks):
                if turn.learn or turn.answer:
                    self._take_run(part, turn, answers)
        self._flush(answers)
        self._hold_limit()
        return answers

    def _take_run(self, run: Run, turn: _Turn, answers: Answers) -> None:
        """Take what can be taken as a matrix, and the rest one by one: both in order."""
        known = self.classes.get(run.partition, ()) if turn.role == "labelled" else ()
        for part, typed in [(run, None)] if self._explain else self._typed.sorted(run, known):
            if typed is not None:
                self._append_typed(part, typed, turn, answers)
                continue
            for index, record in enumerate(part):
                self._take(record, part, index, turn, answers)

    def _append_typed(self, run: Run, typed: Typed, turn: _Turn, answers: Answers) -> None:
        """Put events of one layout into the waiting rows, as `_append` would one by one."""
        if turn.fresh:
            answers.events[turn.role, "ok"] = answers.events.get((turn.role, "ok"), 0) + len(run)
        no = np.zeros(len(run), np.bool_)
        learned = typed.labelled if turn.learn else no
        answered = no if not turn.answer else ~no if self._publish_all else ~typed.labelled
        kept, published = learned | answered, answered.tolist()
        labels, times, table = typed.labels, typed.times, typed.table
        if not kept.all():
            learned, table = learned[kept], table[kept]
            labels, times = list(compress(labels, kept)), list(compress(times, kept))
        n = len(learned)
        if not n:
            return
        waiting, before = self._waiting, len(self._waiting.truths)
        truths = labels if turn.learn else [None] * n
        slots = map(self.model.labels.slots.get, truths, repeat(-1))
        dense.append(self._rows, self.model, typed.layout, table, list(slots), times)
        waiting.truths += truths
        waiting.learned += learned.tobytes()
        waiting.fresh += bytes([turn.fresh]) * n
        if any(published):
            waiting.rows += compress(count(before), compress(published, kept))
            places = list(compress(count(), published))
            self._expect(run, places, answers)
            waiting.asked.extend(
                compress(run.keys, published),
                sources(run.partition, compress(run.offsets, published)),
                compress(run.timestamps, published),
                compress(typed.ids, published),
                compress(typed.labels, published),
                repeat(turn.late, len(places)),
                repeat(None, len(places)),
            )

    def _expect(self, run: Run, places: Sequence[int], answers: Answers) -> None:
        """Hold places for the answers to these records of a run."""
        waiting, place = self._waiting, len(answers.outputs)
        waiting.slots += range(place, place + len(places))
        waiting.places.append((run, places))
        answers.outputs += [EXPECTED] * len(places)

    def _take(self, record: Record, run: Run, index: int, turn: _Turn, answers: Answers) -> None:
        outcome: Outcome = "ok"
        try:
            if record.value is None:
                outcome = "skipped"
            else:
                self._append(record, run, index, turn, answers)
        except EventError as error:
            outcome = "dead"
            if turn.answer and self._has_dead_letters:
                answers.outputs.append(self._dead_letter(record, error, answers))
        if turn.fresh:
            answers.events[turn.role, outcome] = answers.events.get((turn.role, outcome), 0) + 1

    def _dead_letter(self, record: Record, error: EventError, answers: Answers) -> Output:
        answers.dead_letters[error.reason] = answers.dead_letters.get(error.reason, 0) + 1
        return dead_letter(record, error, self._instance, self._version, self.dead_letter_bytes)

    def _append(self, record: Record, run: Run, index: int, turn: _Turn, answers: Answers) -> None:
        """Put one event into the waiting rows; raise EventError and leave everything as it was if it is bad."""
        event = self._decoder.decode(record, turn.role)
        label = event.y
        if label is not None:
            self._hold_class_limit(record.partition, event)
        published = turn.answer and (label is None or self._publish_all)
        if not published and (label is None or not turn.learn):
            self._decoder.judge(event.x)  # what is neither answered nor learned is held to the rules all the same
            return
        if published and self._explain:
            self._flush(answers)
        truth = label if turn.learn else None
        try:
            self._rows.append(event.x, truth, event.w, event.t)
        except (ValueError, TypeError) as error:
            raise EventError("bad_feature", str(error)) from error
        if truth is not None:
            self.classes.setdefault(record.partition, set()).add(truth)
        if event.label_ignored and turn.fresh:
            answers.labels_ignored += 1
        waiting = self._waiting
        if published:
            waiting.rows.append(len(waiting.truths))
            self._expect(run, [index], answers)
            waiting.asked.extend(
                [record.key],
                [record.source.encode()],
                [record.timestamp],
                [event.id],
                [label],
                [turn.late],
                [self._explained(event) if self._explain else None],
            )
        waiting.truths.append(truth)
        waiting.learned.append(truth is not None and event.w > 0.0)
        waiting.fresh.append(turn.fresh)

    def _hold_class_limit(self, partition: Partition, event: Event) -> None:
        """Refuse a label beyond `limits.classes`, as decided by this partition's own log so that instances agree."""
        known = self.classes.get(partition, set())
        if event.y not in known and len(known) >= self._limits.classes:
            self._decoder.judge(event.x)
            raise EventError(
                "too_many_classes",
                f"label {event.y!r} would be class {len(known) + 1} of {partition}; "
                f"limits.classes allows {self._limits.classes}",
            )

    def _flush(self, answers: Answers) -> None:
        """Predict and learn the waiting rows in order, and write their answers where they belong."""
        waiting = self._waiting
        if not waiting.truths:
            return
        before = self.model.n_events
        scored = self.model.predict_learn_rows(self._rows)
        labels = [str(label) for label in scored.labels]
        answers.drifts += self.scores.update(labels, scored.probabilities, scored.best, waiting.truths)
        fresh = np.frombuffer(waiting.fresh, np.bool_)
        for buffer in self._rows.buffers:
            answers.features += int(np.diff(buffer.starts[: len(fresh) + 1])[fresh].sum())
        answers.unseen_features += int(scored.unseen[fresh].sum())
        if waiting.rows:
            learned = np.frombuffer(waiting.learned, np.bool_)
            self._write(waiting, labels, scored, before + np.cumsum(learned) - learned, answers)
        self._rows.clear()
        self._waiting = _Waiting()

    def _write(self, waiting: _Waiting, labels: list[str], scored: Scored, n_events: Ints, answers: Answers) -> None:
        """Write the answers to the rows that get one."""
        rows = np.array(waiting.rows)
        answered = Answered(
            waiting.asked,
            best=scored.best[rows].tolist(),
            probabilities=scored.probabilities[rows],
            n_events=n_events[rows].tolist(),
        )
        outputs = self._writer.outputs(labels, answered)
        refused = self._too_large(outputs)
        for i in refused:
            outputs[i] = self._refused(waiting.record(i), outputs[i], answers)
        first, last = waiting.slots[0], waiting.slots[-1]
        if last - first + 1 == len(outputs):
            answers.outputs[first : last + 1] = outputs
        else:  # with dead letters between them
            for slot, output in zip(waiting.slots, outputs, strict=True):
                answers.outputs[slot] = output
        _count(answered, labels, refused, answers)

    def _too_large(self, outputs: Sequence[Output]) -> set[int]:
        """Which predictions no record can hold."""
        limit = self.prediction_bytes
        if limit is None or not self._has_dead_letters:
            return set()
        return {i for i, output in enumerate(outputs) if output_bytes(output) > limit}

    def _refused(self, record: Record, output: Output, answers: Answers) -> Output:
        size, limit = output_bytes(output), self.prediction_bytes
        error = EventError("too_large", f"its prediction is {size} bytes, the topic takes {limit}")
        return self._dead_letter(record, error, answers)

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
        return [(spelled_feature(name), weights[name]) for name in strongest]

    def _hold_limit(self) -> None:
        if self.model.n_features > self._limits.model_features:
            raise StateError(
                f"the model has {self.model.n_features} features, limits.model_features allows "
                f"{self._limits.model_features}; declare the features and set 'model.default: ignore', hash text "
                "('hash_buckets'), or raise the limit"
            )


def _count(answered: Answered, labels: Sequence[str], refused: Collection[int], answers: Answers) -> None:
    """Count the predictions that were not refused."""
    counted = bytearray(b"\1") * len(answered.best)
    for i in refused:
        counted[i] = 0
    answers.predictions += sum(counted)
    asked = answered.asked
    answers.late += sum(compress(asked.late, counted))
    prompt = compress(asked.times, map(gt, counted, asked.late))
    answers.answered_times += [time for time in prompt if time is not None]
    for column, n in Counter(compress(answered.best, counted)).items():
        if column >= 0:
            answers.published[labels[column]] = answers.published.get(labels[column], 0) + n


def _turns(run: Run, role: Role, marks: Watermarks) -> Iterator[tuple[_Turn, Run]]:
    """Yield the records of a run, in parts for all of which the same is due."""
    partition, offsets = run.partition, run.offsets
    learned = marks.learned[partition] if role == "labelled" else None
    owned_from, handled = marks.published.get(partition), marks.handled.get(partition, 0)
    changes = {bisect_left(offsets, mark) for mark in (learned, owned_from, handled) if mark is not None}
    for start, stop in pairwise(sorted({0, len(run), *changes})):
        offset = offsets[start]
        answer = owned_from is not None and offset >= owned_from
        yield _Turn(role, learned is not None and offset >= learned, answer, offset >= handled), run.part(start, stop)
