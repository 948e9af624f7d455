"""Rows of arrays present all their columns: one counter per width, so that a sparse row costs what it stores."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.learners.block import Batch
from streamnb.learners.kernels import arrays as kernel
from streamnb.learners.kernels.counts import NO_COLUMN
from streamnb.learners.kernels.layout import LABEL, WIDE
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.tables import Buffer
from streamnb.learners.values import LARGEST_NUMBER, refusal


class Columns:
    """The columns of arrays, as one block takes them.

    `rows`: how many of each width were learned and are not yet counted on their columns' names.
    """

    __slots__ = ("_allowed", "_block", "_least", "_slots", "_valid", "named", "rows")

    def __init__(self, block: str, least: float, allowed: str) -> None:
        self._block, self._least, self._allowed = block, least, allowed
        self.rows: dict[int, int] = {}
        self.named = 0
        """The columns below this have slots."""
        self._slots: Ints = np.zeros(0, np.int64)
        self._valid = -1

    @staticmethod
    def number(name: Any) -> float:
        """Return the column that a name stands for, or a number beyond every width."""
        return float(name) if type(name) is int and name >= 0 else NO_COLUMN

    def learned(self, batch: Batch) -> None:
        """Count the labelled rows of a batch."""
        width = int(batch.events[0, WIDE])
        if width == 0:  # a batch is all rows of one array, or none of any
            return
        rows = int(np.count_nonzero(batch.events[: batch.n_rows, LABEL] >= 0.0))
        if rows:
            self.rows[width] = self.rows.get(width, 0) + rows
            self.named = max(self.named, width)

    def folded(self, slots: Mapping[Any, int]) -> Iterator[tuple[int, int]]:
        """Yield each column's slot and the rows that presented it, and forget the rows."""
        for width, rows in self.rows.items():
            for column in range(width):
                yield slots[column], rows
        self.rows.clear()
        self.named = 0
        self._valid = -1  # whoever moves names to other slots folds first

    def copy(self) -> "Columns":
        twin = Columns(self._block, self._least, self._allowed)
        twin.rows = self.rows.copy()
        twin.named = self.named
        return twin

    def fill(
        self,
        buffer: Buffer,
        known: dict[Any, int],
        n_slots: int,
        outer: int | None,
        width: int,
        stored: tuple[Ints, Array, Floats],
        learned: Array,
    ) -> None:
        """Make a batch of the stored entries of an array: starts of the rows, columns and values.

        Refuse a value below the least and one that no block takes.
        """
        starts, columns, values = stored
        if width > self.named and learned.any():
            slots = buffer.look_up(known, n_slots, range(width), [True] * width, outer)
        else:
            slots = self._slots_below(width, known)
        places = np.empty(len(columns), np.int64)
        bad = kernel.place(columns, values, slots, self._least, LARGEST_NUMBER, places)
        if bad >= 0:
            raise refusal(self._block, int(columns[bad]), float(values[bad]), self._allowed)
        buffer.take(starts, places, values)

    def stored_in(self, X: Any) -> tuple[Ints, Array, Floats]:
        """Return starts, columns and values of a sparse matrix of numbers with each cell stored once."""
        matrix = X.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        if matrix.dtype.kind not in "iuf":
            raise refusal(self._block, "of a sparse matrix", matrix.dtype, self._allowed)
        values = np.ascontiguousarray(matrix.data, np.float64)
        return matrix.indptr.astype(np.int64), np.ascontiguousarray(matrix.indices), values

    def _slots_below(self, width: int, known: dict[Any, int]) -> Ints:
        """Return the slots of the columns, -1 where they have none; kept until a name is added or moved."""
        if len(self._slots) < width or self._valid != len(known):
            get = known.get
            self._slots = np.array([get(column, -1) for column in range(width)], np.int64)
            self._valid = len(known)
        return self._slots


def stored_of(values: Array) -> tuple[Ints, Ints, Floats]:
    """Return starts, columns and values of what is not 0 in a dense array."""
    places, columns = np.nonzero(values)
    starts = np.searchsorted(places, np.arange(len(values) + 1)).astype(np.int64)
    return starts, columns.astype(np.int64), values[places, columns].astype(np.float64)


def dense_check(
    values: Array, names: Sequence[Any], check: Callable[[Array], Array], block: str, allowed: str
) -> Floats:
    """Return a dense array as floats; refuse values that `check` does."""
    table = np.ascontiguousarray(values, np.float64)
    good = check(table)
    if not good.all():
        raise first_bad(block, names, values, good, allowed)
    return table


def first_bad(block: str, names: Sequence[Any], values: Array, good: Array, allowed: str) -> ValueError:
    """Return the error for the first value of a dense array that a block does not take."""
    row, column = (int(place) for place in np.argwhere(~good)[0])
    return refusal(block, names[column], values[row, column].item(), allowed)


def distinct_in(column: Array) -> tuple[list[Any], Ints]:
    """Return the distinct values of an array in Python's own types, and the place of each element's among them."""
    if column.dtype.kind not in "iub" or not len(column):
        return _by_sorting(column)
    low, high = int(column.min()), int(column.max())
    if high - low >= 1 << 16 or high >= 1 << 62:
        return _by_sorting(column)
    shifted = column.astype(np.int64) - low
    present = np.flatnonzero(np.bincount(shifted))
    if len(present) == present[-1] + 1:  # no gaps
        return (present + low).astype(column.dtype).tolist(), shifted
    rank = np.zeros(present[-1] + 1, np.int64)
    rank[present] = np.arange(len(present))
    return (present + low).astype(column.dtype).tolist(), rank[shifted]


def _by_sorting(column: Array) -> tuple[list[Any], Ints]:
    values, inverse = np.unique(column, return_inverse=True)
    return values.tolist(), inverse.astype(np.int64)
