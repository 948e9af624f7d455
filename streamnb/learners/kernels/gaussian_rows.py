"""Learning a batch whose rows all have the same features, several features at once.

The steps are those of `gaussian.learn_cell`, to the bit, without branches: the cells of `LANES` features lie side by
side, field by field, in one array, so that the compiler sees that no store can meet another load, and vectorises.
What weighs the features of a class is the same for all of them, and kept once.
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
    alike,
    refresh_variances,
)
from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.layout import LABEL, WEIGHT
from streamnb.learners.kernels.sums import LARGEST, add_pair, two_sum
from streamnb.learners.kernels.types import Floats, Ints

LANES = 8
VALUE = N
"""Where a cell has its n, a lane has the value that is to be learned."""
BLOCK = FIELDS * LANES


@inlined
def start_block(held: Floats) -> None:
    """Make the value of each lane the first one of its cell."""
    for at in range(LANES):
        held[at + ANCHOR * LANES] = held[at + VALUE * LANES]
        for field in range(MEAN, EVENTS):
            held[at + field * LANES] = 0.0


@inlined
def learn_block(held: Floats, n: float, w: float, total: float, lighter: bool) -> None:
    """Add the value of each lane, of weight `w`, to its cell, which weighs `n` before and `total` then."""
    share, rest = w / total, n / total
    both = n * share
    for at in range(LANES):
        mean, mean_low = held[at + MEAN * LANES], held[at + MEAN_LOW * LANES]
        away, rounded = two_sum(held[at + VALUE * LANES], -held[at + ANCHOR * LANES])
        delta = (away - mean) + (rounded - mean_low)
        if lighter:
            mean, mean_low = add_pair(mean, mean_low, delta * share)
        else:
            mean, mean_low = add_pair(away, rounded, -delta * rest)
        m2, m2_low = add_pair(held[at + M2 * LANES], held[at + M2_LOW * LANES], delta * delta * both)
        small = m2 <= LARGEST
        held[at + MEAN * LANES] = mean
        held[at + MEAN_LOW * LANES] = mean_low
        held[at + M2 * LANES] = m2 if small else LARGEST
        held[at + M2_LOW * LANES] = m2_low if small else 0.0


@inlined
def learn_cells(held: Floats, first: int, n_blocks: int, weight: Floats, w: float) -> None:
    """Add a value to each cell of a class, which weighs `weight`: n, what its rounding dropped, and events."""
    n = weight[0]
    total, total_low = add_pair(n, weight[1], w)
    if n == 0.0:
        total, total_low = w, 0.0
    for block in range(first, first + n_blocks):
        if n == 0.0:
            start_block(held[block])
        elif w <= n:
            learn_block(held[block], n, w, total, True)
        else:
            learn_block(held[block], n, w, total, False)
    weight[0], weight[1] = total, total_low
    weight[2] += 1.0


@inlined
def exchange(cells: Floats, slots: Ints, held: Floats, weights: Floats, n_entries: int, out: bool) -> None:
    """Copy the cells of these features to their lanes, or back (`out`)."""
    n_blocks = (n_entries + LANES - 1) // LANES
    for column in range(len(weights)):
        for k in range(n_entries):
            cell, block = cells[slots[k], column], held[column * n_blocks + k // LANES]
            for field in range(ANCHOR, EVENTS):
                if out:
                    cell[field] = block[field * LANES + k % LANES]
                else:
                    block[field * LANES + k % LANES] = cell[field]
            if out:
                cell[N], cell[N_LOW], cell[EVENTS] = weights[column]


@inlined
def weigh_alike(cells: Floats, slots: Ints, n_entries: int, weights: Floats) -> bool:
    """Write what each class's cells weigh to `weights[column]`; return whether that is the same for all features."""
    other = 0
    for column in range(len(weights)):
        first = cells[slots[0], column]
        weights[column] = first[N], first[N_LOW], first[EVENTS]
        for k in range(1, n_entries):
            cell = cells[slots[k], column]
            other += cell[N] != first[N] or cell[N_LOW] != first[N_LOW] or cell[EVENTS] != first[EVENTS]
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
    weights = np.empty((n_classes + 1, 3))
    width = starts[1]
    if (
        n_rows <= LANES
        or 2 * width < LANES
        or not alike(n_rows, starts, slots, values, events)
        or not weigh_alike(cells, slots, width, weights)
    ):
        gaussian.learn(cells, cache, n_features, n_classes, n_rows, starts, slots, values, events)
        return
    n_blocks = (width + LANES - 1) // LANES
    held = np.zeros(((n_classes + 1) * n_blocks, BLOCK))
    exchange(cells, slots, held, weights, width, False)
    for i in range(n_rows):
        if events[i, LABEL] < 0.0:
            continue
        for column in (int(events[i, LABEL]) + 1, 0):
            for block in range(n_blocks):
                first = block * LANES
                lanes = held[column * n_blocks + block]
                for at in range(min(LANES, width - first)):
                    lanes[VALUE * LANES + at] = values[i * width + first + at]
            learn_cells(held, column * n_blocks, n_blocks, weights[column], events[i, WEIGHT])
    exchange(cells, slots, held, weights, width, True)
    refresh_variances(cells, cache, n_features, slots, 0, width)
