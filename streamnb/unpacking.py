"""Where the parts of records stand in the bytes of record batches (Kafka's message format 2)."""

from typing import Any

import numpy as np

from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.types import Bytes, Ints
from streamnb.slices import NULL

OFFSET, TIMESTAMP, KEY, VALUE, HEADERS, N_HEADERS = 0, 1, 2, 4, 6, 7
N_COLUMNS = 8
"""What is noted of a record: offset and timestamp within its batch; begin and end of key and of value; headers."""
NAME, CONTENT, N_SPANS = 0, 2, 4
"""What is noted of a header: begin and end of its name and of its value."""
BROKEN = -1
"""In place of a position: what stands there is no record."""

SEVEN_BITS, MORE = 0x7F, 0x80
LONGEST_SHIFT = 63


@inlined
def varint(text: Bytes, at: int, stop: int) -> tuple[Any, int]:
    """Return the zigzag number that begins here and the position behind it."""
    value, shift = np.int64(0), 0
    while at < stop and shift <= LONGEST_SHIFT:
        byte = np.int64(text[at])
        value |= (byte & SEVEN_BITS) << shift
        at += 1
        if byte < MORE:
            return (value >> 1) & 0x7FFFFFFFFFFFFFFF ^ -(value & 1), at
        shift += 7
    return 0, BROKEN


@inlined
def span(text: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return begin, which may be NULL, and end of what is preceded by its length; the end is BROKEN where it cannot be.

    Where it is null its end is the position behind its length all the same.
    """
    length, at = varint(text, at, stop)
    if at == BROKEN or length > stop - at:
        return NULL, BROKEN
    if length < 0:
        return NULL, at
    return at, at + length


@inlined
def record(text: Bytes, at: int, stop: int, columns: Ints, row: int) -> int:
    """Note what one record consists of; return the position behind it."""
    size, at = varint(text, at, stop)
    if at == BROKEN or not 0 < size <= stop - at:
        return BROKEN
    stop = at + size
    at += 1  # attributes, of which there are none
    columns[TIMESTAMP, row], at = varint(text, at, stop)
    if at == BROKEN:
        return BROKEN
    columns[OFFSET, row], at = varint(text, at, stop)
    for part in (KEY, VALUE):
        if at == BROKEN:
            return BROKEN
        columns[part, row], at = span(text, at, stop)
        columns[part + 1, row] = at
    if at == BROKEN:
        return BROKEN
    n_headers, at = varint(text, at, stop)
    columns[HEADERS, row], columns[N_HEADERS, row] = at, n_headers
    if at == BROKEN or n_headers < 0:
        return BROKEN
    for _ in range(n_headers):
        name, at = span(text, at, stop)
        if at == BROKEN or name == NULL:
            return BROKEN
        _, at = span(text, at, stop)
        if at == BROKEN:
            return BROKEN
    return at if at == stop else BROKEN


@jit
def unpack(text: Bytes, stops: Ints, counts: Ints, columns: Ints) -> int:
    """Note what the records of batches consist of; return how many batches are whole.

    `text` (n_bytes,) is the batches' records, `stops` (n_batches,) where each ends, `counts` (n_batches,) how many
    records each has; `columns` (N_COLUMNS, n_records).
    """
    at, row = 0, 0
    for batch in range(len(stops)):
        for _ in range(counts[batch]):
            at = record(text, at, stops[batch], columns, row)
            if at == BROKEN:
                return batch
            row += 1
        if at != stops[batch]:
            return batch
    return len(stops)


@jit
def unpack_headers(text: Bytes, begins: Ints, counts: Ints, columns: Ints) -> None:
    """Note where the headers of unpacked records stand, in `columns` (N_SPANS, n_headers).

    `begins` and `counts` (n_records,) say where they begin and how many there are.
    """
    header = 0
    for row in range(len(begins)):
        at = begins[row]
        for _ in range(counts[row]):
            for part in (NAME, CONTENT):
                columns[part, header], at = span(text, at, len(text))
                columns[part + 1, header] = at
            header += 1
