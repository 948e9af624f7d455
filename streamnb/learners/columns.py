"""Rows of arrays present all their columns: one counter per width, so that a sparse row costs what it stores."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from streamnb.learners.block import Batch
from streamnb.learners.kernels.counts import NO_COLUMN


class Columns:
    """How many rows of each width were learned and are not yet counted on their columns' names."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}

    @staticmethod
    def number(name: Any) -> float:
        """Return the column that a name stands for, or a number beyond every width."""
        return float(name) if type(name) is int and name >= 0 else NO_COLUMN

    def learned(self, batch: Batch) -> None:
        """Count the labelled rows of a batch."""
        if batch.widths[0] == 0:  # a batch is all rows of one array, or none of any
            return
        width = int(batch.widths[0])
        rows = int(np.count_nonzero(batch.labels[: batch.n_rows] >= 0))
        if rows:
            self.rows[width] = self.rows.get(width, 0) + rows

    def folded(self, slots: Mapping[Any, int]) -> Iterator[tuple[int, int]]:
        """Yield each column's slot and the rows that presented it, and forget the rows."""
        for width, rows in self.rows.items():
            for column in range(width):
                yield slots[column], rows
        self.rows.clear()

    def copy(self) -> "Columns":
        twin = Columns()
        twin.rows = self.rows.copy()
        return twin
