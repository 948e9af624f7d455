"""Rows of arrays present all their columns: one counter per width, so that a sparse row costs what it stores."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from streamnb.learners.block import Batch
from streamnb.learners.kernels import arrays as kernel
from streamnb.learners.kernels.counts import NO_COLUMN
from streamnb.learners.kernels.layout import LABEL, LARGEST_NUMBER, WIDE
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.tables import Buffer
from streamnb.learners.values import refusal

WIDEST_SPAN = 1 << 16
"""Whole numbers that lie further apart than this are ranked."""


class Columns:
    """The columns of arrays, as one block takes them.

    `rows`: how many of each width were learned and are not yet counted on their columns' names.
    """

    __slots__ = ("_allowed", "_block", "_in_place", "_least", "_slots", "_valid", "named", "rows")

    def __init__(self, block: str, least: float, allowed: str) -> None:
        self._block, self._least, self._allowed = block, least, allowed
        self.rows: dict[int, int] = {}
        self.named = 0
        """The columns below this have slots."""
        self._slots: Ints = np.zeros(0, np.int64)
        self._in_place = False
        self._valid = -1

    @staticmethod
    def number(name: Any) -> float:
        """Return the column that a name stands for, or a number beyond every width."""
        return float(name) if type(name) is int and name >= 0 else NO_COLUMN

    def learned(self, batch: Batch) -> None:
        """Count the labelled rows of a batch."""
        width = int(batch.events[0, WIDE]) if batch.n_rows else 0
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
        places = np.empty(len(columns), np.int64)
        bad = kernel.take_columns(columns, width, places)
        if bad >= 0:
            raise ValueError(f"an array of {width} columns stores a value in column {int(columns[bad])}")
        bad = kernel.first_outside(values, self._least, LARGEST_NUMBER)
        if bad >= 0:
            raise refusal(self._block, int(columns[bad]), float(values[bad]), self._allowed)
        if width > self.named and learned.any():
            kernel.replace(places, buffer.look_up(known, n_slots, range(width), [True] * width, outer))
        else:
            slots, in_place = self._slots_below(width, known)
            if not in_place:
                kernel.replace(places, slots)
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

    def _slots_below(self, width: int, known: dict[Any, int]) -> tuple[Ints, bool]:
        """Return the slots of the columns, -1 where they have none, and whether each column is its own slot.

        They are kept until a name is added or moved.
        """
        if len(self._slots) < width or self._valid != len(known):
            get = known.get
            self._slots = np.array([get(column, -1) for column in range(width)], np.int64)
            self._in_place = bool((self._slots == np.arange(width)).all())
            self._valid = len(known)
        return self._slots, self._in_place


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


class Codes:
    """The values of a table, (n_rows, n_columns), as whole numbers that lie close together in each column.

    `learned` says which rows are.
    """

    __slots__ = ("_codes", "_low", "_marks", "_shifts", "_starts", "_type", "_values")

    def __init__(self, table: Array, learned: Array) -> None:
        self._type = table.dtype
        self._values: list[list[Any]] = []
        """What the codes stand for, column by column, unless they are the values themselves."""
        fits = table.dtype.kind in "iub" and table.dtype != np.uint64
        self._codes: Ints = np.ascontiguousarray(table, np.int64) if fits else self._ranks(table)
        spans = self._spans()
        if sum(spans) > WIDEST_SPAN and not self._values:
            self._codes = self._ranks(table)
            spans = self._spans()
        self._starts = [0, *accumulate(spans)]
        self._shifts = np.array(self._starts[:-1], np.int64) - self._low
        self._marks = np.zeros(self._starts[-1], np.int64)
        kernel.mark(self._codes, self._shifts, learned, self._marks)

    def _ranks(self, table: Array) -> Ints:
        codes = np.empty(table.shape, np.int64)
        for j, column in enumerate(table.T):
            values, codes[:, j] = np.unique(column, return_inverse=True)
            self._values.append(values.tolist())
        return codes

    def _spans(self) -> list[int]:
        """Return how many whole numbers the codes of each column lie among."""
        self._low, high = np.zeros((2, self._codes.shape[1]), np.int64)
        if not len(self._codes):
            return [0] * len(high)
        kernel.limits(self._codes, self._low, high)
        return [most - least + 1 for least, most in zip(self._low.tolist(), high.tolist(), strict=True)]

    @property
    def size(self) -> int:
        """How long a table for `spread` is."""
        return self._starts[-1]

    def distinct(self, j: int) -> tuple[list[Any], list[bool], Ints]:
        """Return the distinct values of a column in Python's own types, whether a row with it is learned, and places.

        These are the values' places in a table for `spread`.
        """
        start, stop = self._starts[j : j + 2]
        marks = self._marks[start:stop]
        codes = np.flatnonzero(marks)
        if self._values:
            values = [self._values[j][code] for code in codes.tolist()]
        else:
            values = (codes + self._low[j]).astype(self._type).tolist()
        return values, (marks[codes] > 1).tolist(), codes + start

    def spread(self, table: Ints) -> Ints:
        """Return what a table says of each value, (n_rows, n_columns)."""
        out = np.empty(self._codes.shape, np.int64)
        kernel.spread(self._codes, self._shifts, table, out)
        return out
