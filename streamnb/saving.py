"""Snapshots beside the loop: the state is copied in the loop, piece by piece, written in a thread, one at a time."""

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from streamnb.errors import IoError
from streamnb.learners import pieces
from streamnb.learners.copying import Copying
from streamnb.learners.model import Model
from streamnb.snapshots import Snapshot, SnapshotStore

COPY_SECONDS = 0.004
"""How long a pass of the loop may copy."""
WORK_SECONDS = 0.001
PAUSE_SECONDS = 0.0005


class GiveWay:
    """Makes a thread pause for a moment after every so much work.

    Who waits for the interpreter then gets it, and keeps it for 5 ms (`sys.getswitchinterval`): the loop that this
    thread works beside has it for five sixths of the time, not for half of it.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter, pause: Callable[[float], None] = time.sleep):
        self._clock, self._pause = clock, pause
        self._since = clock()

    def __call__(self) -> None:
        if self._clock() - self._since >= WORK_SECONDS:
            self._pause(PAUSE_SECONDS)
            self._since = self._clock()


@dataclass(frozen=True, slots=True)
class Saved:
    """How one save ended: `error` is None when it was written."""

    taken: float
    seconds: float
    size: int
    model: Model
    """The copy that was saved; nobody needs it any more."""
    error: IoError | None = None


class Saver:
    """Owns the thread that writes."""

    def __init__(self, store: SnapshotStore, monotonic: Callable[[], float]) -> None:
        self._store, self._monotonic = store, monotonic
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix="streamnb-snapshot", initializer=lambda: pieces.PAUSE.set(GiveWay())
        )
        self._copying: tuple[Snapshot, Copying[Model]] | None = None
        self._running: Future[Saved] | None = None

    @property
    def copying(self) -> bool:
        """Whether there is something to copy."""
        return self._copying is not None

    @property
    def busy(self) -> bool:
        """Whether a save is under way, or its outcome not yet taken."""
        return self.copying or self._running is not None

    def start(self, snapshot: Snapshot, copying: Copying[Model]) -> None:
        """Write the snapshot with the state of a model, once `copy_on` has copied it."""
        self._copying = snapshot, copying

    def copy_on(self, seconds: float = COPY_SECONDS) -> None:
        """Copy for so long; what is done then is written."""
        if self._copying is None:
            return
        snapshot, copying = self._copying
        end = self._monotonic() + seconds
        while copying.go_on():
            if self._monotonic() >= end:
                return
        self._copying = None
        self._running = self._thread.submit(self._save, snapshot, copying)

    def outcome(self, wait: bool = False) -> Saved | None:
        """Take the outcome of the last save, None if there is none yet. Raise what the store raised beside IoError."""
        if wait:
            self.copy_on(math.inf)
        running = self._running
        if running is None or not (wait or running.done()):
            return None
        self._running = None
        return running.result()

    def close(self) -> None:
        """Wait for a save under way, and end the thread."""
        self._thread.shutdown(wait=True)

    def _save(self, snapshot: Snapshot, copying: Copying[Model]) -> Saved:
        begun = self._monotonic()
        model = copying.finish()
        try:
            size = self._store.save(replace(snapshot, model=model.to_bytes()))
        except IoError as error:
            return Saved(snapshot.taken, self._monotonic() - begun, 0, model, error)
        return Saved(snapshot.taken, self._monotonic() - begun, size, model)
