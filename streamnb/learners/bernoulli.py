"""The Bernoulli block: features that are on or off."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from math import hypot
from typing import Any, Self

import numpy as np

from streamnb.learners.block import Batch, Entries, Sums, shares
from streamnb.learners.columns import Columns, dense_check, stored_of
from streamnb.learners.copying import InPieces
from streamnb.learners.kernels import bernoulli as kernel
from streamnb.learners.kernels.bernoulli import BINS
from streamnb.learners.kernels.counts import COLUMN, EVENTS, WIDTH
from streamnb.learners.kernels.layout import LARGEST_NUMBER
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.kernels.whole import WHOLE
from streamnb.learners.tables import FIRST_CAPACITY, NO_INTS, Buffer, Names, grown, packers
from streamnb.learners.values import (
    NUMBERS,
    SMALL_NORM,
    finite_number,
    plain_name,
    refusal,
)
from streamnb.learners.vocabulary import VocabularyBlock

ALLOWED = "real numbers up to 1e120 in magnitude and booleans (absent or None: off)"
FEW = 16
"""So few values are written faster one by one."""
HELD = 1.0 + 1e-9
"""Taking back may exceed what is held by as much as rounding can have lost."""


class BernoulliBlock(VocabularyBlock):
    """`counts[slot, class]`, `features[slot, field]`, `totals[class + 1, 0]`; the rest only caches what these say."""

    kind = "bernoulli"
    usual = NUMBERS | {bool}
    commonest = int
    takes_arrays = True
    presents_columns = True
    n_arrays = 3

    def __init__(self, alpha: float, binarize: float) -> None:
        self.alpha = alpha
        self.binarize = binarize
        self.names = Names()
        self.columns = Columns("bernoulli", -LARGEST_NUMBER, ALLOWED)
        self.counts = np.zeros((FIRST_CAPACITY, 2), WHOLE)
        self.features_: Floats = np.zeros((FIRST_CAPACITY, 4), order="F")
        self.totals: Floats = np.zeros((3, 1))
        self.scalars = np.zeros(4)
        self.bins: Ints = np.zeros((2, BINS), np.int64)
        self.listed: Ints = np.zeros(FIRST_CAPACITY, np.int64)
        self.cache: Ints = np.zeros((2, kernel.CACHE), np.int64)

    def reserve(self, n_classes: int) -> None:
        self._make_room(n_classes)

    def encode(self, items: Iterable[tuple[Any, Any]]) -> Entries:
        slots: list[int] = []
        values: list[float] = []
        unknown: list[tuple[int, Any]] = []
        get = self.names.slots.get
        for name, value in items:
            if type(name) is not str:
                name = plain_name(name)
            if value is None:
                continue
            if type(value) is not float and type(value) is not int:
                number = float(value) if isinstance(value, bool | np.bool_) else finite_number(value)
                if number is None:
                    raise refusal("bernoulli", name, value, ALLOWED)
                value = number
            if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
                raise refusal("bernoulli", name, value, ALLOWED)
            slot = get(name, -1)
            if slot < 0:
                unknown.append((len(slots), name))
            slots.append(slot)
            values.append(1.0 if value > self.binarize else 0.0)
        return slots, None, values, unknown

    @staticmethod
    def _allowed(values: Array) -> Array:
        good: Array = np.abs(values) <= LARGEST_NUMBER
        return good

    def fill(self, buffer: Buffer, names: list[Any], values: Array, learned: Array) -> None:
        table = dense_check(values, names, self._allowed, "bernoulli", ALLOWED)
        n_rows, n_columns = table.shape
        wanted = [bool(learned.any())] * n_columns
        slots = buffer.look_up(self.names.slots, len(self.names), names, wanted, None)
        starts = np.arange(n_rows + 1, dtype=np.int64) * n_columns
        buffer.take(starts, np.tile(slots, n_rows), (table > self.binarize).reshape(-1).astype(np.float64))

    def fill_columns(self, buffer: Buffer, values: Array, learned: Array) -> None:
        width = values.shape[1]
        table = dense_check(values, range(width), self._allowed, "bernoulli", ALLOWED)
        stored = stored_of((table > self.binarize).astype(np.float64))
        self.columns.fill(buffer, self.names.slots, len(self.names), None, width, stored, learned)

    def fill_sparse(self, buffer: Buffer, X: Any, learned: Array) -> None:
        if self.binarize < 0.0:
            raise ValueError(f"binarize={self.binarize!r} would turn on what a sparse matrix does not store")
        stored = self.columns.stored_in(X)
        self.columns.fill(buffer, self.names.slots, len(self.names), None, X.shape[1], stored, learned)
        buffer.values = (buffer.values > self.binarize).astype(np.float64)

    def push(self, buffer: Buffer, row: int, entries: Entries, learn: bool) -> None:
        slots, _, values, unknown = entries
        if unknown:
            buffer.resolve(self.names, slots, unknown, learn)
        buffer.push(row, slots, None, values)

    def vocabulary(self) -> tuple[Mapping[Any, int], bool]:
        return self.names.slots, self.names.strings

    def write_values(self, buffer: Buffer, n: int, values: Collection[Any]) -> bool:
        threshold = self.binarize
        start = buffer.room(n)
        if n > FEW:
            with suppress(TypeError, ValueError):
                small = bytes(values)  # whole numbers up to 255 need no other check, and are compared faster
                buffer.values[buffer.used : buffer.used + n] = np.frombuffer(small, np.uint8) > threshold
                return True
        try:
            if not hypot(*values) <= SMALL_NORM:
                return False
        except OverflowError:  # an integer beyond every float
            return False
        packers(n)[1](buffer.for_values, start, *[value > threshold for value in values])
        return True

    def settle(self, buffer: Buffer, n_classes: int) -> None:
        start = len(self.names)
        for name in buffer.fresh:
            self.names.add(name)
        self._make_room(n_classes)
        for slot in range(start, len(self.names)):
            self.features_[slot, COLUMN] = self.columns.number(self.names.names[slot])

    def _make_room(self, n_classes: int) -> None:
        self.counts = grown(self.counts, [len(self.names), n_classes])
        self.features_ = grown(self.features_, [len(self.counts), 4])
        self.listed = grown(self.listed, [len(self.counts)])
        self.totals = grown(self.totals, [n_classes + 1, 1])
        self.bins = grown(self.bins, [n_classes, BINS])
        self.cache = grown(self.cache, [n_classes, kernel.CACHE])

    def predict_learn(self, buffer: Buffer, batch: Batch, sums: Sums) -> None:
        while not kernel.predict_learn(
            self.counts, self.features_, self.totals, self.scalars, self.bins, self.listed, self.cache, self.alpha,
            len(self.names), batch.n_classes, batch.n_rows, buffer.starts, buffer.slots, buffer.values, batch.events,
            sums.first, sums.sums, sums.unseen,
        ):  # fmt: skip
            self.hold_more()
        self.columns.learned(batch)

    def learn(self, buffer: Buffer, batch: Batch) -> None:
        while not kernel.learn(
            self.counts, self.features_, self.totals, self.scalars, self.bins, self.listed, self.cache,
            len(self.names), batch.n_classes, batch.n_rows, buffer.starts, buffer.slots, buffer.values, batch.events,
        ):  # fmt: skip
            self.hold_more()
        self.columns.learned(batch)

    def predict_one(
        self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, prior: int, read: float, sums: Sums
    ) -> int:
        return kernel.predict_one(
            self.counts, self.features_, self.totals, self.scalars, self.bins, self.listed, self.cache, self.alpha,
            buffer.slots, buffer.values, n_entries,
            classes, order, prior, read, sums.sums, sums.unseen, sums.probabilities,
        )  # fmt: skip

    def learn_one(self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, label: int, w: float) -> bool:
        return kernel.learn_one(
            self.counts, self.features_, self.totals, self.scalars, self.bins, self.listed, self.cache,
            len(self.names.names), len(order), buffer.slots, buffer.values, n_entries, classes, label, w,
        )  # fmt: skip

    def begin_copy(self) -> tuple[Self, list[InPieces]]:
        self.fold()
        twin, names = self.names.begin_copy()
        return self._begin_copy({"names": twin, "listed": NO_INTS}, [names])

    def fold(self) -> None:
        """Count the rows of arrays on each of their columns, as if their names had been given."""
        for slot, rows in self.columns.folded(self.names.slots):
            self.features_[slot, EVENTS] += rows
        self.scalars[WIDTH] = 0.0

    def check_unlearn(self, entries: Entries, label: int, w: float, last: bool) -> None:
        slots, _, values, _ = entries
        assert values is not None
        self.fold()
        n_names = len(self.names)
        on = np.zeros(n_names, np.bool_)
        for slot, value in zip(slots, values, strict=True):
            if slot < 0 or self.features_[slot, EVENTS] == 0.0:
                raise ValueError("a feature of this event was never learned")
            on[slot] = value > 0.0
        held = self.counts[:n_names, label]
        n = self.totals[label + 1, 0]
        if w > n * HELD or (last and abs(n - w) > 1e-9 * n):
            raise ValueError(f"weight {w!r} is not among the {n!r} that this class holds")
        impossible = np.where(on, w > held * HELD, held - (n - w) > 1e-9 * n)
        if impossible.any():
            name = self.names.names[int(np.argmax(impossible))]
            raise ValueError(f"bernoulli feature {name!r}: it was never learned like this with this weight")
        for slot, value in zip(slots, values, strict=True):
            if self.features_[slot, EVENTS] == 1.0:
                rest = self.counts[slot].sum() - (w if value > 0.0 else 0.0)
                if rest > 1e-9 * self.counts[slot].sum():
                    raise ValueError(f"bernoulli feature {self.names.names[slot]!r}: its last event was another one")

    def unlearn(self, entries: Entries, label: int, w: float, order: Ints) -> None:  # noqa: ARG002
        slots, _, values, _ = entries
        assert values is not None
        n_names = len(self.names)
        n = max(self.totals[label + 1, 0] - w, 0.0)
        self.totals[label + 1, 0] = n
        if not w.is_integer():
            self.hold_fractions()
        for slot, value in zip(slots, values, strict=True):
            self.features_[slot, EVENTS] -= 1.0
            if value > 0.0:
                self.counts[slot, label] = max(self.counts[slot, label] - w, 0.0)
        held = self.counts[:n_names, label]
        held[held > n] = n
        for slot in sorted(slots, reverse=True):
            if self.features_[slot, EVENTS] == 0.0:
                last = self.names.forget(slot)
                for array in (self.counts, self.features_):
                    array[slot] = array[last]
                    array[last] = 0.0
        self._refresh()

    def _refresh(self) -> None:
        n_names = len(self.names)
        known = self.features_[:n_names, EVENTS] > 0.0
        known |= self.features_[:n_names, COLUMN] < self.scalars[WIDTH]
        self.totals[0, 0] = float(known.sum())
        n_columns = min(len(self.bins), self.counts.shape[1])
        kernel.rebuild(
            self.counts, self.features_, self.scalars, self.bins, self.listed, self.cache, n_names, n_columns
        )

    def forget_class(self, label: int, last: int) -> None:
        for array, c, end in (
            (self.counts.T, label, last),
            (self.totals, label + 1, last + 1),
        ):
            array[c] = array[end]
            array[end] = 0.0
        self._refresh()

    def scale(self, factor: float, n_classes: int) -> None:
        self.hold_fractions()
        kernel.scale(self.counts, self.totals, factor, len(self.names), n_classes)
        self._refresh()

    def merge(self, other: Self, classes: Ints, n_classes: int) -> None:
        self.fold()
        other = other.copy()
        other.fold()
        for name in other.names.names:
            if name not in self.names.slots:
                self.names.add(name)
        self._make_room(n_classes)
        slots = np.array([self.names.slots[name] for name in other.names.names], np.int64)
        self.add_counts(slots, classes, other)
        self.features_[slots, EVENTS] += other.features_[: len(slots), EVENTS]
        self.features_[slots, COLUMN] = other.features_[: len(slots), COLUMN]
        self.totals[classes + 1] += other.totals[1 : len(classes) + 1]
        self._refresh()

    def names_of(self, entries: Entries) -> list[Any]:
        slots, _, values, _ = entries
        assert values is not None
        return [
            self.names.names[slot] if slot >= 0 and value > 0.0 else None
            for slot, value in zip(slots, values, strict=True)
        ]

    def split(self, entries: Entries, alone: Floats) -> tuple[Floats, Floats]:
        """Part what events with one feature on have in common with what the feature itself says, by class.

        `alone[0]` is the event with nothing on. Return the sum over the features that this event leaves off, and for
        each entry log P(on).
        """
        slots, _, values, _ = entries
        assert values is not None
        off = np.zeros((len(slots), alone.shape[1]))
        read = self.scalars[kernel.READ_WITH]
        for k, (slot, value) in enumerate(zip(slots, values, strict=True)):
            if slot >= 0 and value > 0.0:
                for c in range(alone.shape[1]):
                    n = float(self.totals[c + 1, 0])
                    off[k, c] = kernel.log_off(float(self.counts[slot, c]), n, self.alpha, float(read))
        return alone[0] - off.sum(axis=0), alone[1:] - alone[0] + off

    @property
    def n_features(self) -> int:
        return len(self.names)

    def features(self) -> list[Any]:
        return list(self.names.names)

    def dump(self, order: Ints) -> tuple[dict[str, Any], list[Array]]:
        self.fold()
        names, slots = self.names.in_order()
        arrays = [self.counts[np.ix_(slots, order)], self.features_[slots, EVENTS], self.totals[order + 1, 0]]
        return {"features": names}, arrays

    def load(self, names: Mapping[str, Any], arrays: list[Array], n_classes: int) -> None:
        self.names = Names()
        self.columns = Columns("bernoulli", -LARGEST_NUMBER, ALLOWED)
        for name in names["features"]:
            self.names.add(name)
        n_names = len(self.names)
        self.scalars = np.zeros(4)
        self.hold(grown(arrays[0], [FIRST_CAPACITY, n_classes]))
        self.features_ = np.zeros((len(self.counts), 4), order="F")
        self.features_[:n_names, EVENTS] = arrays[1]
        self.features_[:n_names, COLUMN] = [self.columns.number(name) for name in self.names.names]
        self.totals = np.zeros((self.counts.shape[1] + 1, 1))
        self.totals[1 : n_classes + 1, 0] = arrays[2]
        self._make_room(n_classes)
        self._refresh()

    def numbers(self, slots: slice, columns: Ints, read: float) -> dict[str, Floats]:
        count = read * self.counts[slots][:, columns]
        n = np.broadcast_to(read * self.totals[columns + 1, 0], count.shape)
        return {"p": shares(count, self.alpha, n + 2.0 * self.alpha, 0.5), "count": count, "n": n}
