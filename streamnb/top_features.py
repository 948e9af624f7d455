"""Which features speak most for each class, read beside the loop from the copies that snapshots are made of."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

import numpy as np

from streamnb import logs
from streamnb.learners import evidence
from streamnb.learners.block import Block
from streamnb.learners.evidence import Evidence
from streamnb.learners.kernels.types import Floats
from streamnb.learners.model import Model
from streamnb.reports import TopFeature, TopFeatures

SHOWN = 8
CLASSES = 50
NAME_LENGTH = 120
CELLS = 1 << 18
"""Features times classes that are read at once."""
PAUSE_SECONDS = 5.0
PAUSES = 50.0
"""The pause after a reading, in times of what it took: at most a fiftieth of one processor is spent on it."""

Candidate: TypeAlias = tuple[float, int, float, float]
"""Nats, slot, and what it is `here` and `elsewhere`."""

log = logs.get("top_features")


class TopFeaturesReader:
    """Owns the thread that reads."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._latest = TopFeatures()
        self._monotonic = monotonic
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamnb-top-features")
        self._running: Future[tuple[TopFeatures, float]] | None = None
        self._next = monotonic()

    @property
    def latest(self) -> TopFeatures:
        """What the last reading found."""
        if self._running is not None and self._running.done():
            self._take(self._running)
            self._running = None
        return self._latest

    def read_if_due(self, model: Model) -> None:
        """Begin to read a model that nobody changes any more, unless it is too early. Returns at once."""
        news = model.n_events != self.latest.n_events
        if news and self._running is None and self._monotonic() >= self._next:
            self._running = self._thread.submit(self._read, model)

    def close(self) -> None:
        """Wait for a reading under way, and end the thread."""
        self._thread.shutdown(wait=True)

    def _take(self, done: Future[tuple[TopFeatures, float]]) -> None:
        seconds = 0.0
        try:
            self._latest, seconds = done.result()
        except Exception:
            log.exception("top_features.unreadable")
        self._next = self._monotonic() + max(PAUSE_SECONDS, PAUSES * seconds)

    def _read(self, model: Model) -> tuple[TopFeatures, float]:
        begun = self._monotonic()
        found = TopFeatures(model.n_events, top_features(model))
        return found, self._monotonic() - begun


def top_features(model: Model, shown: int = SHOWN) -> Mapping[str, tuple[TopFeature, ...]]:
    """Return, for the most frequent classes, the features that bring most to an event of the class on average.

    Measured in nats, as p log(p / q) for a category or token, where q is its share over all other classes, and for a
    number as the divergence of the class's normal density from that of all others taken together. What brings the same
    comes in the order of the likelihood table.
    """
    weights = {label: n for label, n in model.class_count.items() if n > 0.0}
    if len(weights) < 2:
        return {str(label): () for label in weights}
    labels = list(weights)
    told = sorted(range(len(labels)), key=lambda c: (-weights[labels[c]], str(labels[c])))[:CLASSES]
    found: list[list[TopFeature]] = [[] for _ in told]
    for block in model.blocks:
        for mine, best in zip(found, _strongest(model, block, weights, told, shown), strict=True):
            mine += best
    return {
        str(labels[c]): tuple(sorted(mine, key=lambda feature: -feature.nats)[:shown])
        for c, mine in zip(told, found, strict=True)
    }


def _strongest(
    model: Model, block: Block, weights: Mapping[Any, float], told: Sequence[int], shown: int
) -> list[list[TopFeature]]:
    """One block's features, for each of the told classes; read in pieces, so that the arrays stay small."""
    columns = np.array([slot for slot, label in zip(model.order, model.classes, strict=True) if label in weights])
    read, amounts = model.forgetting.read_factor(), np.array(list(weights.values()))
    best: list[list[Candidate]] = [[] for _ in told]
    measure: Literal["mean", "share"] = "mean" if block.kind == "gaussian" else "share"
    rows = max(1, CELLS // len(columns))
    for start in range(0, block.n_lines, rows):
        slots = slice(start, min(start + rows, block.n_lines))
        with np.errstate(over="ignore", invalid="ignore"):
            found = _evidence(block.kind, block.numbers(slots, columns, read), amounts, told)
        for c, held in enumerate(best):
            least = held[-1][0] if len(held) == shown else 0.0
            held += _candidates(found, c, start, shown, least)
            best[c] = heapq.nsmallest(shown, held, lambda one: (-one[0], block.line_order(one[1])))
    return [
        [TopFeature(spelled(*block.line(slot)), nats, measure, here, elsewhere) for nats, slot, here, elsewhere in held]
        for held in best
    ]


def _evidence(kind: str, numbers: Mapping[str, Floats], weights: Floats, told: Sequence[int]) -> Evidence:
    match kind:
        case "gaussian":
            return evidence.of_moments(numbers, told)
        case "complement":
            return evidence.of_complements(numbers, told)
    return evidence.of_shares(numbers, weights, told)


def _candidates(found: Evidence, c: int, start: int, shown: int, least: float) -> list[Candidate]:
    """Of one class, the lines that bring most, and all that bring the same as the last of these."""
    nats = found.nats[:, c]
    rows = np.flatnonzero((nats > 0.0) & (nats >= least) & (nats < np.inf))
    if len(rows) > shown:
        rows = rows[nats[rows] >= np.partition(nats[rows], -shown)[-shown]]
    return list(
        zip(
            nats[rows].tolist(),
            (start + rows).tolist(),
            found.here[rows, c].tolist(),
            found.elsewhere[rows, c].tolist(),
            strict=True,
        )
    )


def spelled(feature: Any, value: Any) -> str:
    """A feature as text; a category or token reads `name=value`."""
    text = str(feature) if value is None else f"{feature}={value}"
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "…"
