"""A batch of validated events, bound to one model, and what comes of predicting and learning it."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streamnb.learners.block import Batch
from streamnb.learners.kernels.layout import EVENT_FIELDS
from streamnb.learners.kernels.types import Floats, Ints
from streamnb.learners.tables import NO_INTS, Buffer, grown
from streamnb.learners.values import Label, plain_time, plain_weight

if TYPE_CHECKING:
    from streamnb.learners.model import Model

_PACK: Callable[..., None] = struct.Struct(f"{EVENT_FIELDS}d").pack_into

MOST_CODES = 1 << 16
"""Labels that lie further apart are looked up one by one,"""
LARGEST_CODE = 1 << 62
"""and so are those that do not fit an array of integers."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The answers to a batch, each from the model that had learned all rows before it."""

    labels: tuple[Label, ...]
    """Sorted; the columns. All classes known after the batch."""
    probabilities: Floats
    """(n_events, n_classes); NaN where the class was not yet known when the row came."""
    best: Ints
    """(n_events,) the predicted column, -1 while no class was known."""
    unseen: Ints
    """(n_events,) how many features, categories or tokens of the row the model had never learned."""


class LabelCodes(NamedTuple):
    """The slots of labels that are whole numbers, or booleans, close together: that of `low` comes first."""

    dtype_kind: str
    """Of the arrays whose labels can be looked up; empty if there are none."""
    low: int
    slots: Ints
    """-1 for what is no label."""


NO_CODES = LabelCodes("", 0, NO_INTS)
NO_EVENTS: Floats = np.zeros((0, EVENT_FIELDS))


def label_codes(labels: Sequence[Label], slots: Ints) -> LabelCodes:
    """Return the codes of sorted labels."""
    kind = {int: "i", bool: "b"}.get(type(labels[0]), "") if labels else ""
    if not kind or type(labels[-1]) is not type(labels[0]):  # sorted by type
        return NO_CODES
    low, high = int(labels[0]), int(labels[-1])
    if high - low >= MOST_CODES or max(abs(low), high) > LARGEST_CODE:
        return NO_CODES
    table = np.full(high - low + 1, -1, np.int64)
    table[[int(label) - low for label in labels]] = slots
    return LabelCodes(kind, low, table)


class Rows:
    """Events to predict and learn in one go. Appending leaves the model as it is."""

    def __init__(self, model: "Model") -> None:
        self._model = model
        self.batch = Batch(0, 0, NO_INTS, NO_EVENTS)
        self.buffers = [Buffer() for _ in model.blocks]
        self.fresh_labels: dict[Label, int] = {}
        self.times: list[float | None] = []
        self.learned = 0
        self.version = -1

    def __len__(self) -> int:
        return self.batch.n_rows

    def clear(self) -> None:
        """Drop all rows."""
        self.batch.n_rows = 0
        self.learned = 0
        for buffer in self.buffers:
            buffer.clear()
        if self.fresh_labels:
            self.fresh_labels.clear()
        if self.times:
            self.times.clear()

    def append(self, x: Any, y: Any = None, w: Any = 1.0, t: Any = None) -> None:
        """Validate an event and add it.

        Without a label it is only predicted. Raise ValueError or TypeError, then nothing changes.
        """
        self.add(x, y, w, t, supervised=y is not None)

    def add(self, x: Any, y: Any, w: Any, t: Any, supervised: bool) -> None:
        """The same, with a label of None refused if the event is `supervised`."""
        model, batch = self._model, self.batch
        row = batch.n_rows
        if row == 0:
            self.version = model.version
        written = model.write(self.buffers, x)
        entries = model.encode(x) if written is None else []
        if supervised:
            slot, name = model.label_slot(y, self.fresh_labels)
        weight = 1.0 if type(w) is float and w == 1.0 else plain_weight(w)
        time = None if t is None else plain_time(t)
        learn = supervised and weight > 0.0
        if row == len(batch.events):
            batch.events = grown(batch.events, [row + 1, EVENT_FIELDS])
        if learn:
            if slot < 0:
                slot = self.fresh_labels[name] = len(model.labels) + len(self.fresh_labels)
            self.learned += 1
        _PACK(batch.events, 8 * EVENT_FIELDS * row, slot if learn else -1.0, weight, 1.0, 1.0, 0.0)
        if model.forgets:
            self.times.append(time)
        if written is None:
            for block, buffer, part in zip(model.blocks, self.buffers, entries, strict=True):
                block.push(buffer, row, part, learn)
        else:
            for buffer, n in zip(self.buffers, written, strict=True):
                buffer.end_row(row, n)
        batch.n_rows = row + 1
