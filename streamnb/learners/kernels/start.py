"""The sums that the blocks of a model add to, before the first of them."""

from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.types import Floats, Ints


@jit
def start_sums(joint: Floats, limits: Floats, flags: Ints, unseen: Ints, n_rows: int) -> None:
    """Set to zero what the rows of a batch are summed in."""
    joint[:n_rows] = 0.0
    limits[:n_rows] = 0.0
    flags[0] = 0
    unseen[:n_rows] = 0
