"""Turns what the engine reports into numbers for Prometheus. The only file that imports prometheus_client.

The loop's thread adds to a picture of plain numbers and publishes the new one by one assignment; a scrape,
on the HTTP thread, reads whichever picture is there. So neither waits for the other, and no scrape sees half
a step.
"""

import functools
import math
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Concatenate, Literal, ParamSpec, get_args

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition as openmetrics

from streamnb import logs
from streamnb.metric_families import BINS, FAMILIES, PREFIX, Family
from streamnb.reports import Bin, ScoresView, State, Status, Step, TransactionOutcome

CLASSES_SHOWN = 50
LABEL_LENGTH = 200
HUGE = 1e15

Key = tuple[str, ...]
"""A series: its name without the prefix, then its label values."""
P = ParamSpec("P")

_PROCESS = ProcessCollector(registry=None)

log = logs.get("metrics")


@dataclass(frozen=True, slots=True)
class _Buckets:
    """A histogram: how many values were at most each bound (the last bound is infinity), and their sum."""

    counts: tuple[int, ...]
    total: float = 0.0

    def observed(self, values: Sequence[float], bounds: tuple[float, ...]) -> "_Buckets":
        good = _observable(values)
        places = np.searchsorted(bounds, good)  # of the first bound that is not below
        more = np.cumsum(np.bincount(places, minlength=len(self.counts))).tolist()
        return _Buckets(tuple(map(sum, zip(self.counts, more, strict=True))), self.total + float(good.sum()))

    def observed_one(self, value: float, bounds: tuple[float, ...]) -> "_Buckets":
        number = _number(value)
        if not number < HUGE:
            return self
        good = max(0.0, number)
        below = bisect_left(bounds, good)
        return _Buckets((*self.counts[:below], *[n + 1 for n in self.counts[below:]]), self.total + good)


@dataclass(frozen=True, slots=True)
class _Picture:
    """Everything a scrape shows."""

    counters: Mapping[Key, float]
    histograms: Mapping[str, _Buckets]
    latest: Mapping[str, float]
    """Gauges that are told by more than one report."""
    classes: Mapping[str, tuple[float, ...]]
    """Of each class, since the process began, what `_CLASS` names."""
    status: Status | None = None


