"""Gaussian cells: moments of a feature in a class (Welford 1962; West 1979 for weights), read as normal densities.

`cells[feature, column, field]`: column 0 holds the moments over all classes, column c + 1 those of class c. `n`,
`mean` and `M2` are pairs (value, what its rounding dropped); the mean is relative to the anchor, the first value
seen. `slots` are those of every row's values, or of one row's if all rows have the same (`slots_ahead`).
"""

import math

import numpy as np

from streamnb.learners.kernels.answer import answer_one, learn_class
from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.layout import (
    CELLS,
    DISTANCE,
    DISTANCE_LOW,
    JOINT,
    LABEL,
    LARGEST_NUMBER,
    READ,
    REFUSED,
    SHIFT,
    WEIGHT,
    only_read,
    start_sums,
)
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
WIDEST, WIDEST_FEATURE, VARIANCES = range(3)
SIDE_BY_SIDE = 64
TAU = 2.0 * math.pi
HALF_LOG_TAU = 0.5 * math.log(TAU)


@inlined
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
    total, total_low = n + w, 0.0
    if cells[f, c, N_LOW] != 0.0 or total - n != w or total - w != n:
        total, total_low = add_pair(n, cells[f, c, N_LOW], w)
    share = w / total
    if w <= n:
        mean, mean_low = add_pair(cells[f, c, MEAN], cells[f, c, MEAN_LOW], delta * share)
    else:  # from the heavier side, so that the step and its rounding stay within the deviation
        mean, mean_low = add_pair(away, rounded, -delta * (n / total))
    m2, m2_low = add_pair(cells[f, c, M2], cells[f, c, M2_LOW], delta * delta * (n * share))
    if not m2 <= LARGEST:
        m2, m2_low = LARGEST, 0.0
    cells[f, c, N] = total
    cells[f, c, N_LOW] = total_low
    cells[f, c, MEAN] = mean
    cells[f, c, MEAN_LOW] = mean_low
    cells[f, c, M2] = m2
    cells[f, c, M2_LOW] = m2_low


@inlined
def are_small(values: Floats, n: int) -> bool:
    """Whether numbers are within the limits; NaN is not."""
    large = 0
    for k in range(n):
        large |= not abs(values[k]) <= LARGEST_NUMBER
    return large == 0


@inlined
def slots_ahead(slots: Ints, values: Floats, start: int) -> int:
    """Return how far the values of the row that starts here are ahead of their slots."""
    return start if len(slots) < len(values) else 0


@inlined
def refresh_variances(cells: Floats, cache: Floats, n_features: int, slots: Ints, first: int, last: int) -> None:
    """Keep the cached variances over all classes of the features of one event, and the largest of all."""
    widest, feature = cache[WIDEST], int(cache[WIDEST_FEATURE])
    for k in range(first, last):
        f = slots[k]
        n = cells[f, 0, N]
        variance = cells[f, 0, M2] / n if n > 0.0 else 0.0
        if f == feature and variance < widest:
            widest, feature = -1.0, -1  # perhaps another one is the widest now
        cache[VARIANCES + f] = variance
        if feature >= 0 and variance >= widest:
            widest, feature = variance, f
    if feature < 0:
        for f in range(n_features):
            if cache[VARIANCES + f] > widest:
                widest, feature = cache[VARIANCES + f], f
    cache[WIDEST] = widest
    cache[WIDEST_FEATURE] = feature


@jit
def refresh_all(cells: Floats, cache: Floats, n_features: int) -> None:
    """Rebuild the cache from the cells."""
    cache[WIDEST] = 0.0
    cache[WIDEST_FEATURE] = 0.0
    for f in range(n_features):
        n = cells[f, 0, N]
        cache[VARIANCES + f] = cells[f, 0, M2] / n if n > 0.0 else 0.0
        if cache[VARIANCES + f] >= cache[WIDEST]:
            cache[WIDEST] = cache[VARIANCES + f]
            cache[WIDEST_FEATURE] = f


@jit
def scale(cells: Floats, factor: float, n_features: int, n_classes: int) -> None:
    """Multiply every weight by a power of two; means and variances stay what they are."""
    for f in range(n_features):
        for c in range(n_classes + 1):
            for field in (N, N_LOW, M2, M2_LOW):
                cells[f, c, field] *= factor


@inlined
def learn_row(
    cells: Floats,
    cache: Floats,
    n_features: int,
    slots: Ints,
    values: Floats,
    start: int,
    stop: int,
    label: int,
    w: float,
) -> None:
    """Add one event to the cells of its class."""
    ahead = slots_ahead(slots, values, start)
    for k in range(start, stop):
        f = slots[k - ahead]
        learn_cell(cells, f, label + 1, values[k], w)
        learn_cell(cells, f, 0, values[k], w)
    refresh_variances(cells, cache, n_features, slots, start - ahead, stop - ahead)


