"""Snapshots beside the loop: the state is copied in the loop, written in a thread, one at a time."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from streamnb.errors import IoError
from streamnb.learners.model import Model
from streamnb.snapshots import Snapshot, SnapshotStore


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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="streamnb-snapshot")
        self._running: Future[Saved] | None = None

    @property
    def busy(self) -> bool:
        """Whether a save is under way, or its outcome not yet taken."""
        return self._running is not None

    def start(self, snapshot: Snapshot, model: Model) -> None:
        """Write the snapshot with the state of `model`, a copy that nobody else changes."""
        self._running = self._thread.submit(self._save, snapshot, model)

    def outcome(self, wait: bool = False) -> Saved | None:
        """Take the outcome of the last save, None if there is none yet. Raise what the store raised beside IoError."""
        running = self._running
        if running is None or not (wait or running.done()):
            return None
        self._running = None
        return running.result()

    def close(self) -> None:
        """Wait for a save under way, and end the thread."""
        self._thread.shutdown(wait=True)

    def _save(self, snapshot: Snapshot, model: Model) -> Saved:
        begun = self._monotonic()
        try:
            size = self._store.save(replace(snapshot, model=model.to_bytes()))
        except IoError as error:
            return Saved(snapshot.taken, self._monotonic() - begun, 0, model, error)
        return Saved(snapshot.taken, self._monotonic() - begun, size, model)
