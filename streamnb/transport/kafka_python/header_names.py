"""Lets records be read whose header names are not UTF-8.

The protocol allows any bytes there, and clients in C write them. kafka-python fails on the whole batch of such a
record, every time it is read, so that one record would block its partition for ever and hide its neighbours.
"""

from collections.abc import Callable
from typing import Any

from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

Read = Callable[[Any], Any]


def tolerate() -> None:
    """Have every byte of such a name that is not ASCII read as a question mark, from now on, in this process."""
    read: Read | None = getattr(DefaultRecordBatch, "_read_msg", None)
    if read is not None and not hasattr(read, "mends"):
        DefaultRecordBatch._read_msg = _mending(read)


def _mending(read: Read) -> Read:
    def read_mended(batch: Any) -> Any:
        try:
            return read(batch)
        except UnicodeDecodeError:
            _mend(batch._buffer, batch._pos)  # the position moves only when a record was read to its end
            return read(batch)

    read_mended.mends = True  # type: ignore[attr-defined]  # the mark that `tolerate` looks for
    return read_mended


def _mend(buffer: bytearray, position: int) -> None:
    """Make the header names of the record at this position ASCII, in place: nothing may move."""
    for _ in range(4):  # length, attributes, timestamp, offset
        _, position = decode_varint(buffer, position)
    for _ in range(2):  # key, value
        position = _behind(buffer, position)
    count, position = decode_varint(buffer, position)
    for _ in range(count):
        size, begin = decode_varint(buffer, position)
        name = bytes(buffer[begin : begin + size])
        buffer[begin : begin + size] = bytes(byte if byte < 0x80 else ord("?") for byte in name)
        position = _behind(buffer, begin + size)


def _behind(buffer: bytearray, position: int) -> int:
    """Where the field that starts here, its size in front, ends."""
    size, position = decode_varint(buffer, position)
    return int(position + max(size, 0))
