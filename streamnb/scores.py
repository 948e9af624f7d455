"""Test-then-train scores: every labelled event is predicted, scored, and only then learned."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamnb.reports import ClassScore, ScoresView

RECENT_EVENTS = 1000
SMALLEST_P = 1e-15


class Scores:
    """Scores of a stream; a batch leaves bit for bit what its events leave one at a time.

    An event whose class was not known when it came is evaluated too: it is wrong, its p is 0 (clipped for the
    log loss), and Brier's sum has its class as one more. Weights play no part: every event counts once.
    """

    def __init__(self) -> None:
        self._correct = 0
        self._log_loss_nats = 0.0
        self._brier = 0.0
        self._unknown_labels = 0
        self._majority: str | None = None
        self._majority_correct = 0
        self._recent = np.empty(0, dtype=np.bool_)
        self._class_evaluated: dict[str, int] = {}
        self._class_correct: Counter[str] = Counter()
        self._class_predicted: Counter[str] = Counter()
        self._viewed: dict[str, ClassScore] = {}
        self._touched: set[str] = set()

    def update(
        self,
        labels: Sequence[str],
        probabilities: NDArray[np.float64],
        best: NDArray[np.integer[Any]],
        truth: Sequence[str | None],
    ) -> None:
        """Score the rows that have a truth, in order.

        `probabilities` is (n, K), its columns `labels`, NaN where a class was not known when the row came;
        `best` is (n,), the predicted column, -1 while no class was known.
        """
        rows = [row for row, label in enumerate(truth) if label is not None]
        if not rows:
            return
        actual = [label for label in truth if label is not None]
        # the last column, K, stands for classes that were not known
        each, stranger = np.arange(len(rows)), len(labels)
        padded = np.full((len(rows), stranger + 1), np.nan)
        padded[:, :stranger] = probabilities[rows]
        column = {label: index for index, label in enumerate(labels)}
        wanted = np.array([column.get(label, stranger) for label in actual], dtype=np.intp)
        known = ~np.isnan(padded[each, wanted])
        wanted[~known] = stranger
        p = np.where(np.isnan(padded), 0.0, padded)
        predicted = np.asarray(best, dtype=np.intp)[rows]
        correct = predicted == wanted

        # np.log and np.sum may round by a row's place in the batch; math.log and accumulate do not
        hits = np.maximum(p[each, wanted], SMALLEST_P).tolist()
        self._log_loss_nats = _added(self._log_loss_nats, -np.array(list(map(math.log, hits))))
        p[each, wanted] -= 1.0
        self._brier = _added(self._brier, np.add.accumulate(p * p, axis=1)[:, -1])

        self._correct += int(np.count_nonzero(correct))
        self._unknown_labels += len(rows) - int(np.count_nonzero(known))
        self._recent = np.concatenate((self._recent, correct))[-RECENT_EVENTS:]
        answers = [labels[index] for index in predicted.tolist() if index >= 0]
        self._count_actual(actual)
        self._class_correct.update(compress(actual, correct.tolist()))
        self._class_predicted.update(answers)
        self._touched.update(actual, answers)

    def _count_actual(self, actual: Sequence[str]) -> None:
        seen, leader, correct = self._class_evaluated, self._majority, 0
        for label in actual:
            seen[label] = n = seen.get(label, 0) + 1
            if label == leader:
                correct += 1
            # ties go to the first in sorted order, as the model's do
            elif leader is None or n > seen[leader] or (n == seen[leader] and label < leader):
                leader = label
        self._majority = leader
        self._majority_correct += correct

    def view(self) -> ScoresView:
        """The scores so far."""
        for label in self._touched:
            self._viewed[label] = ClassScore(*self._class(label))
        self._touched.clear()
        return ScoresView(
            evaluated=sum(self._class_evaluated.values()),
            correct=self._correct,
            log_loss_nats=self._log_loss_nats,
            brier=self._brier,
            unknown_labels=self._unknown_labels,
            recent_accuracy=float(self._recent.mean()) if len(self._recent) else None,
            majority_correct=self._majority_correct,
            classes=dict(self._viewed),
        )

    def to_dict(self) -> dict[str, object]:
        """The whole state as JSON values; `recent` has a 1 or a 0 for each of the last events."""
        return {
            "correct": self._correct,
            "log_loss_nats": self._log_loss_nats,
            "brier": self._brier,
            "unknown_labels": self._unknown_labels,
            "majority_correct": self._majority_correct,
            "recent": "".join(np.where(self._recent, "1", "0").tolist()),
            "classes": {
                label: list(self._class(label)) for label in sorted({*self._class_evaluated, *self._class_predicted})
            },
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """The scores that `to_dict` wrote; they go on as those would. ValueError for anything else."""
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
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise ValueError(f"scores of another format: {exc!r}") from exc
        seen = {label: n for label, n in scores._class_evaluated.items() if n}
        scores._majority = min(seen, key=lambda label: (-seen[label], label), default=None)
        scores._touched = set(scores._class_evaluated)
        return scores

    def _class(self, label: str) -> tuple[int, int, int]:
        return self._class_evaluated.get(label, 0), self._class_correct[label], self._class_predicted[label]


def _added(total: float, terms: NDArray[np.float64]) -> float:
    return float(np.add.accumulate(np.concatenate(([total], terms)))[-1])