def _never_raising(
    observe: Callable[Concatenate["Metrics", P], None],
) -> Callable[Concatenate["Metrics", P], None]:
    """Drop a report that cannot be used, whole, and log the first: instruments do not stop the loop."""

    @functools.wraps(observe)
    def quiet(self: "Metrics", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            observe(self, *args, **kwargs)
        except Exception:
            if observe.__name__ not in self._unusable:
                self._unusable.add(observe.__name__)
                log.exception("metrics.report_unusable", report=observe.__name__)

    return quiet


class Metrics:
    """The numbers of one daemon (an `Observer`), in a registry of its own.

    One thread, the loop's, calls the observing methods; any thread may call the others.
    Score counters grow with each status, by the differences between the views of the stream's scores, from the second
    on and only by events that count: not by what is learned again while restoring.
    """

    def __init__(self, app: str, instance: str, version: str, clock: Callable[[], float] = time.time) -> None:
        self._build = {"app": _label(app), "instance": _label(instance), "version": _label(version)}
        self._clock, self._started = clock, clock()
        self._seen: ScoresView | None = None
        self._restoring = True
        self._unusable: set[str] = set()
        self._picture = _Picture(
            counters={
                (name, *values): 0.0
                for name, family in FAMILIES.items()
                if family.kind == "counter" and family.labels != ("class",)
                for values in family.children
            },
            histograms={
                name: _Buckets((0,) * (len(family.bounds) + 1))
                for name, family in FAMILIES.items()
                if family.kind == "histogram"
            },
            latest=dict.fromkeys(_LATEST, 0.0),
            classes={},
        )

    @property
    def latest_status(self) -> Status | None:
        """The last status told."""
        return self._picture.status

    def exposition(self, accept: str | None = None, ready: bool = False) -> tuple[bytes, str]:
        """Return the metrics and their content type: OpenMetrics if Accept prefers it, else text.

        Memory, processor time and open files of the process come along under prometheus_client's own names.
        """
        registry = CollectorRegistry()
        registry.register(_Collector(self._build, self._picture, self._started, ready))
        registry.register(_PROCESS)
        if _prefers_openmetrics(accept or ""):
            text = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]  # has no types
            return text, openmetrics.CONTENT_TYPE_LATEST
        return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4

    def totals(self) -> dict[str, object]:
        """Return what this process has done since it began, as JSON values for the status page."""
        picture = self._picture

        def total(name: str) -> int:
            return int(sum(n for key, n in picture.counters.items() if key[0] == name))

        return {
            "events": total("events_total"),
            "predictions": total("predictions_total"),
            "late": total("late_predictions_total"),
            "dead_letters": total("dead_letters_total"),
            "features": total("features_total"),
            "unseen_features": total("unseen_features_total"),
            "event_age": {
                "le": list(FAMILIES["event_age_seconds"].bounds),
                "count": list(picture.histograms["event_age_seconds"].counts),
            },
        }

    @_never_raising
    def stepped(self, step: Step) -> None:
        counts: dict[Key, float] = {("events_total", *key): n for key, n in step.events.items()}
        counts |= {("dead_letters_total", reason): n for reason, n in step.dead_letters.items()}
        counts["predictions_total",] = step.predictions
        counts["late_predictions_total",] = step.late
        counts["labels_ignored_total",] = step.labels_ignored
        counts["features_total",] = step.features
        counts["unseen_features_total",] = step.unseen_features
        handled = sum(_growth(0.0, n) for n in step.events.values())
        picture = _counted(self._picture, counts)
        if handled:
            picture = _observed(picture, {"step_seconds": step.seconds, "step_events": handled})
        if step.ages:
            ages = picture.histograms["event_age_seconds"].observed(step.ages, FAMILIES["event_age_seconds"].bounds)
            picture = replace(picture, histograms={**picture.histograms, "event_age_seconds": ages})
        if step.published:
            classes = {label: (0.0, 0.0, 0.0, _growth(0.0, n)) for label, n in step.published.items()}
            picture = replace(picture, classes=_added(picture.classes, classes))
        self._picture = _told(picture, {"last_step_timestamp_seconds": self._clock()})

    @_never_raising
    def transaction(self, outcome: TransactionOutcome, seconds: float) -> None:
        picture = _counted(self._picture, {("transactions_total", outcome): 1})
        if outcome == "committed":
            picture = _told(picture, {"last_commit_timestamp_seconds": self._clock()})
        self._picture = _observed(picture, {"transaction_seconds": seconds})

    @_never_raising
    def rebalanced(self, kind: Literal["assigned", "revoked"]) -> None:
        self._picture = _counted(self._picture, {("rebalances_total", kind): 1})

    @_never_raising
    def snapshot(self, outcome: Literal["ok", "failed", "damaged"], seconds: float, size: int) -> None:
        picture = _counted(self._picture, {("snapshots_total", outcome): 1})
        if outcome == "ok":
            picture = _observed(picture, {"snapshot_seconds": seconds})
            picture = _told(picture, {"snapshot_bytes": size, "snapshot_timestamp_seconds": self._clock()})
        self._picture = picture

    @_never_raising
    def lost(self, events: int) -> None:
        self._picture = _counted(self._picture, {("lost_events_total",): events})

    @_never_raising
    def status(self, status: Status) -> None:
        restoring = status.state in ("starting", "restoring")
        picture = self._scored(self._picture, status.scores, counts=not restoring and not self._restoring)
        self._restoring = restoring
        latest = {name: getattr(status, field) for name, field in _LATEST.items()}
        self._picture = replace(_told(picture, latest), status=status)

    def _scored(self, picture: _Picture, view: ScoresView, counts: bool) -> _Picture:
        """Take a new view of the stream's scores; what came since the last is added only if it `counts`."""
        seen, self._seen = self._seen, view
        if seen is None or seen is view or not counts:
            return picture
        increments = {key: _growth(getattr(seen, field), getattr(view, field)) for key, field in _SCORES.items()}
        for label, old, new in zip(BINS, seen.calibration, view.calibration, strict=True):
            for field in _BIN:
                increments[f"calibration_{field}_total", label] = _growth(getattr(old, field), getattr(new, field))
        classes = {}
        for label, score in view.classes.items():
            before = seen.classes.get(label)
            if score is not before:
                grown = (_growth(getattr(before, field, 0), getattr(score, field)) for field in _SCORED)
                classes[label] = (*grown, 0.0)
        return replace(_counted(picture, increments), classes=_added(picture.classes, classes))


