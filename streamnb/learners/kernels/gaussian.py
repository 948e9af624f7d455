"""Gaussian cells: moments of a feature in a class (Welford 1962; West 1979 for weights), read as normal densities.

`cells[feature, column, field]`: column 0 holds the moments over all classes, column c + 1 those of class c.
`n`, `mean` and `M2` are pairs (value, what its rounding dropped); the mean is relative to the anchor, the first value seen.
"""

import math

import numpy as np

from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.sums import (
    FACTORS,
    LARGEST,
    LARGEST_FACTOR,
    SMALLEST_FACTOR,
    add_pair,
    two_square,
    two_sum,
)
from streamnb.learners.kernels.types import Floats, Ints

N, N_LOW, ANCHOR, MEAN, MEAN_LOW, M2, M2_LOW, EVENTS = range(8)
FIELDS = 8
WIDEST, WIDEST_FEATURE = range(2)
TAU = 2.0 * math.pi
HALF_LOG_TAU = 0.5 * math.log(TAU)


@jit
def learn_cell(cells: Floats, f: int, c: int, x: float, w: float) -> None:
    """Add one value to one cell."""
    events = cells[f, c, EVENTS]
    n = cells[f, c, N]
    cells[f, c, EVENTS] = events + 1.0
    if events == 0.0 or n == 0.0:  # n is 0 with events > 0 when half_life has let every weight underflow
        cells[f, c, N] = w
        cells[f, c, N_LOW] = 0.0
        cells[f, c, ANCHOR] = x
        cells[f, c, MEAN] = 0.0
        cells[f, c, MEAN_LOW] = 0.0
        cells[f, c, M2] = 0.0
        cells[f, c, M2_LOW] = 0.0
        return
    away, rounded = two_sum(x, -cells[f, c, ANCHOR])
    delta = (away - cells[f, c, MEAN]) + (rounded - cells[f, c, MEAN_LOW])
    total, total_low = add_pair(n, cells[f, c, N_LOW], w)
    share = w / total
    mean, mean_low = add_pair(cells[f, c, MEAN], cells[f, c, MEAN_LOW], delta * share)
    m2, m2_low = add_pair(cells[f, c, M2], cells[f, c, M2_LOW], delta * delta * (n * share))
    if not m2 <= LARGEST:
        m2, m2_low = LARGEST, 0.0
    cells[f, c, N] = total
    cells[f, c, N_LOW] = total_low
    cells[f, c, MEAN] = mean
    cells[f, c, MEAN_LOW] = mean_low
    cells[f, c, M2] = m2
    cells[f, c, M2_LOW] = m2_low


@jit
def refresh_variance(cells: Floats, variances: Floats, scalars: Floats, f: int, n_features: int) -> None:
    """Keep the cached variance of a feature over all classes, and the largest of them."""
    n = cells[f, 0, N]
    variance = cells[f, 0, M2] / n if n > 0.0 else 0.0
    variances[f] = variance
    if variance >= scalars[WIDEST]:
        scalars[WIDEST] = variance
        scalars[WIDEST_FEATURE] = f
    elif scalars[WIDEST_FEATURE] == f:
        widest = -1.0
        for other in range(n_features):
            if variances[other] > widest:
                widest = variances[other]
                scalars[WIDEST_FEATURE] = other
        scalars[WIDEST] = widest


@jit
def refresh_all(cells: Floats, variances: Floats, scalars: Floats, n_features: int) -> None:
    """Rebuild the cache from the cells."""
    scalars[WIDEST] = 0.0
    scalars[WIDEST_FEATURE] = -1.0
    for f in range(n_features):
        n = cells[f, 0, N]
        variances[f] = cells[f, 0, M2] / n if n > 0.0 else 0.0
        if variances[f] >= scalars[WIDEST]:
            scalars[WIDEST] = variances[f]
            scalars[WIDEST_FEATURE] = f


@jit
def scale(cells: Floats, factor: float, n_features: int, n_classes: int) -> None:
    """Multiply every weight by a power of two; means and variances stay what they are."""
    for f in range(n_features):
        for c in range(n_classes + 1):
            for field in (N, N_LOW, M2, M2_LOW):
                cells[f, c, field] *= factor


