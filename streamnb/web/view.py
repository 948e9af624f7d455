"""What /model tells: the status and the process's totals as JSON values."""

import math
from collections.abc import Mapping, Sequence

from streamnb.reports import ScoresView, Status
from streamnb.web.history import Backlog, lag


def view(
    status: Status | None,
    not_ready: str | None,
    totals: Mapping[str, object],
    backlog: Backlog,
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
        "dead_letters": dict(status.dead_letters),
        "scores": _scores(status.scores),
        "partitions": _partitions(status, backlog, now),
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
        "classes": {
            label: {"evaluated": s.evaluated, "correct": s.correct, "predicted": s.predicted}
            for label, s in scores.classes.items()
        },
    }


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
