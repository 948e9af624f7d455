"""Test-then-train scores: every labelled event is predicted, scored, and only then learned."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamnb.drift import DriftDetector
from streamnb.reports import CALIBRATION_BINS, Bin, ClassScore, Confusion, Drift, ScoresView

RECENT_EVENTS = 1000
CONFUSION_CLASSES = 50
DRIFTS_KEPT = 20
SMALLEST_P = 1e-15


class Scores:
    """Scores of a stream; a batch leaves bit for bit what its events leave one at a time.

    An event whose class was not known when it came is evaluated too: it is wrong, its p is 0 (clipped for the
    log loss), and Brier's sum has its class as one more. Weights play no part: every event counts once.
    """

    def __init__(self) -> None:
        self._evaluated = 0
        self._correct = 0
        self._log_loss_nats = 0.0
        self._brier = 0.0
        self._unknown_labels = 0
        self._majority: str | None = None
        self._majority_correct = 0
        self._prior_log_loss_nats = 0.0
        self._recent = np.empty(0, dtype=np.bool_)
        self._class_evaluated: dict[str, int] = {}
        self._class_correct: Counter[str] = Counter()
        self._class_predicted: Counter[str] = Counter()
        self._calibration = _Calibration()
        self._confusion = _ConfusionCounts()
        self._detector = DriftDetector()
        self._drifts_worse = self._drifts_better = 0
        self._drifts: tuple[Drift, ...] = ()
        self._viewed: dict[str, ClassScore] = {}
        self._touched: set[str] = set()

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
        actual = [label for label in truth if label is not None]
        if not actual:
            return []
        rows = np.flatnonzero(np.frombuffer(bytes([label is not None for label in truth]), np.bool_))
        names: dict[str, int] = {}
        which = np.array([names.setdefault(label, len(names)) for label in actual])
        # the last column, K, stands for classes that were not known
        each, stranger = np.arange(len(rows)), len(labels)
        padded = np.full((len(rows), stranger + 1), np.nan)
        padded[:, :stranger] = probabilities[rows]
        column = {label: index for index, label in enumerate(labels)}
        wanted = np.array([column.get(name, stranger) for name in names], dtype=np.intp)[which]
        known = ~np.isnan(padded[each, wanted])
        wanted[~known] = stranger
        p = np.where(np.isnan(padded), 0.0, padded)
        predicted = np.asarray(best, dtype=np.intp)[rows]
        correct = predicted == wanted
        answered = predicted >= 0
        self._calibration.update(p[each, predicted][answered], correct[answered])

        # np.log and np.sum may round by a row's place in the batch; math.log and accumulate do not
        self._log_loss_nats = _added(self._log_loss_nats, _losses(p[each, wanted]))
        p[each, wanted] -= 1.0
        self._brier = _added(self._brier, np.add.accumulate(p * p, axis=1)[:, -1])

        first = self._evaluated + 1
        self._evaluated += len(rows)
        self._correct += int(np.count_nonzero(correct))
        self._unknown_labels += len(rows) - int(np.count_nonzero(known))
        self._recent = np.concatenate((self._recent, correct))[-RECENT_EVENTS:]
        self._count_actual(actual, names, which, first - 1)
        _count(self._class_correct, list(names), which[correct])
        self._touched.update(names, _count(self._class_predicted, labels, predicted[answered]))
        self._confusion.update(list(names), labels, which[answered], predicted[answered])
        changes = self._detector.update((~correct).tolist())
        return [self._drifted(Drift(first + at, before, after)) for at, before, after in changes]

    def _count_actual(self, actual: Sequence[str], names: Iterable[str], which: NDArray[np.intp], before: int) -> None:
        """Count the classes, and score what always answers the majority class, or the shares of all classes."""
        seen, arrived = self._class_evaluated, np.bincount(which).tolist()
        held = _earlier(which) + np.array([seen.get(name, 0) for name in names])[which]
        totals = before + np.arange(len(actual))
        shares = np.divide(held, totals, out=np.zeros(len(actual)), where=totals > 0)
        after = {name: seen.get(name, 0) + n for name, n in zip(names, arrived, strict=True)}
        self._majority_correct += self._led(actual, after)
        seen.update(after)
        self._prior_log_loss_nats = _added(self._prior_log_loss_nats, _losses(shares))

    def _led(self, actual: Sequence[str], after: Mapping[str, int]) -> int:
        """Return how many of these the majority class was, each time as the events before had it; move it on."""
        leader, seen = self._majority, self._class_evaluated
        if leader is not None and all(n < seen[leader] for name, n in after.items() if name != leader):
            return after.get(leader, seen[leader]) - seen[leader]  # nobody can overtake it here
        correct = 0
        counts = {name: seen.get(name, 0) for name in after} | ({leader: seen[leader]} if leader is not None else {})
        for label in actual:
            counts[label] = n = counts[label] + 1
            if label == leader:
                correct += 1
            # ties go to the first in sorted order, as the model's do
            elif leader is None or n > counts[leader] or (n == counts[leader] and label < leader):
                leader = label
        self._majority = leader
        return correct

    def _drifted(self, drift: Drift) -> Drift:
        if drift.direction == "worse":
            self._drifts_worse += 1
        else:
            self._drifts_better += 1
        self._drifts = (*self._drifts, drift)[-DRIFTS_KEPT:]
        return drift

    def view(self) -> ScoresView:
        """The scores so far."""
        for label in self._touched:
            self._viewed[label] = ClassScore(*self._class(label))
        self._touched.clear()
        return ScoresView(
            evaluated=self._evaluated,
            correct=self._correct,
            log_loss_nats=self._log_loss_nats,
            brier=self._brier,
            unknown_labels=self._unknown_labels,
            recent_accuracy=float(self._recent.mean()) if len(self._recent) else None,
            majority_correct=self._majority_correct,
            classes=dict(self._viewed),
            prior_log_loss_nats=self._prior_log_loss_nats,
            calibration=self._calibration.view(),
            drifts_worse=self._drifts_worse,
            drifts_better=self._drifts_better,
            drifts=self._drifts,
        )

    def confusion(self) -> Confusion:
        """How often which class was answered for which, so far."""
        return self._confusion.view()

    def to_dict(self) -> dict[str, object]:
        """The whole state as JSON values; `recent` has a 1 or a 0 for each of the last events."""
        return {
            "correct": self._correct,
            "log_loss_nats": self._log_loss_nats,
            "brier": self._brier,
            "unknown_labels": self._unknown_labels,
            "majority_correct": self._majority_correct,
            "prior_log_loss_nats": self._prior_log_loss_nats,
            "recent": "".join(np.where(self._recent, "1", "0").tolist()),
            "classes": {
                label: list(self._class(label)) for label in sorted({*self._class_evaluated, *self._class_predicted})
            },
            "calibration": self._calibration.to_list(),
            "confusion": self._confusion.to_dict(),
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
            scores._correct = int(state["correct"])
            scores._log_loss_nats = float(state["log_loss_nats"])
            scores._brier = float(state["brier"])
            scores._unknown_labels = int(state["unknown_labels"])
            scores._majority_correct = int(state["majority_correct"])
            scores._recent = np.array([mark == "1" for mark in state["recent"]], dtype=np.bool_)
            for label, (evaluated, correct, predicted) in state["classes"].items():
                scores._class_evaluated[label] = int(evaluated)
                scores._class_correct[label] = int(correct)
                scores._class_predicted[label] = int(predicted)
            if "drift" in state:
                scores._restore_more(state)
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise ValueError(f"scores of another format: {exc!r}") from exc
        seen = {label: n for label, n in scores._class_evaluated.items() if n}
        scores._evaluated = sum(seen.values())
        scores._majority = min(seen, key=lambda label: (-seen[label], label), default=None)
        scores._touched = set(scores._class_evaluated)
        if "drift" not in state:
            scores._prior_log_loss_nats = math.fsum(n * math.log(scores._evaluated / n) for n in seen.values())
        return scores

    def _restore_more(self, state: Mapping[str, Any]) -> None:
        drift = state["drift"]
        self._prior_log_loss_nats = float(state["prior_log_loss_nats"])
        self._calibration = _Calibration.from_list(state["calibration"])
        self._confusion = _ConfusionCounts.from_dict(state["confusion"])
        self._drifts_worse, self._drifts_better = int(drift["worse"]), int(drift["better"])
        self._drifts = tuple(Drift(int(event), float(before), float(after)) for event, before, after in drift["last"])
        self._detector = DriftDetector.from_dict(drift["detector"])

    def _class(self, label: str) -> tuple[int, int, int]:
        return self._class_evaluated.get(label, 0), self._class_correct[label], self._class_predicted[label]


class _Calibration:
    """How probable the answers were held, and how often they were right, in bins of equal width."""

    def __init__(self) -> None:
        self._events = np.zeros(CALIBRATION_BINS, dtype=np.int64)
        self._correct = np.zeros(CALIBRATION_BINS, dtype=np.int64)
        self._confidence = np.zeros(CALIBRATION_BINS)

    def update(self, confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> None:
        bins = np.minimum((confidence * CALIBRATION_BINS).astype(np.intp), CALIBRATION_BINS - 1)
        self._events += np.bincount(bins, minlength=CALIBRATION_BINS)
        self._correct += np.bincount(bins[correct], minlength=CALIBRATION_BINS)
        np.add.at(self._confidence, bins, confidence)  # one after another, unlike bincount's weights

    def view(self) -> tuple[Bin, ...]:
        return tuple(map(Bin, self._events.tolist(), self._correct.tolist(), self._confidence.tolist()))

    def to_list(self) -> list[list[float]]:
        return [[held.events, held.correct, held.confidence] for held in self.view()]

    @classmethod
    def from_list(cls, state: Sequence[Sequence[float]]) -> Self:
        calibration = cls()
        for index, (events, correct, confidence) in enumerate(state):
            if index >= CALIBRATION_BINS:
                raise ValueError(f"calibration of {len(state)} bins, here it has {CALIBRATION_BINS}")
            calibration._events[index] = int(events)
            calibration._correct[index] = int(correct)
            calibration._confidence[index] = float(confidence)
        return calibration


class _ConfusionCounts:
    """Pairs of actual and answered class; the first classes to come have rows and columns, the others share one."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._pairs: Counter[tuple[int, int]] = Counter()

    def update(
        self, names: Sequence[str], labels: Sequence[str], which: NDArray[np.intp], predicted: NDArray[np.intp]
    ) -> None:
        """Add events whose class is `names[which]` and was answered with `labels[predicted]`."""
        pairs, first, counts = np.unique(which * len(labels) + predicted, return_index=True, return_counts=True)
        for at in np.argsort(first).tolist():  # slots go by the order of arrival, whatever the batches
            label, answer = divmod(int(pairs[at]), len(labels))
            self._pairs[self._slot(names[label]), self._slot(labels[answer])] += int(counts[at])

    def _slot(self, label: str) -> int:
        slot = self._slots.get(label)
        if slot is None:
            if len(self._slots) == CONFUSION_CLASSES:
                return CONFUSION_CLASSES
            slot = self._slots[label] = len(self._slots)
        return slot

    def view(self) -> Confusion:
        shown = [*range(len(self._slots)), CONFUSION_CLASSES]
        counts = tuple(tuple(self._pairs[row, column] for column in shown) for row in shown)
        return Confusion(tuple(self._slots), counts)

    def to_dict(self) -> dict[str, object]:
        return {"classes": list(self._slots), "pairs": [[*pair, n] for pair, n in sorted(self._pairs.items())]}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        counts = cls()
        for label in state["classes"]:
            if counts._slot(str(label)) == CONFUSION_CLASSES:
                raise ValueError(f"confusion of more than {CONFUSION_CLASSES} classes")
        for row, column, n in state["pairs"]:
            counts._pairs[int(row), int(column)] = int(n)
        return counts


def _count(counter: Counter[str], names: Sequence[str], which: NDArray[np.intp]) -> Collection[str]:
    """Count one more for each of `names[which]`; return those that are among them."""
    counts = np.bincount(which, minlength=len(names)).tolist()
    found = {name: n for name, n in zip(names, counts, strict=True) if n}
    counter.update(found)
    return found.keys()


def _earlier(which: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many elements before each one equal it."""
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], which[order])
    earlier = np.empty_like(order)
    earlier[order] = np.arange(len(order)) - starts
    return earlier


def _losses(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    return -np.array(list(map(math.log, np.maximum(probabilities, SMALLEST_P).tolist())))


def _added(total: float, terms: NDArray[np.float64]) -> float:
    return float(np.add.accumulate(np.concatenate(([total], terms)))[-1])
