"""Names and their slots, arrays that grow, and the batch buffers that hold slots."""

import functools
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamnb.learners.copying import NamesInPieces
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.pieces import Order

FIRST_CAPACITY = 8
MANY = 1 << 14
StructError = struct.error


def grown(array: Array, capacity: Sequence[int]) -> Array:
    """Return the array, or a larger copy padded with zeros, in the same memory order.

    A first axis that is too short at least doubles while it is small; a long one, and classes, grow by a fraction.
    """
    if all(have >= need for have, need in zip(array.shape, capacity, strict=True)):
        return array
    shape = [
        have if have >= need else max(need, have + _step(have, axis))
        for axis, (have, need) in enumerate(zip(array.shape, capacity, strict=True))
    ]
    larger = np.zeros(shape, array.dtype, "C" if array.flags.c_contiguous else "F")
    larger[tuple(slice(have) for have in array.shape)] = array
    return larger


def _step(have: int, axis: int) -> int:
    if axis:
        return have >> 3
    return have if have < MANY else have >> 4


def take_out(names: list[Any], slot: int) -> int:
    """Move the last name to this slot, where a name is forgotten; return the slot that it leaves."""
    last = len(names) - 1
    names[slot] = names[last]
    names.pop()
    return last


@functools.lru_cache(maxsize=1000)
def packers(n: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return what writes `n` integers, and what writes `n` floats, to a place in memory."""
    return struct.Struct(f"{n}q").pack_into, struct.Struct(f"{n}d").pack_into


class Shape(NamedTuple):
    """What is looked up for the names of an event, kept for all events that have the same names in the same order."""

    names: list[Any]
    n: int
    slots: bytes
    pack: Callable[..., None]
    """Writes as many floats, `pack_slots` as many integers."""
    pack_slots: Callable[..., None]
    inner: tuple[Any, ...]
    """For each name, where its values are looked up, if they are."""


MOST_SHAPES = 1000
"""Shapes kept by a model; events of ever new names are looked up name by name."""


def shape_of(names: Sequence[Any], known: Mapping[Any, int], inner: Sequence[Any] = ()) -> Shape | None:
    """Return the shape of an event; None if a name is unknown or no string."""
    if not all(type(name) is str and name in known for name in names):
        return None
    slots = [known[name] for name in names]
    integers, floats = packers(len(slots))
    packed = bytearray(8 * len(slots))
    integers(packed, 0, *slots)
    places = tuple(inner[slot] for slot in slots) if inner else ()
    return Shape(list(names), len(slots), bytes(packed), floats, integers, places)


NO_SHAPE = Shape([], 0, b"", *packers(0), ())


class Names:
    """Names in dense slots: forgetting one moves the last one into its place.

    `shapes` are those of events that have come, until a slot moves, and `latest` that of the last one.
    """

    __slots__ = ("latest", "names", "order", "shapes", "slots", "strings")

    def __init__(self) -> None:
        self.slots: dict[Any, int] = {}
        self.names: list[Any] = []
        self.order = Order()
        self.shapes: dict[tuple[Any, ...], Shape] = {}
        self.latest = NO_SHAPE
        self.strings = True
        """No name has been anything else."""

    def shape(self, names: tuple[Any, ...], inner: Sequence[Any] = ()) -> Shape | None:
        """Return the shape of an event whose shape is not kept, and keep it."""
        found = shape_of(names, self.slots, inner)
        if found is not None and len(self.shapes) < MOST_SHAPES:
            self.shapes[names] = found
        return found

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: Hashable) -> None:
        self.strings = self.strings and type(name) is str
        self.slots[name] = len(self.names)
        self.names.append(name)

    def forget(self, slot: int) -> int:
        """Forget the name in this slot; return the slot whose name has moved there (the last one)."""
        del self.slots[self.names[slot]]
        last = take_out(self.names, slot)
        if slot != last:
            self.slots[self.names[slot]] = slot
        self.shapes.clear()
        self.latest = NO_SHAPE
        return last

    def in_order(self) -> tuple[list[Any], Ints]:
        """Return the names sorted, and their slots: both not to be changed."""
        return self.order.of(self.names)

    def begin_copy(self) -> tuple["Names", NamesInPieces]:
        """Return a copy that is only to be read, slot by slot, and its names, which are still to be copied."""
        twin, names = Names(), NamesInPieces(self.names)
        twin.names, twin.order = names.copy, self.order
        return twin, names

    def copy(self) -> "Names":
        twin = Names()
        twin.slots = self.slots.copy()
        twin.names = self.names.copy()
        twin.order = self.order
        twin.strings = self.strings
        return twin


START: Ints = np.zeros(1, np.int64)
"""Where the first row of every batch starts."""
NO_INTS: Ints = np.zeros(0, np.int64)
NO_FLOATS: Floats = np.zeros(0)
NO_BYTES = bytearray()


class Buffer:
    """What one block is to read and learn of each row of a batch, row after row, and the names new to the batch.

    A new name gets the slot that it will have once the batch is learned; the model's own tables are not touched before.
    """

    __slots__ = (
        "capacity",
        "extras",
        "for_extras",
        "for_slots",
        "for_values",
        "fresh",
        "fresh_outer",
        "slots",
        "starts",
        "used",
        "values",
    )

    def __init__(self) -> None:
        self.starts = START
        self.used = 0
        self.fresh: dict[Any, int] = {}
        self.fresh_outer: dict[Any, int] = {}
        self.capacity = 0
        self.for_slots = self.for_extras = self.for_values = NO_BYTES
        self.slots = self.extras = NO_INTS
        self.values = NO_FLOATS

    def _hold(self, capacity: int) -> None:
        """Allocate slots, extras and values; a bytearray is what is written to fastest from Python."""
        self.capacity = capacity
        self.for_slots, self.for_extras, self.for_values = (bytearray(8 * capacity) for _ in range(3))
        self.slots = np.frombuffer(self.for_slots, np.int64)
        self.extras = np.frombuffer(self.for_extras, np.int64)
        self.values = np.frombuffer(self.for_values, np.float64)

    def clear(self) -> None:
        self.used = 0
        if self.fresh:
            self.fresh.clear()
        if self.fresh_outer:
            self.fresh_outer.clear()

    def room(self, n: int) -> int:
        """Make room for `n` more entries; return the byte where they start."""
        stop = self.used + n
        if stop > self.capacity:
            old = self.slots, self.extras, self.values
            self._hold(max(stop, 2 * self.capacity, 16))
            for array, before in zip((self.slots, self.extras, self.values), old, strict=True):
                array[: len(before)] = before  # not the used ones alone: part of the next row may be there
        return 8 * self.used

    def end_row(self, row: int, n: int) -> None:
        """Take the `n` entries that were written after the last row as the next one."""
        self.used += n
        if row + 2 > len(self.starts):
            self.starts = grown(self.starts, [row + 2])
        self.starts[row + 1] = self.used

    def end_rows(self, row: int, n_rows: int, n: int) -> None:
        """Take what was written after the last row as the next ones, of `n` entries each."""
        start, self.used = self.used, self.used + n_rows * n
        self.starts = grown(self.starts, [row + n_rows + 1])
        self.starts[row + 1 : row + n_rows + 1] = start + n * np.arange(1, n_rows + 1)

    def push(self, row: int, slots: list[int], extras: list[int] | None, values: list[float] | None) -> None:
        """Append one row's entries."""
        n = len(slots)
        start = self.room(n)
        integers, floats = packers(n)
        integers(self.for_slots, start, *slots)
        if extras is not None:
            integers(self.for_extras, start, *extras)
        if values is not None:
            floats(self.for_values, start, *values)
        self.end_row(row, n)

    def append_table(self, row: int, slots: Ints, table: Floats) -> None:
        """Append rows that all have these slots, in group 0 where there are groups."""
        n_rows, n = table.shape
        self.room(table.size)
        start, stop = self.used, self.used + table.size
        self.slots[start:stop].reshape(n_rows, n)[:] = slots
        self.extras[start:stop] = 0
        self.values[start:stop] = table.reshape(-1)
        self.end_rows(row, n_rows, n)

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

    def take(self, starts: Ints, slots: Ints, values: Floats, extras: Ints | None = None) -> None:
        """Hold these entries of a whole batch; without `extras` they all belong to group 0.

        `slots` may be fewer than values: those of one row, if all rows have the same.
        """
        self.starts, self.slots, self.values, self.used = starts, slots, values, int(starts[-1])
        self.extras = np.zeros(len(slots), np.int64) if extras is None else extras
