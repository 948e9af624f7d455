"""Byte strings that stand in one text."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NULL = -1
"""In place of the begin of what is null."""
GUARD = b"\n"
"""Behind the last of them, so that a kernel which reads too far comes to an end."""


class Slices(Sequence[bytes | None]):
    """Byte strings and nulls, none of which is copied out of the text before it is looked at."""

    __slots__ = ("begins", "ends", "text")

    def __init__(self, text: bytes, begins: Ints, ends: Ints) -> None:
        """Take a text that ends with GUARD, and begins, some of them NULL, and ends in it, both (n,)."""
        self.text, self.begins, self.ends = text, begins, ends

    @classmethod
    def of(cls, parts: Iterable[bytes | None]) -> Self:
        """Return these byte strings, in a text of their own."""
        parts = list(parts)
        strings: Any = parts  # mypy does not see what has been made sure of
        if None in parts:
            strings = [part or b"" for part in parts]
        ends = np.cumsum(np.fromiter(map(len, strings), np.int64, len(parts)))
        begins = np.concatenate(([0], ends[:-1]))[: len(parts)]
        if strings is not parts:
            begins[[part is None for part in parts]] = NULL
        return cls(b"".join(strings) + GUARD, begins, ends)

    def __len__(self) -> int:
        return len(self.begins)

    def __iter__(self) -> Iterator[bytes | None]:
        strings = map(self.text.__getitem__, map(slice, self.begins.tolist(), self.ends.tolist()))
        if (self.begins == NULL).any():
            return (None if null else string for null, string in zip(self.begins == NULL, strings, strict=True))
        return strings

    @overload
    def __getitem__(self, at: int) -> bytes | None: ...
    @overload
    def __getitem__(self, at: slice) -> Self: ...
    def __getitem__(self, at: int | slice) -> bytes | Self | None:
        if isinstance(at, slice):
            return type(self)(self.text, self.begins[at], self.ends[at])
        return None if self.begins[at] == NULL else self.text[self.begins[at] : self.ends[at]]
