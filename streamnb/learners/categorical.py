"""The categorical block: how often each value of a feature came with each class."""

from collections.abc import Collection, Iterable, Mapping
from operator import getitem
from typing import Any, Self

import numpy as np

from streamnb.learners.block import Batch, Block, Entries, Sums, shares
from streamnb.learners.columns import Codes
from streamnb.learners.kernels import categorical as kernel
from streamnb.learners.kernels.categorical import AMOUNT, EVENTS
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.pieces import in_order, joined
from streamnb.learners.tables import FIRST_CAPACITY, Buffer, Names, Shape, grown, take_out
from streamnb.learners.values import NUMBERS, Category, plain_category, plain_name, refusal

ALLOWED = "strings, booleans and finite numbers up to 1e120 in magnitude (missing: absent, None or NaN)"
_TRUE, _FALSE = ("true",), ("false",)


def _key(value: Category) -> Any:
    """Return what a category is looked up by: Python holds True and 1 for the same key."""
    return (_TRUE if value else _FALSE) if type(value) is bool else value


def _value(key: Any) -> Category:
    return key[0] == "true" if type(key) is tuple else key  # type: ignore[no-any-return]  # keys are categories


class CategoricalBlock(Block):
    """`cells[feature, class + 1, (n, events)]` and `values[slot, class + 1, (count, events)]`; see the kernel."""

    kind = "categorical"
    usual = NUMBERS | {str}
    commonest = str
    takes_arrays = True
    n_arrays = 4

    def __init__(self, alpha: float, smooth: bool) -> None:
        self.alpha = alpha
        self.smooth = int(smooth)
        self.names = Names()
        self.slots_of: list[dict[Any, int]] = []
        self.keys: list[tuple[Any, Any]] = []
        self.cells: Floats = np.zeros((FIRST_CAPACITY, 3, 2))
        self.values: Floats = np.zeros((FIRST_CAPACITY, 3, 2))

    def reserve(self, n_classes: int) -> None:
        self._make_room(n_classes)

    def encode(self, items: Iterable[tuple[Any, Any]]) -> Entries:
        slots: list[int] = []
        extras: list[int] = []
        unknown: list[tuple[int, Any, Any]] = []
        get = self.names.slots.get
        for name, value in items:
            if type(name) is not str:
                name = plain_name(name)
            if type(value) is not str:
                try:
                    value = plain_category(value)
                except TypeError:
                    raise refusal("categorical", name, value, ALLOWED) from None
                if value is None:
                    continue
                if type(value) is bool:
                    value = _key(value)
            f = get(name, -1)
            slot = self.slots_of[f].get(value, -1) if f >= 0 else -1
            if slot < 0:
                unknown.append((len(slots), name, value))
            slots.append(slot)
            extras.append(f)
        return slots, extras, None, unknown

    def push(self, buffer: Buffer, row: int, entries: Entries, learn: bool) -> None:
        slots, extras, _, unknown = entries
        assert extras is not None
        if unknown:
            buffer.resolve_pairs(self.names, len(self.keys), slots, extras, unknown, learn)
        buffer.push(row, slots, extras, None)

    def fill(self, buffer: Buffer, names: list[Any], values: Array, learned: Array) -> None:
        codes = Codes(values, learned)
        slots, features, missing = np.zeros((3, codes.size), np.int64)
        for j, name in enumerate(names):
            distinct, wanted, places = codes.distinct(j)
            slots[places], features[places], missing[places] = self._places(buffer, name, distinct, wanted)
        kept, extras = codes.spread(slots), codes.spread(features)
        n_rows, n_columns = values.shape
        if missing.any():
            present = codes.spread(missing) == 0
            starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
            kept, extras = kept[present], extras[present]
        else:
            starts = n_columns * np.arange(n_rows + 1)
        buffer.take(starts, kept.reshape(-1), np.zeros(0), extras.reshape(-1))

    def _places(self, buffer: Buffer, name: Any, distinct: list[Any], wanted: list[bool]) -> tuple[Ints, Ints, Array]:
        """Return the slots of a feature's categories, its own slot for each, and which of them are missing."""
        f = self.names.slots.get(name, -1)
        known = self.slots_of[f] if f >= 0 else {}
        slots: list[int] = []
        extras = [f] * len(distinct)
        unknown: dict[bool, list[tuple[int, Any, Any]]] = {True: [], False: []}
        missing = np.zeros(len(distinct), np.bool_)
        for i, value in enumerate(distinct):
            try:
                category = plain_category(value)
            except TypeError:
                raise refusal("categorical", name, value, ALLOWED) from None
            slots.append(known.get(category, -1))
            if category is None:
                missing[i] = True
            elif slots[i] < 0:
                unknown[wanted[i]].append((i, name, category))
        for learn, entries in unknown.items():
            buffer.resolve_pairs(self.names, len(self.keys), slots, extras, entries, learn)
        return np.array(slots, np.int64), np.array(extras, np.int64), missing

    def shape(self, names: tuple[Any, ...]) -> Shape | None:
        return self.names.shape(names, self.slots_of)

    def write(self, buffer: Buffer, shape: Shape, values: Collection[Any]) -> int:
        n = shape.n
        start = 8 * buffer.used if buffer.used + n <= buffer.capacity else buffer.room(n)
        try:
            shape.pack_slots(buffer.for_slots, start, *map(getitem, shape.inner, values))
        except KeyError:  # a category that is not known
            return -1
        buffer.for_extras[start : start + 8 * n] = shape.slots
        return n

    def settle(self, buffer: Buffer, n_classes: int) -> None:
        for name in buffer.fresh_outer:
            self._add_feature(name)
        for f, key in buffer.fresh:
            self._add_value(f, key)
        self._make_room(n_classes)

    def _add_feature(self, name: Any) -> None:
        self.names.add(name)
        self.slots_of.append({})

    def _add_value(self, f: int, key: Any) -> None:
        self.slots_of[f][key] = len(self.keys)
        self.keys.append((self.names.names[f], key))

    def _make_room(self, n_classes: int) -> None:
        self.cells = grown(self.cells, [len(self.names), n_classes + 1, 2])
        self.values = grown(self.values, [len(self.keys), n_classes + 1, 2])

    def predict_learn(self, buffer: Buffer, batch: Batch, sums: Sums) -> None:
        kernel.predict_learn(
            self.cells, self.values, self.alpha, self.smooth, len(self.names), len(self.keys), batch.n_classes,
            batch.n_rows, buffer.starts, buffer.slots, buffer.extras, batch.events,
            sums.first, sums.sums, sums.unseen,
        )  # fmt: skip

    def learn(self, buffer: Buffer, batch: Batch) -> None:
        kernel.learn(
            self.cells, self.values, len(self.names), len(self.keys), batch.n_classes, batch.n_rows,
            buffer.starts, buffer.slots, buffer.extras, batch.events,
        )  # fmt: skip

    def predict_one(
        self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, prior: int, read: float, sums: Sums
    ) -> int:
        return kernel.predict_one(
            self.cells, self.values, self.alpha, self.smooth, buffer.slots, buffer.extras, n_entries,
            classes, order, prior, read, sums.sums, sums.unseen, sums.probabilities,
        )  # fmt: skip

    def learn_one(
        self,
        buffer: Buffer,
        n_entries: int,
        classes: Floats,
        order: Ints,  # noqa: ARG002
        label: int,
        w: float,
    ) -> bool:
        kernel.learn_one(self.cells, self.values, buffer.slots, buffer.extras, n_entries, classes, label, w)
        return True

    def check_unlearn(self, entries: Entries, label: int, w: float, last: bool) -> None:
        slots, extras, _, _ = entries
        assert extras is not None
        c = label + 1
        for slot, f in zip(slots, extras, strict=True):
            if slot < 0 or self.values[slot, c, EVENTS] == 0.0:
                raise ValueError("a category of this event was never learned with this class")
            for what, cell in (("category", self.values[slot, c]), ("feature", self.cells[f, c])):
                allowed = 1e-9 * cell[AMOUNT]
                if w > cell[AMOUNT] + allowed or (cell[EVENTS] == 1.0 and cell[AMOUNT] - w > allowed):
                    name = self.names.names[f]
                    raise ValueError(f"categorical {what} {name!r}: weight {w!r}, held are {float(cell[AMOUNT])!r}")
        if last and self.cells[: len(self.names), c, EVENTS].sum() != len(slots):
            raise ValueError("the last event of this class had other features")

    def unlearn(self, entries: Entries, label: int, w: float, order: Ints) -> None:  # noqa: ARG002
        slots, extras, _, _ = entries
        assert extras is not None
        for slot, f in zip(slots, extras, strict=True):
            for array, place in ((self.values, slot), (self.cells, f)):
                cell = array[place, label + 1]
                cell[EVENTS] -= 1.0
                cell[AMOUNT] = max(cell[AMOUNT] - w, 0.0) if cell[EVENTS] > 0.0 else 0.0
                array[place, 0, EVENTS] -= 1.0
        self._forget_unused(entries)

    def _forget_unused(self, entries: Entries) -> None:
        slots, extras, _, _ = entries
        assert extras is not None
        for slot in sorted(slots, reverse=True):
            if self.values[slot, 0, EVENTS] == 0.0:
                f = int(self.values[slot, 0, AMOUNT])
                del self.slots_of[f][self.keys[slot][1]]
                self.cells[f, 0, AMOUNT] -= 1.0
                last = take_out(self.keys, slot)
                self.values[slot] = self.values[last]
                self.values[last] = 0.0
                if slot != last:
                    self.slots_of[int(self.values[slot, 0, AMOUNT])][self.keys[slot][1]] = slot
        for f in sorted(extras, reverse=True):
            if self.cells[f, 0, EVENTS] == 0.0:
                last = self.names.forget(f)
                self.slots_of[f] = self.slots_of[last]
                self.slots_of.pop()
                self.cells[f] = self.cells[last]
                self.cells[last] = 0.0
                if f != last:
                    for slot in self.slots_of[f].values():
                        self.values[slot, 0, AMOUNT] = f

    def forget_class(self, label: int, last: int) -> None:
        for array in (self.cells, self.values):
            array[:, label + 1] = array[:, last + 1]
            array[:, last + 1] = 0.0

    def scale(self, factor: float, n_classes: int) -> None:
        kernel.scale(self.cells, self.values, factor, len(self.names), len(self.keys), n_classes)

    def merge(self, other: Self, classes: Ints, n_classes: int) -> None:
        for name in other.names.names:
            if name not in self.names.slots:
                self._add_feature(name)
        for name, key in other.keys:
            f = self.names.slots[name]
            if key not in self.slots_of[f]:
                self._add_value(f, key)
        self._make_room(n_classes)
        columns = classes + 1
        n = len(classes) + 1
        for f, name in enumerate(other.names.names):
            mine = self.names.slots[name]
            self.cells[mine, columns] += other.cells[f, 1:n]
            self.cells[mine, 0, EVENTS] += other.cells[f, 0, EVENTS]
            self.cells[mine, 0, AMOUNT] = len(self.slots_of[mine])
        for slot, (name, key) in enumerate(other.keys):
            f = self.names.slots[name]
            mine = self.slots_of[f][key]
            self.values[mine, columns] += other.values[slot, 1:n]
            self.values[mine, 0, EVENTS] += other.values[slot, 0, EVENTS]
            self.values[mine, 0, AMOUNT] = f

    def names_of(self, entries: Entries) -> list[Any]:
        extras = entries[1]
        assert extras is not None
        return [self.names.names[f] if f >= 0 else None for f in extras]

    @property
    def n_features(self) -> int:
        return len(self.names)

    def features(self) -> list[Any]:
        return list(self.names.names)

    def dump(self, order: Ints) -> tuple[dict[str, Any], list[Array]]:
        names, features = self.names.in_order()
        known = [{slot: _value(key) for key, slot in self.slots_of[f].items()} for f in features]
        found = [in_order(values, values) for values in known]
        slots = joined(slots for _, slots in found)
        columns = order + 1
        arrays = [
            self.cells[features][:, columns],
            self.cells[features, 0, EVENTS],
            self.values[slots][:, columns],
            self.values[slots, 0, EVENTS],
        ]
        return {
            "features": names,
            "values": [values for values, _ in found],
        }, arrays

    def load(self, names: Mapping[str, Any], arrays: list[Array], n_classes: int) -> None:
        self.names, self.slots_of, self.keys = Names(), [], []
        features: list[int] = []
        for f, (name, values) in enumerate(zip(names["features"], names["values"], strict=True)):
            self._add_feature(name)
            for value in values:
                self._add_value(f, _key(value))
                features.append(f)
        self.cells = np.zeros((FIRST_CAPACITY, n_classes + 1, 2))
        self.values = np.zeros((FIRST_CAPACITY, n_classes + 1, 2))
        self._make_room(n_classes)
        n_features, n_values = len(self.names), len(self.keys)
        self.cells[:n_features, 1 : n_classes + 1] = arrays[0]
        self.cells[:n_features, 0, EVENTS] = arrays[1]
        self.cells[:n_features, 0, AMOUNT] = [len(values) for values in names["values"]]
        self.values[:n_values, 1 : n_classes + 1] = arrays[2]
        self.values[:n_values, 0, EVENTS] = arrays[3]
        self.values[:n_values, 0, AMOUNT] = features

    @property
    def n_lines(self) -> int:
        return len(self.keys)

    def line(self, slot: int) -> tuple[Any, Any]:
        name, key = self.keys[slot]
        return name, _value(key)

    def numbers(self, slots: slice, columns: Ints, read: float) -> dict[str, Floats]:
        features = self.values[slots, 0, AMOUNT].astype(np.int64)
        sizes = self.cells[features, 0, AMOUNT][:, None] + self.smooth
        count = read * self.values[slots][:, columns + 1, AMOUNT]
        n = read * self.cells[features][:, columns + 1, AMOUNT]
        return {"p": shares(count, self.alpha, n + self.alpha * sizes, 1.0 / sizes), "count": count, "n": n}
