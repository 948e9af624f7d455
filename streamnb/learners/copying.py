"""Copies of models that are made a piece at a time, while the models go on learning.

A copy is of the moment at which it was begun. A batch is about to change some rows of the large arrays: those that the
copy has not come to yet are put aside first, and take their places once everything is copied. So no pass of a loop
takes longer than it likes, however large the model is.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from streamnb.learners.kernels.layout import SHIFT
from streamnb.learners.kernels.types import Array, Ints
from streamnb.learners.pieces import PIECE, PIECE_BYTES

if TYPE_CHECKING:
    from streamnb.learners.model import Model
    from streamnb.learners.rows import Rows

M = TypeVar("M", bound="Model")


class InPieces(Protocol):
    """What is copied a piece at a time."""

    def go_on(self) -> bool:
        """Copy the next piece; return whether there was one."""

    def keep(self, slots: Ints) -> None:
        """Put what is in these slots aside, since it is about to change."""

    def settle(self) -> None:
        """Put in place what was put aside, once every piece is copied."""


class ArrayInPieces:
    """An array, of which only the rows that `keep` was told may change meanwhile."""

    def __init__(self, source: Array) -> None:
        self.copy = np.empty_like(source)
        self._source, self._at = source, 0
        self._step = max(1, PIECE_BYTES * len(source) // max(1, source.nbytes))
        self._kept = np.zeros(len(source), np.bool_)
        self._aside: list[tuple[Ints, Array]] = []

    def go_on(self) -> bool:
        piece = slice(self._at, self._at + self._step)
        self.copy[piece] = self._source[piece]
        more = self._at < len(self._source)
        self._at = piece.stop
        return more

    def keep(self, slots: Ints) -> None:
        rows = slots[(slots >= self._at) & (slots < len(self._source))]  # names that are unknown or new are in none
        rows = rows[~self._kept[rows]]
        if len(rows):
            self._kept[rows] = True
            self._aside.append((rows, self._source[rows]))

    def settle(self) -> None:
        for rows, values in self._aside:
            self.copy[rows] = values
        self._aside.clear()


class NamesInPieces:
    """Names by slot, a list that only grows."""

    def __init__(self, source: list[Any]) -> None:
        self.copy: list[Any] = []
        self._source, self._size = source, len(source)

    def go_on(self) -> bool:
        at = len(self.copy)
        self.copy += self._source[at : min(at + PIECE, self._size)]
        return at < self._size

    def keep(self, slots: Ints) -> None:
        """Names do not change."""

    def settle(self) -> None:
        """Nothing was put aside."""


class Unsearchable(dict[Any, int]):
    """So many names, none of which can be looked up: a copy that is only read needs no more."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


class Copying(Generic[M]):
    """The copy of one model; meanwhile the model may learn nothing but batches."""

    def __init__(self, model: M, twin: M, parts: Sequence[Sequence[InPieces]]) -> None:
        self._model, self._twin, self._parts = model, twin, parts
        self._left = [part for of_block in parts for part in of_block]
        self._version = model.version

    def go_on(self) -> bool:
        """Copy the next piece; return whether there was one."""
        while self._left:
            if self._model.copying is not self or self._model.version != self._version:
                raise RuntimeError("while a model is copied in pieces it may learn batches, and do nothing else")
            if self._left[-1].go_on():
                return True
            self._left.pop()
        if self._model.copying is self:
            self._model.copying = None
        return False

    def before(self, rows: "Rows") -> None:
        """Put aside what the model is about to learn over."""
        self._version += 1
        if (rows.batch.events[: len(rows), SHIFT] != 1.0).any():  # every row is about to be scaled
            while self.go_on():
                pass
        for parts, buffer in zip(self._parts, rows.buffers, strict=True):
            for part in parts:
                part.keep(buffer.slots[: buffer.used])

    def finish(self) -> M:
        """Copy what is left and return the copy, which is to be read and not to learn. Any thread may do the rest."""
        while self.go_on():
            pass
        for parts in self._parts:
            for part in parts:
                part.settle()
        return self._twin
