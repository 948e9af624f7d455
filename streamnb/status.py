"""Reports made from the engine's own state: the picture of the daemon, and what one step counted."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from streamnb import __version__
from streamnb.config import Config
from streamnb.errors import Reason
from streamnb.ledger import Ledger
from streamnb.processing import Answers, Processor
from streamnb.reports import ModelView, PartitionView, State, Status, Step, TopFeatures
from streamnb.transport import Batch, Extent, Partition


@dataclass(slots=True)
class Progress:
    """How far this process has come. Written by the loop."""

    started: float
    state: State = "starting"
    restore_remaining: int = 0
    last_step: float | None = None
    last_commit: float | None = None
    publish_failed: bool = False
    snapshot_taken: float | None = None
    snapshot_bytes: int | None = None
    dead_letters: dict[Reason, int] = field(default_factory=dict)
    _standing: dict[Partition, tuple[int, float]] = field(default_factory=dict)
    open_upstream: dict[Partition, float] = field(default_factory=dict)
    """Seconds for which a partition's end has stood still below its high watermark."""

    def committed(self, now: float) -> None:
        """A transaction was committed."""
        self.last_commit, self.publish_failed = now, False

    def stepped(self, step: Step) -> None:
        """A step is done."""
        for reason, count in step.dead_letters.items():
            self.dead_letters[reason] = self.dead_letters.get(reason, 0) + count

    def watch_upstream(self, extents: Mapping[Partition, Extent], now: float) -> None:
        """Note how long open transactions of the producers have held back each partition's end."""
        standing = {}
        for partition, extent in extents.items():
            if extent.high_watermark is not None and extent.high_watermark > extent.end:
                end, since = self._standing.get(partition, (extent.end, now))
                standing[partition] = (extent.end, since if end == extent.end else now)
        self._standing = standing
        self.open_upstream = {p: now - since for p, (_, since) in standing.items()}


def step_of(batch: Batch, answers: Answers, committed: bool, restoring: bool, now: float) -> Step:
    """What a step has done: answers count only when they were committed, and nothing counts while restoring."""
    step = Step(records=len(batch))
    if not restoring:
        step.events = answers.events
        step.labels_ignored = answers.labels_ignored
        step.features = answers.features
        step.unseen_features = answers.unseen_features
    if committed:
        step.predictions, step.late, step.published = answers.predictions, answers.late, answers.published
        step.dead_letters = answers.dead_letters
        ages: NDArray[np.float64] = np.maximum(now - np.array(answers.answered_times, np.float64), 0.0)
        step.ages = array("d", ages.tobytes())
    return step


def status_of(
    config: Config,
    progress: Progress,
    ledger: Ledger,
    extents: Mapping[Partition, Extent],
    processor: Processor,
    not_ready: str | None,
    top_features: TopFeatures,
) -> Status:
    """The picture of the daemon as it is now; nothing in it changes later."""
    model = processor.model
    return Status(
        app=config.app,
        instance=config.instance,
        version=__version__,
        state=progress.state,
        not_ready=not_ready,
        started=progress.started,
        last_step=progress.last_step,
        last_commit=progress.last_commit,
        partitions={p: _partition(p, extent, ledger, progress) for p, extent in extents.items()},
        model=ModelView(
            kind=config.model.kind,
            n_events=model.n_events,
            n_features=model.n_features,
            class_count={str(label): float(count) for label, count in model.class_count.items()},
        ),
        scores=processor.scores.view(),
        restore_remaining=progress.restore_remaining,
        lost_events=ledger.lost_events,
        snapshot_time=progress.snapshot_taken,
        snapshot_bytes=progress.snapshot_bytes,
        dead_letters=dict(progress.dead_letters),
        confusion=processor.scores.confusion(),
        top_features=top_features,
    )


def _partition(partition: Partition, extent: Extent, ledger: Ledger, progress: Progress) -> PartitionView:
    published = ledger.published.get(partition)
    return PartitionView(
        role=extent.role,
        owned=published is not None,
        start=extent.start,
        end=extent.end,
        position=ledger.positions.get(partition, published or 0),
        learned=ledger.learned.get(partition),
        published=published,
        open_upstream_seconds=progress.open_upstream.get(partition, 0.0),
    )
