"""The files transport beyond the contract: lines, offsets, files that grow, standard streams."""

import hashlib
import io
import itertools
import os
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamnb.errors import (
    ConfigError,
    InputFileError,
    LostEvents,
    OutputClosed,
)
from streamnb.transport import Output, Partition, Record
from streamnb.transport.files import Standard
from streamnb.transport.inputs import CHUNK_BYTES
from streamnb.transport.lines import Lines
from tests.deaths import killed_after
from tests.place import EVENT_BYTES, Place, is_empty, prediction, publish, read_all

# Lines


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure
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
    with pytest.raises(OutputClosed):
        publish(transport, [], 5)
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
