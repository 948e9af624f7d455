"""What is done with every entry of an array before it is read or learned, in one pass."""

from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.types import Array, Floats, Ints


@jit
def first_outside(values: Floats, least: float, most: float) -> int:
    """Return the place of the first value that is not within the limits, -1 if there is none."""
    outside = 0
    for value in values:
        outside += not least <= value <= most
    if outside > 0:
        for place in range(len(values)):
            if not least <= values[place] <= most:
                return place
    return -1


@jit
def slots_at(columns: Array, slots: Ints, out: Ints) -> None:
    """Write the slot of each entry's column."""
    for place in range(len(columns)):
        out[place] = slots[columns[place]]
