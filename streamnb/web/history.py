"""How things went since the process began: samples that thin themselves out, and how long partitions wait."""

from collections.abc import Mapping
from typing import NamedTuple

from streamnb.errors import Reason
from streamnb.reports import PartitionView, Status
from streamnb.transport import Partition

CAPACITY = 600
MARKS = 64
HOUR_SECONDS = 3600.0


class Sample(NamedTuple):
    """Totals at a time; `events` and `predictions` are the process's, the scores the stream's."""

    time: float
    events: object
    predictions: object
    evaluated: int
    correct: int
    majority_correct: int
    log_loss_nats: float
    prior_log_loss_nats: float
    lag: int


class History:
    """At most `CAPACITY` samples over the whole life of the process: when full, every second one goes."""

    def __init__(self, interval_seconds: float) -> None:
        self._samples: list[Sample] = []
        self._interval = interval_seconds

    def observe(self, status: Status, totals: Mapping[str, object], now: float) -> None:
        """Take a sample if one is due."""
        if self._samples and abs(now - self._samples[-1].time) < 0.9 * self._interval:
            return
        scores = status.scores
        self._samples.append(
            Sample(
                now,
                totals["events"],
                totals["predictions"],
                scores.evaluated,
                scores.correct,
                scores.majority_correct,
                scores.log_loss_nats,
                scores.prior_log_loss_nats,
                sum(lag(view) or 0 for view in status.partitions.values()),
            )
        )
        if len(self._samples) >= CAPACITY:
            self._samples = self._samples[::2]
            self._interval *= 2

    def since(self, time: float) -> dict[str, object]:
        """Return the samples after this time, oldest first."""
        return {"columns": Sample._fields, "rows": [s for s in self._samples if s.time > time]}


class Backlog:
    """Remembers when each partition's end grew, to tell for how long its next record has been waiting."""

    def __init__(self) -> None:
        self._grown: dict[Partition, list[tuple[float, int]]] = {}

    def observe(self, partitions: Mapping[Partition, PartitionView], now: float) -> None:
        """Take note of the ends; forget partitions that are not read here."""
        grown = {}
        for partition, view in partitions.items():
            if lag(view) is None:
                continue
            marks = [mark for mark in self._grown.get(partition, []) if mark[1] > view.position]
            if view.end > view.position and (not marks or marks[-1][1] < view.end):
                marks.append((now, view.end))
            if len(marks) > MARKS:
                del marks[1:-1:2]
            grown[partition] = marks
        self._grown = grown

    def waiting_seconds(self, partition: Partition, position: int, now: float) -> float:
        """For how long the record at this position has been seen waiting, at least; 0 if none waits."""
        times = [time for time, end in self._grown.get(partition, []) if end > position]
        return max(0.0, now - times[0]) if times else 0.0


class RecentCounts:
    """Remembers totals by the minute, to tell how much of each came within the last hour."""

    def __init__(self) -> None:
        self._totals: list[tuple[float, Mapping[Reason, int]]] = []

    def observe(self, totals: Mapping[Reason, int], now: float) -> None:
        """Take note of the totals, if a minute has passed since the last time."""
        if not self._totals:
            self._totals.append((now, {}))  # what came before the first look came with the process
        if now - self._totals[-1][0] < 60.0:
            return
        self._totals.append((now, totals))
        while self._totals[1][0] <= now - HOUR_SECONDS:
            del self._totals[0]

    def last_hour(self, totals: Mapping[Reason, int]) -> dict[Reason, int]:
        """Return what came within the last hour (and at most a minute before)."""
        before = self._totals[0][1] if self._totals else {}
        return {name: max(0, n - before.get(name, 0)) for name, n in totals.items()}


def lag(view: PartitionView) -> int | None:
    """Offsets from the position to the end; None for a partition that is not read here."""
    return max(0, view.end - view.position) if view.owned or view.role == "labelled" else None
