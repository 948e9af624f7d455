"""Which features speak most for each class, read from a copy of the model beside the loop."""

import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

from streamnb import logs
from streamnb.learners.block import Likelihood
from streamnb.learners.model import Model
from streamnb.reports import TopFeature, TopFeatures

SHOWN = 8
CLASSES = 50
NAME_LENGTH = 120
LARGEST = 20_000
"""Features of a model that is still read. Sorting more would hold the interpreter, and so the loop, too long."""
MOST_CELLS = 100_000
"""Features times classes."""
PAUSE_SECONDS = 5.0
PAUSES = 50.0
"""The pause after a reading, in times of what it took: at most a fiftieth of one processor is spent on it."""

Term: TypeAlias = tuple[float, Literal["mean", "share"], float, float]
"""What a `TopFeature` holds beside its name."""

log = logs.get("top_features")


class TopFeaturesReader:
    """Owns the thread that reads. `latest` is what the last reading found."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.latest = TopFeatures()
        self._monotonic = monotonic
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamnb-top-features")
        self._running: Future[tuple[TopFeatures, float]] | None = None
        self._next = monotonic()

    def refresh_if_due(self, model: Model) -> None:
        """Take what a reading has found, or begin one. Returns at once: only the arrays of a small model are copied."""
        if self._running is not None:
            if self._running.done():
                self._take(self._running)
                self._running = None
        elif self._monotonic() >= self._next and model.n_events != self.latest.n_events:
            if model.n_features > LARGEST or model.n_features * len(model.classes) > MOST_CELLS:
                self.latest = TopFeatures(model.n_events, too_large=True)
            else:
                self._running = self._thread.submit(self._read, model.copy())

    def close(self) -> None:
        """Wait for a reading under way, and end the thread."""
        self._thread.shutdown(wait=True)

    def _take(self, done: Future[tuple[TopFeatures, float]]) -> None:
        seconds = 0.0
        try:
            self.latest, seconds = done.result()
        except Exception:
            log.exception("top_features.unreadable")
        self._next = self._monotonic() + max(PAUSE_SECONDS, PAUSES * seconds)

    def _read(self, model: Model) -> tuple[TopFeatures, float]:
        begun = self._monotonic()
        found = TopFeatures(model.n_events, classes=top_features(model))
        return found, self._monotonic() - begun


def top_features(model: Model, shown: int = SHOWN) -> Mapping[str, tuple[TopFeature, ...]]:
    """Return, for the most frequent classes, the features that bring most to an event of the class on average.

    Measured in nats, as p log(p / q) for a category or token, where q is its share over all other classes, and for a
    number as the divergence of the class's normal density from that of all others taken together.
    """
    weights = {label: n for label, n in model.class_count.items() if n > 0.0}
    if len(weights) < 2:
        return {str(label): () for label in weights}
    listed = sorted(weights, key=lambda label: (-weights[label], str(label)))[:CLASSES]
    found: dict[Any, list[tuple[float, int, Term, Likelihood]]] = {label: [] for label in listed}
    read = _of_complement if model.kind == "complement" else _of
    for i, line in enumerate(model.likelihood_table()):
        for label, term in read(line, weights):
            heap, nats = found.get(label), term[0]
            if heap is not None and 0.0 < nats < math.inf and (len(heap) < shown or nats > heap[0][0]):
                (heapq.heappush if len(heap) < shown else heapq.heapreplace)(heap, (nats, -i, term, line))
    return {
        str(label): tuple(TopFeature(_named(line), *term) for _, _, term, line in sorted(heap, reverse=True))
        for label, heap in found.items()
    }


def _of(line: Likelihood, weights: Mapping[Any, float]) -> Iterable[tuple[Any, Term]]:
    total = math.fsum(weights.values())
    numbers = {label: line.numbers[label] for label in weights}
    if "p" in next(iter(numbers.values())):
        pooled = math.fsum(weights[label] * n["p"] for label, n in numbers.items())
        for label, n in numbers.items():
            others = max(0.0, (pooled - weights[label] * n["p"]) / (total - weights[label]))
            if n.get("count", 1.0) > 0.0:
                yield label, (_evidence(n["p"], others), "share", n["p"], others)
        return
    held = {label: n for label, n in numbers.items() if n["n"] > 0.0}
    n_all = math.fsum(n["n"] for n in held.values())
    first = math.fsum(n["n"] * n["mean"] for n in held.values())
    for label, n in held.items():
        rest = n_all - n["n"]
        if rest <= 0.0:
            continue
        mean = (first - n["n"] * n["mean"]) / rest
        spread = math.fsum(
            o["n"] * (o["variance"] + (o["mean"] - mean) ** 2) for other, o in held.items() if other != label
        )
        nats = _divergence(n["mean"], n["variance"], mean, spread / rest)
        yield label, (nats, "mean", n["mean"], mean)


def _of_complement(line: Likelihood, weights: Mapping[Any, float]) -> Iterable[tuple[Any, Term]]:
    """A complement's table tells of each class what all others hold; what it holds itself is the rest of the sum."""
    others = len(line.numbers) - 1
    count = math.fsum(n["count"] for n in line.numbers.values()) / others
    total = math.fsum(n["total"] for n in line.numbers.values()) / others
    for label in weights:
        n = line.numbers[label]
        own = total - n["total"]
        share = max(0.0, count - n["count"]) / own if own > 0.0 else 0.0
        yield label, (_evidence(share, n["p"]), "share", share, n["p"])


def _evidence(p: float, q: float) -> float:
    return p * math.log(p / q) if p > 0.0 and q > 0.0 else 0.0


def _divergence(mean: float, variance: float, other_mean: float, other_variance: float) -> float:
    """Kullback and Leibler's, of one normal density from another, in nats; 0 where either has no width."""
    if not (variance > 0.0 and other_variance > 0.0):
        return 0.0
    ratio = variance / other_variance
    return 0.5 * (ratio - 1.0 - math.log(ratio) + (mean - other_mean) ** 2 / other_variance)


def _named(line: Likelihood) -> str:
    """A feature as text; a category or token reads `name=value`."""
    text = str(line.feature) if line.value is None else f"{line.feature}={line.value}"
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "…"
