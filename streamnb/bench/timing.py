"""Time per event of two ways to do the same, measured by turns, so that a busy machine slows both alike.

It is the time that the thread was given: what others took of the processor meanwhile does not count.
"""

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """Something that handles the first `n` of `at_most` events each time it is called with `n`."""

    run: Callable[[int], object]
    at_most: int
    whole: bool = False
    """It cannot be cut down: always all of them, as often as they fit in a chunk."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure for one figure."""

    chunk_seconds: float
    seconds: float
    most_repeats: int


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the quartiles around it."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(value: float) -> "Spread":
        """Return a figure that was measured once."""
        return Spread(value, value, value)

    def times(self, factor: float) -> "Spread":
        """Return it in another unit."""
        return Spread(factor * self.median, factor * self.low, factor * self.high)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds per event of ours and of the peer, and the ratio of the two within each repeat."""

    ours: Spread
    peer: Spread
    ratio: Spread

    @staticmethod
    def of(ours: Spread, peer: Spread) -> "Comparison":
        """Compare what was not measured by turns, because the peer is too slow for that."""
        return Comparison(ours, peer, ours.times(1.0 / peer.median))


def spread(values: list[float]) -> Spread:
    """Return median and quartiles."""
    if len(values) == 1:
        return Spread.of(values[0])
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(statistics.median(values), low, high)


def compare(ours: Task, peer: Task, effort: Effort) -> Comparison:
    """Time both by turns; each has been run before, so that nothing is compiled or allocated for the first time."""
    sizes = _calibrated(ours, effort), _calibrated(peer, effort)
    mine, its = [], []
    for _ in _repeats(effort):
        mine.append(_per_event(ours, sizes[0]))
        its.append(_per_event(peer, sizes[1]))
    ratios = [a / b for a, b in zip(mine, its, strict=True)]
    return Comparison(spread(mine), spread(its), spread(ratios))


def measure(task: Task, effort: Effort) -> Spread:
    """Return the seconds per event of one task alone."""
    size = _calibrated(task, effort)
    return spread([_per_event(task, size) for _ in _repeats(effort)])


def once(task: Task) -> Spread:
    """Return the seconds per event of a single event, of a task too slow for more."""
    return spread([_per_event(task, 1)])


@contextmanager
def no_collections() -> Iterator[None]:
    """Keep the garbage collector, which walks over everybody's objects, out of the figures."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def _repeats(effort: Effort) -> Iterator[int]:
    """Count repeats until the time is up: at least three."""
    end = time.perf_counter() + effort.seconds
    for repeat in range(effort.most_repeats):
        yield repeat
        if repeat >= 2 and time.perf_counter() >= end:
            return


def _calibrated(task: Task, effort: Effort) -> int:
    """Return how many events fill a chunk."""
    n = task.at_most if task.whole else min(task.at_most, 4)
    _per_event(task, n)
    fit = int(effort.chunk_seconds / _per_event(task, n))
    return max(1, fit // n) * n if task.whole else max(1, min(task.at_most, fit))


def _per_event(task: Task, n: int) -> float:
    times, rest = divmod(n, task.at_most)
    start = time.thread_time()
    for _ in range(times):
        task.run(task.at_most)
    if rest:
        task.run(rest)
    return (time.thread_time() - start) / n
