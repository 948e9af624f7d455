"""The transport over plain files: one labelled partition of JSON lines, answers appended to files.

The offset of a record is the byte offset of its line. What was published is what was learned, always:
`marks` makes the outputs durable, the snapshot keeps their sizes beside the input position, and `resume` cuts
them back to it, so a process killed at any moment leaves outputs in which every answer stands once.

Lines: a blank line (empty, or ASCII whitespace) is no record, but reading goes past it. The last line may
lack its newline. With `follow` it waits for it. Without, the end of the file ends it; if the file grows
later, a restart goes on behind what was read: a newline there is a blank line, anything else up to the next
newline is a record of its own. Of a line above four times `event_bytes` (at least 256 KiB) only that much is
kept, see `Lines`.

Standard input has no position to resume, so `marks` and `resume` leave it out. An answer on standard output
cannot be taken back: it comes at least once. An output that is not configured drops what is sent to it.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from streamnb.config import FilesConfig, OutputConfig
from streamnb.errors import ConfigError, DutyLost, InputFileError, OutputClosed, StreamnbError
from streamnb.transport import Batch, Committed, Duty, Extent, Output, Partition, Record, runs_of
from streamnb.transport import Sink as SinkName
from streamnb.transport.inputs import CHUNK_BYTES, Input, InputFile, InputStream
from streamnb.transport.lines import Lines
from streamnb.transport.outputs import AppendedFile, Mark, OutputStream, Sink

_KEPT_EVENTS = 4
_TOPIC_ID = "file"


class _Marks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `marks` returns, as JSON values."""

    input: str
    position: int | None
    """None while nothing has been published."""
    metadata: str
    head: str
    """The sha256 of the input's first min(64 KiB, position) bytes."""
    predictions: Mark | None
    dead_letters: Mark | None


@dataclass(frozen=True, slots=True)
class Standard:
    """The descriptors that '-' stands for."""

    input: int = 0
    output: int = 1


