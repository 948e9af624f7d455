"""What is done with every entry of an array before it is read or learned, in one pass."""

from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.types import Array, Floats, Ints


@jit
def first_outside(values: Floats, least: float, most: float) -> int:
    """Return the place of the first value that is not within the limits, -1 if there is none."""
    inside = 0
    for value in values:
        inside += (value >= least) & (value <= most)  # `and` would be a branch, and keep the loop from vectorising
    if inside < len(values):
        for place in range(len(values)):
            if not least <= values[place] <= most:
                return place
    return -1


@jit
def place(columns: Array, values: Floats, slots: Ints, least: float, most: float, out: Ints) -> int:
    """Write the slot of each entry's column; return the first entry not within the limits, -1 if there is none."""
    for k in range(len(columns)):
        out[k] = slots[columns[k]]
    return first_outside(values, least, most)
