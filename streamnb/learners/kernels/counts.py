"""Counts of tokens: one multinomial per group of features.

`counts[slot, class]`; `features[slot, field]`, field by field in memory, since learning an array's row takes only
one of them; `groups[group, 0]` is the number of known features of the group,
`groups[group, c + 1]` the total of class c. The entries of an event come group by group.
"""

import math

import numpy as np

from streamnb.learners.kernels.answer import answer_one, learn_class
from streamnb.learners.kernels.fetching import fetch_added, fetch_next
from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.layout import JOINT, LABEL, POWER, READ, SHIFT, WEIGHT, WIDE, only_read, start_sums
from streamnb.learners.kernels.sums import FACTORS, LN2, SMALLEST_FACTOR, take_exponents
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.kernels.whole import fits, fits_row

EVENTS, DF, GROUP, COLUMN = range(4)
WIDTH, _, N = range(3)
TF, LOG1P, TFIDF = range(3)
NO_COLUMN = 1e300
SIDE_BY_SIDE = 4
"""As many tokens are multiplied in one loop over the classes."""


@inlined
def is_known(features: Floats, scalars: Floats, slot: int) -> bool:
    """Whether an event has presented this feature, by name or as a column of an array."""
    return slot >= 0 and (features[slot, EVENTS] > 0.0 or features[slot, COLUMN] < scalars[WIDTH])


@inlined
def was_seen(features: Floats, scalars: Floats, slot: int, settled: bool) -> bool:
    """The same; `settled`: nothing is learned meanwhile, so a token with a slot is known, and one access is spared."""
    return slot >= 0 and (settled or is_known(features, scalars, slot))


@jit
def widen(features: Floats, scalars: Floats, sizes: Floats, n_slots: int, width: int) -> None:
    """Know the columns below `width`; `sizes[group, 0]` counts the known features anew."""
    scalars[WIDTH] = width
    sizes[:, 0] = 0.0
    for slot in range(n_slots):
        if is_known(features, scalars, slot):
            sizes[int(features[slot, GROUP]), 0] += 1.0


@jit
def scale(
    counts: Array, features: Floats, groups: Floats, scalars: Floats, factor: float, n_slots: int, n_classes: int
) -> None:
    """Multiply every weight by a power of two."""
    for slot in range(n_slots):
        features[slot, DF] *= factor
        for c in range(n_classes):
            counts[slot, c] *= factor
    groups[:, 1:] *= factor
    scalars[N] *= factor


@inlined
def present(features: Floats, groups: Floats, scalars: Floats, slots: Ints, start: int, stop: int, group: int) -> int:
    """Count an event on each entry of the group that starts here; return where the next group starts."""
    k = start
    while k < stop and int(features[slots[k], GROUP]) == group:
        if not is_known(features, scalars, slots[k]):
            groups[group, 0] += 1.0
        features[slots[k], EVENTS] += 1.0
        k += 1
    return k


@inlined
def learn_row(
    counts: Array,
    features: Floats,
    groups: Floats,
    scalars: Floats,
    n_slots: int,
    slots: Ints,
    values: Floats,
    start: int,
    stop: int,
    width: int,
    label: int,
    w: float,
) -> None:
    """Add one event to the counts of its class."""
    if width > scalars[WIDTH]:
        widen(features, scalars, groups, n_slots, width)
    scalars[N] += w  # not compensated: the df of a token in every event must stay equal to it
    first = start
    while first < stop:
        group = int(features[slots[first], GROUP])
        last = stop
        if width == 0:  # a row of an array presents its columns, all of group 0, by its width
            last = present(features, groups, scalars, slots, first, stop, group)
        total = groups[group, label + 1]
        for k in range(first, last):
            fetch_added(counts, features, slots, k, label)
            f = values[k]
            if f > 0.0:
                features[slots[k], DF] += w
                counts[slots[k], label] += w * f
                total += w * f
        groups[group, label + 1] = total
        first = last


@inlined
def weighted(f: float, weighting: int, n: float, df: float) -> float:
    """Return the weight of a count when predicting; for tf-idf a known token that no event holds reads as df = 1."""
    if weighting == LOG1P:
        return math.log1p(f)
    if weighting == TFIDF:
        df = df if df > 0.0 else 1.0
        return f * math.log(n / df) if df < n else 0.0
    return f