_LATEST = {
    "last_step_timestamp_seconds": "last_step",
    "last_commit_timestamp_seconds": "last_commit",
    "snapshot_timestamp_seconds": "snapshot_time",
    "snapshot_bytes": "snapshot_bytes",
}
_SCORES: Mapping[Key, str] = {
    ("evaluated_total",): "evaluated",
    ("correct_total",): "correct",
    ("log_loss_nats_total",): "log_loss_nats",
    ("brier_total",): "brier",
    ("unknown_labels_total",): "unknown_labels",
    ("majority_correct_total",): "majority_correct",
    ("prior_log_loss_nats_total",): "prior_log_loss_nats",
    ("drift_detections_total", "worse"): "drifts_worse",
    ("drift_detections_total", "better"): "drifts_better",
}
_BIN = [field.name for field in fields(Bin)]
_SCORED = ("evaluated", "correct", "predicted")
_CLASS = (*_SCORED, "published")


def _added(
    classes: Mapping[str, tuple[float, ...]], more: Mapping[str, tuple[float, ...]]
) -> Mapping[str, tuple[float, ...]]:
    """The sums of both, class by class."""
    none = (0.0,) * len(_CLASS)
    sums = {label: tuple(map(sum, zip(classes.get(label, none), n, strict=True))) for label, n in more.items()}
    return {**classes, **sums} if sums else classes


def _counted(picture: _Picture, increments: Mapping[Key, float]) -> _Picture:
    """Add to counters; keys outside the closed sets and numbers that are no increments are left out."""
    counters = dict(picture.counters)
    for key, n in increments.items():
        if key in counters:
            counters[key] += _growth(0.0, n)
    return replace(picture, counters=counters)


def _observed(picture: _Picture, values: Mapping[str, float]) -> _Picture:
    """Add one value to each of these histograms."""
    new = {name: picture.histograms[name].observed_one(v, FAMILIES[name].bounds) for name, v in values.items()}
    return replace(picture, histograms={**picture.histograms, **new})


def _told(picture: _Picture, values: Mapping[str, float | None]) -> _Picture:
    good = {name: _number(v) for name, v in values.items() if v is not None and math.isfinite(_number(v))}
    return replace(picture, latest={**picture.latest, **good})


def _growth(before: float, now: float) -> float:
    """What a counter may grow by: never negative, NaN, or so huge that ones added later would be lost."""
    growth = _number(now) - _number(before)
    return growth if 0 < growth < HUGE else 0.0


