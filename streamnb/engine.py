"""The loop: poll, decode, predict, learn, publish, snapshot.

Two offsets a partition carry everything: `learned` (the next to learn, saved with the model) and `published` (the next
to answer, committed with the answers). Gaining a partition, restart, take-over and replay are all "read from the
smaller of the two"; there is no other recovery code.
"""

import gc
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from streamnb import __version__, logs, starting
from streamnb.config import Config
from streamnb.errors import (
    DutyLost,
    IoError,
    LostEvents,
    LostOffsets,
    OutputClosed,
    OutputTooLarge,
    PublishUnknown,
)
from streamnb.events import output_bytes
from streamnb.ledger import Ledger
from streamnb.processing import Answers, Processor
from streamnb.reports import Observer, State, Status
from streamnb.saving import Saved, Saver
from streamnb.snapshots import Snapshot, SnapshotStore
from streamnb.starting import Lost, Published
from streamnb.status import Progress, status_of, step_of
from streamnb.top_features import TopFeaturesReader
from streamnb.transport import Batch, Duty, Extent, Output, Partition, Transport
from streamnb.watchdog import BROKER_AWAY_SECONDS, Pulse, Watchdog

POLL_SECONDS = 0.5
IDLE_POLL_SECONDS = 0.1
"""How soon an instance that owns nothing, as at its start, sees that this has changed."""
FIRST_BATCH = 100
STEP_SECONDS = 0.04
"""How much of its thread's time the work on one batch should take: the loop must get back to its client."""
COMMIT_ALONE_SECONDS = 1.0
LOOK_AROUND_SECONDS = 1.0
CLOSE_SECONDS = 5.0
OFFSET_TRIES = 5
LOST_TRIES = 20

log = logs.get("engine")