@inlined
def add_limit(sums: Floats, c: int, delta: float) -> None:
    """Add a zero-variance cell to what decides the limit epsilon -> 0."""
    square, dropped = two_square(delta)
    high, low = add_pair(sums[c, DISTANCE], sums[c, DISTANCE_LOW], square)
    sums[c, DISTANCE], sums[c, DISTANCE_LOW] = add_pair(high, low, dropped)
    sums[c, CELLS] += 1.0


@inlined
def ddof_as_held(ddof: float, read: float) -> float:
    """Return what to take off a weight as it is held, when every weight counts `read` times that."""
    if read == 1.0 or ddof == 0.0:
        return ddof
    return ddof / read if read > 0.0 else math.inf


@inlined
def read_row(
    cells: Floats,
    cache: Floats,
    var_smoothing: float,
    ddof: float,
    read: float,
    n_classes: int,
    slots: Ints,
    values: Floats,
    start: int,
    stop: int,
    sums: Floats,
    marks: Ints,
) -> int:
    """Add the log density of one event to `sums[class]`; return how many of its features were never learned.

    Where a variance and epsilon are both 0, the squared distance (a pair) and the number of such cells go to
    `sums[class]`, and only the coefficient of the leading power of epsilon to the joint.
    """
    epsilon = var_smoothing * cache[WIDEST]
    taken = ddof_as_held(ddof, read)
    unseen = 0 if n_classes > 0 else stop - start
    ahead = slots_ahead(slots, values, start)
    for c in range(n_classes):
        total, distance, logs, product, factors = 0.0, 0.0, 0.0, 1.0, 0
        for k in range(start, stop):
            f = slots[k - ahead]
            column = c + 1
            n = cells[f, column, N] if f >= 0 else 0.0
            if n == 0.0:
                column = 0
                n = cells[f, column, N] if f >= 0 else 0.0
                if n == 0.0:
                    unseen += c == 0
                    continue
            away, rounded = two_sum(values[k], -cells[f, column, ANCHOR])
            delta = (away - cells[f, column, MEAN]) + (rounded - cells[f, column, MEAN_LOW])
            variance = epsilon
            if n > taken:
                variance += cells[f, column, M2] / (n - taken)
            factor = variance * TAU
            if SMALLEST_FACTOR <= factor <= LARGEST_FACTOR:
                distance += delta * delta * (1.0 / variance)
                product *= factor
                factors += 1
                if factors == FACTORS:
                    logs += math.log(product)
                    product, factors = 1.0, 0
            elif variance > 0.0:
                total -= HALF_LOG_TAU + 0.5 * math.log(variance) + 0.5 * min(delta * delta / variance, LARGEST)
            else:
                add_limit(sums, c, delta)
                total -= HALF_LOG_TAU
                marks[-1] = 1
        if factors > 0:
            logs += math.log(product)
        sums[c, JOINT] += max(total - 0.5 * (distance + logs), -LARGEST)
    return unseen


@inlined
def prepare(
    cells: Floats,
    cache: Floats,
    var_smoothing: float,
    ddof: float,
    read: float,
    n_classes: int,
    slots: Ints,
    width: int,
    table: Floats,
    logs: Floats,
) -> int:
    """Write what `read_row` takes of the cells of these features to `table[what, feature, class]`, and `logs[class]`.

    Return how many features were never learned, -1 if a variance is so small or large that it takes `read_row`.
    """
    epsilon = var_smoothing * cache[WIDEST]
    taken = ddof_as_held(ddof, read)
    unseen = 0
    for c in range(n_classes):
        product, factors = 1.0, 0
        logs[c] = 0.0
        for k in range(width):
            f = slots[k]
            column = c + 1
            if f >= 0 and cells[f, column, N] == 0.0:
                column = 0
            n = cells[f, column, N] if f >= 0 else 0.0
            if n == 0.0:
                unseen += c == 0
                table[:, k, c] = 0.0
                continue
            variance = epsilon
            if n > taken:
                variance += cells[f, column, M2] / (n - taken)
            factor = variance * TAU
            if not SMALLEST_FACTOR <= factor <= LARGEST_FACTOR:
                return -1
            table[0, k, c] = cells[f, column, ANCHOR]
            table[1, k, c] = cells[f, column, MEAN]
            table[2, k, c] = cells[f, column, MEAN_LOW]
            table[3, k, c] = 1.0 / variance
            product *= factor
            factors += 1
            if factors == FACTORS:
                logs[c] += math.log(product)
                product, factors = 1.0, 0
        if factors > 0:
            logs[c] += math.log(product)
    return unseen


