"""What blocks of ever new names, as words are, have in common: events are looked up name by name."""

import abc
from collections.abc import Collection, Mapping
from operator import countOf
from typing import Any

from streamnb.learners.block import Block
from streamnb.learners.tables import Buffer, Shape, StructError, packers, shape_of
from streamnb.learners.values import NAMES


class VocabularyBlock(Block):
    """Keeps no shapes, since hardly two events have the same names."""

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
            (countOf(map(type, values), self.commonest) == n or self.usual.issuperset(map(type, values)))
            and (strings or NAMES.issuperset(map(type, x)))  # True would pass for 1, but for no string
            and self.write_values(buffer, n, values)
        ):
            return -1
        try:
            packers(n)[0](buffer.for_slots, buffer.room(n), *map(slots.get, x))
        except StructError:  # a name that is not known
            return -1
        return n
