"""Counts of tokens read by their complement: each class is scored by what all the others hold (Rennie et al. 2003).

The state is that of `counts`, with one group.
"""

import math

import numpy as np

from streamnb.learners.kernels import counts as multinomial
from streamnb.learners.kernels.answer import answer_one
from streamnb.learners.kernels.counts import SIDE_BY_SIDE, is_known, was_seen
from streamnb.learners.kernels.fetching import fetch_next
from streamnb.learners.kernels.jit import inlined, jit, reordered
from streamnb.learners.kernels.layout import JOINT, LABEL, POWER, READ, SHIFT, WEIGHT, WIDE, only_read, start_sums
from streamnb.learners.kernels.sums import FACTORS, LN2, SMALLEST_FACTOR, fixed, take_exponents, unfixed
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.kernels.whole import fits

EXACT = 2.0**53
"""Sums of whole numbers below this are exact."""


@inlined
def others(row: Floats, offset: int, order: Ints, n_classes: int, out: Floats) -> None:
    """Write to `out[class]` the sum of `row` over all other classes: no subtraction, so nothing cancels."""
    before = 0.0
    for j in range(n_classes):
        c = order[j]
        out[c] = before
        before += row[offset + c]
    after = 0.0
    for j in range(n_classes - 1, -1, -1):
        c = order[j]
        out[c] += after
        after += row[offset + c]


@reordered
def sums_of_four(counts: Array, slots: Ints, k: int, n_classes: int) -> tuple[float, float, float, float, bool]:
    """Return four tokens' sums over all classes, and whether they are exact: sums of whole numbers below 2^53.

    Then the difference to one class is the sum over the others, to the bit.
    """
    a, b, c, d = counts[slots[k]], counts[slots[k + 1]], counts[slots[k + 2]], counts[slots[k + 3]]
    sum_a, sum_b, sum_c, sum_d = 0.0, 0.0, 0.0, 0.0
    fractions = 0
    for j in range(n_classes):
        sum_a += a[j]
        sum_b += b[j]
        sum_c += c[j]
        sum_d += d[j]
        fractions += (a[j] != math.floor(a[j])) + (b[j] != math.floor(b[j]))
        fractions += (c[j] != math.floor(c[j])) + (d[j] != math.floor(d[j]))
    exact = fractions == 0 and max(max(sum_a, sum_b), max(sum_c, sum_d)) < EXACT
    return sum_a, sum_b, sum_c, sum_d, exact


@inlined
def inverse_totals(groups: Floats, alpha: float, read: float, order: Ints, n_classes: int, out: Floats) -> None:
    """Write 1 / (total of the others + alpha V); with alpha = 0 and no others, -1 / V."""
    if n_classes == 0:
        return
    others(groups[0], 1, order, n_classes, out)
    size = groups[0, 0]
    for c in range(n_classes):
        total = read * out[c]
        out[c] = 1.0 / (total + alpha * size) if total > 0.0 or alpha > 0.0 else -1.0 / size


@jit
def magnitudes(
    counts: Array,
    features: Floats,
    scalars: Floats,
    alpha: float,
    read: float,
    order: Ints,
    n_slots: int,
    n_classes: int,
    work: Floats,
    norms: Floats,
) -> None:
    """Write the sum of |log theta| over all known features to `norms[0]`, how many are infinite to `norms[1]`."""
    high = np.zeros(n_classes, np.int64)
    low = np.zeros(n_classes, np.int64)
    norms[1, :n_classes] = 0.0
    for slot in range(n_slots):
        if not is_known(features, scalars, slot):
            continue
        others(counts[slot], 0, order, n_classes, work[4])
        for c in range(n_classes):
            factor = alpha + read * work[4, c]
            if factor == 0.0:
                factor = 1.0
                if work[2, c] > 0.0:
                    norms[1, c] += 1.0
            more, rest = fixed(-math.log(factor * abs(work[2, c])))
            high[c] += more
            low[c] += rest
    for c in range(n_classes):
        norms[0, c] = unfixed(high[c], low[c])


@inlined
def normalised(theta: float, impossible: bool, magnitude: float, n_infinite: float) -> float:
    """Return |log theta| over the sum of magnitudes; its limit where alpha = 0 makes some of them infinite."""
    if n_infinite > 0.0:
        return 1.0 / n_infinite if impossible else 0.0
    return -math.log(theta) / magnitude if magnitude > 0.0 else 0.0


