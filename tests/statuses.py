"""Builders of what the engine reports, for tests of metrics and pages."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from streamnb.reports import ClassScore, ModelView, PartitionView, ScoresView, Status, Step
from streamnb.transport import Partition

STARTED = 1_760_000_000.0


def status(**changes: object) -> Status:
    """A daemon that runs and is ready, with whatever is changed."""
    plain = Status(
        app="fraud",
        instance="host-1",
        version="0.1.0",
        state="running",
        not_ready=None,
        started=STARTED,
        last_step=STARTED + 60,
        last_commit=STARTED + 59,
        partitions={},
        model=model({}),
        scores=ScoresView(),
        restore_remaining=0,
        lost_events=0,
        snapshot_time=STARTED + 30,
        snapshot_bytes=3_000_000,
        dead_letters={},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # mypy cannot see which fields


def model(class_count: Mapping[str, float], n_features: int = 5) -> ModelView:
    return ModelView("mixed", int(sum(class_count.values())), n_features, class_count)


def labelled(position: int = 90, end: int = 100, owned: bool = True, held: float = 0.0) -> PartitionView:
    return PartitionView("labelled", owned, 0, end, position, position, 80 if owned else None, held)


def unlabelled(position: int = 50, end: int = 70, owned: bool = True) -> PartitionView:
    return PartitionView("unlabelled", owned, 0, end, position, None, 45 if owned else None)


def partitions(topic: str, views: Iterable[PartitionView]) -> dict[Partition, PartitionView]:
    return {Partition(topic, number): view for number, view in enumerate(views)}


def scores(evaluated: int, correct: int = 0, **changes: object) -> ScoresView:
    plain = ScoresView(evaluated, correct, 0.5 * evaluated, 0.25 * evaluated, 1, correct / max(1, evaluated))
    return replace(plain, **changes)  # type: ignore[arg-type]  # mypy cannot see which fields


def class_scores(labels: Iterable[str], evaluated: int, correct: int) -> ScoresView:
    """A view in which every class has the same score."""
    each = {label: ClassScore(evaluated, correct, evaluated) for label in labels}
    return scores(evaluated * len(each), correct * len(each), classes=each)


def counted_step(events: int) -> Step:
    return Step(seconds=0.01, records=events, events={("labelled", "ok"): events})
