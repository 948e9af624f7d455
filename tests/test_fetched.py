"""What is taken from kafka-python in columns is, record by record, what it makes of the same bytes itself."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from streamnb.transport import Partition, Record
from streamnb.transport.kafka_python import fetched
from streamnb.transport.kafka_python.fetched import Fetched, Unreadable, unpacked
from tests.raw_records import NotUtf8

TP = TopicPartition("events", 3)
EVERYTHING = 1 << 60
BY_BROKER = 0x08
CRC_AT, CRC_FROM, FIRST_COUNT_AT, RECORDS_AT = 17, 21, 57, 61

headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=4)), max_size=3)
nullable = st.none() | st.binary(max_size=200)
records = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-1, 2**42), nullable, nullable, headers), min_size=1, max_size=6
)


class Written(NamedTuple):
    """One batch of the log."""

    records: Sequence[tuple[int, int, bytes | None, bytes | None, Any]]
    """Of each: how many offsets before it are missing, milliseconds, key, value, headers."""
    codec: int = 0
    by_broker: bool = False
    producer: int = -1


batches = st.lists(
    st.builds(Written, records, st.integers(0, 4), st.booleans(), st.sampled_from([-1, 7, 8])), min_size=1, max_size=4
)


class Aborted(NamedTuple):
    first_offset: int
    producer_id: int


def built(batch: Written, base: int) -> tuple[bytes, int]:
    """The bytes of a batch, and the offset behind it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=batch.codec,
        is_transactional=batch.producer >= 0,
        producer_id=batch.producer,
        producer_epoch=0,
        base_sequence=-1 if batch.producer < 0 else 0,
        batch_size=1 << 20,
    )
    offset = -1
    for gap, milliseconds, key, value, named in batch.records:
        offset += 1 + gap
        builder.append(offset, milliseconds, key, value, named)
    whole = bytearray(builder.build())
    whole[:8] = struct.pack(">q", base)
    whole[23:27] = struct.pack(">i", offset)  # the builder counts records, of which some are missing here
    if batch.by_broker:
        whole[CRC_FROM + 1] |= BY_BROKER
    return signed(whole), base + offset + 1


def signed(batch: bytearray) -> bytes:
    """The batch with the checksum that it should have."""
    batch[CRC_AT:CRC_FROM] = struct.pack(">I", calc_crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)


def log_of(batches: Sequence[Written], base: int = 0) -> list[bytes]:
    found = []
    for batch in batches:
        data, base = built(batch, base)
        found.append(data)
    return found


def opened(kind: Any, data: bytes, start: int = 0, aborted: Sequence[Aborted] = ()) -> Any:
    return kind(
        start,
        TP,
        MemoryRecords(data),
        isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=list(aborted),
    )


def ours(part: Fetched) -> list[Record]:
    return [record for run, _ in part.take(EVERYTHING) for record in run]


def theirs(part: Any) -> list[Record]:
    return [
        Record(
            Partition(*TP),
            record.offset,
            record.offset + 1,
            None if record.timestamp < 0 else record.timestamp / 1000,
            record.key,
            record.value,
            tuple(record.headers),
        )
        for record in part.take(EVERYTHING)
    ]


@settings(deadline=None)
@given(batches, st.integers(0, 30), st.integers(0, 2**40))
def test_records_are_what_the_client_makes_of_them(log: list[Written], start: int, base: int) -> None:
    data = b"".join(log_of(log, base))
    mine, its = opened(Fetched, data, base + start), opened(Fetcher.PartitionRecords, data, base + start)
    assert ours(mine) == theirs(its)
    assert (mine.next_fetch_offset, mine.leader_epoch) == (its.next_fetch_offset, its.leader_epoch)
    assert not mine  # it has been drained, so that the next request may be sent


@settings(deadline=None)
@given(batches, st.sets(st.sampled_from([7, 8])))
def test_what_was_aborted_is_left_out_as_the_client_leaves_it_out(log: list[Written], failed: set[int]) -> None:
    data, aborted = b"".join(log_of(log)), [Aborted(0, producer) for producer in failed]
    mine, its = opened(Fetched, data, 0, aborted), opened(Fetcher.PartitionRecords, data, 0, aborted)
    assert ours(mine) == theirs(its)
    assert mine.next_fetch_offset == its.next_fetch_offset


ONE = (0, 1000, b"k", b"v", [("h", b"1")])
PLAIN, TRANSACTION = Written([ONE, ONE]), Written([ONE], producer=7)


def ended(base: int, *, commit: bool) -> bytes:
    """The broker's own record at the end of a transaction of producer 7."""
    key = struct.pack(">hh", 0, commit)
    data, _ = built(Written([(0, 1000, key, b"\0\0\0\0\0\0", [])], producer=7), base)
    control = bytearray(data)
    control[CRC_FROM + 1] |= DefaultRecordBatch.CONTROL_MASK
    return signed(control)


