"""The files transport beyond the contract: lines, offsets, standard streams, the safety of the user's files."""

import hashlib
import io
import itertools
import json
import os
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.config import FilesConfig, OutputConfig
from streamnb.errors import (
    ConfigError,
    DutyLost,
    InputFileError,
    IoError,
    LostEvents,
    OutputClosed,
    StateError,
)
from streamnb.snapshots import DirectoryStore
from streamnb.transport import Batch, Committed, Output, Partition, Record
from streamnb.transport.files import FilesTransport, Standard
from streamnb.transport.inputs import CHUNK_BYTES
from streamnb.transport.lines import Lines
from tests.deaths import as_nobody, dies_at, killed_after
from tests.limits import files_of_at_most
from tests.stores import snapshot

EVENT_BYTES = 1000
Marks = dict[str, object]


class Place:
    """A folder with an input and outputs, and transports over them as one process after another has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.input, self.out, self.dead = folder / "in.jsonl", folder / "out.jsonl", folder / "dead.jsonl"
        self.open_ones: list[FilesTransport] = []

    def transport(self, **changes: Any) -> FilesTransport:
        """Over the files, or over what `changes` says instead."""
        paths = {"input": self.input, "predictions": self.out, "dead_letters": self.dead}
        texts = {name: None if p is None else str(p) for name, p in (paths | changes).items() if name in paths}
        files = FilesConfig(input=texts["input"], follow=changes.get("follow", False))
        output = OutputConfig(predictions=texts["predictions"], dead_letters=texts["dead_letters"])
        others = {name: value for name, value in changes.items() if name in ("clock", "stop", "standard")}
        transport = FilesTransport(files, output, event_bytes=EVENT_BYTES, **others)
        self.open_ones.append(transport)
        return transport

    def started(self, marks: Mapping[str, object] | None = None, **changes: Any) -> FilesTransport:
        """Ready to read, and on duty."""
        transport = self.transport(**changes)
        transport.open()
        transport.resume(marks)
        transport.join()
        committed = transport.committed()
        partition = Partition(str(changes.get("input", self.input)), 0)
        transport.read({partition: committed[partition].offset if committed else 0})
        return transport

    def marked(self, n_lines: int = 2) -> Marks:
        """The marks after this many lines have been answered, each with itself, and a dead letter written."""
        transport = self.started()
        records = transport.poll(0, n_lines).records
        outputs = [*map(prediction, records), Output("dead_letters", None, b"bad")]
        publish(transport, outputs, records[-1].next_offset)
        marks = transport.marks()
        transport.close(0)
        return marks

    def contents(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in self.folder.iterdir() if p.is_file()}

    def close(self) -> None:
        for transport in self.open_ones:
            transport.close(0)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    place.input.write_bytes(b"".join(b"%d\n" % i for i in range(10)))
    yield place
    place.close()


def prediction(record: Record) -> Output:
    return Output("predictions", record.key, record.value)


def publish(transport: FilesTransport, outputs: list[Output], offset: int) -> None:
    duty = transport.duty()
    assert duty is not None
    (partition,) = duty.partitions
    transport.publish(duty, outputs, {partition: Committed(offset)})


def read_all(transport: FilesTransport) -> list[Record]:
    records: list[Record] = []
    while True:
        batch = transport.poll(0, 100)
        records += batch.records
        if batch.finished:
            return records


def is_empty(batch: Batch) -> bool:
    return not (batch.records or batch.positions or batch.finished)


# Lines


@given(st.lists(st.binary().map(lambda b: b.replace(b"\n", b" "))), st.booleans(), st.lists(st.integers(1, 50)))
def test_however_the_stream_is_cut_into_chunks_the_records_are_its_lines(
    lines: list[bytes], newline_at_end: bool, sizes: list[int]
) -> None:
    data = b"\n".join(lines) + (b"\n" if newline_at_end and lines else b"")
    cut, stream = Lines(Partition("p", 0), 0, 10_000), io.BytesIO(data)
    chunks = iter([*(stream.read(size) for size in sizes), stream.read()])
    records = [record for chunk in chunks for record in cut.feed(chunk)] + cut.finish()

    starts = itertools.accumulate((len(line) + 1 for line in data.split(b"\n")), initial=0)
    expected = [(start, line) for start, line in zip(starts, data.split(b"\n"), strict=False) if line.strip()]
    assert [(record.offset, record.value) for record in records] == expected
    assert all(data[r.offset : r.next_offset].removesuffix(b"\n") == r.value for r in records)
    assert cut.offset == len(data)


def test_offsets_are_byte_offsets_of_the_lines(place: Place) -> None:
    place.input.write_text('{"a": "ü"}\r\n{"b": 1}\n')
    partition = Partition(str(place.input), 0)
    assert read_all(place.started()) == [
        Record(partition, 0, 13, None, None, '{"a": "ü"}\r'.encode()),
        Record(partition, 13, 22, None, None, b'{"b": 1}'),
    ]


@pytest.mark.parametrize("blank", [b"", b" ", b"\r", b" \t\r"])
@pytest.mark.parametrize("lines", [[b"", b"1"], [b"1", b"", b"", b"2"], [b"1", b""], [b""]])
def test_blank_lines_are_no_records_but_reading_goes_past_them(place: Place, blank: bytes, lines: list[bytes]) -> None:
    place.input.write_bytes(b"".join((line or blank) + b"\n" for line in lines))
    transport = place.started()
    batches = [transport.poll(0, 100) for _ in range(2)]
    assert [r.value for batch in batches for r in batch.records] == [line for line in lines if line]
    assert batches[0].positions == {Partition(str(place.input), 0): place.input.stat().st_size}


def test_the_end_of_a_file_that_is_not_followed_finishes_the_input(place: Place) -> None:
    transport = place.started()
    assert len(read_all(transport)) == 10
    assert transport.poll(0, 10).finished
    transport.read({Partition(str(place.input), 0): 0})
    assert len(read_all(transport)) == 10


def test_a_last_line_without_its_newline_counts_and_a_restart_goes_on_behind_it(place: Place) -> None:
    place.input.write_bytes(b"1\n2")
    first = place.started()
    records = read_all(first)
    assert [(r.value, r.next_offset) for r in records] == [(b"1", 2), (b"2", 3)]
    publish(first, [prediction(r) for r in records], 3)
    marks = first.marks()
    first.close(0)
    place.input.write_bytes(b"1\n2\n3\n")
    assert [r.value for r in read_all(place.started(marks))] == [b"3"]


def test_a_last_line_that_grew_after_it_was_counted_gives_its_rest_as_a_record(place: Place) -> None:
    place.input.write_bytes(b'{"a":')
    first = place.started()
    publish(first, [], read_all(first)[-1].next_offset)
    marks = first.marks()
    first.close(0)
    place.input.write_bytes(b'{"a":1}\n{}\n')
    assert [(r.offset, r.value) for r in read_all(place.started(marks))] == [(5, b"1}"), (8, b"{}")]


def test_a_followed_last_line_waits_for_its_newline(place: Place) -> None:
    place.input.write_bytes(b"1\n2")
    transport = place.started(follow=True)
    assert [r.value for r in transport.poll(0.1, 10).records] == [b"1"]
    assert is_empty(transport.poll(0.1, 10))
    with place.input.open("ab") as file:
        file.write(b"2\n3")
    batch = transport.poll(0.1, 10)
    assert [(r.offset, r.value, r.next_offset) for r in batch.records] == [(2, b"22", 5)]
    assert not batch.finished


@pytest.mark.parametrize("excess", [0, 1, CHUNK_BYTES])
def test_of_a_line_that_is_far_too_long_a_part_with_size_and_digest_comes(place: Place, excess: int) -> None:
    longest = max(4 * EVENT_BYTES, CHUNK_BYTES)
    line = bytes(itertools.islice(itertools.cycle(range(32, 127)), longest + excess))
    place.input.write_bytes(b"before\n" + line + b"\nafter\n")
    before, cut, after = read_all(place.started())
    assert (before.value, after.value, after.offset) == (b"before", b"after", 7 + len(line) + 1)
    assert (cut.value, cut.next_offset) == (line[:longest], after.offset)
    told = {
        "streamnb.line.size": b"%d" % len(line),
        "streamnb.line.sha256": hashlib.sha256(line).hexdigest().encode(),
    }
    assert dict(cut.headers) == (told if excess else {})


def test_a_line_that_never_ends_takes_no_memory(place: Place) -> None:
    with place.input.open("wb") as file:
        file.truncate(200_000_000)
    transport = place.started()
    tracemalloc.start()
    try:
        (record,) = read_all(transport)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
    assert dict(record.headers)["streamnb.line.size"] == b"200000000"


def test_polling_returns_in_the_middle_of_a_line_that_never_ends(place: Place) -> None:
    with place.input.open("wb") as file:
        file.truncate(10 * CHUNK_BYTES)
    transport = place.started()
    assert is_empty(transport.poll(0, 10))


# A file that is followed


def test_the_stop_flag_ends_a_wait_at_once(place: Place) -> None:
    stop = threading.Event()
    stop.set()
    transport = place.started(follow=True, stop=stop)
    begun = time.monotonic()
    assert len(transport.poll(60, 100).records) == 10
    assert is_empty(transport.poll(60, 100))
    transport.read({})
    assert is_empty(transport.poll(60, 100))
    assert time.monotonic() - begun < 30


def test_a_followed_file_that_is_cut_is_lost(place: Place) -> None:
    transport = place.started(follow=True)
    transport.poll(0.1, 100)
    place.input.write_bytes(b"0\n")
    with pytest.raises(LostEvents, match="has 2 bytes, but was to be read from 20: it was cut"):
        transport.poll(0.1, 100)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_followed_file_that_is_rotated_is_read_to_its_end_and_then_named(place: Place, replaced: bool) -> None:
    transport = place.started(follow=True)
    place.input.rename(place.folder / "in.1")
    if replaced:
        place.input.touch()
    assert len(transport.poll(0.1, 100).records) == 10
    with pytest.raises(InputFileError, match=f"{'replaced' if replaced else 'moved away'} while it was followed"):
        transport.poll(0.1, 100)


# Standard input and output


@dataclass(frozen=True)
class Pipe:
    """Both ends, each to be closed when the test wants it."""

    reader: io.FileIO
    writer: io.FileIO

    @property
    def input(self) -> Standard:
        return Standard(input=self.reader.fileno())

    @property
    def output(self) -> Standard:
        return Standard(output=self.writer.fileno())


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    with io.FileIO(reader, "rb") as reading, io.FileIO(writer, "wb") as writing:
        yield Pipe(reading, writing)


def test_standard_input_is_read_as_it_comes_and_finishes_when_it_is_closed(place: Place, pipe: Pipe) -> None:
    transport = place.started(input="-", standard=pipe.input)
    pipe.writer.write(b"1\n2")
    assert [r.value for r in transport.poll(1, 10).records] == [b"1"]
    assert is_empty(transport.poll(0.01, 10))
    pipe.writer.write(b"2\n\n3")
    pipe.writer.close()
    records = read_all(transport)
    assert [(r.source, r.value, r.next_offset) for r in records] == [("-:0:2", b"22", 5), ("-:0:6", b"3", 7)]


def test_standard_input_has_no_marks_and_nothing_to_resume(place: Place, pipe: Pipe) -> None:
    transport = place.started(input="-", standard=pipe.input)
    publish(transport, [Output("predictions", None, b"{}")], 5)
    assert transport.marks() == {}
    assert place.out.read_bytes() == b"{}\n"


def test_standard_input_cannot_be_read_again(place: Place, pipe: Pipe) -> None:
    transport = place.started(input="-", standard=pipe.input)
    pipe.writer.write(b"1\n")
    transport.poll(1, 10)
    transport.read({Partition("-", 0): 2})
    with pytest.raises(InputFileError, match="standard input is at byte 2, 0 cannot be read"):
        transport.read({Partition("-", 0): 0})


def test_standard_input_goes_on_where_it_was_after_a_pause_or_a_new_duty(place: Place, pipe: Pipe) -> None:
    transport = place.started(input="-", standard=pipe.input)
    pipe.writer.write(b"1\n2\n3\n4")
    assert [r.value for r in transport.poll(1, 1).records] == [b"1"]
    transport.read({Partition("-", 0): 2})
    assert [r.value for r in transport.poll(1, 1).records] == [b"2"]
    transport.read({})
    assert is_empty(transport.poll(0.01, 10))
    transport.read({Partition("-", 0): 4})
    pipe.writer.close()
    assert [r.value for r in read_all(transport)] == [b"3", b"4"]


def test_standard_input_that_is_closed_is_refused(place: Place, pipe: Pipe) -> None:
    closed = pipe.input
    pipe.reader.close()
    with pytest.raises(InputFileError, match="standard input cannot be read"):
        place.started(input="-", standard=closed)


def test_sigterm_while_standard_input_is_silent_ends_the_wait(place: Place, pipe: Pipe) -> None:
    def wait(tell: Callable[[int], object]) -> None:
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        transport = place.started(input="-", stop=stop, standard=pipe.input)
        os.kill(os.getpid(), signal.SIGTERM)
        tell(int(is_empty(transport.poll(1000, 10))))
        signal.pause()

    begun = time.monotonic()
    assert killed_after(1, wait) == [1]
    assert time.monotonic() - begun < 30


def test_predictions_go_to_standard_output_whole_and_in_order(place: Place, pipe: Pipe) -> None:
    lines = [b"%d" % i + b"x" * (i % 500) for i in range(5000)]
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.reader.readall()))
    reader.start()
    transport = place.started(predictions="-", standard=pipe.output)
    publish(transport, [Output("predictions", None, line) for line in lines], 1)
    pipe.writer.close()
    reader.join()
    assert read[0] == b"".join(line + b"\n" for line in lines)


def test_a_reader_of_standard_output_that_goes_ends_the_run_cleanly(place: Place, pipe: Pipe) -> None:
    transport = place.started(predictions="-", standard=pipe.output)
    pipe.reader.close()
    outputs = [Output("dead_letters", None, b"bad"), Output("predictions", None, b"{}")]
    with pytest.raises(OutputClosed, match=r"output\.predictions: -: whoever read it has gone") as closed:
        publish(transport, outputs, 5)
    assert closed.value.exit_code == 0
    assert (transport.committed(), place.dead.read_bytes()) == ({}, b"")


def test_a_reader_of_standard_output_that_hangs_is_seen_as_silence_and_left_when_stopping(
    place: Place, pipe: Pipe
) -> None:
    stop, silences = threading.Event(), []

    def clock() -> float:
        """Each look at the clock is a second later; the hundredth sets the stop flag."""
        now = next(seconds)
        if now == 100:
            silences.append(transport.silence())
            stop.set()
        return now

    seconds = itertools.count(1.0)
    transport = place.started(predictions="-", clock=clock, stop=stop, standard=pipe.output)
    assert transport.silence() == 0
    with pytest.raises(OutputClosed, match="nobody reads it, and we are to stop"):
        publish(transport, [Output("predictions", None, b"x" * 1_000_000)], 5)
    assert silences[0] > 10
    assert transport.silence() == 0


def test_dead_letters_cannot_go_to_standard_output(place: Place) -> None:
    with pytest.raises(ConfigError, match="dead_letters"):
        place.started(dead_letters="-")


# Outputs


def test_outputs_are_made_when_the_first_line_is_written(place: Place) -> None:
    transport = place.started()
    transport.marks()
    assert set(place.contents()) == {"in.jsonl"}
    publish(transport, [Output("predictions", None, b"{}")], 2)
    assert place.contents() == {"in.jsonl": place.input.read_bytes(), "out.jsonl": b"{}\n"}


def test_a_dead_letter_is_one_line_with_the_raw_bytes_in_base64(place: Place) -> None:
    headers = [
        ("streamnb.error.reason", b"not_json"),
        ("streamnb.error.message", "‼ \n".encode()),
        ("raw", b"\xff"),
    ]
    transport = place.started()
    publish(transport, [Output("dead_letters", None, b"{\xff", headers), Output("dead_letters", b"k", None)], 2)
    first, second = map(json.loads, place.dead.read_text().splitlines())
    texts = {"streamnb.error.reason": "not_json", "streamnb.error.message": "‼ \n", "raw": "\ufffd"}
    assert first == {"key": None, "value": "e/8=", "headers": texts}
    assert second == {"key": "aw==", "value": None, "headers": {}}


def test_outputs_that_are_not_configured_are_dropped(place: Place) -> None:
    transport = place.started(predictions=None, dead_letters=None)
    publish(transport, [Output("predictions", None, b"{}"), Output("dead_letters", None, b"x")], 2)
    assert transport.marks()["position"] == 2
    assert set(place.contents()) == {"in.jsonl"}


def test_the_null_device_is_an_output(place: Place) -> None:
    transport = place.started(predictions="/dev/null")
    publish(transport, [Output("predictions", None, b"{}")], 2)
    assert transport.marks()["predictions"] is None


def test_answers_under_a_settled_duty_are_not_written(place: Place) -> None:
    transport = place.started()
    old = transport.duty()
    assert old is not None
    transport.settle()
    with pytest.raises(DutyLost):
        transport.publish(old, [Output("predictions", None, b"{}")], {})
    assert set(place.contents()) == {"in.jsonl"}


def test_a_full_disk_takes_nothing_of_a_batch_and_the_next_one_all(place: Place) -> None:
    transport = place.started()
    publish(transport, [Output("predictions", None, b"1"), Output("dead_letters", None, b"1")], 2)
    before = place.contents()
    too_much = [Output("dead_letters", None, b"2"), Output("predictions", None, b"x" * 10_000)]
    with files_of_at_most(4096), pytest.raises(IoError, match=r"output\.predictions: .*: file too large"):
        publish(transport, too_much, 4)
    assert place.contents() == before
    assert transport.marks()["position"] == 2
    publish(transport, too_much, 4)
    assert place.out.stat().st_size == 10_003


def test_a_full_device_is_an_io_error(place: Place) -> None:
    transport = place.started(predictions="/dev/full")
    with pytest.raises(IoError, match="no space left on device"):
        publish(transport, [Output("predictions", None, b"{}")], 2)


def test_an_output_that_another_process_writes_is_refused(place: Place) -> None:
    first, second = place.started(), place.started()
    publish(first, [Output("predictions", None, b"{}")], 2)
    with pytest.raises(StateError, match=r"output\.predictions: .*: another process is writing to it"):
        publish(second, [Output("predictions", None, b"{}")], 2)
    assert place.out.read_bytes() == b"{}\n"


def test_lines_have_no_time_to_start_from(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"input\.start"):
        place.started().offset_at(Partition(str(place.input), 0), 1.5)


# Resuming


def test_a_restart_goes_on_at_the_marks_and_cuts_what_was_written_after_them(place: Place) -> None:
    marks = place.marked(n_lines=2)
    at_marks = place.contents()
    for path in (place.out, place.dead):
        path.write_bytes(path.read_bytes() + b"written after the marks")
    transport = place.started(marks)
    assert place.contents() == at_marks
    assert [r.value for r in transport.poll(0, 1).records] == [b"2"]
    publish(transport, [Output("predictions", None, b"more")], 6)
    assert place.out.read_bytes() == b"0\n1\nmore\n"


def test_a_death_before_the_first_real_snapshot_begins_anew(place: Place) -> None:
    first = place.started()
    marks = first.marks()
    publish(first, [Output("predictions", None, b"{}")], 2)
    first.close(0)
    second = place.started(marks)
    assert (second.committed(), place.out.read_bytes()) == ({}, b"")


def test_empty_outputs_that_were_there_before_are_used(place: Place) -> None:
    place.out.touch()
    publish(place.started(), [Output("predictions", None, b"{}")], 2)
    assert place.out.read_bytes() == b"{}\n"


def test_an_output_that_was_moved_and_named_anew_is_gone_on_with(place: Place) -> None:
    marks = place.marked()
    moved = place.out.rename(place.folder / "moved.jsonl")
    publish(place.started(marks, predictions=moved), [Output("predictions", None, b"more")], 6)
    assert moved.read_bytes() == b"0\n1\nmore\n"


def test_an_input_that_has_grown_since_is_the_same_input(place: Place) -> None:
    marks = place.marked()
    with place.input.open("ab") as file:
        file.write(b"grown\n" * 20_000)
    assert read_all(place.started(marks))[-1].value == b"grown"


@pytest.mark.parametrize("n_lines", [3, 30_000])
def test_a_difference_anywhere_in_the_head_of_the_input_is_seen(place: Place, n_lines: int) -> None:
    place.input.write_bytes(b"12345\n" * n_lines)
    marks = place.marked(n_lines)
    data = bytearray(place.input.read_bytes())
    head = min(len(data), 64 * 1024)
    for at in (0, head // 2, head - 1):
        changed = data.copy()
        changed[at] ^= 1
        place.input.write_bytes(changed)
        with pytest.raises(InputFileError, match="another input"):
            place.started(marks)


Change = Callable[[Place], dict[str, Any] | None]


def refused(place: Place, marks: Marks | None, change: Change) -> str:
    """Make the change, then start; return the message of the refusal, after which every file is as it was."""
    changed = change(place) or {}
    before = place.contents()
    with pytest.raises(InputFileError) as refusal:
        place.started(marks, **changed)
    assert place.contents() == before
    assert refusal.value.exit_code == 65
    return str(refusal.value)


NO_SNAPSHOT: dict[str, tuple[Change, str]] = {
    "predictions are there": (
        lambda p: p.out.write_bytes(b"x") and None,
        "out.jsonl: holds 1 bytes and no snapshot",
    ),
    "dead letters are there": (
        lambda p: p.dead.write_bytes(b"x") and None,
        "dead.jsonl: holds 1 bytes and no snap",
    ),
    "input missing": (lambda p: p.input.unlink(), "files.input: .*in.jsonl: cannot be read: no such file"),
    "input is a folder": (lambda p: {"input": p.folder}, "is a directory"),
    "input is a pipe": (
        lambda p: os.mkfifo(p.folder / "f") or {"input": p.folder / "f"},
        "a pipe is read with '-'",
    ),
    "folder missing": (lambda p: {"predictions": p.folder / "no" / "x"}, "there is no folder .*/no; make it"),
    "output is a folder": (lambda p: {"predictions": p.folder}, "output.predictions: .*: is a directory"),
    "output is a pipe": (
        lambda p: os.mkfifo(p.folder / "f") or {"predictions": p.folder / "f"},
        "is a pipe or a",
    ),
    "output below a file": (lambda p: {"predictions": p.input / "x"}, "cannot be written: not a directory"),
    "output is the input": (lambda p: {"predictions": p.input}, "is the same file as files.input"),
    "by another spelling": (
        lambda p: {"dead_letters": p.folder / "." / "in.jsonl"},
        "same file as files.input",
    ),
    "by a symbolic link": (
        lambda p: (p.folder / "l").symlink_to(p.input) or {"predictions": p.folder / "l"},
        "same file as files.input",
    ),
    "by a hard link": (
        lambda p: (p.folder / "l").hardlink_to(p.input) or {"predictions": p.folder / "l"},
        "same file as files.input",
    ),
    "both outputs in one": (lambda p: {"dead_letters": p.out}, "same file as output.predictions"),
    "both in one by a link": (
        lambda p: (p.folder / "l").symlink_to(p.out) or {"dead_letters": p.folder / "l"},
        "same file as output.predictions",
    ),
}


@pytest.mark.parametrize("case", NO_SNAPSHOT)
def test_without_a_snapshot_nothing_is_touched_when(place: Place, case: str) -> None:
    change, message = NO_SNAPSHOT[case]
    assert_matches(message, refused(place, None, change))


def append(path: Path, data: bytes = b"after the marks\n") -> None:
    path.write_bytes(path.read_bytes() + data)


def other_file(place: Place) -> dict[str, Any]:
    other = place.folder / "precious.txt"
    other.write_bytes(b"a file of the user's, longer than the mark")
    return {"predictions": other}


WITH_SNAPSHOT: dict[str, tuple[Change, str]] = {
    "predictions are cut": (
        lambda p: p.out.write_bytes(b"0\n") and None,
        "holds 2 bytes, but 4 had been written",
    ),
    "predictions are gone": (lambda p: p.out.unlink(), "holds 0 bytes, but 4 had been written"),
    "dead letters are cut, and predictions longer": (
        lambda p: (append(p.out), p.dead.write_bytes(b""))[0],
        r"dead.jsonl: holds 0 bytes, but \d+ had",
    ),
    "the input is another": (
        lambda p: (append(p.out), p.input.write_bytes(b"9\n" * 10))[0],
        "is another input",
    ),
    "the input is shorter": (
        lambda p: (append(p.out), p.input.write_bytes(b"0"))[0],
        "has 1 bytes, but 4 were read",
    ),
    "the input has another name": (
        lambda p: {"input": p.input.rename(p.folder / "in2")},
        "the snapshot was learned from .*in.jsonl",
    ),
    "predictions are another file": (other_file, "is not the file .*out.jsonl that was written to"),
    "predictions were written anew": (lambda p: p.out.write_bytes(b"9\n" * 10) and None, "is not the file"),
}


@pytest.mark.parametrize("case", WITH_SNAPSHOT)
def test_with_a_snapshot_nothing_is_touched_when(place: Place, case: str) -> None:
    change, message = WITH_SNAPSHOT[case]
    assert_matches(message, refused(place, place.marked(), change))


def test_a_file_that_never_had_a_mark_is_not_touched(place: Place) -> None:
    transport = place.started(predictions=None)
    publish(transport, [], 4)
    marks = transport.marks()
    transport.close(0)
    message = refused(place, marks, other_file)
    assert_matches("precious.txt: holds 42 bytes and the snapshot has no mark for it", message)


def test_with_an_empty_mark_only_the_same_path_is_cut(place: Place) -> None:
    transport = place.started()
    marks = transport.marks()
    transport.close(0)
    assert_matches("is not the file .*out.jsonl", refused(place, marks, other_file))


@pytest.mark.parametrize("marks", [{}, {"position": "4"}, {"kafka": 1}])
def test_marks_of_another_transport_are_refused(place: Place, marks: Marks) -> None:
    assert_matches("snapshot was not taken over files", refused(place, marks, lambda _: None))


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [
        ("in.jsonl", 0o000, "in.jsonl: cannot be read: permission denied"),
        ("out.jsonl", 0o444, "out.jsonl: no permission to read and write it"),
        ("dead.jsonl", 0o444, "dead.jsonl: no permission to read and write it"),
        (".", 0o555, "no permission to make files in"),
    ],
)
def test_without_permission_nothing_is_touched(open_folder: Path, name: str, mode: int, message: str) -> None:
    place = Place(open_folder)
    for path in (place.input, place.out, place.dead):
        if path.name in ("in.jsonl", name):
            path.touch()
            path.chmod(0o666)
    (open_folder / name).chmod(mode)
    assert_matches(message, as_nobody(place.started))


def assert_matches(pattern: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=pattern):
        raise RuntimeError(message)


# Exactly once


def answer_all(place: Place) -> None:
    """A small daemon: answers each line with itself, every third as a dead letter, and takes snapshots."""
    store = DirectoryStore(
        place.folder / "snapshots", "app", "a", 3, lambda name, error: pytest.fail(f"{name}: {error}")
    )
    store.open()
    newest = store.newest()
    transport = place.transport()
    transport.open()
    transport.resume(newest.marks if newest else None)
    if newest is None:
        store.save(snapshot(marks=transport.marks()))
    transport.join()
    partition = Partition(str(place.input), 0)
    learned = newest.learned.get(partition, 0) if newest else 0
    transport.read({partition: learned})
    for n in itertools.count():
        batch = transport.poll(0, 3)
        outputs = [answer(record) for record in batch.records]
        learned = batch.positions.get(partition, learned)
        publish(transport, outputs, learned)
        if n % 2 or batch.finished:
            store.save(snapshot(learned={partition: learned}, marks=transport.marks()))
        if batch.finished:
            break
    transport.close(0)
    store.close()


def answer(record: Record) -> Output:
    number = int(record.value or b"")
    return Output("dead_letters" if number % 3 == 2 else "predictions", None, record.value)


def assert_answered_once(place: Place) -> None:
    n_lines = len(place.input.read_bytes().splitlines())
    assert place.out.read_bytes() == b"".join(b"%d\n" % i for i in range(n_lines) if i % 3 != 2)
    letters = [json.loads(line)["value"] for line in place.dead.read_text().splitlines()]
    assert len(letters) == n_lines // 3 == len(set(letters))


def test_killed_at_any_change_to_a_file_every_line_is_answered_once(tmp_path: Path) -> None:
    for call in itertools.count(1):
        place = Place(tmp_path / str(call))
        place.folder.mkdir()
        place.input.write_bytes(b"".join(b"%d\n" % i for i in range(7)))
        died = dies_at(call, lambda place=place: answer_all(place))
        answer_all(place)
        assert_answered_once(place)
        if not died:
            break
    assert call > 30


def test_killed_again_and_again_every_line_is_answered_once(place: Place) -> None:
    for call in [60, 3, 25, 8, 17, 30, 12, 5, 40, 9, 33]:
        dies_at(call, lambda: answer_all(place))
    answer_all(place)
    assert_answered_once(place)