def _observable(values: Sequence[float]) -> NDArray[np.float64]:
    """The values without those that are no numbers; none negative."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        numbers = np.array([_number(value) for value in values])
    return np.maximum(numbers[numbers < HUGE], 0.0)


def _number(value: object) -> float:
    """Any value as a float; NaN where it is none."""
    try:
        return float(value)  # type: ignore[arg-type]  # what is no number is caught
    except (TypeError, ValueError, OverflowError):
        return math.nan


_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def _label(text: object) -> str:
    """A label value that every scraper can read: a lone surrogate would make each later scrape fail."""
    clean = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(text))
    return clean if len(clean) <= LABEL_LENGTH else clean[: LABEL_LENGTH - 1] + "…"


def _prefers_openmetrics(accept: str) -> bool:
    weights = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for item in accept.split(","):
        media, *parameters = (part.strip().lower() for part in item.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        if media in weights:
            weights[media] = max(weights[media], _number(quality))
    wanted, plain = weights.values()
    return wanted > 0 and wanted >= plain


@dataclass(frozen=True, eq=False)
class _Collector:
    """Shows one picture to one scrape."""

    build: Mapping[str, str]
    picture: _Picture
    started: float
    ready: bool

    def collect(self) -> Iterator[Metric]:
        picture = self.picture
        samples = _samples(picture)
        samples["start_timestamp_seconds"] = {(): self.started}
        samples["ready"] = {(): float(self.ready)}
        for name, family in FAMILIES.items():
            full = PREFIX + name
            match family.kind:
                case "info":
                    yield InfoMetricFamily(full.removesuffix("_info"), family.help, dict(self.build))
                case "histogram":
                    yield _histogram(full, family, picture.histograms[name])
                case "counter":
                    counter = CounterMetricFamily(full, family.help, labels=family.labels)
                    for values, n in samples.get(name, {}).items():
                        counter.add_metric(values, n)
                    yield counter
                case "gauge":
                    gauge = GaugeMetricFamily(full, family.help, labels=family.labels)
                    for values, n in samples.get(name, {}).items():
                        gauge.add_metric(values, n)
                    yield gauge


def _histogram(name: str, family: Family, buckets: _Buckets) -> Metric:
    bounds = [*map(repr, family.bounds), "+Inf"]
    return HistogramMetricFamily(
        name, family.help, list(zip(bounds, map(float, buckets.counts), strict=True)), buckets.total
    )


def _samples(picture: _Picture) -> dict[str, dict[tuple[str, ...], float]]:
    """Every counter and gauge: name -> label values -> number."""
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    status_gauges = _from_status(picture.status) if picture.status else _before_any_status()
    for (name, *values), n in (
        *picture.counters.items(),
        *(((name,), n) for name, n in picture.latest.items()),
        *status_gauges,
    ):
        samples.setdefault(name, {})[tuple(map(_label, values))] = _number(n)
    return samples | _classes(picture)


def _before_any_status() -> Iterator[tuple[Key, float]]:
    for state in get_args(State):
        yield ("state", state), float(state == "starting")
    for name in ("accuracy_ratio", "drift_error_before_ratio", "drift_error_after_ratio"):
        yield (name,), math.nan
    for name in (
        "partitions_owned",
        "restore_remaining_events",
        "model_events",
        "model_classes",
        "model_features",
    ):
        yield (name,), 0.0


def _from_status(status: Status) -> Iterator[tuple[Key, float]]:
    for state in get_args(State):
        yield ("state", state), float(state == status.state)
    recent = status.scores.recent_accuracy
    yield ("accuracy_ratio",), math.nan if recent is None else recent
    drift = status.scores.drifts[-1] if status.scores.drifts else None
    yield ("drift_error_before_ratio",), drift.before if drift else math.nan
    yield ("drift_error_after_ratio",), drift.after if drift else math.nan
    yield ("partitions_owned",), float(sum(view.owned for view in status.partitions.values()))
    yield ("restore_remaining_events",), status.restore_remaining
    yield ("model_events",), status.model.n_events
    yield ("model_classes",), len(status.model.class_count)
    yield ("model_features",), status.model.n_features
    yield from _partitions(status)


def _partitions(status: Status) -> Iterator[tuple[Key, float]]:
    """What is read here has a lag, what is learned here a learned offset, what is owned a published one."""
    for partition, view in status.partitions.items():
        labels = (str(partition.topic), str(partition.number))
        if view.owned or view.role == "labelled":
            yield ("lag_events", *labels), max(0.0, _number(view.end) - _number(view.position))
            yield ("open_upstream_transaction_seconds", *labels), view.open_upstream_seconds
        if view.learned is not None:
            yield ("learned_offset", *labels), view.learned
        if view.owned and view.published is not None:
            yield ("published_offset", *labels), view.published


def _classes(picture: _Picture) -> dict[str, dict[tuple[str, ...], float]]:
    """The first classes in sorted order have a child each, the rest is summed in `other`."""
    known = set(picture.classes) | set(picture.status.model.class_count if picture.status else ())
    none = (0.0,) * len(_CLASS)
    shown = {"other": none}
    for i, label in enumerate(sorted(known, key=str)):
        child = _label(label) if i < CLASSES_SHOWN else "other"
        shown[child] = tuple(map(sum, zip(shown.get(child, none), picture.classes.get(label, none), strict=True)))
    return {f"class_{field}_total": {(child,): n[i] for child, n in shown.items()} for i, field in enumerate(_CLASS)}
