"""Counts of tokens: one multinomial per group of features.

`counts[slot, class]`; `features[slot, field]`; `groups[group, 0]` is the number of known features of the group,
`groups[group, c + 1]` the total of class c. The entries of an event come group by group.
"""

import math

import numpy as np

from streamnb.learners.kernels.answer import answer_one, learn_class
from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.layout import JOINT, LABEL, POWER, READ, SHIFT, WEIGHT, WIDE, only_read, start_sums
from streamnb.learners.kernels.sums import FACTORS, SMALLEST_FACTOR
from streamnb.learners.kernels.types import Floats, Ints

EVENTS, DF, GROUP, COLUMN = range(4)
WIDTH, N = range(2)
TF, LOG1P, TFIDF = range(3)
NO_COLUMN = 1e300


@inlined
def is_known(features: Floats, scalars: Floats, slot: int) -> bool:
    """Whether an event has presented this feature, by name or as a column of an array."""
    return slot >= 0 and (features[slot, EVENTS] > 0.0 or features[slot, COLUMN] < scalars[WIDTH])


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
    counts: Floats, features: Floats, groups: Floats, scalars: Floats, factor: float, n_slots: int, n_classes: int
) -> None:
    """Multiply every weight by a power of two."""
    for slot in range(n_slots):
        features[slot, DF] *= factor
        for c in range(n_classes):
            counts[slot, c] *= factor
    groups[:, 1:] *= factor
    scalars[N] *= factor


@inlined
def learn_row(
    counts: Floats,
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
    for k in range(start, stop):
        slot = slots[k]
        group = int(features[slot, GROUP])
        if width == 0:  # a row of an array presents its columns by its width
            if not is_known(features, scalars, slot):
                groups[group, 0] += 1.0
            features[slot, EVENTS] += 1.0
        f = values[k]
        if f > 0.0:
            features[slot, DF] += w
            counts[slot, label] += w * f
            groups[group, label + 1] += w * f


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
    counts: Floats,
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
    coefficient. `work` holds the sums, the running products, the inverse denominators and one token's factors.
    `settled`: nothing is learned meanwhile, so that every token with a slot is known, and one access is spared.
    """
    unseen = 0
    factors = 0
    group = -2
    for c in range(n_classes):
        work[0, c] = 0.0
        work[1, c] = 1.0
    for k in range(start, stop):
        slot = slots[k]
        known = slot >= 0 if settled else is_known(features, scalars, slot)
        if not known:
            unseen += 1
            if smooth == 0 or weighting == TFIDF:
                continue
        f = values[k]
        if weighting != TF:
            f = weighted(f, weighting, scalars[N], features[slot, DF] if known else 0.0)
        if f == 0.0:
            continue
        if entry_groups[k] != group:
            group = entry_groups[k]
            size = float(smooth) + (groups[group, 0] if group >= 0 else 0.0)
            for c in range(n_classes):
                total = read * groups[group, c + 1] if group >= 0 else 0.0
                work[2, c] = 1.0 / (total + alpha * size) if total > 0.0 or alpha > 0.0 else -1.0 / size
        if f == 1.0:
            factors += 1
        odd = 1
        if known and f == 1.0:  # the usual case in a loop without branches, so that it runs on several classes at once
            odd = 0
            for c in range(n_classes):
                work[3, c] = (alpha + read * counts[slot, c]) * work[2, c]
                odd += work[3, c] < SMALLEST_FACTOR
            if odd == 0:
                for c in range(n_classes):
                    work[1, c] *= work[3, c]
        for c in range(n_classes if odd > 0 else 0):
            factor = (alpha + read * counts[slot, c]) if known else alpha
            inverse = work[2, c]
            if factor == 0.0:
                factor = 1.0
                if inverse > 0.0:
                    sums[c, POWER] += f
                    marks[-1] = 1
            factor *= abs(inverse)
            if f == 1.0 and factor >= SMALLEST_FACTOR:
                work[1, c] *= factor
            else:
                work[0, c] += f * math.log(factor)
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
    counts: Floats,
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
) -> None:
    """Read every row, and learn those that have a label."""
    work = np.empty((4, n_classes))
    settled = only_read(events, n_rows)
    if first == 1:
        start_sums(sums, unseen, n_rows)
    for i in range(n_rows):
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


@jit
def learn(
    counts: Floats,
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
) -> None:
    """Learn every row that has a label."""
    for i in range(n_rows):
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(counts, features, groups, scalars, events[i, SHIFT], n_slots, n_classes)
            learn_row(
                counts, features, groups, scalars, n_slots, slots, values,
                starts[i], starts[i + 1], int(events[i, WIDE]), int(events[i, LABEL]), events[i, WEIGHT],
            )  # fmt: skip


@jit
def predict_one(
    counts: Floats,
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
    counts: Floats,
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
) -> None:
    """Learn one event and its class in the same call."""
    learn_row(counts, features, groups, scalars, n_slots, slots, values, 0, n_entries, 0, label, w)
    learn_class(classes, label, w)