@inlined
def read_row(
    counts: Array,
    features: Floats,
    groups: Floats,
    scalars: Floats,
    alpha: float,
    smooth: int,
    weighting: int,
    read: float,
    n_classes: int,
    slots: Ints,
    entry_groups: Ints,
    values: Floats,
    start: int,
    stop: int,
    sums: Floats,
    marks: Ints,
    work: Floats,
    settled: bool,
) -> int:
    """Add log P(tokens | class) of one event to `sums[class]`; return how many tokens were never learned.

    With alpha = 0 an impossible token adds its weight to the power of alpha in `sums[class]`, and 1 / total to the
    coefficient. `work` holds sums of logarithms, running products, inverse denominators and binary exponents.
    For `settled` see `was_seen`.
    """
    unseen = 0
    factors = 0
    group = -2
    sure = False
    logs, products, inverse, exponents = work[0], work[1], work[2], work[3]
    for c in range(n_classes):
        logs[c] = 0.0
        products[c] = 1.0
        exponents[c] = 0.0
    k = start
    while k < stop:
        slot = slots[k]
        known = was_seen(features, scalars, slot, settled)
        if not known:
            unseen += 1
            if smooth == 0 or weighting == TFIDF:
                k += 1
                continue
        f = values[k]
        if weighting != TF:
            f = weighted(f, weighting, scalars[N], features[slot, DF] if known else 0.0)
        if f == 0.0:
            k += 1
            continue
        if entry_groups[k] != group:
            group = entry_groups[k]
            size = float(smooth) + (groups[group, 0] if group >= 0 else 0.0)
            sure = True
            for c in range(n_classes):
                total = read * groups[group, c + 1] if group >= 0 else 0.0
                inverse[c] = 1.0 / (total + alpha * size) if total > 0.0 or alpha > 0.0 else -1.0 / size
                sure = sure and alpha * inverse[c] >= SMALLEST_FACTOR
        if sure and known and f == 1.0:  # the usual case without branches, on several classes and tokens at once
            together = 1
            if weighting == TF and factors + SIDE_BY_SIDE <= FACTORS and k + SIDE_BY_SIDE <= stop:
                together = SIDE_BY_SIDE
                for i in range(k + 1, k + SIDE_BY_SIDE):
                    alike = values[i] == 1.0 and entry_groups[i] == group
                    if not (alike and was_seen(features, scalars, slots[i], settled)):
                        together = 1
            if together == 1:
                for c in range(n_classes):
                    products[c] *= (alpha + read * counts[slot, c]) * inverse[c]
            else:
                second, third, fourth = slots[k + 1], slots[k + 2], slots[k + 3]
                for c in range(n_classes):
                    product = products[c]
                    product *= (alpha + read * counts[slot, c]) * inverse[c]
                    product *= (alpha + read * counts[second, c]) * inverse[c]
                    product *= (alpha + read * counts[third, c]) * inverse[c]
                    product *= (alpha + read * counts[fourth, c]) * inverse[c]
                    products[c] = product
            factors += together
            k += together
        else:
            factors += f == 1.0
            k += 1
            for c in range(n_classes):
                factor = (alpha + read * counts[slot, c]) if known else alpha
                if factor == 0.0:
                    factor = 1.0
                    if inverse[c] > 0.0:
                        sums[c, POWER] += f
                        marks[-1] = 1
                factor *= abs(inverse[c])
                if f == 1.0 and factor >= SMALLEST_FACTOR:
                    products[c] *= factor
                else:
                    logs[c] += f * math.log(factor)
        if factors == FACTORS:
            factors = 0
            take_exponents(products, exponents, n_classes)
    for c in range(n_classes):
        sums[c, JOINT] += logs[c] + (math.log(products[c]) + LN2 * exponents[c])
    return unseen


@jit
def predict_learn(
    counts: Array,
    features: Floats,
    groups: Floats,
    scalars: Floats,
    alpha: float,
    smooth: int,
    weighting: int,
    n_slots: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    entry_groups: Ints,
    values: Floats,
    events: Floats,
    first: int,
    sums: Floats,
    unseen: Ints,
) -> bool:
    """Read every row, and learn those that have a label. Return False, and do nothing, if the counts do not fit."""
    if not fits(counts, scalars, starts, values, events, n_rows):
        return False
    work = np.empty((4, n_classes))
    settled = only_read(events, n_rows)
    if first == 1:
        start_sums(sums, unseen, n_rows)
    for i in range(n_rows):
        fetch_next(counts, features, slots, starts, events, i, n_rows, n_classes, settled)
        read = events[i, READ]
        unseen[i] += read_row(
            counts, features, groups, scalars, alpha, smooth, weighting, read, n_classes,
            slots, entry_groups, values, starts[i], starts[i + 1], sums[i], unseen, work, settled,
        )  # fmt: skip
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(counts, features, groups, scalars, events[i, SHIFT], n_slots, n_classes)
            learn_row(
                counts, features, groups, scalars, n_slots, slots, values,
                starts[i], starts[i + 1], int(events[i, WIDE]), int(events[i, LABEL]), events[i, WEIGHT],
            )  # fmt: skip
    return True


@jit
def learn(
    counts: Array,
    features: Floats,
    groups: Floats,
    scalars: Floats,
    n_slots: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    values: Floats,
    events: Floats,
) -> bool:
    """Learn every row that has a label. Return False, and learn nothing, if the counts do not fit."""
    if not fits(counts, scalars, starts, values, events, n_rows):
        return False
    for i in range(n_rows):
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(counts, features, groups, scalars, events[i, SHIFT], n_slots, n_classes)
            learn_row(
                counts, features, groups, scalars, n_slots, slots, values,
                starts[i], starts[i + 1], int(events[i, WIDE]), int(events[i, LABEL]), events[i, WEIGHT],
            )  # fmt: skip
    return True


@jit
def predict_one(
    counts: Array,
    features: Floats,
    groups: Floats,
    scalars: Floats,
    alpha: float,
    smooth: int,
    weighting: int,
    slots: Ints,
    entry_groups: Ints,
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
    """Read one event and finish its answer in the same call; return the best column."""
    work = np.empty((4, len(order)))
    start_sums(sums, marks, 1)
    marks[0] = read_row(
        counts, features, groups, scalars, alpha, smooth, weighting, read, len(order),
        slots, entry_groups, values, 0, n_entries, sums[0], marks, work, True,
    )  # fmt: skip
    return answer_one(classes, order, prior, alpha, read, sums, marks, probabilities)


@jit
def learn_one(
    counts: Array,
    features: Floats,
    groups: Floats,
    scalars: Floats,
    n_slots: int,
    slots: Ints,
    values: Floats,
    n_entries: int,
    classes: Floats,
    label: int,
    w: float,
) -> bool:
    """Learn one event and its class in the same call. Return False, and learn nothing, if the counts do not fit."""
    if not fits_row(counts, scalars, values, 0, n_entries, w):
        return False
    learn_row(counts, features, groups, scalars, n_slots, slots, values, 0, n_entries, 0, label, w)
    learn_class(classes, label, w)
    return True
