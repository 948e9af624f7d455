"""Snapshots in a directory: one file each, made whole by a rename."""

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from streamnb.errors import IoError, SnapshotError, StateError, why
from streamnb.snapshots.codec import decode, parts
from streamnb.snapshots.snapshot import OnDamaged, Snapshot

_NAME = re.compile(r"([0-9]{10,})\.snapshot")
_LONGEST_NAME = 160


class DirectoryStore:
    """Keeps the last `keep` snapshots as `<path>/<app>/<instance>/<sequence>.snapshot`.

    The folder belongs to one living process, by a lock on its file `lock` that ends with the process.
    """

    def __init__(self, path: Path, app: str, instance: str, keep: int, on_damaged: OnDamaged) -> None:
        self._app, self._keep, self._on_damaged = app, keep, on_damaged
        self._app_folder = Path(path) / safe_name(app)
        self._folder = self._app_folder / safe_name(instance)
        self._lock: int | None = None
        self._sequence = 0

    def open(self) -> None:
        """Make and lock the folder, and remove what an interrupted save has left."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self._folder)
            for leftover in self._folder.glob("*.tmp"):
                leftover.unlink()
        except OSError as error:
            self.close()
            raise IoError(f"{self._folder}: snapshots cannot be written here: {why(error)}") from error
        self._sequence = max(_sequences(self._folder), default=0)

    def save(self, snapshot: Snapshot) -> int:
        """Write the next file in the sequence, and remove all but the last `keep`."""
        if self._lock is None:
            raise StateError(f"{self._folder}: must be opened, and so locked, before a snapshot is saved")
        path = _file(self._folder, self._sequence + 1)
        try:
            size = write_whole(path, parts(snapshot))
        except OSError as error:
            raise IoError(f"{path}: the snapshot was not written: {why(error)}") from error
        self._sequence += 1
        for sequence in sorted(_sequences(self._folder))[: -self._keep]:
            with suppress(OSError):  # the snapshot is safe; the next save tries again to remove this one
                _file(self._folder, sequence).unlink()
        return size

    def newest(self) -> Snapshot | None:
        """Look from the newest file backwards."""
        return self._newest_in(self._folder)

    def others(self) -> list[Snapshot]:
        """Read the folders beside the own one, which their instances may be writing to at this moment."""
        try:
            folders = sorted(f for f in self._app_folder.iterdir() if f.is_dir() and f != self._folder)
        except OSError:
            return []
        return [found for folder in folders if (found := self._newest_in(folder))]

    def close(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _newest_in(self, folder: Path) -> Snapshot | None:
        for path in _newest_first(folder):
            try:
                return load(path, self._app)
            except SnapshotError as error:
                # Its owner may have removed it since it was listed, and has then written newer ones.
                if path.exists():
                    self._on_damaged(str(path), error)
        return None


def load(path: Path, app: str | None = None) -> Snapshot:
    """Read one snapshot file. Raise SnapshotError if it cannot be read, is not whole, or is another app's."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {why(error)}") from error
    return decode(data, str(path), app)


def safe_name(name: str) -> str:
    """Return a file name that no other name shares and that cannot leave its folder."""
    quoted = quote(name.encode("utf-8", "surrogateescape"), safe="")
    if not quoted or quoted.startswith("."):
        quoted = "%2E" + quoted[1:] if quoted else "%"
    if len(quoted) <= _LONGEST_NAME:
        return quoted
    digest = hashlib.sha256(quoted.encode()).hexdigest()
    return f"{quoted[: _LONGEST_NAME - len(digest)]}%{digest}"


def _file(folder: Path, sequence: int) -> Path:
    return folder / f"{sequence:010d}.snapshot"


def _sequences(folder: Path) -> list[int]:
    try:
        return [int(found[1]) for name in os.listdir(folder) if (found := _NAME.fullmatch(name))]
    except OSError:
        return []


def _newest_first(folder: Path) -> Iterator[Path]:
    """Newer files than those seen so far come first, even if they are written while this goes on."""
    tried: set[int] = set()
    while left := set(_sequences(folder)) - tried:
        tried.add(max(left))
        yield _file(folder, max(left))


def _locked(folder: Path) -> int:
    """Lock the folder for as long as the descriptor is open. Raise StateError if another process has it."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError as error:
        owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise StateError(
            f"{folder}: in use by process {owner}; give each instance its own name (kafka.instance) or folder"
        ) from error
    except OSError:
        os.close(lock)
        raise
    return lock


def write_whole(path: Path, pieces: tuple[bytes, ...]) -> int:
    """Write a file that is there in full or not at all, whatever happens meanwhile; return its size. Raise OSError."""
    unfinished = path.with_name(f"{path.name}.tmp")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            for piece in pieces:
                _write_all(descriptor, piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(unfinished, path)
    except BaseException:  # Ctrl-C too
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return sum(map(len, pieces))


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _sync_folder(folder: Path) -> None:
    """Make a rename in this folder outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
