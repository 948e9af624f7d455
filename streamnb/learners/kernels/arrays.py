"""What is done with every entry of an array before it is read or learned, in one pass."""

from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.layout import LABEL, READ, SHIFT, WEIGHT, WIDE
from streamnb.learners.kernels.types import Array, Floats, Ints


@jit
def write_events(labels: Ints, low: int, table: Ints, weights: Floats, width: int, events: Floats) -> int:
    """Write an event for each row; one of weight 0 is not to be learned. Return how many are.

    `table[label - low]` is the slot of a label. -1 is returned if a label has none.
    """
    learned = 0
    for i in range(len(labels)):
        place = labels[i] - low
        slot = table[place] if 0 <= place < len(table) else -1
        if slot < 0:
            return -1
        learn = weights[i] > 0.0
        events[i, LABEL] = slot if learn else -1.0
        events[i, WEIGHT] = weights[i]
        events[i, SHIFT] = 1.0
        events[i, READ] = 1.0
        events[i, WIDE] = width
        learned += learn
    return learned


@jit
def limits(codes: Ints, low: Ints, high: Ints) -> None:
    """Write the least and the largest code of each column."""
    low[:] = codes[0]
    high[:] = codes[0]
    for i in range(1, len(codes)):
        for j in range(len(low)):
            low[j] = min(low[j], codes[i, j])
            high[j] = max(high[j], codes[i, j])


@jit
def mark(codes: Ints, shifts: Ints, learned: Array, marks: Ints) -> None:
    """Mark the codes that come: with 1, or with 3 if a row that has it is learned."""
    for i in range(len(codes)):
        bits = 3 if learned[i] else 1
        for j in range(len(shifts)):
            marks[codes[i, j] + shifts[j]] |= bits


@jit
def spread(codes: Ints, shifts: Ints, table: Ints, out: Ints) -> None:
    """Write what the table says of each code."""
    for i in range(len(codes)):
        for j in range(len(shifts)):
            out[i, j] = table[codes[i, j] + shifts[j]]


@jit
def first_outside(values: Floats, least: float, most: float) -> int:
    """Return the place of the first value that is not within the limits, -1 if there is none."""
    outside = 0
    for place in range(len(values)):
        outside |= (not values[place] >= least) | (not values[place] <= most)  # no branches, so the loop vectorises
    if outside:
        for place in range(len(values)):
            if not least <= values[place] <= most:
                return place
    return -1


@jit
def take_columns(columns: Array, width: int, out: Ints) -> int:
    """Write the column of each entry; return the first entry of none of the `width` columns, -1 if there is none."""
    outside = 0
    for k in range(len(columns)):
        out[k] = columns[k]
        outside |= (out[k] < 0) | (out[k] >= width)
    if outside:
        for k in range(len(columns)):
            if not 0 <= out[k] < width:
                return k
    return -1


@jit
def replace(out: Ints, slots: Ints) -> None:
    """Replace the column of each entry with its slot."""
    for k in range(len(out)):
        out[k] = slots[out[k]]
