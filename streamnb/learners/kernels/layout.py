"""How the rows of a batch, and what they are summed in, lie in memory: few arrays, because passing each one costs.

`events[row]` is (label slot or -1, weight, what the state is multiplied by before the row is learned, what it is
read with, the width of an array's row). `sums[row, class]` is the joint log-likelihood so far and the bookkeeping
of the limits: the squared distance over zero-variance cells (a pair), the number of such cells, the power of alpha.
`unseen[row]` counts names never learned; its last element says that some row needs its limits settled.
"""

from streamnb.learners.kernels.jit import inlined
from streamnb.learners.kernels.types import Floats, Ints

LABEL, WEIGHT, SHIFT, READ, WIDE = range(5)
EVENT_FIELDS = 5
JOINT, DISTANCE, DISTANCE_LOW, CELLS, POWER = range(5)
SUM_FIELDS = 5
REFUSED = -2
"""The best column of an event that was not read, because a number in it is not within the limits."""
LARGEST_NUMBER = 1e120


@inlined
def start_sums(sums: Floats, unseen: Ints, n_rows: int) -> None:
    """Set to zero what the rows of a batch are summed in."""
    sums[:n_rows] = 0.0
    unseen[:n_rows] = 0
    unseen[-1] = 0


@inlined
def only_read(events: Floats, n_rows: int) -> bool:
    """Whether none of the rows is learned."""
    learned = 0
    for i in range(n_rows):
        learned += events[i, LABEL] >= 0.0
    return learned == 0
