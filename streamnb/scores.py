"""Test-then-train scores: every labelled event is predicted, scored, and only then learned."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamnb.drift import DriftDetector
from streamnb.learners.kernels import scoring as kernel
from streamnb.reports import CALIBRATION_BINS, Bin, ClassScore, Confusion, Drift, ScoresView

RECENT_EVENTS = 1000
CONFUSION_CLASSES = 50
DRIFTS_KEPT = 20

_NO_CLASS = np.zeros(kernel.CLASS_FIELDS, np.int64)
_NO_CLASS[[kernel.COLUMN, kernel.PLACE]] = -1
_COUNTS = [kernel.CLASS_EVALUATED, kernel.CLASS_CORRECT, kernel.CLASS_PREDICTED]
_MARKS = bytes.maketrans(b"\0\1", b"10")
"""How the last events are saved: 1 for what was right, 0 for what was wrong."""


class Scores:
    """Scores of a stream; a batch leaves bit for bit what its events leave one at a time.

    An event whose class was not known when it came is evaluated too: it is wrong, its p is 0 (clipped for the
    log loss), and Brier's sum has its class as one more. Weights play no part: every event counts once.
    """

    def __init__(self) -> None:
        self._slots: dict[str | None, int] = {None: -1}
        self._names: list[str] = []
        self._classes = np.tile(_NO_CLASS, (8, 1))
        self._labels: list[str] = []
        self._columns = np.zeros(0, np.int64)
        self._totals = np.zeros(kernel.TOTALS, np.int64)
        self._totals[kernel.MAJORITY] = -1
        self._sums = np.zeros(kernel.SUMS)
        self._bins = np.zeros((CALIBRATION_BINS, kernel.BIN_FIELDS), np.int64)
        self._confidence = np.zeros(CALIBRATION_BINS)
        self._confusion = np.zeros((CONFUSION_CLASSES + 1, CONFUSION_CLASSES + 1), np.int64)
        self._recent = b""
        self._detector = DriftDetector()
        self._drifts_worse = self._drifts_better = 0
        self._drifts: tuple[Drift, ...] = ()
        self._viewed: dict[str, ClassScore] = {}

    def update(
        self,
        labels: Sequence[str],
        probabilities: NDArray[np.float64],
        best: NDArray[np.integer[Any]],
        truth: Sequence[str | None],
    ) -> list[Drift]:
        """Score the rows that have a truth, in order; return the changes of the error that they show.

        `probabilities` is (n, K), its columns `labels`, NaN where a class was not known when the row came;
        `best` is (n,), the predicted column, -1 while no class was known.
        """
        truths = self._slots_of(truth)
        self._set_columns(list(labels))
        wrong = np.empty(len(truths), np.uint8)
        first = int(self._totals[kernel.EVALUATED]) + 1
        scored = kernel.score(
            truths,
            self._columns,
            np.ascontiguousarray(probabilities, np.float64),
            np.ascontiguousarray(best, np.int64),
            self._classes,
            self._totals,
            self._sums,
            self._bins,
            self._confidence,
            self._confusion,
            wrong,
        )
        errors = wrong[:scored].tobytes()
        self._recent = (self._recent + errors)[-RECENT_EVENTS:]
        changes = self._detector.update(errors)
        return [self._drifted(Drift(first + at, before, after)) for at, before, after in changes]

    def _slots_of(self, truth: Sequence[str | None]) -> NDArray[np.int64]:
        try:
            return np.fromiter(map(self._slots.__getitem__, truth), np.int64, len(truth))
        except KeyError:
            self._know(label for label in truth if label is not None)
            return self._slots_of(truth)

    def _set_columns(self, labels: list[str]) -> None:
        if labels == self._labels:
            return
        self._know(labels)
        self._labels = labels
        self._columns = np.array([self._slots[label] for label in labels], np.int64)
        self._classes[:, kernel.COLUMN] = -1
        self._classes[self._columns, kernel.COLUMN] = np.arange(len(labels))

    def _know(self, labels: Iterable[str]) -> None:
        """Give a slot to every class that has none."""
        for label in labels:
            if label not in self._slots:
                self._slots[label] = len(self._names)
                self._names.append(label)
        n, rows = len(self._names), len(self._classes)
        if n > rows:
            self._classes = np.concatenate((self._classes, np.tile(_NO_CLASS, (2 * n - rows, 1))))
        self._classes[sorted(range(n), key=self._names.__getitem__), kernel.RANK] = np.arange(n)

    def _drifted(self, drift: Drift) -> Drift:
        if drift.direction == "worse":
            self._drifts_worse += 1
        else:
            self._drifts_better += 1
        self._drifts = (*self._drifts, drift)[-DRIFTS_KEPT:]
        return drift

    def view(self) -> ScoresView:
        """The scores so far."""
        change = self._classes[:, kernel.CHANGE]
        changed = np.flatnonzero(change == kernel.CHANGED)
        for slot, counts in zip(changed.tolist(), self._classes[changed][:, _COUNTS].tolist(), strict=True):
            self._viewed[self._names[slot]] = ClassScore(*counts)
        change[changed] = kernel.SHOWN
        totals, sums = self._totals.tolist(), self._sums.tolist()
        return ScoresView(
            evaluated=totals[kernel.EVALUATED],
            correct=totals[kernel.CORRECT],
            log_loss_nats=sums[kernel.LOG_LOSS],
            brier=sums[kernel.BRIER],
            unknown_labels=totals[kernel.UNKNOWN],
            recent_accuracy=self._recent.count(0) / len(self._recent) if self._recent else None,
            majority_correct=totals[kernel.MAJORITY_CORRECT],
            classes=dict(self._viewed),
            prior_log_loss_nats=sums[kernel.PRIOR_LOG_LOSS],
            calibration=self._calibration(),
            drifts_worse=self._drifts_worse,
            drifts_better=self._drifts_better,
            drifts=self._drifts,
        )

    def _calibration(self) -> tuple[Bin, ...]:
        events, correct = self._bins.T.tolist()
        return tuple(map(Bin, events, correct, self._confidence.tolist()))

    def _placed(self) -> tuple[str, ...]:
        """The classes that have rows and columns of the confusion, in their order."""
        places = self._classes[: len(self._names), kernel.PLACE]
        order = np.argsort(places, kind="stable")[np.count_nonzero(places < 0) :]
        return tuple(self._names[slot] for slot in order)

    def confusion(self) -> Confusion:
        """How often which class was answered for which, so far."""
        placed = self._placed()
        shown = [*range(len(placed)), CONFUSION_CLASSES]
        return Confusion(placed, tuple(map(tuple, self._confusion[np.ix_(shown, shown)].tolist())))

    def to_dict(self) -> dict[str, object]:
        """The whole state as JSON values; `recent` has a 1 or a 0 for each of the last events."""
        view, pairs = self.view(), np.argwhere(self._confusion)
        return {
            "correct": view.correct,
            "log_loss_nats": view.log_loss_nats,
            "brier": view.brier,
            "unknown_labels": view.unknown_labels,
            "majority_correct": view.majority_correct,
            "prior_log_loss_nats": view.prior_log_loss_nats,
            "recent": self._recent.translate(_MARKS).decode(),
            "classes": {
                label: [held.evaluated, held.correct, held.predicted] for label, held in sorted(view.classes.items())
            },
            "calibration": [[held.events, held.correct, held.confidence] for held in view.calibration],
            "confusion": {
                "classes": list(self._placed()),
                "pairs": [[*pair, int(self._confusion[*pair])] for pair in pairs.tolist()],
            },
            "drift": {
                "worse": self._drifts_worse,
                "better": self._drifts_better,
                "last": [[drift.event, drift.before, drift.after] for drift in self._drifts],
                "detector": self._detector.to_dict(),
            },
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """The scores that `to_dict` wrote; they go on as those would. ValueError for anything else.

        An older state knows no confusion, calibration and drift: they begin here. Its loss of the prior is taken to
        be what the shares of all its events would have got, which is a little less.
        """
        scores = cls()
        try:
            scores._restore(state)
            if "drift" in state:
                scores._restore_more(state)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as exc:
            raise ValueError(f"scores of another format: {exc!r}") from exc
        return scores

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._know(state["classes"])
        for label, (evaluated, correct, predicted) in state["classes"].items():
            held = self._classes[self._slots[label]]
            held[_COUNTS] = int(evaluated), int(correct), int(predicted)
            held[kernel.CHANGE] = kernel.CHANGED
        seen = {label: int(evaluated) for label, (evaluated, _, _) in state["classes"].items() if int(evaluated)}
        n_events, majority = sum(seen.values()), min(seen, key=lambda label: (-seen[label], label), default=None)
        totals, sums = self._totals, self._sums
        totals[kernel.EVALUATED], totals[kernel.MAJORITY] = n_events, self._slots[majority]
        totals[kernel.CORRECT] = int(state["correct"])
        totals[kernel.UNKNOWN] = int(state["unknown_labels"])
        totals[kernel.MAJORITY_CORRECT] = int(state["majority_correct"])
        sums[kernel.LOG_LOSS] = float(state["log_loss_nats"])
        sums[kernel.BRIER] = float(state["brier"])
        sums[kernel.PRIOR_LOG_LOSS] = math.fsum(n * math.log(n_events / n) for n in seen.values())
        self._recent = bytes(mark != "1" for mark in state["recent"])

    def _restore_more(self, state: Mapping[str, Any]) -> None:
        drift = state["drift"]
        self._sums[kernel.PRIOR_LOG_LOSS] = float(state["prior_log_loss_nats"])
        for index, (events, correct, confidence) in enumerate(state["calibration"]):
            if index >= CALIBRATION_BINS:
                raise ValueError(f"calibration of {len(state['calibration'])} bins, here it has {CALIBRATION_BINS}")
            self._bins[index], self._confidence[index] = (int(events), int(correct)), float(confidence)
        self._restore_confusion(state["confusion"])
        self._drifts_worse, self._drifts_better = int(drift["worse"]), int(drift["better"])
        self._drifts = tuple(Drift(int(event), float(before), float(after)) for event, before, after in drift["last"])
        self._detector = DriftDetector.from_dict(drift["detector"])

    def _restore_confusion(self, state: Mapping[str, Any]) -> None:
        placed = [str(label) for label in state["classes"]]
        if len(placed) > CONFUSION_CLASSES:
            raise ValueError(f"confusion of more than {CONFUSION_CLASSES} classes")
        self._know(placed)
        for place, label in enumerate(placed):
            self._classes[self._slots[label], kernel.PLACE] = place
        self._totals[kernel.PLACES] = len(placed)
        for row, column, n in state["pairs"]:
            if not (0 <= row <= CONFUSION_CLASSES and 0 <= column <= CONFUSION_CLASSES):
                raise ValueError(f"confusion at {row}, {column}, here it has {CONFUSION_CLASSES} classes")
            self._confusion[row, column] = int(n)
