"""Where the answers of the files transport go: a file that is appended to and marked, or a stream."""

import fcntl
import os
import select
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from streamnb.errors import InputFileError, IoError, OutputClosed, StateError, why
from streamnb.transport.inputs import head_digest, wait_for

# A write of this size to a pipe that is ready never blocks (POSIX).
_SLICE_BYTES = select.PIPE_BUF
# Once the stop flag is set, a reader of standard output gets this long to take what is left.
_GRACE_SECONDS = 2.0


class Mark(msgspec.Struct, frozen=True):
    """How far an output had been written at a snapshot."""

    path: str
    size: int
    head: str
    """The sha256 of its first min(64 KiB, size) bytes."""


class Sink(Protocol):
    """One output."""

    def check(self) -> None:
        """Raise InputFileError if it cannot be written to; touch nothing."""

    def check_mark(self, mark: Mark | None, resumed: bool) -> None:
        """Raise InputFileError if what is there is not what was written up to the mark; touch nothing."""

    def truncate(self, mark: Mark | None) -> None:
        """Take away what was written after the mark, which has been checked."""

    def append(self, data: bytes) -> None:
        """Write all of it. Raise IoError or OutputClosed."""

    def roll_back(self) -> None:
        """Take the last `append` back, as far as it can be taken back."""

    def mark(self) -> Mark | None:
        """Make what was written durable and return its mark, None where nothing can be marked."""

    def silence(self) -> float:
        """Seconds for which nobody has taken what we write. Any thread may ask."""

    def close(self) -> None:
        """Let go of it."""


class AppendedFile:
    """A regular file, made when the first line is written to it. See `Sink`."""

    def __init__(self, name: str, path: str) -> None:
        self._what, self._path = f"output.{name}: {path}", path
        self._descriptor = -1
        self._size_before: int | None = None
        """Before the last append; None if that did not come to write."""

    def check(self) -> None:
        try:
            mode = os.stat(self._path).st_mode
        except FileNotFoundError:
            self._check_folder()
            return
        except OSError as error:
            raise InputFileError(f"{self._what}: cannot be written: {why(error)}") from error
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or a socket"
            raise InputFileError(f"{self._what}: is {kind}, not a file; '-' is standard output")
        if not os.access(self._path, os.R_OK | os.W_OK):
            raise InputFileError(f"{self._what}: no permission to read and write it")

    def check_mark(self, mark: Mark | None, resumed: bool) -> None:
        size = self._size()
        if mark is None:
            if size:
                told = "the snapshot has no mark for it" if resumed else "no snapshot goes with it"
                raise InputFileError(f"{self._what}: holds {size} bytes and {told}; move it away, or name another file")
        elif size < mark.size:
            raise InputFileError(
                f"{self._what}: holds {size} bytes, but {mark.size} had been written at the snapshot; "
                "bring them back, or remove the snapshots too and begin anew"
            )
        elif size > 0 and not self._ours(mark):
            raise InputFileError(
                f"{self._what}: is not the file {mark.path} that was written to before the snapshot, "
                f"and would be cut to {mark.size} bytes; move it away, or name the file that was written to"
            )

    def truncate(self, mark: Mark | None) -> None:
        size = mark.size if mark else 0
        if self._size() > size:
            self._open()
            with self._refusal():
                os.ftruncate(self._descriptor, size)

    def append(self, data: bytes) -> None:
        self._size_before = None
        self._open()
        with self._refusal():
            self._size_before = os.fstat(self._descriptor).st_size
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]

    def roll_back(self) -> None:
        if self._size_before is not None:
            with self._refusal():
                os.ftruncate(self._descriptor, self._size_before)

    def mark(self) -> Mark:
        if self._descriptor < 0:
            size = self._size()
            return Mark(self._path, size, self._head(size))
        with self._refusal():
            os.fsync(self._descriptor)
            size = os.fstat(self._descriptor).st_size
            return Mark(self._path, size, head_digest(self._descriptor, size))

    def silence(self) -> float:
        return 0.0

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _check_folder(self) -> None:
        folder = Path(self._path).parent
        if not folder.is_dir():
            raise InputFileError(f"{self._what}: there is no folder {folder}; make it first")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputFileError(f"{self._what}: no permission to make files in {folder}")

    def _ours(self, mark: Mark) -> bool:
        """Whether the file begins as ours did; where nothing had been written yet only the path can tell."""
        return self._head(mark.size) == mark.head if mark.size else self._path == mark.path

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise InputFileError(f"{self._what}: cannot be written: {why(error)}") from error

    def _head(self, position: int) -> str:
        try:
            with open(self._path, "rb") as file:
                return head_digest(file.fileno(), position)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise InputFileError(f"{self._what}: cannot be read: {why(error)}") from error

    def _open(self) -> None:
        if self._descriptor >= 0:
            return
        new = not os.path.exists(self._path)
        with self._refusal():
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if new:  # else a power cut could leave a snapshot whose marked output is not there
                    _sync(Path(self._path).parent)
            except OSError:
                os.close(descriptor)
                raise
        self._descriptor = descriptor

    @contextmanager
    def _refusal(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise StateError(f"{self._what}: another process is writing to it") from error
        except OSError as error:
            raise IoError(f"{self._what}: cannot be written: {why(error)}") from error


class OutputStream:
    """Standard output, or a device such as /dev/null: what is written cannot be marked or taken back."""

    def __init__(
        self, name: str, path: str, descriptor: int, clock: Callable[[], float], stop: threading.Event
    ) -> None:
        self._what, self._path = f"output.{name}: {path}", path
        self._clock, self._stop = clock, stop
        self._descriptor = descriptor
        self._waiting_since: float | None = None

    def check(self) -> None:
        try:
            if self._path != "-":
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            os.fstat(self._descriptor)
        except OSError as error:
            raise InputFileError(f"{self._what}: cannot be written: {why(error)}") from error

    def check_mark(self, mark: Mark | None, resumed: bool) -> None:
        pass

    def truncate(self, mark: Mark | None) -> None:
        pass

    def append(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            self._wait()
            try:
                left = left[os.write(self._descriptor, left[:_SLICE_BYTES]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise OutputClosed(f"{self._what}: whoever read it has gone") from error
            except OSError as error:
                raise IoError(f"{self._what}: cannot be written: {why(error)}") from error

    def roll_back(self) -> None:
        pass

    def mark(self) -> None:
        return None

    def silence(self) -> float:
        since = self._waiting_since
        return 0.0 if since is None else max(0.0, self._clock() - since)

    def close(self) -> None:
        if self._path != "-" and self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _wait(self) -> None:
        """Wait until the reader takes more, for ever if it must be, but not for long once we are to stop."""
        if self._ready(0.0):
            return
        self._waiting_since = self._clock()
        stopping = None
        try:
            while not self._ready(_GRACE_SECONDS):
                if self._stop.is_set():
                    stopping = stopping or self._clock()
                    if self._clock() - stopping > _GRACE_SECONDS:
                        raise OutputClosed(f"{self._what}: nobody reads it, and we are to stop")
        finally:
            self._waiting_since = None

    def _ready(self, seconds: float) -> bool:
        deadline = self._clock() + seconds
        return wait_for(self._descriptor, select.POLLOUT, deadline, self._clock, self._stop)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
