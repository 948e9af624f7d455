"""The Gaussian block: moments per feature and class."""

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from math import hypot
from typing import Any, Self

import numpy as np

from streamnb.learners.block import Batch, Block, Entries, Sums
from streamnb.learners.columns import first_bad
from streamnb.learners.kernels import arrays, gaussian_rows, moments
from streamnb.learners.kernels import gaussian as kernel
from streamnb.learners.kernels.gaussian import (
    ANCHOR,
    EVENTS,
    FIELDS,
    M2,
    M2_LOW,
    MEAN,
    MEAN_LOW,
    N_LOW,
    VARIANCES,
    WIDEST,
    N,
)
from streamnb.learners.kernels.layout import LARGEST_NUMBER
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.tables import FIRST_CAPACITY, Buffer, Names, Shape, StructError, grown
from streamnb.learners.values import NUMBERS, SMALL_NORM, finite_number, plain_name, refusal

ALLOWED = "real numbers up to 1e120 in magnitude (missing: absent, None or NaN)"


def _pair(x: Fraction) -> tuple[float, float]:
    high = float(x)
    return high, float(x - Fraction(high))


class GaussianBlock(Block):
    """`cells[feature, class + 1, field]`, column 0 over all classes; `cache` only holds what they say."""

    kind = "gaussian"
    usual = NUMBERS
    commonest = float
    takes_arrays = True
    n_arrays = 1

    def __init__(self, var_smoothing: float, ddof: float) -> None:
        self.var_smoothing = var_smoothing
        self.ddof = ddof
        self.names = Names()
        self.cells: Floats = np.zeros((FIRST_CAPACITY, 3, FIELDS))
        self.cache: Floats = np.zeros(FIRST_CAPACITY + VARIANCES)

    def reserve(self, n_classes: int) -> None:
        self.cells = grown(self.cells, [len(self.names), n_classes + 1, FIELDS])
        self.cache = grown(self.cache, [len(self.cells) + VARIANCES])

    def encode(self, items: Iterable[tuple[Any, Any]]) -> Entries:
        slots: list[int] = []
        values: list[float] = []
        unknown: list[tuple[int, Any]] = []
        get = self.names.slots.get
        for name, value in items:
            if type(value) is not float:
                if value is None:
                    if type(name) is not str:
                        plain_name(name)
                    continue
                number = finite_number(value)
                if number is None:
                    raise refusal("gaussian", name, value, ALLOWED)
                value = number
            if not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
                if value != value:
                    if type(name) is not str:
                        plain_name(name)
                    continue
                raise refusal("gaussian", name, value, ALLOWED)
            if type(name) is not str:
                name = plain_name(name)
            slot = get(name, -1)
            if slot < 0:
                unknown.append((len(slots), name))
            slots.append(slot)
            values.append(value)
        return slots, None, values, unknown

    def fill(self, buffer: Buffer, names: list[Any], values: Array, learned: Array) -> None:
        table = np.ascontiguousarray(values, np.float64)
        n_rows, n_columns = table.shape
        if arrays.first_outside(table.reshape(-1), -LARGEST_NUMBER, LARGEST_NUMBER) < 0:
            learns = [bool(learned.any())] * n_columns
            slots = buffer.look_up(self.names.slots, len(self.names), names, learns, None)
            starts = np.arange(n_rows + 1, dtype=np.int64) * n_columns
            buffer.take(starts, slots, table.reshape(-1))
            return
        present = ~np.isnan(table)
        good = (np.abs(table) <= LARGEST_NUMBER) | ~present
        if not good.all():
            raise first_bad("gaussian", names, values, good, ALLOWED)
        wanted = np.asarray((present & learned[:, None]).any(axis=0))
        slots = buffer.look_up(self.names.slots, len(self.names), names, wanted.tolist(), None)
        starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
        buffer.take(starts, np.broadcast_to(slots, table.shape)[present], table[present])

    def push(self, buffer: Buffer, row: int, entries: Entries, learn: bool) -> None:
        slots, _, values, unknown = entries
        if unknown:
            buffer.resolve(self.names, slots, unknown, learn)
        buffer.push(row, slots, None, values)

    def shape(self, names: tuple[Any, ...]) -> Shape | None:
        return self.names.shape(names)

    def write(self, buffer: Buffer, shape: Shape, values: Collection[Any]) -> int:
        n = shape.n
        start = 8 * buffer.used if buffer.used + n <= buffer.capacity else buffer.room(n)
        try:
            shape.pack(buffer.for_values, start, *values)
        except StructError:  # an integer beyond every float
            return -1
        buffer.for_slots[start : start + 8 * n] = shape.slots
        return n

    def are_small(self, values: Collection[Any]) -> bool:
        return hypot(*values) <= SMALL_NORM

    def settle(self, buffer: Buffer, n_classes: int) -> None:
        for name in buffer.fresh:
            self.names.add(name)
        self.reserve(n_classes)

    def predict_learn(self, buffer: Buffer, batch: Batch, sums: Sums) -> None:
        kernel.predict_learn(
            self.cells, self.cache, self.var_smoothing, self.ddof, len(self.names.names),
            batch.n_classes, batch.n_rows, buffer.starts, buffer.slots, buffer.values, batch.events,
            sums.first, sums.sums, sums.unseen,
        )  # fmt: skip

    def learn(self, buffer: Buffer, batch: Batch) -> None:
        gaussian_rows.learn(
            self.cells, self.cache, len(self.names.names), batch.n_classes, batch.n_rows,
            buffer.starts, buffer.slots, buffer.values, batch.events,
        )  # fmt: skip

    def predict_one(
        self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, prior: int, read: float, sums: Sums
    ) -> int:
        return kernel.predict_one(
            self.cells, self.cache, self.var_smoothing, self.ddof, buffer.slots, buffer.values, n_entries,
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
        return kernel.learn_one(
            self.cells, self.cache, len(self.names.names), buffer.slots, buffer.values, n_entries,
            classes, label, w,
        )  # fmt: skip

    def check_unlearn(self, entries: Entries, label: int, w: float, last: bool) -> None:
        slots, _, values, _ = entries
        assert values is not None
        for slot, x in zip(slots, values, strict=True):
            if slot < 0 or self.cells[slot, label + 1, EVENTS] == 0.0:
                raise ValueError(f"{x!r} was never learned for this class: the feature never came with it")
            self._without(slot, label + 1, x, w)
        if last:
            held = self.cells[: len(self.names), label + 1, EVENTS].sum()
            if held != len(slots):
                raise ValueError("the last event of this class had other features")

    def _without(self, f: int, column: int, x: float, w: float) -> Floats:
        """Return the cell less one value (West 1979 backwards, in exact arithmetic); refuse what it cannot hold."""
        cell = self.cells[f, column]
        n = Fraction(cell[N]) + Fraction(cell[N_LOW])
        mean = Fraction(cell[ANCHOR]) + Fraction(cell[MEAN]) + Fraction(cell[MEAN_LOW])
        m2 = Fraction(cell[M2]) + Fraction(cell[M2_LOW])
        weight, delta = Fraction(w), Fraction(x) - mean
        out = np.zeros(FIELDS)
        events = cell[EVENTS] - 1.0
        name = self.names.names[f]
        tolerance = (m2 + weight * delta * delta) / 10**9
        if events == 0.0:
            if abs(n - weight) > n / 10**9:
                raise ValueError(f"gaussian feature {name!r}: weight {w!r} is not the {float(n)!r} that is held")
            if (
                delta * delta * weight > tolerance
                and abs(delta) > (abs(Fraction(x)) + abs(Fraction(cell[ANCHOR]))) / 10**9
            ):
                raise ValueError(f"gaussian feature {name!r}: {x!r} was never learned, only {float(mean)!r} is held")
            return out
        rest = n - weight
        if rest <= 0:
            raise ValueError(f"gaussian feature {name!r}: weight {w!r} is above the {float(n)!r} that is held")
        left = m2 - weight * delta * delta * n / rest
        if left < -tolerance or (events == 1.0 and left > tolerance):
            raise ValueError(f"gaussian feature {name!r}: {x!r} cannot have been learned, the variance forbids it")
        mean -= delta * weight / rest
        out[EVENTS] = events
        out[N], out[N_LOW] = _pair(rest)
        out[ANCHOR] = float(mean)
        if left > tolerance:
            out[MEAN], out[MEAN_LOW] = _pair(mean - Fraction(out[ANCHOR]))
            out[M2], out[M2_LOW] = _pair(left)
        return out

    def unlearn(self, entries: Entries, label: int, w: float, order: Ints) -> None:
        slots, _, values, _ = entries
        assert values is not None
        for slot, x in zip(slots, values, strict=True):
            self.cells[slot, label + 1] = self._without(slot, label + 1, x, w)
            moments.pool(self.cells, slot, order)
        for slot in sorted(slots, reverse=True):
            if self.cells[slot, 0, EVENTS] == 0.0:
                last = self.names.forget(slot)
                self.cells[slot] = self.cells[last]
                self.cells[last] = 0.0
        self._refresh()

    def _refresh(self) -> None:
        self.cache[VARIANCES + len(self.names) :] = 0.0
        kernel.refresh_all(self.cells, self.cache, len(self.names))

    def forget_class(self, label: int, last: int) -> None:
        self.cells[:, label + 1] = self.cells[:, last + 1]
        self.cells[:, last + 1] = 0.0

    def scale(self, factor: float, n_classes: int) -> None:
        kernel.scale(self.cells, factor, len(self.names), n_classes)
        self._refresh()

    def merge(self, other: Self, classes: Ints, n_classes: int) -> None:
        for name in other.names.names:
            if name not in self.names.slots:
                self.names.add(name)
        self.cells = grown(self.cells, [len(self.names), n_classes + 1, FIELDS])
        self.cache = grown(self.cache, [len(self.cells) + VARIANCES])
        slots = np.array([self.names.slots[name] for name in other.names.names], np.int64)
        moments.merge(self.cells, other.cells, slots, classes)
        self._refresh()

    def names_of(self, entries: Entries) -> list[Any]:
        return [self.names.names[slot] if slot >= 0 else None for slot in entries[0]]

    @property
    def n_features(self) -> int:
        return len(self.names)

    def features(self) -> list[Any]:
        return list(self.names.names)

    def dump(self, order: Ints) -> tuple[dict[str, Any], list[Array]]:
        names, slots = self.names.in_order()
        columns = np.concatenate([[0], order + 1]).astype(np.int64)
        return {"features": names}, [self.cells[slots][:, columns]]

    def load(self, names: Mapping[str, Any], arrays: list[Array], n_classes: int) -> None:
        self.names = Names()
        for name in names["features"]:
            self.names.add(name)
        self.cells = grown(arrays[0], [FIRST_CAPACITY, n_classes + 1, FIELDS])
        self.cache = np.zeros(len(self.cells) + VARIANCES)
        self._refresh()

    def epsilon(self) -> float:
        """The variance added to every cell."""
        return self.var_smoothing * float(self.cache[WIDEST])

    def numbers(self, slots: slice, columns: Ints, read: float) -> dict[str, Floats]:
        taken = kernel.ddof_as_held(self.ddof, read)
        cells = self.cells[slots][:, columns + 1]
        n = read * cells[:, :, N]
        held = np.where(cells[:, :, N : N + 1] == 0.0, self.cells[slots, :1], cells)
        rest = held[:, :, N] - taken
        variance = np.divide(held[:, :, M2], rest, out=np.zeros_like(rest), where=rest > 0.0)
        return {"mean": held[:, :, ANCHOR] + held[:, :, MEAN], "variance": variance + self.epsilon(), "n": n}
