"""Every figure of `streamnb bench pipeline`, measured in one run on one machine."""

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamnb.bench.goals import Result
from streamnb.bench.pipeline import alone, goals
from streamnb.bench.pipeline.kafka_python import Feeder, Topics
from streamnb.bench.pipeline.sides import Side, Sides, latencies
from streamnb.bench.pipeline.streams import STREAMS, Pair, Stream, text
from streamnb.bench.timing import Spread, spread

SMALL_BATCH = 100


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured for each figure."""

    repeats: int
    events: int
    """Of the cheapest stream, for the daemon and the null loop; the others get fewer."""
    streams: Sequence[Stream]
    rates: Sequence[int]
    seconds: float
    """How long latencies are taken."""
    rounds: int
    """How many batches are read while snapshots are taken."""


FULL = Effort(5, 40_000, STREAMS, (500, 5_000), 5.0, 40)
QUICK = Effort(1, 2_000, (STREAMS[0],), (500,), 0.5, 2)


def everything(brokers: str | None, clients: Sequence[str], daemon: Sequence[str], quick: bool) -> Iterator[Result]:
    """Yield each figure as soon as it is known; without a broker, those that need none.

    `daemon` is the command that runs one, less its configuration.
    """
    effort = QUICK if quick else FULL
    yield from alone.everything(effort.streams, quick, daemon)
    if brokers is None:
        return
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        topics = stack.enter_context(closing(Topics(brokers)))
        feeder = stack.enter_context(closing(Feeder(brokers, topics.name("feeder"))))
        sides = Sides(topics, Path(folder), daemon)
        for client in clients:
            for stream in effort.streams:
                yield from _Compared(client, stream, sides, feeder, effort).figures(brokers)
            yield from _snapshots(client, sides, feeder, effort, quick)
            yield from _replay(client, sides, topics, feeder, effort)


class _Compared:
    """One stream through the daemon, the null loop and the user's loop, by turns."""

    def __init__(self, client: str, stream: Stream, sides: Sides, feeder: Feeder, effort: Effort) -> None:
        self._client, self._stream, self._sides, self._feeder = client, stream, sides, feeder
        self._effort = effort
        self._row = f"{client}: {stream.name}"

    def figures(self, brokers: str) -> Iterator[Result]:
        """Yield them."""
        with ExitStack() as stack:
            daemon = stack.enter_context(closing(self._sides.daemon(self._client, self._stream)))
            first = self._stream.events(2, 1)
            self._feeder.put(daemon.topic, first)
            daemon.expect(first)
            started = time.perf_counter() - daemon.begun
            user = stack.enter_context(closing(self._sides.loop(self._client, stream=self._stream.name)))
            if self._stream is STREAMS[0]:
                yield _shown(self._row, goals.START, Spread.of(started), goals.AT_MOST_START_SECONDS)
                yield _shown(self._row, goals.IDLE, Spread.of(daemon.resident_mib))
            warm = [*self._stream.taught(), *self._stream.events(200, 2)]
            self._feed(daemon, warm)
            null = stack.enter_context(closing(self._sides.loop(self._client, daemon.answer_bytes)))
            self._feed(null, warm)
            self._feed(user, warm)
            yield from self._ratios(daemon, null, user)
            if self._stream is STREAMS[0]:
                yield from self._latencies(brokers, daemon, null)

    def _feed(self, side: Side, pairs: Sequence[Pair]) -> None:
        self._feeder.put(side.topic, pairs)
        side.expect(pairs)

    def _ratios(self, daemon: Side, null: Side, user: Side) -> Iterator[Result]:
        stream, taken = self._stream, []
        n = max(200, self._effort.events // min(4, stream.cost))
        for repeat in range(self._effort.repeats):
            pairs = stream.events(n, 10 + repeat)
            few = pairs[: max(100, n // 10 // stream.cost) // 2 * 2]
            turns = (daemon, pairs), (null, pairs), (user, few)
            taken.append([side.measure(self._feeder, events) for side, events in turns])
        ours, bare, theirs = ([side[0] for side in sides] for sides in zip(*taken, strict=True))
        rate = spread([one[0][1] for one in taken]).median
        yield self._ratio(goals.NULL, ours, bare, f"us; {rate:,.0f} events/s")
        yield self._ratio(goals.USER, ours, theirs, "us")

    def _ratio(self, column: str, ours: list[float], peer: list[float], note: str) -> Result:
        ratio = spread([b / a for a, b in zip(ours, peer, strict=True)])
        goal = goals.AT_LEAST.get((self._client, self._stream.name, column))
        mine, its = spread(ours).median, spread(peer).median
        return Result(self._row, column, ratio.median, ratio.low, ratio.high, goal, mine, its, note, at_least=True)

    def _latencies(self, brokers: str, daemon: Side, null: Side) -> Iterator[Result]:
        for rate in self._effort.rates:
            found: list[list[list[float]]] = [[], []]
            for turn in range(self._effort.repeats):
                pairs = self._stream.events(int(rate * self._effort.seconds), 30 + turn)
                for side, times in zip((daemon, null), found, strict=True):
                    times.append(latencies(side, brokers, pairs, rate))
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                ours, peer = ([1e3 * _quantile(times, share) for times in side] for side in found)
                ratio = spread([a / b for a, b in zip(ours, peer, strict=True)])
                yield Result(
                    self._row, f"{name} {goals.LATENCY}, {rate} events/s",
                    ratio.median, ratio.low, ratio.high, goals.AT_MOST_LATENCY,
                    spread(ours).median, spread(peer).median, "ms",
                )  # fmt: skip


def _snapshots(client: str, sides: Sides, feeder: Feeder, effort: Effort, quick: bool) -> Iterator[Result]:
    """Yield how long the loop is kept from its client while snapshots of a large model are written without a pause.

    In small batches, whose own work is little, so that what is seen is the snapshots'.
    """
    stream = text(20_000, 10) if quick else STREAMS[-1]
    found = sides.folder / "watched.json"
    learned = 0.0
    small: dict[str, Any] = {"snapshots": {"every": "100ms"}, "limits": {"batch_events": SMALL_BATCH}}
    with closing(sides.daemon(client, stream, "--steps", str(found), **small)) as side:
        feeder.put(side.topic, stream.taught())
        for turn in range(effort.rounds):
            pairs = stream.events(1_000, 50 + turn)
            feeder.put(side.topic, pairs)
            side.expect(pairs)
            learned = learned or time.perf_counter()
    watched = json.loads(found.read_text())
    beside, alone_ = _steps(watched, learned)
    row, size = f"{client}: {stream.name}", max(one["bytes"] for one in watched["snapshots"])
    note = f"peer: without; {len(watched['snapshots'])} snapshots, {size / 1e6:.0f} MB; {len(beside)} steps"
    longest, most, usual = 1e3 * beside[-1], 1e3 * _quantile(beside, 0.99), 1e3 * _quantile(alone_, 0.99)
    yield Result(row, goals.STEP, longest, longest, longest, goals.AT_MOST_STEP_MS, longest, 1e3 * alone_[-1], note)
    yield Result(row, goals.STEPS, most, most, most, None, most, usual, note)


def _steps(watched: Any, learned: float) -> tuple[list[float], list[float]]:
    """Return the seconds of the steps beside which the whole model was saved, and of the others.

    Only those count that were begun after the model was learned: learning it takes long steps of its own.
    """
    whole = 0.9 * max(one["bytes"] for one in watched["snapshots"])
    saved = [(one["end"] - one["seconds"], one["end"]) for one in watched["snapshots"] if one["bytes"] >= whole]
    beside: list[float] = []
    without: list[float] = []
    for begin, seconds in watched["steps"]:
        if begin >= learned:
            busy = any(begin < end and begin + seconds > start for start, end in saved)
            (beside if busy else without).append(seconds)
    return sorted(beside or without), sorted(without or beside)


def _replay(client: str, sides: Sides, topics: Topics, feeder: Feeder, effort: Effort) -> Iterator[Result]:
    """Yield how fast a labelled log is learned at a start, beside the work itself on the same events."""
    stream = STREAMS[0]
    pairs = [pair for pair in stream.events(16 * effort.events, 70) if b'"label"' in pair[1]]
    topic = topics.topic("log")
    feeder.put(topic, pairs)
    ratios, rates, works = [], [], []
    for turn in range(effort.repeats):
        found = sides.folder / f"replay-{turn}.json"
        with closing(sides.daemon(client, stream, "--steps", str(found), topic=topic)) as side:
            more = stream.events(2, 71)
            feeder.put(topic, more)
            side.expect(more)
        states = dict(json.loads(found.read_text())["states"])
        rates.append(len(pairs) / (states["running"] - states["restoring"]))
        works.append(alone.learning_rate(stream, [value for _, value in pairs]))
        ratios.append(rates[-1] / works[-1])
    ratio = spread(ratios)
    yield Result(
        f"{client}: {stream.name}", goals.REPLAY, ratio.median, ratio.low, ratio.high, goals.AT_LEAST_REPLAY,
        spread(rates).median, spread(works).median, "events/s", at_least=True,
    )  # fmt: skip


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _shown(row: str, column: str, value: Spread, goal: float | None = None, note: str = "") -> Result:
    return Result(row, column, value.median, value.low, value.high, goal, value.median, note=note)


def profile(brokers: str, client: str, daemon: Sequence[str], stream: Stream, n: int) -> str:
    """Return where the daemon's loop spends its time on so many events of a stream."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        topics = stack.enter_context(closing(Topics(brokers)))
        feeder = stack.enter_context(closing(Feeder(brokers, topics.name("feeder"))))
        sides = Sides(topics, Path(folder), daemon)
        found = sides.folder / "profile"
        with closing(sides.daemon(client, stream, "--profile", str(found))) as side:
            for pairs in (stream.taught(), stream.events(n, 80)):
                feeder.put(side.topic, pairs)
                side.expect(pairs)
        return found.read_text()
