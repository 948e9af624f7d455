"""Names and their slots, arrays that grow, and the batch buffers that hold slots."""

import struct
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from streamnb.learners.kernels.types import Array, Floats, Ints

FIRST_CAPACITY = 8


def grown(array: Array, capacity: Sequence[int]) -> Array:
    """Return the array, or a larger copy padded with zeros.

    A first axis that is too short at least doubles; another, which is classes, grows by a quarter.
    """
    if all(have >= need for have, need in zip(array.shape, capacity, strict=True)):
        return array
    shape = [
        have if have >= need else max(need, have + (have >> (2 if axis else 0)))
        for axis, (have, need) in enumerate(zip(array.shape, capacity, strict=True))
    ]
    larger = np.zeros(shape, array.dtype)
    larger[tuple(slice(have) for have in array.shape)] = array
    return larger


def take_out(names: list[Any], slot: int) -> int:
    """Move the last name to this slot, where a name is forgotten; return the slot that it leaves."""
    last = len(names) - 1
    names[slot] = names[last]
    names.pop()
    return last


class Names:
    """Names in dense slots: forgetting one moves the last one into its place."""

    __slots__ = ("names", "slots")

    def __init__(self) -> None:
        self.slots: dict[Any, int] = {}
        self.names: list[Any] = []

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: Hashable) -> None:
        self.slots[name] = len(self.names)
        self.names.append(name)

    def forget(self, slot: int) -> int:
        """Forget the name in this slot; return the slot whose name has moved there (the last one)."""
        del self.slots[self.names[slot]]
        last = take_out(self.names, slot)
        if slot != last:
            self.slots[self.names[slot]] = slot
        return last

    def copy(self) -> "Names":
        twin = Names()
        twin.slots = self.slots.copy()
        twin.names = self.names.copy()
        return twin


class Buffer:
    """What one block is to read and learn of each row of a batch, row after row, and the names new to the batch.

    A new name gets the slot that it will have once the batch is learned; the model's own tables are not touched before.
    """

    __slots__ = ("_packers", "extras", "fresh", "fresh_outer", "slots", "starts", "used", "values")

    def __init__(self) -> None:
        self.starts: Ints = np.zeros(2, np.int64)
        self.slots: Ints = np.zeros(16, np.int64)
        self.extras: Ints = np.zeros(16, np.int64)
        self.values: Floats = np.zeros(16)
        self.used = 0
        self.fresh: dict[Any, int] = {}
        self.fresh_outer: dict[Any, int] = {}
        self._packers: dict[int, tuple[Callable[..., None], Callable[..., None]]] = {}

    def clear(self) -> None:
        self.used = 0
        if self.fresh:
            self.fresh.clear()
        if self.fresh_outer:
            self.fresh_outer.clear()

    def push(self, row: int, slots: list[int], extras: list[int] | None, values: list[float] | None) -> None:
        """Append one row's entries."""
        n = len(slots)
        start, stop = self.used, self.used + n
        if stop > len(self.slots):
            self.slots = grown(self.slots, [stop])
            self.extras = grown(self.extras, [stop])
            self.values = grown(self.values, [stop])
        if row + 2 > len(self.starts):
            self.starts = grown(self.starts, [row + 2])
        packers = self._packers.get(n)
        if packers is None:
            packers = struct.Struct(f"{n}q").pack_into, struct.Struct(f"{n}d").pack_into
            if len(self._packers) < 1000:
                self._packers[n] = packers
        integers, floats = packers
        integers(self.slots, 8 * start, *slots)
        if extras is not None:
            integers(self.extras, 8 * start, *extras)
        if values is not None:
            floats(self.values, 8 * start, *values)
        self.used = stop
        self.starts[row + 1] = stop

    def append_table(self, row: int, slots: Ints, table: Floats) -> None:
        """Append rows that all have these slots, in group 0 where there are groups."""
        n_rows, n = table.shape
        start, stop = self.used, self.used + n_rows * n
        self.slots = grown(self.slots, [stop])
        self.extras = grown(self.extras, [stop])
        self.values = grown(self.values, [stop])
        self.slots[start:stop].reshape(n_rows, n)[:] = slots
        self.extras[start:stop] = 0
        self.values[start:stop] = table.reshape(-1)
        self.starts = grown(self.starts, [row + n_rows + 1])
        self.starts[row + 1 : row + n_rows + 1] = np.arange(start + n, stop + 1, n)
        self.used = stop

    def append_nothing(self, row: int, n_rows: int) -> None:
        """Append rows without entries."""
        self.starts = grown(self.starts, [row + n_rows + 1])
        self.starts[row + 1 : row + n_rows + 1] = self.used

    def resolve(self, names: Names, slots: list[int], unknown: list[tuple[int, Any]], learn: bool) -> None:
        """Give names that the model does not know the slots that this batch has, or will have, for them."""
        for position, name in unknown:
            slot = self.fresh.get(name, -1)
            if slot < 0 and learn:
                slot = self.fresh[name] = len(names) + len(self.fresh)
            slots[position] = slot

    def resolve_pairs(
        self,
        outer: Names,
        n_inner: int,
        slots: list[int],
        extras: list[int],
        unknown: list[tuple[int, Any, Any]],
        learn: bool,
    ) -> None:
        """The same for (outer, inner) names: categories of a feature, tokens of a group."""
        for position, name, inner in unknown:
            place = extras[position]
            if place < 0:
                place = self.fresh_outer.get(name, -1)
                if place < 0 and learn:
                    place = self.fresh_outer[name] = len(outer) + len(self.fresh_outer)
                extras[position] = place
            slot = self.fresh.get((place, inner), -1)
            if slot < 0 and learn:
                slot = self.fresh[(place, inner)] = n_inner + len(self.fresh)
            slots[position] = slot

    def look_up(
        self, known: dict[Any, int], n_slots: int, names: Sequence[Any], wanted: Sequence[bool], outer: int | None
    ) -> Ints:
        """Return the slots of columns.

        A new name gets one if it is wanted. With `outer`, names are pairs in this batch.
        """
        slots = np.empty(len(names), np.int64)
        for j, name in enumerate(names):
            slot = known.get(name, -1)
            if slot < 0:
                key = name if outer is None else (outer, name)
                slot = self.fresh.get(key, -1)
                if slot < 0 and wanted[j]:
                    slot = self.fresh[key] = n_slots + len(self.fresh)
            slots[j] = slot
        return slots

    def take(self, starts: Ints, slots: Ints, values: Floats) -> None:
        """Hold these entries of a whole batch."""
        self.starts, self.slots, self.values, self.used = starts, slots, values, len(slots)
        self.extras = np.zeros(len(slots), np.int64)  # they all belong to group 0