class Engine:
    """Owns the model, the offsets and the loop; everything outside comes in through the constructor."""

    def __init__(
        self,
        config: Config,
        transport: Transport,
        store: SnapshotStore,
        observer: Observer,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        working: Callable[[], float] = time.thread_time,
        stop: threading.Event | None = None,
    ) -> None:
        self.stop = stop or threading.Event()
        self.status: Status | None = None
        self.pulse = Pulse(monotonic, transport.silence)
        self._config, self._transport, self._store, self._observer = config, transport, store, observer
        self._clock, self._monotonic, self._working = clock, monotonic, working
        self._processor = Processor(config, __version__)
        self._saver = Saver(store, monotonic)
        self._top = TopFeaturesReader(monotonic)
        self._ledger = Ledger({}, {}, {}, {})
        self._progress = Progress(started=clock())
        self._extents: Mapping[Partition, Extent] = {}
        self._restore_ends: Mapping[Partition, int] = {}
        self._duty: Duty | None = None
        self._input_ended = False
        self._limit = min(FIRST_BATCH, config.limits.batch_events)
        self._offset_tries = self._lost_tries = 0
        self._next_look = self._next_commit = self._next_snapshot = monotonic()

    def run(self) -> None:
        """Work until `stop` is set or the input has ended; raise StreamnbError when going on is impossible."""
        done = threading.Event()
        try:
            self._start()
            Watchdog(self.pulse, self._config.watchdog, done).start()
            while not (self.stop.is_set() or self._input_ended):
                self._turn()
            self._drain()
        finally:
            done.set()
            self._close()

    def _turn(self) -> None:
        """One pass of the loop."""
        self.pulse.beat()
        self._look_around()
        self._follow_duty()
        batch = self._poll()
        begun, worked = self._monotonic(), self._working()
        answers = self._processor.process(batch.runs, self._ledger.roles, self._ledger.watermarks())
        self._fit_batches(len(batch), self._working() - worked)
        self._ledger.advance(batch.positions)
        committed = self._publish(answers)
        self._report(batch, answers, committed, begun)
        self._restored()
        self._snapshot_if_due()

    @property
    def starting(self) -> bool:
        """Whether nothing was read yet, so that there is nothing to finish. Any thread may ask."""
        return self._progress.state == "starting"

    def not_ready(self) -> str | None:
        """Why the daemon is not ready, None when it is. Any thread may ask."""
        state, silence = self._progress.state, self._transport.silence()
        if state == "restoring":
            return f"restoring: {self._progress.restore_remaining} offsets to learn"
        if state != "running":
            return state
        if silence > BROKER_AWAY_SECONDS:
            return f"no broker has answered for {silence:.0f} s"
        if self._duty is None:
            return "not a stable member of the group"
        return "the last transaction was not committed" if self._progress.publish_failed else None

    # Starting

    def _start(self) -> None:
        """Choose the snapshot, take up its state, and begin to read the labelled logs."""
        log.info("kernels.load", hint="the first time on a machine they are compiled, which takes up to a minute")
        self._processor.warm_up()
        gc.freeze()  # all that is loaded by now stays: collections need not walk over it again and again
        self.pulse.call_client()
        self._store.open()
        self._transport.open()
        self._processor.prediction_bytes = self._transport.output_limit("predictions")
        if self._config.output.dead_letters is not None:
            self._processor.dead_letter_bytes = self._transport.output_limit("dead_letters")
        own = self._store.newest()
        committed = self._transport.committed()
        self._extents = self._transport.extents()
        snapshot = starting.choose(own, self._store.others, self._extents, self._processor.model.shape())
        self._transport.resume(snapshot.marks if snapshot and not snapshot.is_bare_seed else None)
        accept = self._config.input.on_lost_events == "accept"
        begun = starting.begin(snapshot, self._extents, committed, accept)
        if snapshot:
            self._take_over(snapshot)
        self._ledger = Ledger.of(begun, committed)
        self._tell_lost(begun.lost)
        log.info("learning.begins", offsets=begun.learned, snapshot=bool(snapshot), first_start=begun.first_start)
        for partition, offset in begun.kept.items():
            log.warning("topic.not_configured", partition=partition, learned=offset)
        if begun.first_start:
            self._save_first()
        self._restore_ends = self._transport.restore_ends()
        self.pulse.beat()
        self._progress.restore_remaining = self._ledger.remaining(self._restore_ends)
        self._enter("restoring")  # which shows what remains
        self._transport.read(self._ledger.read_from())
        self._restored()

    def _take_over(self, snapshot: Snapshot) -> None:
        self._processor.restore(snapshot)
        self._progress.snapshot_taken = snapshot.taken
        settings = self._processor.settings()
        changed = {k: v for k, v in settings.items() if snapshot.settings.get(k) != v}
        if changed:
            log.warning("settings.changed", now=changed, before=snapshot.settings, offsets=snapshot.learned)
        if snapshot.instance != self._config.instance:
            log.warning("snapshot.of_another_instance", instance=snapshot.instance, offsets=snapshot.learned)

    def _save_first(self) -> None:
        """An empty snapshot before anything else, so that every later start knows where learning began."""
        for partition, offset in self._ledger.learned.items():
            if offset:
                log.warning("log.begins_late", partition=partition, learn_from=offset)
        self._begin_snapshot()
        self._finish_snapshot(fatal=True)

    def _restored(self) -> None:
        """Ask for duty once the model has learned what stood in the labelled logs at the start."""
        if self._progress.state == "restoring":
            self._progress.restore_remaining = self._ledger.remaining(self._restore_ends)
            if not self._progress.restore_remaining:
                self._transport.join()
                self._enter("running")

    # Following the logs and the group

    def _look_around(self) -> None:
        """Once a second: topics made again, partitions added."""
        if self._monotonic() < self._next_look:
            return
        self._next_look = self._monotonic() + LOOK_AROUND_SECONDS
        self._extents = self._transport.extents()
        starting.check_topics(self._ledger.topics, self._extents)
        if any(e.role == "labelled" and p not in self._ledger.learned for p, e in self._extents.items()):
            self._tell_lost(self._ledger.add_partitions(self._extents))
            self._transport.read(self._ledger.read_from())
            log.info("partitions.added", offsets=self._ledger.learned)
        self._progress.watch_upstream(self._extents, self._monotonic())
        self._show_status()

    def _follow_duty(self) -> None:
        """Take up a new duty, or let go of the one that has ended, by reading from where it says."""
        duty = self._transport.duty()
        if duty is self._duty:
            return
        self._ledger.drop_duty()
        self._duty = duty
        if duty is not None:
            try:
                self._take_up(duty)
            except LostOffsets as error:
                self._ask_again(error)
            except PublishUnknown as error:
                log.warning("duty.not_taken_up", error=error)
                self._let_go()
        self._observer.rebalanced("assigned" if self._duty else "revoked")
        self._transport.read(self._ledger.read_from())

    def _take_up(self, duty: Duty) -> None:
        starting.check_seed(self._ledger.seed, duty.published)
        self._extents = self._transport.extents()
        owned = {p: self._published(p, duty) for p in duty.partitions}
        self._tell_lost([at.lost for at in owned.values() if at.lost])
        for partition, at in owned.items():
            if at.offset < self._ledger.noted.get(partition, 0):
                log.warning("offsets.moved_back", partition=partition, published=at.offset)
        self._ledger.take_up(owned)
        self._offset_tries = 0
        self._next_commit = self._monotonic()
        log.info("duty.begins", published=self._ledger.published)

    def _published(self, partition: Partition, duty: Duty) -> Published:
        at = starting.published(
            partition,
            duty.published.get(partition),
            self._ledger.noted.get(partition),
            self._extents[partition],
            self._ledger.topics,
            self._input_start,
            self._config.input.on_lost_offsets,
        )
        if at.lost:
            starting.refuse_lost([at.lost], self._config.input.on_lost_events == "accept")
        return at

    def _input_start(self, partition: Partition, extent: Extent) -> int:
        match self._config.input.start:
            case "earliest":
                return extent.start
            case "latest":
                return extent.end
            case seconds:
                return self._transport.offset_at(partition, float(seconds))

    def _ask_again(self, error: LostOffsets) -> None:
        """An answer that nothing is committed may pass: believe it only when it has been repeated."""
        self._offset_tries += 1
        if self._offset_tries >= OFFSET_TRIES:
            raise error
        self._let_go()

    def _let_go(self) -> None:
        """Give the duty back, to be asked for again."""
        self._duty = None
        self._transport.settle()

    # One batch

    def _poll(self) -> Batch:
        self.pulse.call_client()
        seconds = POLL_SECONDS if self._ledger.published else IDLE_POLL_SECONDS
        if self._saver.copying:
            seconds = 0.0
        try:
            batch = self._transport.poll(seconds, self._limit)
        except LostEvents as error:
            self._skip_lost(error)
            batch = Batch()
        self._input_ended = batch.finished
        self.pulse.beat()
        return batch

    def _fit_batches(self, n_records: int, seconds: float) -> None:
        """Have the next batches be as large as these events allow.

        By the thread's own time: if a busy machine made batches smaller, their transactions would make it busier.
        """
        if seconds > STEP_SECONDS:
            self._limit = max(1, int(n_records * STEP_SECONDS / seconds))
        elif n_records >= self._limit and 2 * seconds < STEP_SECONDS:
            self._limit = min(2 * self._limit, self._config.limits.batch_events)

    def _skip_lost(self, error: LostEvents) -> None:
        """Go on behind records that were deleted before they were read, if that is accepted; else raise."""
        self._lost_tries += 1
        if self._config.input.on_lost_events != "accept" or self._lost_tries > LOST_TRIES:
            raise error
        self._extents = self._transport.extents()
        lost = self._ledger.skip_lost(self._extents)
        if lost:
            self._lost_tries = 0
            self._tell_lost(lost)
            self._transport.read(self._ledger.read_from())

    def _publish(self, answers: Answers) -> bool:
        """Commit the answers and the offsets; False if there was nothing to commit yet, or it did not succeed."""
        if self._duty is None or self._transport.duty() is not self._duty:
            return False
        offsets = self._ledger.due()
        if not answers.outputs and not offsets:
            self._progress.publish_failed = False  # what had failed was committed after all, or has another owner
            return False
        if not answers.outputs and self._monotonic() < self._next_commit:
            return False
        begun = self._monotonic()
        self.pulse.call_client()
        try:
            self._transport.publish(self._duty, answers.outputs, offsets)
        except OutputClosed:
            self.stop.set()
            return False
        except (DutyLost, PublishUnknown) as error:
            if isinstance(error, OutputTooLarge):
                self._make_smaller(answers.outputs[error.index], error)
            self._drop_answers(error, begun)
            return False
        self.pulse.beat()
        now = self._monotonic()
        self._ledger.committed(offsets)
        self._progress.committed(self._clock())
        self._next_commit = now + COMMIT_ALONE_SECONDS
        self._observer.transaction("committed", now - begun)
        return True

    def _drop_answers(self, error: DutyLost | PublishUnknown, begun: float) -> None:
        """Forget the duty until the group has said what was committed; reading goes back there then."""
        log.warning("transaction.failed", error=error, kind=type(error).__name__)
        self.pulse.beat()
        unknown = isinstance(error, PublishUnknown)
        self._observer.transaction("unknown" if unknown else "aborted", self._monotonic() - begun)
        self._progress.publish_failed = True
        self._transport.settle()

    def _make_smaller(self, output: Output, error: OutputTooLarge) -> None:
        """Have dead letters of this size made smaller when they are read again; nothing else can be."""
        size, allowed = output_bytes(output), self._processor.dead_letter_bytes
        if output.sink != "dead_letters" or (allowed is not None and size > allowed):
            raise IoError(f"{output.sink}: a record of {size} bytes is refused by the broker: {error}") from error
        self._processor.dead_letter_bytes = size - 1

    def _report(self, batch: Batch, answers: Answers, committed: bool, begun: float) -> None:
        restoring = self._progress.state == "restoring"
        self._progress.last_step = self._clock()
        for drift in answers.drifts:
            tell = log.warning if drift.direction == "worse" else log.info
            tell("drift.detected", direction=drift.direction, error_before=drift.before, error_after=drift.after)
        if batch.runs or committed:
            step = step_of(batch, answers, committed, restoring, self._clock())
            step.seconds = self._monotonic() - begun
            self._progress.stepped(step)
            self._observer.stepped(step)

    # Snapshots

    def _snapshot_if_due(self) -> None:
        saved = self._finish_snapshot()
        if saved:
            self._top.read_if_due(saved.model)
        if self._monotonic() >= self._next_snapshot and not self._saver.busy:
            self._begin_snapshot()
        self._saver.copy_on()

    def _begin_snapshot(self) -> None:
        """Take the state of this moment, to be copied pass by pass and written beside the loop."""
        self._next_snapshot = self._monotonic() + self._config.snapshots.every
        ledger = self._ledger
        self._saver.start(
            Snapshot(
                app=self._config.app,
                instance=self._config.instance,
                version=__version__,
                taken=self._clock(),
                shape=self._processor.model.shape(),
                settings=self._processor.settings(),
                learned={**ledger.kept, **ledger.learned},
                learn_from=dict(ledger.learn_from),
                noted=dict(ledger.noted),
                topics=dict(ledger.topics),
                classes=self._processor.class_sets(),
                lost=ledger.lost_events,
                scores=self._processor.scores.to_dict(),
                marks=self._transport.marks(),
                model=b"",
                seed=ledger.seed,
            ),
            self._processor.model.begin_copy(),
        )

    def _finish_snapshot(self, wait: bool = False, fatal: bool = False) -> Saved | None:
        saved = self._saver.outcome(wait or fatal)
        if saved is None:
            return None
        self._tell_saved(saved)
        if fatal and saved.error:
            raise saved.error
        return saved

    def _tell_saved(self, saved: Saved) -> None:
        if saved.error:
            log.error("snapshot.failed", error=saved.error)
            self._observer.snapshot("failed", saved.seconds, 0)
        else:
            log.debug("snapshot.saved", bytes=saved.size, seconds=saved.seconds)
            self._progress.snapshot_taken, self._progress.snapshot_bytes = saved.taken, saved.size
            self._observer.snapshot("ok", saved.seconds, saved.size)

    # Ending

    def _drain(self) -> None:
        """Commit what is handled, save, and leave."""
        self._enter("draining")
        self._transport.drain()
        self._next_commit = self._monotonic()
        self._publish(Answers())
        self._finish_snapshot(wait=True)
        self._begin_snapshot()
        self._finish_snapshot(fatal=True)

    def _close(self) -> None:
        self._saver.close()
        self._top.close()
        self._transport.close(CLOSE_SECONDS)
        self._store.close()
        self._enter("stopped")

    # Telling

    def _enter(self, state: State) -> None:
        self._progress.state = state
        log.info(f"state.{state}")
        self._show_status()

    def _tell_lost(self, lost: Sequence[Lost]) -> None:
        for gap in lost:
            log.warning("events.lost", partition=gap.partition, begin=gap.begin, end=gap.end, never=gap.what)
            self._observer.lost(gap.end - gap.begin)

    def _show_status(self) -> None:
        self.status = status_of(
            self._config,
            self._progress,
            self._ledger,
            self._extents,
            self._processor,
            self.not_ready(),
            self._top.latest,
        )
        self._observer.status(self.status)