@inlined
def alike(n_rows: int, starts: Ints, slots: Ints, values: Floats, events: Floats) -> bool:
    """Whether all rows have the same features in the same order, and none rescales the cells."""
    width = starts[1]
    other = 0
    for i in range(n_rows):
        other += starts[i + 1] != (i + 1) * width or events[i, SHIFT] != 1.0
    if other == 0 and len(slots) >= len(values):
        for i in range(1, n_rows):
            for k in range(width):
                other += slots[i * width + k] != slots[k]
    return other == 0


@inlined
def read_alike(
    n_classes: int, n_rows: int, width: int, values: Floats, table: Floats, logs: Floats, sums: Floats
) -> None:
    """Do the same as `read_row`, bit for bit, for rows of the same features, `SIDE_BY_SIDE` of them at once."""
    column = np.empty(SIDE_BY_SIDE)
    distance = np.empty((n_classes, SIDE_BY_SIDE))
    for first in range(0, n_rows, SIDE_BY_SIDE):
        n = min(SIDE_BY_SIDE, n_rows - first)
        distance[:] = 0.0
        for k in range(width):
            for i in range(n):
                column[i] = values[(first + i) * width + k]
            for c in range(n_classes):
                anchor, mean, mean_low, inverse = table[0, k, c], table[1, k, c], table[2, k, c], table[3, k, c]
                for i in range(n):
                    away, rounded = two_sum(column[i], -anchor)
                    delta = (away - mean) + (rounded - mean_low)
                    distance[c, i] += delta * delta * inverse
        for i in range(n):
            for c in range(n_classes):
                sums[first + i, c, JOINT] += max(-0.5 * (distance[c, i] + logs[c]), -LARGEST)


@jit
def predict_learn(
    cells: Floats,
    cache: Floats,
    var_smoothing: float,
    ddof: float,
    n_features: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    values: Floats,
    events: Floats,
    first: int,
    sums: Floats,
    unseen: Ints,
) -> None:
    """Read every row, and learn those that have a label."""
    if first == 1:
        start_sums(sums, unseen, n_rows)
    if n_rows > 1 and n_classes > 0 and only_read(events, n_rows) and alike(n_rows, starts, slots, values, events):
        width = starts[1]
        table = np.empty((4, width, n_classes))
        logs = np.empty(n_classes)
        never = prepare(
            cells, cache, var_smoothing, ddof, events[0, READ], n_classes, slots, width, table, logs
        )  # fmt: skip
        if never >= 0:
            unseen[:n_rows] += never
            read_alike(n_classes, n_rows, width, values, table, logs, sums)
            return
    for i in range(n_rows):
        unseen[i] += read_row(
            cells, cache, var_smoothing, ddof, events[i, READ], n_classes, slots, values, starts[i], starts[i + 1],
            sums[i], unseen,
        )  # fmt: skip
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(cells, events[i, SHIFT], n_features, n_classes)
                refresh_all(cells, cache, n_features)
            learn_row(
                cells,
                cache,
                n_features,
                slots,
                values,
                starts[i],
                starts[i + 1],
                int(events[i, LABEL]),
                events[i, WEIGHT],
            )


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
    for i in range(n_rows):
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(cells, events[i, SHIFT], n_features, n_classes)
                refresh_all(cells, cache, n_features)
            learn_row(
                cells,
                cache,
                n_features,
                slots,
                values,
                starts[i],
                starts[i + 1],
                int(events[i, LABEL]),
                events[i, WEIGHT],
            )


@jit
def predict_one(
    cells: Floats,
    cache: Floats,
    var_smoothing: float,
    ddof: float,
    slots: Ints,
    values: Floats,
    n_entries: int,
    classes: Floats,
    order: Ints,
    prior: int,
    read: float,
    sums: Floats,
    marks: Ints,
    probabilities: Floats,
) -> int:
    """Read one event and finish its answer in the same call; return the best column.

    `REFUSED` if a value is too large.
    """
    if not are_small(values, n_entries):
        return REFUSED
    start_sums(sums, marks, 1)
    marks[0] = read_row(
        cells, cache, var_smoothing, ddof, read, len(order), slots, values, 0, n_entries, sums[0], marks
    )  # fmt: skip
    return answer_one(classes, order, prior, 0.0, read, sums, marks, probabilities)


@jit
def learn_one(
    cells: Floats,
    cache: Floats,
    n_features: int,
    slots: Ints,
    values: Floats,
    n_entries: int,
    classes: Floats,
    label: int,
    w: float,
) -> bool:
    """Learn one event and its class in the same call; return False, and learn nothing, if a value is too large."""
    if not are_small(values, n_entries):
        return False
    learn_row(cells, cache, n_features, slots, values, 0, n_entries, label, w)
    learn_class(classes, label, w)
    return True