@jit
def learn_row(
    cells: Floats,
    variances: Floats,
    scalars: Floats,
    n_features: int,
    slots: Ints,
    values: Floats,
    start: int,
    stop: int,
    label: int,
    w: float,
) -> None:
    """Add one event to the cells of its class."""
    for k in range(start, stop):
        f = slots[k]
        learn_cell(cells, f, label + 1, values[k], w)
        learn_cell(cells, f, 0, values[k], w)
        refresh_variance(cells, variances, scalars, f, n_features)


@jit
def read_row(
    cells: Floats,
    scalars: Floats,
    var_smoothing: float,
    ddof: float,
    n_classes: int,
    slots: Ints,
    values: Floats,
    start: int,
    stop: int,
    joint: Floats,
    limits: Floats,
    flags: Ints,
    products: Floats,
) -> int:
    """Add the log density of one event to `joint[class]`; return how many of its features were never learned.

    Where a variance and epsilon are both 0, the squared distance (a pair) and the number of such cells go to
    `limits[class]`, and only the coefficient of the leading power of epsilon to the joint.
    """
    epsilon = var_smoothing * scalars[WIDEST]
    unseen = 0
    factors = 0
    for c in range(n_classes):
        products[0, c] = 0.0
        products[1, c] = 1.0
    for k in range(start, stop):
        f = slots[k]
        if f < 0 or cells[f, 0, EVENTS] == 0.0:
            unseen += 1
            continue
        x = values[k]
        for c in range(n_classes):
            column = c + 1 if cells[f, c + 1, N] > 0.0 else 0
            n = cells[f, column, N]
            away, rounded = two_sum(x, -cells[f, column, ANCHOR])
            delta = (away - cells[f, column, MEAN]) + (rounded - cells[f, column, MEAN_LOW])
            variance = epsilon
            if n > ddof:
                variance += cells[f, column, M2] / (n - ddof)
            if variance > 0.0:
                distance = delta * delta / variance
                if not distance <= LARGEST:
                    distance = LARGEST
                products[0, c] -= 0.5 * distance
                factor = variance * TAU
                if SMALLEST_FACTOR <= factor <= LARGEST_FACTOR:
                    products[1, c] *= factor
                else:
                    products[0, c] -= HALF_LOG_TAU + 0.5 * math.log(variance)
            else:
                square, dropped = two_square(delta)
                high, low = add_pair(limits[c, 0], limits[c, 1], square)
                limits[c, 0], limits[c, 1] = add_pair(high, low, dropped)
                limits[c, 2] += 1.0
                products[0, c] -= HALF_LOG_TAU
                flags[0] = 1
        factors += 1
        if factors == FACTORS:
            factors = 0
            for c in range(n_classes):
                products[0, c] -= 0.5 * math.log(products[1, c])
                products[1, c] = 1.0
    for c in range(n_classes):
        if factors > 0:
            products[0, c] -= 0.5 * math.log(products[1, c])
        joint[c] += max(products[0, c], -LARGEST)
    return unseen


@jit
def predict_learn(
    cells: Floats,
    variances: Floats,
    scalars: Floats,
    var_smoothing: float,
    ddof: float,
    n_features: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    values: Floats,
    labels: Ints,
    weights: Floats,
    decay: Floats,
    joint: Floats,
    limits: Floats,
    flags: Ints,
    unseen: Ints,
) -> None:
    """Read every row, and learn those that have a label."""
    products = np.empty((2, n_classes))
    for i in range(n_rows):
        unseen[i] += read_row(
            cells, scalars, var_smoothing, ddof, n_classes, slots, values, starts[i], starts[i + 1],
            joint[i], limits[i], flags, products,
        )  # fmt: skip
        if labels[i] >= 0:
            if decay.shape[0] > 0 and decay[i, 0] != 1.0:
                scale(cells, decay[i, 0], n_features, n_classes)
                refresh_all(cells, variances, scalars, n_features)
            learn_row(
                cells, variances, scalars, n_features, slots, values, starts[i], starts[i + 1], labels[i], weights[i]
            )


@jit
def learn(
    cells: Floats,
    variances: Floats,
    scalars: Floats,
    n_features: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    values: Floats,
    labels: Ints,
    weights: Floats,
    decay: Floats,
) -> None:
    """Learn every row that has a label."""
    for i in range(n_rows):
        if labels[i] >= 0:
            if decay.shape[0] > 0 and decay[i, 0] != 1.0:
                scale(cells, decay[i, 0], n_features, n_classes)
                refresh_all(cells, variances, scalars, n_features)
            learn_row(
                cells, variances, scalars, n_features, slots, values, starts[i], starts[i + 1], labels[i], weights[i]
            )