def test_the_end_of_an_aborted_transaction_is_where_its_producer_counts_again() -> None:
    before, after = built(TRANSACTION, 0)[0], built(TRANSACTION, 2)[0]
    part = opened(Fetched, before + ended(1, commit=False) + after, 0, [Aborted(0, 7)])
    assert [record.offset for record in ours(part)] == [2]
    part = opened(Fetched, before + ended(1, commit=True) + after)
    assert [record.offset for record in ours(part)] == [0, 2]
    (piece,) = opened(Fetched, before + ended(1, commit=False), 0, [Aborted(0, 7)]).take(EVERYTHING)
    assert (len(piece.run), piece.end) == (0, 2)


def test_a_marker_whose_record_was_compacted_away_is_passed() -> None:
    marker = bytearray(ended(0, commit=True)[:RECORDS_AT])
    marker[8:12] = struct.pack(">i", RECORDS_AT - 12)  # its size, without the record
    marker[FIRST_COUNT_AT:RECORDS_AT] = bytes(4)
    part = opened(Fetched, signed(marker) + built(PLAIN, 1)[0])
    assert [record.offset for record in ours(part)] == [1, 2]


def test_what_is_too_much_to_be_unpacked_at_once_is_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log, found, start = log_of([PLAIN, PLAIN, PLAIN]), [], 0
    monkeypatch.setattr(fetched, "MOST_BYTES", 1)
    for at in range(3):
        (piece,) = opened(Fetched, b"".join(log[at:]), start).take(EVERYTHING)
        start = piece.end
        found += [record.offset for record in piece.run]
    assert (found, start) == ([0, 1, 2, 3, 4, 5], 6)


@given(batches, st.integers(0, 30))
@settings(deadline=None)
def test_pieces_end_where_the_next_begins(log: list[Written], start: int) -> None:
    data = b"".join(log_of(log))
    ends = [end for _, end in opened(Fetched, data, start).take(EVERYTHING)]
    assert ends == ([len_of(log)] if len_of(log) > start else [])


def len_of(log: Sequence[Written]) -> int:
    """The offset behind it."""
    return sum(1 + gap for batch in log for gap, *_ in batch.records)


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_of_before_kafka_0_11_are_read_too(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    builder.append(0, 5000, b"k", None)
    builder.append(1, 6000, None, b"v")
    data = bytes(builder.build()) + log_of([PLAIN], 2)[0]
    found = ours(opened(Fetched, data))
    assert [(r.offset, r.timestamp, r.key, r.value) for r in found[:2]] == [
        (0, 5.0 if magic else None, b"k", None),
        (1, 6.0 if magic else None, None, b"v"),
    ]
    assert [record.offset for record in found] == [0, 1, 2, 3]
    assert ours(opened(Fetched, data, 1)) == found[1:]


def test_header_names_that_are_not_utf_8_have_question_marks() -> None:
    (data,) = log_of([Written([(0, 1000, None, b"v", [(NotUtf8(), b"1"), ("é", None)])])])
    assert ours(opened(Fetched, data))[0].headers == (("??", b"1"), ("é", None))


def test_what_comes_before_a_batch_that_cannot_be_read_is_taken_first() -> None:
    first, second, third = log_of([PLAIN, PLAIN, PLAIN])
    spoilt = second[:-1] + bytes([second[-1] ^ 1])
    part = opened(Fetched, first + spoilt + third)
    assert [record.offset for record in ours(part)] == [0, 1]
    assert (part.next_fetch_offset, bool(part)) == (2, False)
    with pytest.raises(Unreadable, match=r"^events:3 at offset 2$") as caught:
        opened(Fetched, spoilt + third, 2).take(EVERYTHING)
    assert isinstance(caught.value.__cause__, CorruptRecordError)
    with pytest.raises(Unreadable, match=r"^events:3 at offset 3$"):  # of which the first record has been read
        opened(Fetched, spoilt + third, 3).take(EVERYTHING)


class Bytes:
    """A record batch's records, read by the letter of the protocol's description; IndexError behind their end."""

    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.text):
            raise IndexError(size)
        self.at += size
        return self.text[self.at - size : self.at]

    def number(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)

    def string(self) -> bytes | None:
        size = self.number()
        return None if size < 0 else self.take(size)

    def record(self) -> tuple[int, int, bytes | None, bytes | None, list[tuple[bytes | None, bytes | None]]]:
        size = self.number()
        own = Bytes(self.take(size)) if size > 0 else Bytes(b"")
        own.take(1)
        milliseconds, offset, key, value = own.number(), own.number(), own.string(), own.string()
        count = own.number()
        named = [(own.string(), own.string()) for _ in range(count)]
        if own.at < size or count < 0 or None in dict(named):
            raise IndexError(size)
        return offset, milliseconds, key, value, named


def plainly(body: bytes, count: int) -> list[Any] | None:
    text = Bytes(body)
    try:
        found = [text.record() for _ in range(count)]
    except IndexError:
        return None
    return found if text.at == len(body) else None


