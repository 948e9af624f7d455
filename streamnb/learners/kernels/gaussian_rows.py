"""Learning a batch whose rows all have the same features, several features at once.

The steps are those of `gaussian.learn_cell`, to the bit, without branches: the cells of `LANES` features lie side by
side, field by field, in one array, so that the compiler sees that no store can meet another load, and vectorises.
"""

import numpy as np

from streamnb.learners.kernels import gaussian
from streamnb.learners.kernels.gaussian import (
    ANCHOR,
    EVENTS,
    FIELDS,
    M2,
    M2_LOW,
    MEAN,
    MEAN_LOW,
    N_LOW,
    N,
    refresh_variances,
)
from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.layout import LABEL, SHIFT, WEIGHT
from streamnb.learners.kernels.sums import LARGEST, add_pair, two_sum
from streamnb.learners.kernels.types import Floats, Ints

LANES = 8
VALUE = FIELDS
"""Beside the fields of a cell, the value that is to be learned."""
BLOCK = (FIELDS + 1) * LANES


@inlined
def learn_block(held: Floats, w: float) -> None:
    """Add one value to each of `LANES` cells, as `learn_cell` does: its shortcuts give the same bits."""
    for at in range(LANES):
        x = held[at + VALUE * LANES]
        n = held[at + N * LANES]
        n_low = held[at + N_LOW * LANES]
        anchor = held[at + ANCHOR * LANES]
        mean, mean_low = held[at + MEAN * LANES], held[at + MEAN_LOW * LANES]
        m2, m2_low = held[at + M2 * LANES], held[at + M2_LOW * LANES]
        empty = n == 0.0
        away, rounded = two_sum(x, -anchor)
        delta = (away - mean) + (rounded - mean_low)
        total, total_low = add_pair(n, n_low, w)
        share = w / total
        lighter = w <= n
        step, step_back = delta * share, -delta * (n / total)
        mean, mean_low = add_pair(
            mean if lighter else away, mean_low if lighter else rounded, step if lighter else step_back
        )
        m2, m2_low = add_pair(m2, m2_low, delta * delta * (n * share))
        small = m2 <= LARGEST
        held[at + EVENTS * LANES] += 1.0
        held[at + N * LANES] = w if empty else total
        held[at + N_LOW * LANES] = 0.0 if empty else total_low
        held[at + ANCHOR * LANES] = x if empty else anchor
        held[at + MEAN * LANES] = 0.0 if empty else mean
        held[at + MEAN_LOW * LANES] = 0.0 if empty else mean_low
        held[at + M2 * LANES] = 0.0 if empty else m2 if small else LARGEST
        held[at + M2_LOW * LANES] = m2_low if small and not empty else 0.0


@inlined
def exchange(cells: Floats, slots: Ints, held: Floats, n_entries: int, n_columns: int, out: bool) -> None:
    """Copy the cells of these features to their lanes, or back (`out`)."""
    n_blocks = (n_entries + LANES - 1) // LANES
    for column in range(n_columns):
        for k in range(n_entries):
            block = held[column * n_blocks + k // LANES]
            for field in range(FIELDS):
                if out:
                    cells[slots[k], column, field] = block[field * LANES + k % LANES]
                else:
                    block[field * LANES + k % LANES] = cells[slots[k], column, field]


@inlined
def alike(n_rows: int, starts: Ints, slots: Ints, events: Floats) -> bool:
    """Whether all rows have the features of the first one, in the same order, and none rescales the cells."""
    width = starts[1]
    other = 0
    for i in range(n_rows):
        other += starts[i + 1] != (i + 1) * width or events[i, SHIFT] != 1.0
    if other > 0:
        return False
    for i in range(1, n_rows):
        for k in range(width):
            other += slots[i * width + k] != slots[k]
    return other == 0


@jit
def learn(
    cells: Floats,
    cache: Floats,
    n_features: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    values: Floats,
    events: Floats,
) -> None:
    """Learn every row that has a label."""
    if n_rows <= LANES or 2 * starts[1] < LANES or not alike(n_rows, starts, slots, events):
        gaussian.learn(cells, cache, n_features, n_classes, n_rows, starts, slots, values, events)
        return
    width = starts[1]
    n_blocks = (width + LANES - 1) // LANES
    held = np.zeros(((n_classes + 1) * n_blocks, BLOCK))
    exchange(cells, slots, held, width, n_classes + 1, False)
    for i in range(n_rows):
        if events[i, LABEL] < 0.0:
            continue
        own = (int(events[i, LABEL]) + 1) * n_blocks
        for first in (own, 0):
            for k in range(width):
                held[first + k // LANES, VALUE * LANES + k % LANES] = values[i * width + k]
            for block in range(first, first + n_blocks):
                learn_block(held[block], events[i, WEIGHT])
    exchange(cells, slots, held, width, n_classes + 1, True)
    refresh_variances(cells, cache, n_features, slots, 0, width)
