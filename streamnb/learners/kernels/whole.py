"""Counts as 32-bit integers while all of them are whole numbers that fit: as exact as floats, in half the memory.

The kernels take either. Those that learn ask `fits` first, and refuse a batch whose counts need floats.
"""

import math

import numpy as np

from streamnb.learners.kernels.jit import inlined, without_nan
from streamnb.learners.kernels.layout import LABEL, SHIFT, WEIGHT
from streamnb.learners.kernels.types import Array, Floats, Ints

WHOLE = np.int32
LARGEST_WHOLE = 2.0**31 - 1.0
BOUND = 1
"""The scalar that no count is above."""


@without_nan
def largest(values: Floats, start: int, stop: int) -> float:
    """Return the largest of the values, 0 if there is none above."""
    most = 0.0
    for k in range(start, stop):
        most = max(most, values[k])
    return most


@inlined
def fits_row(counts: Array, scalars: Floats, values: Floats, start: int, stop: int, w: float) -> bool:
    """Whether `w` times these values can be added; if so, they count in the bound."""
    if counts.itemsize != 4:
        return True
    fractions = 0
    for k in range(start, stop):
        fractions |= w * values[k] != math.floor(w * values[k])
    bound = scalars[BOUND] + w * largest(values, start, stop)
    if fractions or not bound <= LARGEST_WHOLE:
        return False
    scalars[BOUND] = bound
    return True


@inlined
def fits(counts: Array, scalars: Floats, starts: Ints, values: Floats, events: Floats, n_rows: int) -> bool:
    """Whether the rows that are to be learned can be added; if so, they count in the bound."""
    before = scalars[BOUND]
    for i in range(n_rows if counts.itemsize == 4 else 0):
        if events[i, LABEL] >= 0.0 and (
            events[i, SHIFT] != 1.0
            or not fits_row(counts, scalars, values, starts[i], starts[i + 1], events[i, WEIGHT])
        ):
            scalars[BOUND] = before
            return False
    return True
