"""Many events of the same numeric features, appended to a batch as one matrix."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamnb.learners.block import Block
from streamnb.learners.kernels.layout import EVENT_FIELDS, LARGEST_NUMBER
from streamnb.learners.kernels.types import Floats, Ints
from streamnb.learners.model import Model
from streamnb.learners.rows import Rows
from streamnb.learners.tables import grown

PROBE = 0.5
"""Allowed wherever numbers are."""
LEAST = {"gaussian": -LARGEST_NUMBER, "counts": 0.0, "complement": 0.0}
"""The least number that each kind of block takes as it is; the largest is that of all."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where a model's one block keeps these features, all of which it knows. Valid until names are forgotten.

    Numbers from `least` to below LARGEST_NUMBER are taken as they are; any other might be refused.
    """

    block: Block
    slots: Ints
    least: float


def layout_of(model: Model, names: Sequence[str]) -> Layout | None:
    """Return the layout of events of exactly these features, in this order, all numbers.

    None if the model does not know them all, or does anything with them but hand them to one block.
    """
    entries = model.encode(dict.fromkeys(names, PROBE))
    found = None
    for block, (slots, extras, values, unknown) in zip(model.blocks, entries, strict=True):
        if not slots:
            continue
        whole = len(slots) == len(names) and not unknown and values == [PROBE] * len(names)
        if found is not None or not whole or block.kind not in LEAST or any(extras or ()):
            return None
        found = Layout(block, np.array(slots, np.int64), LEAST[block.kind])
    return found


def append(
    rows: Rows, model: Model, layout: Layout, table: Floats, labels: Sequence[int], times: Sequence[float | None]
) -> None:
    """Add events of weight 1; `labels` are slots of known labels, -1 to predict only.

    The same bits as appending them one by one.
    """
    n, row = len(table), len(rows)
    if row == 0:
        rows.version = model.version
    batch = rows.batch
    batch.events = grown(batch.events, [row + n, EVENT_FIELDS])
    events = batch.events[row : row + n]
    events[:] = (-1.0, 1.0, 1.0, 1.0, 0.0)
    events[:, 0] = labels
    rows.learned += int(np.count_nonzero(events[:, 0] >= 0.0))
    if model.forgets:
        rows.times.extend(times)
    for block, buffer in zip(model.blocks, rows.buffers, strict=True):
        if block is layout.block:
            buffer.append_table(row, layout.slots, table)
        else:
            buffer.end_rows(row, n, 0)
    batch.n_rows = row + n