class FilesTransport:
    """See `streamnb.transport.Transport`. `clock` only measures waits; `stop` ends them early."""

    def __init__(
        self,
        files: FilesConfig,
        output: OutputConfig,
        *,
        event_bytes: int,
        clock: Callable[[], float] = time.monotonic,
        stop: threading.Event | None = None,
        standard: Standard = Standard(),
    ) -> None:
        self._path = files.input or ""
        self._outputs = {"predictions": output.predictions, "dead_letters": output.dead_letters}
        self._clock, self._stop = clock, stop or threading.Event()
        self._standard = standard
        self._partition = Partition(self._path, 0)
        self._longest = max(_KEPT_EVENTS * event_bytes, CHUNK_BYTES)
        self._input: Input = (
            InputStream(standard.input, self._clock, self._stop)
            if self._path == "-"
            else InputFile(self._path, files.follow, self._clock, self._stop)
        )
        self._sinks: dict[str, Sink] = {}
        self._committed: Committed | None = None
        self._duty: Duty | None = None
        self._closed: OutputClosed | None = None
        self._reading = False
        self._told = 0
        """The position that the engine knows."""
        self._lines = Lines(self._partition, 0, self._longest)
        self._waiting: list[Record] = []
        self._ended = False

    def open(self) -> None:
        """Open the input, check the outputs without touching them. Raise InputFileError or ConfigError."""
        if not self._path:
            raise ConfigError("files.input: is missing: a path, or '-' for standard input")
        if self._outputs["dead_letters"] == "-":
            raise ConfigError("output.dead_letters: '-' is not possible: standard output is for predictions")
        self._sinks = {n: self._sink(n, path) for n, path in self._outputs.items() if path is not None}
        self._check_distinct()
        self._input.open()
        for sink in self._sinks.values():
            sink.check()

    def resume(self, marks: Mapping[str, object] | None) -> None:
        """Check the files against the marks, or raise InputFileError; then cut the outputs to them."""
        found = self._fitting(marks)
        for name, sink in self._sinks.items():
            sink.truncate(getattr(found, name, None))
        if found and found.position is not None:
            self._committed = Committed(found.position, found.metadata)

    def check_marks(self, marks: Mapping[str, object] | None) -> None:
        """Raise InputFileError if `resume` would; touch nothing."""
        self._fitting(marks)

    def marks(self) -> dict[str, object]:
        """Make the outputs durable; return their sizes and the input position that belongs to them."""
        written = {name: sink.mark() for name, sink in self._sinks.items()}
        if self._path == "-":
            return {}
        at = self._committed
        found = _Marks(
            input=self._path,
            position=at.offset if at else None,
            metadata=at.metadata if at else "",
            head=self._input.head(at.offset if at else 0),
            predictions=written.get("predictions"),
            dead_letters=written.get("dead_letters"),
        )
        values: dict[str, object] = msgspec.to_builtins(found)
        return values

    def extents(self) -> Mapping[Partition, Extent]:
        """One labelled partition, from 0 to the size of the file or to what has come of the stream."""
        return {self._partition: Extent("labelled", 0, self._input.size(), _TOPIC_ID)}

    def restore_ends(self) -> Mapping[Partition, int]:
        """None: the snapshot's position is where answering goes on."""
        return {}

    def offset_at(self, partition: Partition, seconds: float) -> int:
        """Raise ConfigError: lines have no times of their own."""
        raise ConfigError(
            f"input.start: is a time ({seconds:.0f}), but the lines of {partition.topic} have none: "
            "use earliest or latest"
        )

    def committed(self) -> Mapping[Partition, Committed]:
        """What was resumed or published; nothing before the first of these."""
        return {} if self._committed is None else {self._partition: self._committed}

    def join(self) -> None:
        """Take duty, at once: nobody else can have it."""
        if self._duty is None:
            self.settle()

    def duty(self) -> Duty | None:
        """The duty since `join`."""
        return self._duty

    def read(self, positions: Mapping[Partition, int]) -> None:
        """Read on from this byte, which begins a line; read nothing if the partition is not named.

        Where reading has come to, nothing that waits in memory is lost: standard input has no way back.
        """
        self._reading = self._partition in positions
        if self._reading and positions[self._partition] != self._told:
            self._restart(positions[self._partition])

    def poll(self, seconds: float, limit: int) -> Batch:
        """See `Transport.poll`. Raise LostEvents if the file was cut, InputFileError if it was replaced."""
        if not self._reading:
            self._stop.wait(seconds)
            return Batch()
        deadline = self._clock() + seconds
        while not self._waiting and not self._ended:
            chunk = self._input.read(max(0.0, deadline - self._clock()))
            if chunk is None:
                break
            self._waiting = self._lines.feed(chunk) if chunk else self._lines.finish()
            self._ended = not chunk
            if self._clock() >= deadline:
                break
        return self._batch(limit)

    def publish(self, duty: Duty, outputs: Sequence[Output], offsets: Mapping[Partition, Committed]) -> None:
        """Append the outputs. Raise DutyLost for a duty that is not in force, IoError, OutputClosed."""
        if duty is not self._duty:
            raise DutyLost(f"{self._path}: the answers belong to a duty that was settled meanwhile")
        if self._closed:  # else the offsets of answers that nobody got could be published without them
            raise self._closed
        lines: dict[SinkName, list[bytes]] = {"dead_letters": [], "predictions": []}
        for output in outputs:
            line = _dead_letter_line(output) if output.sink == "dead_letters" else output.value
            if line is not None:
                lines[output.sink].append(line)
        self._append({name: b"\n".join([*found, b""]) for name, found in lines.items() if found})
        self._committed = offsets.get(self._partition, self._committed)

    def settle(self) -> None:
        """Begin a new duty, from what was last published."""
        self._duty = Duty(frozenset([self._partition]), self.committed())

    def output_limit(self, sink: SinkName) -> int | None:  # noqa: ARG002  # the Protocol's; a file takes any line
        return None

    def drain(self) -> None:
        """Nothing to hurry: only a reader of standard output is waited for, and not for long after `stop`."""

    def silence(self) -> float:
        """Seconds for which whoever reads standard output has taken nothing; 0 in all other cases."""
        return max((sink.silence() for sink in self._sinks.values()), default=0.0)

    def close(self, seconds: float) -> None:  # noqa: ARG002 - nothing here takes time
        """Close the files."""
        self._input.close()
        for sink in self._sinks.values():
            sink.close()

    def _fitting(self, marks: Mapping[str, object] | None) -> _Marks | None:
        """The marks, once input and outputs are known to fit them."""
        found = self._read_marks(marks) if marks is not None and self._path != "-" else None
        if found:
            self._check_input(found)
        for name, sink in self._sinks.items():
            sink.check_mark(getattr(found, name, None), resumed=found is not None)
        return found

    def _restart(self, position: int) -> None:
        self._input.seek(position)
        self._lines = Lines(self._partition, position, self._longest)
        self._waiting = []
        self._ended = False
        self._told = position

    def _batch(self, limit: int) -> Batch:
        records, self._waiting = self._waiting[:limit], self._waiting[limit:]
        position = records[-1].next_offset if self._waiting else self._lines.offset
        moved = {self._partition: position} if position != self._told else {}
        self._told = position
        return Batch(runs_of(records), moved, finished=self._ended)

    def _append(self, data: Mapping[SinkName, bytes]) -> None:
        begun: list[Sink] = []
        try:
            for name, lines in data.items():
                if sink := self._sinks.get(name):
                    begun.append(sink)
                    sink.append(lines)
        except StreamnbError as error:
            self._closed = error if isinstance(error, OutputClosed) else None
            for sink in begun:
                sink.roll_back()
            raise

    def _sink(self, name: str, path: str) -> Sink:
        if path == "-" or _is_device(path):
            return OutputStream(name, path, self._standard.output, self._clock, self._stop)
        return AppendedFile(name, path)

    def _check_distinct(self) -> None:
        """Raise InputFileError if two of the files are one, by whatever names."""
        named = {"files.input": self._path, **{f"output.{n}": p for n, p in self._outputs.items() if p}}
        seen: dict[object, str] = {}
        for name, path in named.items():
            if path != "-" and not _is_device(path):
                other = seen.setdefault(_identity(path), name)
                if other != name:
                    raise InputFileError(f"{name}: {path}: is the same file as {other}; it was not touched")

    def _read_marks(self, marks: Mapping[str, object]) -> _Marks:
        try:
            return msgspec.convert(marks, _Marks)
        except msgspec.ValidationError as error:
            raise InputFileError(
                f"files.input: {self._path}: the snapshot was not taken over files ({error}); use another app name"
            ) from error

    def _check_input(self, found: _Marks) -> None:
        what, position = f"files.input: {self._path}", found.position or 0
        if found.input != self._path:
            raise InputFileError(
                f"{what}: the snapshot was learned from {found.input}; name the input as it was named then, "
                "or use another app name"
            )
        if self._input.size() < position:
            raise InputFileError(
                f"{what}: has {self._input.size()} bytes, but {position} were read before the snapshot; "
                "it was cut or is another file"
            )
        if self._input.head(position) != found.head:
            raise InputFileError(f"{what}: is another input than the snapshot has learned: its first bytes differ")


def _dead_letter_line(output: Output) -> bytes:
    headers = {name: value.decode(errors="replace") for name, value in output.headers}
    return msgspec.json.encode({"key": output.key, "value": output.value, "headers": headers})


def _is_device(path: str) -> bool:
    try:
        return stat.S_ISCHR(os.stat(path).st_mode)
    except OSError:
        return False


def _identity(path: str) -> object:
    """What two names of one file have in common, whether it is there yet or not."""
    try:
        there = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return there.st_dev, there.st_ino
