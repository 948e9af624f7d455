"""What /model tells: the status and the process's totals as JSON values."""

import functools
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata

from streamnb.reports import ScoresView, Status
from streamnb.web.history import Backlog, RecentCounts, lag


@dataclass(frozen=True, slots=True)
class Seen:
    """What the HTTP side remembers of earlier statuses."""

    backlog: Backlog
    dead_letters: RecentCounts


def view(
    status: Status | None,
    not_ready: str | None,
    totals: Mapping[str, object],
    seen: Seen,
    now: float,
) -> dict[str, object]:
    """Return everything that an operator may see; before the first status, an empty model."""
    if status is None:
        return {"n_events": 0, "class_count": {}, "state": "starting", "not_ready": not_ready, "now": now}
    return {
        "n_events": status.model.n_events,
        "class_count": {label: _count(n) for label, n in status.model.class_count.items()},
        "n_features": status.model.n_features,
        "kind": status.model.kind,
        "app": status.app,
        "instance": status.instance,
        "version": status.version,
        "state": status.state,
        "not_ready": not_ready,
        "now": now,
        "started": status.started,
        "last_step": status.last_step,
        "last_commit": status.last_commit,
        "restore_remaining": status.restore_remaining,
        "lost_events": status.lost_events,
        "snapshot": {"time": status.snapshot_time, "bytes": status.snapshot_bytes},
        "versions": _versions(),
        "dead_letters": dict(status.dead_letters),
        "dead_letters_last_hour": seen.dead_letters.last_hour(status.dead_letters),
        "scores": _scores(status.scores),
        "confusion": {"classes": status.confusion.classes, "counts": status.confusion.counts},
        "top_features": {
            "n_events": status.top_features.n_events,
            "classes": {
                label: [asdict(feature) for feature in features]
                for label, features in status.top_features.classes.items()
            },
        },
        "partitions": _partitions(status, seen.backlog, now),
        "process": totals,
    }


def _scores(scores: ScoresView) -> dict[str, object]:
    return {
        "evaluated": scores.evaluated,
        "correct": scores.correct,
        "majority_correct": scores.majority_correct,
        "log_loss_nats": scores.log_loss_nats,
        "brier": scores.brier,
        "unknown_labels": scores.unknown_labels,
        "recent_accuracy": scores.recent_accuracy,
        "prior_log_loss_nats": scores.prior_log_loss_nats,
        "calibration": [asdict(held) for held in scores.calibration],
        "drifts": {
            "worse": scores.drifts_worse,
            "better": scores.drifts_better,
            "last": [asdict(drift) | {"direction": drift.direction} for drift in scores.drifts],
        },
        "classes": {
            label: {
                "evaluated": s.evaluated,
                "correct": s.correct,
                "predicted": s.predicted,
                "precision": s.correct / s.predicted if s.predicted else None,
                "recall": s.correct / s.evaluated if s.evaluated else None,
            }
            for label, s in scores.classes.items()
        },
    }


@functools.cache
def _versions() -> dict[str, str]:
    libraries = ("streamnb", "numpy", "numba", "river")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in libraries}}


def _partitions(status: Status, backlog: Backlog, now: float) -> list[dict[str, object]]:
    return [
        {
            "topic": partition.topic,
            "partition": partition.number,
            "role": v.role,
            "owned": v.owned,
            "start": v.start,
            "end": v.end,
            "position": v.position,
            "lag": lag(v),
            "waiting_seconds": backlog.waiting_seconds(partition, v.position, now),
            "learned": v.learned,
            "published": v.published,
            "open_upstream_seconds": v.open_upstream_seconds,
        }
        for partition, v in sorted(status.partitions.items())
    ]


def _count(n: float) -> float:
    """Events are whole unless they were weighted."""
    return int(n) if math.isfinite(n) and n == int(n) else n


def plain(value: object) -> object:
    """The value as strict JSON can say it: NaN and infinities become null, lone surrogates question marks."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case str():
            return value.encode("utf-8", "replace").decode()
        case Mapping():
            return {plain(str(key)): plain(item) for key, item in value.items()}
        case Sequence():
            return [plain(item) for item in value]
    return value