@settings(deadline=None, max_examples=500)
@given(st.data(), st.sampled_from([PLAIN, Written([(0, 0, None, None, [])])]))
def test_records_that_do_not_fill_their_batch_are_refused_whatever_its_checksum(
    data: st.DataObject, batch: Written
) -> None:
    """And no count or length, true or not, reads beyond it or asks for more memory than it has bytes."""
    whole = bytearray(log_of([batch])[0])
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(FIRST_COUNT_AT, len(whole) - 1))] = data.draw(st.integers(0, 255))
    expected = plainly(bytes(whole[RECORDS_AT:]), struct.unpack_from(">i", whole, FIRST_COUNT_AT)[0])
    run, n_whole = unpacked(Partition(*TP), [DefaultRecordBatch(signed(whole))])
    assert (n_whole == 1) == (expected is not None)
    assert [(r.key, r.value) for r in run] == [(key, value) for _, _, key, value, _ in expected or ()]
    assert [[value for _, value in r.headers] for r in run] == [[v for _, v in r[-1]] for r in expected or ()]


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        (b"\x10\0\0\0\x02k\x02v\0", True),  # 8 bytes: attributes, time, offset, key, value, headers
        (b"\x10\0\0\0\x06k\x02v\0", False),  # a key of 3 bytes takes in what follows
        (b"\x10\0\0\0\x10k\x02v\0", False),  # a key that goes on behind the record
        (b"\x18\0\0\0\x02k\xfe\xff\xff\xff\x0f", False),  # the longest value there is
        (b"\x0e\0\0\0\x02k\x02v\0", False),  # a record of 7 bytes, less than its parts
        (b"\x12\0\0\0\x02k\x02v\0", False),  # one of 9, in a batch that has 8
        (b"\x11\0\0\0\x02k\x02v\0", False),  # a negative length
        (b"\x14\0\0\0\x02k\x02v\x02\0\x01", True),  # a header of no name and null
        (b"\x14\0\0\0\x02k\x02v\x02\x01\x01", False),  # a header whose name is null
        (b"", False),  # nothing at all
        (b"\x80", False),  # a number that does not end
        (b"\x24\0" + b"\x80" * 10 + b"\x01\0\x02k\x02v\0", False),  # nor within 64 bits
        (b"\x24\0\0\0\x02k" + b"\xfe" + b"\xff" * 8 + b"\x01v\0", False),  # the longest value there could be
    ],
)
def test_a_record_is_refused_where_its_parts_do_not_add_up(body: bytes, fits: bool) -> None:
    whole = bytearray(log_of([PLAIN])[0][:RECORDS_AT] + body)
    whole[FIRST_COUNT_AT:RECORDS_AT] = struct.pack(">i", 1)
    run, n_whole = unpacked(Partition(*TP), [DefaultRecordBatch(signed(whole))])
    assert (n_whole, [(r.key, r.value) for r in run]) == ((1, [(b"k", b"v")]) if fits else (0, []))


def test_a_record_within_a_record_is_none() -> None:
    inner = b"\x10\0\0\0\x02k\x02v\0"
    whole = bytearray(log_of([PLAIN])[0][:RECORDS_AT] + b"\x22" + inner[1:] + inner)
    whole[FIRST_COUNT_AT:RECORDS_AT] = struct.pack(">i", 2)
    assert unpacked(Partition(*TP), [DefaultRecordBatch(signed(whole))])[1] == 0


def test_nothing_behind_what_cannot_be_read_is_taken() -> None:
    whole = bytearray(built(PLAIN, 2)[0])
    whole[FIRST_COUNT_AT + 3] += 1
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(4, 5000, b"k", b"v")
    part = opened(Fetched, built(PLAIN, 0)[0] + signed(whole) + bytes(builder.build()))
    assert ([record.offset for record in ours(part)], part.next_fetch_offset) == ([0, 1], 2)


def test_an_error_is_named_by_where_it_is_even_behind_what_was_aborted() -> None:
    spoilt = bytearray(built(PLAIN, 1)[0])
    spoilt[-1] ^= 1
    part = opened(Fetched, built(TRANSACTION, 0)[0] + bytes(spoilt), 0, [Aborted(0, 7)])
    assert (ours(part), part.next_fetch_offset) == ([], 1)
    with pytest.raises(Unreadable, match="offset 1"):
        opened(Fetched, bytes(spoilt), 1).take(EVERYTHING)


def test_a_batch_that_its_records_do_not_fill_is_named_after_what_comes_before() -> None:
    before, data = log_of([PLAIN, PLAIN])
    whole = bytearray(data)
    whole[FIRST_COUNT_AT + 3] += 1
    part = opened(Fetched, before + signed(whole))
    assert ([record.offset for record in ours(part)], part.next_fetch_offset) == ([0, 1], 2)
    with pytest.raises(Unreadable, match="offset 2") as caught:
        opened(Fetched, signed(whole), 2).take(EVERYTHING)
    assert isinstance(caught.value.__cause__, CorruptRecordError)
