"""Categories: how often each value of a feature came with each class.

`features[f, 0]` is (number of known values, events), `features[f, c + 1]` (n, events) of class c;
`values[slot, 0]` is (feature, events), `values[slot, c + 1]` (count, events) of class c.
"""

import math

import numpy as np

from streamnb.learners.kernels.answer import answer_one, learn_class
from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.layout import JOINT, LABEL, POWER, READ, SHIFT, WEIGHT, start_sums
from streamnb.learners.kernels.sums import FACTORS, SMALLEST_FACTOR
from streamnb.learners.kernels.types import Floats, Ints

AMOUNT, EVENTS = range(2)


@jit
def scale(features: Floats, values: Floats, factor: float, n_features: int, n_values: int, n_classes: int) -> None:
    """Multiply every weight by a power of two."""
    for c in range(1, n_classes + 1):
        for f in range(n_features):
            features[f, c, AMOUNT] *= factor
        for slot in range(n_values):
            values[slot, c, AMOUNT] *= factor


@inlined
def learn_row(
    features: Floats, values: Floats, slots: Ints, entry_features: Ints, start: int, stop: int, label: int, w: float
) -> None:
    """Add one event to the counts of its class."""
    for k in range(start, stop):
        f, slot = entry_features[k], slots[k]
        if values[slot, 0, EVENTS] == 0.0:
            values[slot, 0, AMOUNT] = f
            features[f, 0, AMOUNT] += 1.0
        values[slot, 0, EVENTS] += 1.0
        features[f, 0, EVENTS] += 1.0
        values[slot, label + 1, AMOUNT] += w
        values[slot, label + 1, EVENTS] += 1.0
        features[f, label + 1, AMOUNT] += w
        features[f, label + 1, EVENTS] += 1.0


@inlined
def read_row(
    features: Floats,
    values: Floats,
    alpha: float,
    smooth: int,
    read: float,
    n_classes: int,
    slots: Ints,
    entry_features: Ints,
    start: int,
    stop: int,
    sums: Floats,
    marks: Ints,
    work: Floats,
) -> int:
    """Add log P(categories | class) of one event to `sums[class]`.

    Return how many features or values were never learned.

    With alpha = 0 an impossible value adds 1 to the power of alpha in `sums[class]`, and 1 / n to the coefficient.
    """
    unseen = 0
    factors = 0
    for c in range(n_classes):
        work[0, c] = 0.0
        work[1, c] = 1.0
    for k in range(start, stop):
        f, slot = entry_features[k], slots[k]
        if f < 0 or features[f, 0, EVENTS] == 0.0:
            unseen += 1
            continue
        known = slot >= 0 and values[slot, 0, EVENTS] > 0.0
        if not known:
            unseen += 1
            if smooth == 0:
                continue
        size = features[f, 0, AMOUNT] + smooth
        factors += 1
        for c in range(n_classes):
            n = read * features[f, c + 1, AMOUNT]
            count = alpha + (read * values[slot, c + 1, AMOUNT] if known else 0.0)
            total = n + alpha * size
            if total == 0.0:
                count, total = 1.0, size
            elif count == 0.0:
                count = 1.0
                sums[c, POWER] += 1.0
                marks[-1] = 1
            factor = count / total
            if factor >= SMALLEST_FACTOR:
                work[1, c] *= factor
            else:
                work[0, c] += math.log(count) - math.log(total)
        if factors == FACTORS:
            factors = 0
            for c in range(n_classes):
                work[0, c] += math.log(work[1, c])
                work[1, c] = 1.0
    for c in range(n_classes):
        if factors > 0:
            work[0, c] += math.log(work[1, c])
        sums[c, JOINT] += work[0, c]
    return unseen


@jit
def predict_learn(
    features: Floats,
    values: Floats,
    alpha: float,
    smooth: int,
    n_features: int,
    n_values: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    entry_features: Ints,
    events: Floats,
    first: int,
    sums: Floats,
    unseen: Ints,
) -> None:
    """Read every row, and learn those that have a label."""
    work = np.empty((2, n_classes))
    if first == 1:
        start_sums(sums, unseen, n_rows)
    for i in range(n_rows):
        read = events[i, READ]
        unseen[i] += read_row(
            features, values, alpha, smooth, read, n_classes, slots, entry_features, starts[i], starts[i + 1],
            sums[i], unseen, work,
        )  # fmt: skip
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(features, values, events[i, SHIFT], n_features, n_values, n_classes)
            learn_row(
                features,
                values,
                slots,
                entry_features,
                starts[i],
                starts[i + 1],
                int(events[i, LABEL]),
                events[i, WEIGHT],
            )


@jit
def learn(
    features: Floats,
    values: Floats,
    n_features: int,
    n_values: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    entry_features: Ints,
    events: Floats,
) -> None:
    """Learn every row that has a label."""
    for i in range(n_rows):
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(features, values, events[i, SHIFT], n_features, n_values, n_classes)
            learn_row(
                features,
                values,
                slots,
                entry_features,
                starts[i],
                starts[i + 1],
                int(events[i, LABEL]),
                events[i, WEIGHT],
            )


@jit
def predict_one(
    features: Floats,
    values: Floats,
    alpha: float,
    smooth: int,
    slots: Ints,
    entry_features: Ints,
    n_entries: int,
    classes: Floats,
    order: Ints,
    prior: int,
    read: float,
    sums: Floats,
    marks: Ints,
    probabilities: Floats,
) -> int:
    """Read one event and finish its answer in the same call; return the best column."""
    work = np.empty((2, len(order)))
    start_sums(sums, marks, 1)
    marks[0] = read_row(
        features, values, alpha, smooth, read, len(order), slots, entry_features, 0, n_entries, sums[0], marks, work
    )  # fmt: skip
    return answer_one(classes, order, prior, alpha, read, sums, marks, probabilities)


@jit
def learn_one(
    features: Floats,
    values: Floats,
    slots: Ints,
    entry_features: Ints,
    n_entries: int,
    classes: Floats,
    label: int,
    w: float,
) -> None:
    """Learn one event and its class in the same call."""
    learn_row(features, values, slots, entry_features, 0, n_entries, label, w)
    learn_class(classes, label, w)