@inlined
def read_row(
    counts: Array,
    features: Floats,
    groups: Floats,
    scalars: Floats,
    alpha: float,
    norm: int,
    read: float,
    order: Ints,
    n_slots: int,
    n_classes: int,
    slots: Ints,
    values: Floats,
    start: int,
    stop: int,
    fresh: int,
    sums: Floats,
    marks: Ints,
    work: Floats,
    norms: Floats,
    settled: bool,
) -> int:
    """Add the complement's weights of one event to `sums[class]`; return how many tokens were never learned.

    A token that no other class holds speaks for its class without bound as alpha goes to 0: a negative power of alpha.
    """
    unseen = 0
    factors = 0
    logs, products, inverse, exponents = work[0], work[1], work[2], work[3]
    inverse_totals(groups, alpha, read, order, n_classes, inverse)
    if norm == 1 and fresh == 1:
        magnitudes(counts, features, scalars, alpha, read, order, n_slots, n_classes, work, norms)
    sure = norm == 0
    for c in range(n_classes):
        logs[c] = 0.0
        products[c] = 1.0
        exponents[c] = 0.0
        sure = sure and alpha * inverse[c] >= SMALLEST_FACTOR
    k = start
    while k < stop:
        slot = slots[k]
        if not was_seen(features, scalars, slot, settled):
            unseen += 1
            k += 1
            continue
        f = values[k]
        if f == 0.0:
            k += 1
            continue
        if sure and f == 1.0:  # the usual case without branches, several tokens at once, as in `counts`
            together = 1
            if factors + SIDE_BY_SIDE <= FACTORS and k + SIDE_BY_SIDE <= stop:
                together = SIDE_BY_SIDE
                for i in range(k + 1, k + SIDE_BY_SIDE):
                    if values[i] != 1.0 or not was_seen(features, scalars, slots[i], settled):
                        together = 1
            if together > 1:
                sum_a, sum_b, sum_c, sum_d, exact = sums_of_four(counts, slots, k, n_classes)
                together = SIDE_BY_SIDE if exact else 1
            if together == 1:
                others(counts[slot], 0, order, n_classes, work[4])
                for c in range(n_classes):
                    products[c] *= (alpha + read * work[4, c]) * inverse[c]
            else:
                second, third, fourth = slots[k + 1], slots[k + 2], slots[k + 3]
                for c in range(n_classes):
                    product = products[c]
                    product *= (alpha + read * (sum_a - counts[slot, c])) * inverse[c]
                    product *= (alpha + read * (sum_b - counts[second, c])) * inverse[c]
                    product *= (alpha + read * (sum_c - counts[third, c])) * inverse[c]
                    product *= (alpha + read * (sum_d - counts[fourth, c])) * inverse[c]
                    products[c] = product
            factors += together
            k += together
        else:
            factors += 1
            k += 1
            others(counts[slot], 0, order, n_classes, work[4])
            for c in range(n_classes):
                factor = alpha + read * work[4, c]
                impossible = factor == 0.0 and inverse[c] > 0.0
                if factor == 0.0:
                    factor = 1.0
                factor *= abs(inverse[c])
                if norm == 1:
                    logs[c] += f * normalised(factor, impossible, norms[0, c], norms[1, c])
                    continue
                if impossible:
                    sums[c, POWER] -= f
                    marks[-1] = 1
                if f == 1.0 and factor >= SMALLEST_FACTOR:
                    products[c] *= factor
                else:
                    logs[c] -= f * math.log(factor)
        if factors == FACTORS:
            factors = 0
            take_exponents(products, exponents, n_classes)
    for c in range(n_classes):
        sums[c, JOINT] += logs[c] - (math.log(products[c]) + LN2 * exponents[c])
    return unseen


@jit
def predict_learn(
    counts: Array,
    features: Floats,
    groups: Floats,
    scalars: Floats,
    alpha: float,
    norm: int,
    order: Ints,
    n_slots: int,
    n_classes: int,
    n_rows: int,
    starts: Ints,
    slots: Ints,
    values: Floats,
    events: Floats,
    first: int,
    sums: Floats,
    unseen: Ints,
) -> bool:
    """Read every row, and learn those that have a label. Return False, and do nothing, if the counts do not fit."""
    if not fits(counts, scalars, starts, values, events, n_rows):
        return False
    work = np.empty((5, n_classes))
    norms = np.zeros((2, n_classes))
    fresh = 1
    settled = only_read(events, n_rows)
    if first == 1:
        start_sums(sums, unseen, n_rows)
    for i in range(n_rows):
        fetch_next(counts, features, slots, starts, events, i, n_rows, n_classes, settled)
        read = events[i, READ]
        unseen[i] += read_row(
            counts, features, groups, scalars, alpha, norm, read, order, n_slots, n_classes,
            slots, values, starts[i], starts[i + 1], fresh, sums[i], unseen, work, norms, settled,
        )  # fmt: skip
        fresh = 0
        if events[i, LABEL] >= 0.0:
            fresh = 1
            if events[i, SHIFT] != 1.0:
                multinomial.scale(counts, features, groups, scalars, events[i, SHIFT], n_slots, n_classes)
            multinomial.learn_row(
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
    norm: int,
    n_slots: int,
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
    """Read one event and finish its answer in the same call; return the best column."""
    work = np.empty((5, len(order)))
    norms = np.zeros((2, len(order)))
    start_sums(sums, marks, 1)
    marks[0] = read_row(
        counts, features, groups, scalars, alpha, norm, read, order, n_slots, len(order),
        slots, values, 0, n_entries, 1, sums[0], marks, work, norms, True,
    )  # fmt: skip
    return answer_one(classes, order, prior, alpha, read, sums, marks, probabilities)
