"""What blocks of ever new names, as words are, have in common: events are looked up name by name."""

import abc
from collections.abc import Collection, Mapping
from typing import Any, Self

import numpy as np

from streamnb.learners.block import Block
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.kernels.whole import BOUND, LARGEST_WHOLE, WHOLE
from streamnb.learners.tables import Buffer, Shape, StructError, packers, shape_of
from streamnb.learners.values import NAMES


class VocabularyBlock(Block):
    """Keeps no shapes, since hardly two events have the same names.

    `counts[slot, class]` are whole numbers of 32 bits until one needs more; see `kernels.whole`.
    """

    counts: Array
    scalars: Floats
    by_slot = ("counts", "features_")

    def hold(self, counts: Floats) -> None:
        """Take over counts."""
        most = float(counts.max(initial=0.0))
        whole = most <= LARGEST_WHOLE and bool((counts == np.floor(counts)).all())
        self.counts = counts.astype(WHOLE) if whole else counts
        self.scalars[BOUND] = most

    def hold_more(self) -> None:
        """Make room for what did not fit: look how large the counts are; if that is known, make them floats."""
        most = float(self.counts.max(initial=0))
        if most < self.scalars[BOUND]:
            self.scalars[BOUND] = most
        else:
            self.hold_fractions()

    def hold_fractions(self) -> None:
        """Make the counts floats, unless they are."""
        self.counts = self.counts.astype(np.float64, copy=False)

    def add_counts(self, slots: Ints, classes: Ints, other: Self) -> None:
        """Add another block's counts, those of its first slots and classes."""
        bound = self.scalars[BOUND] + other.scalars[BOUND]
        if other.counts.dtype != WHOLE or bound > LARGEST_WHOLE:
            self.hold_fractions()
        self.counts[np.ix_(slots, classes)] += other.counts[: len(slots), : len(classes)]
        self.scalars[BOUND] = bound

    @abc.abstractmethod
    def vocabulary(self) -> tuple[Mapping[Any, int], bool]:
        """Return the slots of the names that features have, and whether all of these are strings."""

    @abc.abstractmethod
    def write_values(self, buffer: Buffer, n: int, values: Collection[Any]) -> bool:
        """Write `n` values of the usual types after the last row; False if one needs a second look."""

    def shape(self, names: tuple[Any, ...]) -> Shape | None:
        return shape_of(names, self.vocabulary()[0])

    def write(self, buffer: Buffer, shape: Shape, values: Collection[Any]) -> int:
        n = shape.n
        if not self.write_values(buffer, n, values):
            return -1
        start = buffer.room(n)
        buffer.for_slots[start : start + 8 * n] = shape.slots
        return n

    def write_event(self, buffer: Buffer, x: dict[Any, Any]) -> int:
        slots, strings = self.vocabulary()
        values = x.values()
        n = len(x)
        if not (
            self.are_usual(values, n)
            and (strings or NAMES.issuperset(map(type, x)))  # True would pass for 1, but for no string
            and self.write_values(buffer, n, values)
        ):
            return -1
        try:
            packers(n)[0](buffer.for_slots, buffer.room(n), *map(slots.get, x))
        except StructError:  # a name that is not known
            return -1
        return n
