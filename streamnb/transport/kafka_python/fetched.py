"""What kafka-python has fetched, taken from it in columns: record by record it would take ten times as long.

The client fetches, checks and decompresses, and says what was aborted; the records themselves are read here.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record.memory_records import MemoryRecords

from streamnb.slices import GUARD, Ints, Slices
from streamnb.transport import Headers, Partition, Run
from streamnb.transport.kafka.client import next_offsets
from streamnb.unpacking import (
    CONTENT,
    HEADERS,
    KEY,
    N_COLUMNS,
    N_HEADERS,
    N_SPANS,
    NAME,
    OFFSET,
    TIMESTAMP,
    VALUE,
    unpack,
    unpack_headers,
)

MOST_BYTES = 16 << 20
"""Of decompressed batches that are unpacked at once, unless one has more."""
FORMAT = 2
"""Of the batches that are read here. What was written before Kafka 0.11 has an earlier one."""


class Unreadable(Exception):
    """What begins at this place of a log cannot be read, for the reason that is the cause."""

    def __init__(self, partition: Partition, offset: int) -> None:
        super().__init__(f"{partition} at offset {offset}")


class Piece(NamedTuple):
    """Records, if any, and where their partition is behind them: behind aborted ones and the broker's own too."""

    run: Run
    end: int


class Fetched(Fetcher.PartitionRecords):  # type: ignore[misc]  # kafka-python has no types
    """What one response brought of one partition, to be taken all at once, in pieces."""

    def _unpack_records(self, tp: Any, records: MemoryRecords, *_: object) -> Iterator[Piece]:
        """Yield what comes before anything that cannot be read; raise only if that is what comes first."""
        partition = Partition(tp.topic, tp.partition)
        batches, error = self._kept(records, partition)
        self.bytes_read = records.size_in_bytes()
        self.drain()
        runs: list[Run] = []
        for early, alike in groupby(batches, lambda batch: isinstance(batch, Run)):
            some = list(alike)
            if early:
                runs += some
                continue
            run, n_whole = unpacked(partition, some)
            runs.append(run)
            if n_whole < len(some):
                self.next_fetch_offset = some[n_whole].base_offset
                error = CorruptRecordError("its records do not fill it")
                break
        runs = [run.part(bisect_left(run.offsets, self.fetch_offset), len(run)) for run in runs]
        *before, last = list(filter(None, runs)) or [Run.of(partition, ())]
        for run in before:
            yield Piece(run, run.next_offsets[-1])
        if self.next_fetch_offset > self.fetch_offset:
            yield Piece(last, self.next_fetch_offset)
        elif error is not None:
            raise Unreadable(partition, self.fetch_offset) from error

    def _maybe_skip_record(self, piece: Piece) -> bool:  # noqa: ARG002  # none that would have to be is left
        return False

    def _kept(self, records: MemoryRecords, partition: Partition) -> tuple[list[Any], Exception | None]:
        """Return the batches that are neither aborted nor the broker's own, and why the next of all is none.

        What is left when there are MOST_BYTES of them is fetched again.
        """
        kept: list[Any] = []
        n_bytes = 0
        try:
            while n_bytes < MOST_BYTES and (batch := records.next_batch()) is not None:
                if self.check_crcs and not batch.validate_crc():
                    raise CorruptRecordError("its checksum is wrong")
                if batch.magic < FORMAT:
                    run = _early(partition, batch)
                    kept.append(run)
                    self.next_fetch_offset = run.next_offsets[-1]
                    continue
                if not self._is_left_out(batch):
                    batch._maybe_uncompress()
                    kept.append(batch)
                    n_bytes += len(batch._buffer)
                self.leader_epoch, self.next_fetch_offset = batch.leader_epoch, batch.next_offset
        except Exception as exc:
            return kept, exc
        return kept, None

    def _is_left_out(self, batch: Any) -> bool:
        if batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            # Compaction leaves markers without their record, in which the client would look for what they mark.
            if batch.records_count and self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return True
        return bool(batch.is_control_batch)


def warm_up() -> None:
    """Have the kernels compiled."""
    text, nothing = np.frombuffer(GUARD, np.uint8), np.empty(0, np.int64)
    unpack(text, nothing, nothing, np.empty((N_COLUMNS, 0), np.int64))
    unpack_headers(text, nothing, nothing, np.empty((N_SPANS, 0), np.int64))


def unpacked(partition: Partition, batches: Sequence[Any]) -> tuple[Run, int]:
    """Return the records of decompressed batches, and how many batches are whole: what comes after is left out."""
    bodies = [memoryview(batch._buffer)[batch._pos :] for batch in batches]
    text = b"".join([*bodies, GUARD])
    # The smallest record has more than a byte: a count that cannot be true must not ask for room.
    sizes = np.array(list(map(len, bodies)))
    counts = np.clip([batch.records_count for batch in batches], 0, sizes + 1)
    columns = np.empty((N_COLUMNS, counts.sum()), np.int64)
    n_whole = unpack(np.frombuffer(text, np.uint8), np.cumsum(sizes), counts, columns)
    counts = counts[:n_whole]
    columns = columns[:, : counts.sum()]
    bases = np.array([(b.base_offset, b.first_timestamp, b.max_timestamp, b.timestamp_type) for b in batches[:n_whole]])
    offset, first, latest, by_broker = np.repeat(bases.reshape(-1, 4), counts, axis=0).T
    run = _run(
        partition,
        offset + columns[OFFSET],
        np.where(by_broker, latest, first + columns[TIMESTAMP]),
        keys=Slices(text, *columns[KEY : KEY + 2]),
        values=Slices(text, *columns[VALUE : VALUE + 2]),
        headers=_headers(text, columns),
    )
    return run, n_whole


def _run(partition: Partition, offsets: Ints, milliseconds: Ints, **columns: Any) -> Run:
    at: Sequence[int] = offsets.tolist()
    if at and at[-1] - at[0] == len(at) - 1:  # without gaps, where transactions end
        at = range(at[0], at[-1] + 1)
    seconds: list[float | None] = (milliseconds / 1000).tolist()
    for i in np.flatnonzero(milliseconds < 0).tolist():
        seconds[i] = None
    return Run(partition, offsets=at, next_offsets=next_offsets(at), timestamps=seconds, **columns)


def _early(partition: Partition, batch: Any) -> Run:
    """Return the records of a batch of an early format, which has no headers."""
    records = list(batch)
    return _run(
        partition,
        np.array([record.offset for record in records]),
        np.array([-1 if record.timestamp is None else record.timestamp for record in records]),
        keys=[record.key for record in records],
        values=[record.value for record in records],
        headers=[()] * len(records),
    )


def _headers(text: bytes, columns: Ints) -> list[Headers]:
    counts = columns[N_HEADERS]
    if not counts.any():
        return [()] * len(counts)
    spans = np.empty((N_SPANS, counts.sum()), np.int64)
    unpack_headers(np.frombuffer(text, np.uint8), columns[HEADERS], counts, spans)
    names, contents = Slices(text, *spans[NAME : NAME + 2]), Slices(text, *spans[CONTENT : CONTENT + 2])
    pairs = zip(map(_name, names), contents, strict=True)
    return [tuple(islice(pairs, count)) for count in counts.tolist()]


def _name(spelled: bytes | None) -> str:
    """Return a header's name. Any bytes are allowed there: of what is not UTF-8, those beyond ASCII become `?`."""
    assert spelled is not None  # which would be no header at all
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return spelled.decode("ascii", "replace").replace("\ufffd", "?")
