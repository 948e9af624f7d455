"""Merging and pooling of Gaussian cells (Chan, Golub & LeVeque 1979)."""

from streamnb.learners.kernels.gaussian import ANCHOR, EVENTS, FIELDS, M2, M2_LOW, MEAN, MEAN_LOW, N_LOW, N
from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.sums import LARGEST, add_pair, two_sum
from streamnb.learners.kernels.types import Floats, Ints


@jit
def merge_cell(cell: Floats, other: Floats) -> None:
    """Add the moments of another stream to one cell; an empty side takes the other's anchor."""
    if other[EVENTS] == 0.0:
        return
    if cell[EVENTS] == 0.0 or cell[N] == 0.0:
        events = cell[EVENTS]
        for field in range(FIELDS):
            cell[field] = other[field]
        cell[EVENTS] += events
        return
    cell[EVENTS] += other[EVENTS]
    if other[N] == 0.0:
        return
    away, rounded = two_sum(other[ANCHOR], -cell[ANCHOR])
    apart, dropped = two_sum(other[MEAN], -cell[MEAN])
    between, error = two_sum(away, apart)
    delta = between + (error + rounded + dropped + other[MEAN_LOW] - cell[MEAN_LOW])
    n = cell[N]
    total, total_low = add_pair(n, cell[N_LOW], other[N])
    total, total_low = add_pair(total, total_low, other[N_LOW])
    if n >= other[N]:
        step = delta * (other[N] / total)
        cell[MEAN], cell[MEAN_LOW] = add_pair(cell[MEAN], cell[MEAN_LOW], step)
    else:  # the smaller step, from the heavier side, so that its rounding is the smaller one
        step = -delta * (n / total)
        high, low = add_pair(away, rounded, other[MEAN])
        high, low = add_pair(high, low, other[MEAN_LOW])
        cell[MEAN], cell[MEAN_LOW] = add_pair(high, low, step)
    m2, m2_low = add_pair(cell[M2], cell[M2_LOW], other[M2])
    m2, m2_low = add_pair(m2, m2_low, other[M2_LOW])
    m2, m2_low = add_pair(m2, m2_low, delta * delta * (n * (other[N] / total)))
    if not m2 <= LARGEST:
        m2, m2_low = LARGEST, 0.0
    cell[M2] = m2
    cell[M2_LOW] = m2_low
    cell[N] = total
    cell[N_LOW] = total_low


@jit
def merge(cells: Floats, other: Floats, slots: Ints, classes: Ints) -> None:
    """Merge `other[f, class + 1]` into `cells[slots[f], classes[class] + 1]`, and column 0 into column 0."""
    for f in range(len(slots)):
        merge_cell(cells[slots[f], 0], other[f, 0])
        for c in range(len(classes)):
            merge_cell(cells[slots[f], classes[c] + 1], other[f, c + 1])


@jit
def pool(cells: Floats, f: int, order: Ints) -> None:
    """Rebuild column 0 of a feature from its classes, in sorted order."""
    cells[f, 0] = 0.0
    for j in range(len(order)):
        merge_cell(cells[f, 0], cells[f, order[j] + 1])
