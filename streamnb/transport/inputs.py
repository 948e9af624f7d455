"""Where the bytes of the files transport come from: a regular file, or a stream such as standard input."""

import hashlib
import os
import select
import stat
import threading
from collections.abc import Callable
from typing import Protocol

from streamnb.errors import InputFileError, IoError, LostEvents, why

CHUNK_BYTES = 256 * 1024
HEAD_BYTES = 64 * 1024
# A regular file cannot be waited for; the wait ends at once when the stop flag is set.
_FOLLOW_SECONDS = 0.05
# A signal handler that only sets a flag does not end a wait for a descriptor: look at the flag this often.
_STOP_SECONDS = 0.1


class Input(Protocol):
    """Bytes in order, from a position that may be set."""

    def open(self) -> None:
        """Raise InputFileError if it cannot be read."""

    def size(self) -> int:
        """The number of bytes known so far."""

    def head(self, position: int) -> str:
        """The sha256 of the first min(64 KiB, `position`) bytes; "" for a stream."""

    def seek(self, position: int) -> None:
        """Read on from this position."""

    def read(self, seconds: float) -> bytes | None:
        """The next chunk, b"" at the end for good, None if nothing came within this time."""

    def close(self) -> None:
        """Let go of it; a second time does nothing."""


class InputFile:
    """A regular file, read at offsets of our own. With `follow` its end is not the end: more may come."""

    def __init__(self, path: str, follow: bool, clock: Callable[[], float], stop: threading.Event) -> None:
        self._path, self._follow, self._clock, self._stop = path, follow, clock, stop
        self._position = 0
        self._descriptor = -1

    def open(self) -> None:
        """Open it. Raise InputFileError if it is not there, not readable or not a regular file."""
        what = f"files.input: {self._path}"
        try:
            mode = os.stat(self._path).st_mode
            if not stat.S_ISREG(mode):
                kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
                raise InputFileError(f"{what}: is {kind}; a pipe is read with '-' (standard input)")
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InputFileError(f"{what}: cannot be read: {why(error)}") from error

    def size(self) -> int:
        """The file's size now."""
        return os.fstat(self._descriptor).st_size

    def head(self, position: int) -> str:
        """Return the sha256 of the first min(64 KiB, `position`) bytes."""
        return head_digest(self._descriptor, position)

    def seek(self, position: int) -> None:
        """Read on from this position."""
        self._position = position

    def read(self, seconds: float) -> bytes | None:
        """See `Input.read`. Raise LostEvents if the file was cut, InputFileError if it was replaced."""
        deadline = self._clock() + seconds
        while True:
            try:
                chunk = os.pread(self._descriptor, CHUNK_BYTES, self._position)
            except OSError as error:
                raise IoError(f"files.input: {self._path}: reading failed: {why(error)}") from error
            if chunk:
                self._position += len(chunk)
                return chunk
            self._check_same()
            if not self._follow:
                return b""
            left = deadline - self._clock()
            if left <= 0 or self._stop.wait(min(left, _FOLLOW_SECONDS)):
                return None

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _check_same(self) -> None:
        """At the end of what there is: a file that was cut, moved or replaced will never go on here."""
        mine = os.fstat(self._descriptor)
        if mine.st_size < self._position:
            raise LostEvents(
                f"files.input: {self._path}: has {mine.st_size} bytes, but was to be read from "
                f"{self._position}: it was cut or written anew"
            )
        if not self._follow:
            return
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            raise InputFileError(
                f"files.input: {self._path}: was {'moved away' if there is None else 'replaced'} "
                f"while it was followed; all its {self._position} bytes have been read"
            )


class InputStream:
    """Standard input: read once, in order; there is no way back."""

    def __init__(self, descriptor: int, clock: Callable[[], float], stop: threading.Event) -> None:
        self._descriptor, self._clock, self._stop = descriptor, clock, stop
        self._position = 0

    def open(self) -> None:
        """Raise InputFileError if the descriptor is closed."""
        try:
            os.fstat(self._descriptor)
        except OSError as error:
            raise InputFileError(f"files.input: -: standard input cannot be read: {why(error)}") from error

    def size(self) -> int:
        """What has come so far."""
        return self._position

    def head(self, position: int) -> str:  # noqa: ARG002 - of a stream nothing is left to look at
        """Nothing to tell it by."""
        return ""

    def seek(self, position: int) -> None:
        """Raise InputFileError: only the present position can be read."""
        if position != self._position:
            raise InputFileError(
                f"files.input: -: standard input is at byte {self._position}, {position} cannot be read"
            )

    def read(self, seconds: float) -> bytes | None:
        """See `Input.read`."""
        deadline = self._clock() + seconds
        if not wait_for(self._descriptor, select.POLLIN, deadline, self._clock, self._stop):
            return None
        try:
            chunk = os.read(self._descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            raise IoError(f"files.input: -: reading failed: {why(error)}") from error
        self._position += len(chunk)
        return chunk

    def close(self) -> None:
        """Leave standard input open: it is not ours."""


def wait_for(descriptor: int, event: int, deadline: float, clock: Callable[[], float], stop: threading.Event) -> bool:
    """Wait for the descriptor; False if the deadline, or the stop flag, came before it was ready."""
    poll = select.poll()
    poll.register(descriptor, event)
    while True:
        left = deadline - clock()
        if poll.poll(1000 * max(0.0, min(left, _STOP_SECONDS))):
            return True
        if left <= _STOP_SECONDS or stop.is_set():
            return False


def head_digest(descriptor: int, position: int) -> str:
    """Return the sha256 of a file's first min(64 KiB, `position`) bytes, in hexadecimal."""
    return hashlib.sha256(os.pread(descriptor, min(HEAD_BYTES, position), 0)).hexdigest()
