"""How a stream of bytes becomes records: one a line, blank lines passed over, memory bounded."""

import hashlib
from functools import partial
from itertools import accumulate, count, repeat
from operator import add
from typing import TYPE_CHECKING

from streamnb.transport import Headers, Partition, Record

if TYPE_CHECKING:
    from hashlib import _Hash

# `Record(...)` without the Python function around it: half the time of a whole line.
_record = partial(tuple.__new__, Record)


class Lines:
    """Cuts the stream as it comes, chunk by chunk. The offset of a record is that of its line's first byte.

    A line of at most `longest` bytes is kept whole. Of a longer one, the record has the first `longest`
    bytes, and two headers tell size and sha256 of all of it: `streamnb.line.size`, `streamnb.line.sha256`.
    Chunks must not be larger than `longest`.
    """

    def __init__(self, partition: Partition, offset: int, longest: int) -> None:
        self.offset = offset
        """Where the line begins that is not finished yet."""
        self._partition, self._longest = partition, longest
        self._held = bytearray()
        self._size = 0
        self._digest: _Hash | None = None

    def feed(self, chunk: bytes) -> list[Record]:
        """Take the next bytes; return the records of the lines that end in them."""
        *lines, rest = chunk.split(b"\n")
        records = self._end_line(lines.pop(0), newline=1) if self._size and lines else []
        records += self._whole(lines)
        self._hold(rest)
        return records

    def finish(self) -> list[Record]:
        """The stream has ended: what is left without a newline is a line too."""
        return self._end_line(b"", newline=0) if self._size else []

    def _whole(self, lines: list[bytes]) -> list[Record]:
        if not lines:
            return []
        ends = list(map(add, accumulate(map(len, lines)), count(self.offset + 1)))
        starts = [self.offset, *ends[:-1]]
        columns = repeat(self._partition), starts, ends, repeat(None), repeat(None), lines, repeat(())
        self.offset = ends[-1]
        records: list[Record] = list(map(_record, zip(*columns, strict=False)))
        if not all(lines) or any(map(bytes.isspace, lines)):
            return [record for record in records if record.value and not record.value.isspace()]
        return records

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._digest is not None:
            self._digest.update(piece)
            return
        self._held += piece
        if self._size > self._longest:
            self._digest = hashlib.sha256(self._held)
            del self._held[self._longest :]

    def _end_line(self, tail: bytes, newline: int) -> list[Record]:
        self._hold(tail)
        start, end, value, headers = (
            self.offset,
            self.offset + self._size + newline,
            bytes(self._held),
            self._cut(),
        )
        self.offset, self._held, self._size, self._digest = end, bytearray(), 0, None
        if value.isspace() and not headers:
            return []
        return [Record(self._partition, start, end, None, None, value, headers)]

    def _cut(self) -> Headers:
        if self._digest is None:
            return ()
        return (
            ("streamnb.line.size", str(self._size).encode()),
            ("streamnb.line.sha256", self._digest.hexdigest().encode()),
        )
