"""Features that are on or off: how often each was on with each class. Absent features speak too.

`counts[slot, class]` is k, `totals[c + 1, 0]` the n of class c, `totals[0, 0]` the number of known features. The
sum over absent features, sum_f log((n - k_f + alpha) / (n + 2 alpha)), is taken over a histogram of the whole k
below `BINS` (equal counts share a logarithm) and a list of the features with other counts. It is a sum of integers
(`fixed`), so which of the two holds a feature, and in what order, cannot change a bit of it.
"""

import math

import numpy as np

from streamnb.learners.kernels.answer import answer_one, learn_class
from streamnb.learners.kernels.counts import WIDTH, present, was_seen, widen
from streamnb.learners.kernels.fetching import fetch_added, fetch_next
from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.layout import JOINT, LABEL, POWER, READ, SHIFT, WEIGHT, WIDE, only_read, start_sums
from streamnb.learners.kernels.sums import FACTORS, LARGEST_FACTOR, SMALLEST_FACTOR, fixed, unfixed
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.kernels.whole import fits, fits_row

LISTED = 1
N_LISTED, READ_WITH = 2, 3
BINS = 256
VALID, HIGH, LOW, ZEROS, PRESENT, BASE_HIGH, BASE_LOW = range(7)
CACHE = 7


@inlined
def fits_bin(k: float) -> bool:
    return k < BINS and k == math.floor(k)


@inlined
def enlist(
    counts: Array, features: Floats, scalars: Floats, bins: Ints, listed: Ints, slot: int, n_classes: int
) -> None:
    """Move a feature from the histogram to the list."""
    for c in range(n_classes):
        if counts[slot, c] > 0.0:
            bins[c, int(counts[slot, c])] -= 1
    features[slot, LISTED] = 1.0
    listed[int(scalars[N_LISTED])] = slot
    scalars[N_LISTED] += 1.0


@jit
def rebuild(
    counts: Array,
    features: Floats,
    scalars: Floats,
    bins: Ints,
    listed: Ints,
    cache: Ints,
    n_slots: int,
    n_classes: int,
) -> None:
    """Sort every feature into the histogram or the list anew."""
    bins[:] = 0
    cache[:] = 0
    scalars[N_LISTED] = 0.0
    for slot in range(n_slots):
        binned = True
        for c in range(n_classes):
            k = counts[slot, c]
            if k > 0.0:
                cache[c, PRESENT] += 1
            if not fits_bin(k):
                binned = False
        features[slot, LISTED] = 0.0 if binned else 1.0
        if binned:
            for c in range(n_classes):
                if counts[slot, c] > 0.0:
                    bins[c, int(counts[slot, c])] += 1
        else:
            listed[int(scalars[N_LISTED])] = slot
            scalars[N_LISTED] += 1.0


@inlined
def log_off(k: float, n: float, alpha: float, read: float) -> float:
    """Return log((n - k + alpha) / (n + 2 alpha)), or -log n where that is impossible."""
    total = read * n + 2.0 * alpha
    if total == 0.0:
        return math.log(0.5)
    on = (read * k + alpha) / total
    if on < 0.5:
        return math.log1p(-on)
    off = read * max(n - k, 0.0) + alpha
    return math.log(off / total) if off > 0.0 else -math.log(total)


@jit
def sum_absent(
    counts: Array,
    totals: Floats,
    scalars: Floats,
    bins: Ints,
    listed: Ints,
    cache: Ints,
    alpha: float,
    read: float,
    c: int,
) -> None:
    """Cache, for one class, the sum over its features with k > 0, and the term of a feature with k = 0."""
    n = totals[c + 1, 0]
    high, low, zeros = 0, 0, 0
    for k in range(1, BINS):
        same = bins[c, k]
        if same > 0:
            more, rest = fixed(log_off(k, n, alpha, read))
            high += same * more
            low += same * rest
            if alpha == 0.0 and k >= n:
                zeros += same
    for place in range(int(scalars[N_LISTED])):
        count = counts[listed[place], c]
        if count > 0.0:
            more, rest = fixed(log_off(count, n, alpha, read))
            high += more
            low += rest
            if alpha == 0.0 and count >= n:
                zeros += 1
    cache[c, VALID] = 1
    cache[c, HIGH] = high
    cache[c, LOW] = low
    cache[c, ZEROS] = zeros
    cache[c, BASE_HIGH], cache[c, BASE_LOW] = fixed(log_off(0.0, n, alpha, read))


@jit
def scale(counts: Array, totals: Floats, factor: float, n_slots: int, n_classes: int) -> None:
    """Multiply every weight by a power of two."""
    for slot in range(n_slots):
        for c in range(n_classes):
            counts[slot, c] *= factor
    totals[1:] *= factor


@inlined
def learn_row(
    counts: Array,
    features: Floats,
    totals: Floats,
    scalars: Floats,
    bins: Ints,
    listed: Ints,
    cache: Ints,
    n_slots: int,
    n_classes: int,
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
        widen(features, scalars, totals[:1], n_slots, width)
    totals[label + 1, 0] += w  # not compensated: the k of a feature that is always on must stay equal to it
    cache[label, VALID] = 0
    if width == 0:  # a row of an array presents its columns, all of group 0, by its width
        present(features, totals, scalars, slots, start, stop, 0)
    whole = w == math.floor(w)
    new = 0
    for i in range(start, stop):
        fetch_added(counts, features, slots, i, label)
        if values[i] == 0.0:
            continue
        slot = slots[i]
        k = counts[slot, label]
        new += k == 0.0
        if features[slot, LISTED] == 0.0:  # so k is whole
            if whole and k + w < BINS:
                bins[label, int(k)] -= 1  # what bin 0 holds is never read
                bins[label, int(k + w)] += 1
            else:
                enlist(counts, features, scalars, bins, listed, slot, n_classes)
        counts[slot, label] = k + w
    cache[label, PRESENT] += new


@inlined
def read_row(
    counts: Array,
    features: Floats,
    totals: Floats,
    scalars: Floats,
    bins: Ints,
    listed: Ints,
    cache: Ints,
    alpha: float,
    read: float,
    n_classes: int,
    slots: Ints,
    values: Floats,
    start: int,
    stop: int,
    sums: Floats,
    marks: Ints,
    work: Floats,
    absent: Ints,
    settled: bool,
) -> int:
    """Add log P(on and off | class) of one event to `sums[class]`; return how many of its features were never learned.

    With alpha = 0 an impossible state adds 1 to the power of alpha in `sums[class]`, and 1 / n to the coefficient.
    """
    unseen = 0
    factors = 0
    for c in range(n_classes):
        if cache[c, VALID] == 0:
            sum_absent(counts, totals, scalars, bins, listed, cache, alpha, read, c)
        zero = int(totals[0, 0]) - cache[c, PRESENT]
        absent[0, c] = cache[c, HIGH] + zero * cache[c, BASE_HIGH]
        absent[1, c] = cache[c, LOW] + zero * cache[c, BASE_LOW]
        absent[2, c] = cache[c, ZEROS]
        work[0, c] = 0.0
        work[1, c] = 1.0
    for i in range(start, stop):
        slot = slots[i]
        if not was_seen(features, scalars, slot, settled):
            unseen += 1
            continue
        if values[i] == 0.0:
            continue
        factors += 1
        odd = 0
        for c in range(n_classes):  # the usual case without branches, as in `counts`
            k = counts[slot, c]
            ratio = (read * k + alpha) / (read * max(totals[c + 1, 0] - k, 0.0) + alpha)
            work[2, c] = ratio
            odd += not SMALLEST_FACTOR <= ratio <= LARGEST_FACTOR
        if odd == 0:
            for c in range(n_classes):
                work[1, c] *= work[2, c]
        for c in range(n_classes if odd > 0 else 0):
            k = counts[slot, c]
            n = totals[c + 1, 0]
            on = read * k + alpha
            off = read * max(n - k, 0.0) + alpha
            if on == 0.0 and off == 0.0:  # nothing learned and alpha = 0: on is as likely as off
                continue
            ratio = on / off
            if SMALLEST_FACTOR <= ratio <= LARGEST_FACTOR:
                work[1, c] *= ratio
                continue
            more, rest = fixed(log_off(k, n, alpha, read))
            absent[0, c] -= more
            absent[1, c] -= rest
            if off == 0.0:
                absent[2, c] -= 1
            if on == 0.0:
                absent[2, c] += 1
                on = 1.0
            work[0, c] += math.log(on / (read * n + 2.0 * alpha))
        if factors == FACTORS:
            factors = 0
            for c in range(n_classes):
                work[0, c] += math.log(work[1, c])
                work[1, c] = 1.0
    for c in range(n_classes):
        if factors > 0:
            work[0, c] += math.log(work[1, c])
        sums[c, JOINT] += unfixed(absent[0, c], absent[1, c]) + work[0, c]
        if absent[2, c] != 0:
            sums[c, POWER] += absent[2, c]
            marks[-1] = 1
    return unseen


@inlined
def read_with(scalars: Floats, cache: Ints, read: float) -> None:
    """Drop what was cached for another read factor."""
    if read != scalars[READ_WITH]:
        cache[:, VALID] = 0
        scalars[READ_WITH] = read


@jit
def predict_learn(
    counts: Array,
    features: Floats,
    totals: Floats,
    scalars: Floats,
    bins: Ints,
    listed: Ints,
    cache: Ints,
    alpha: float,
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
    work = np.empty((3, n_classes))
    absent = np.empty((3, n_classes), np.int64)
    settled = only_read(events, n_rows)
    if first == 1:
        start_sums(sums, unseen, n_rows)
    for i in range(n_rows):
        fetch_next(counts, features, slots, starts, events, i, n_rows, n_classes, settled)
        read = events[i, READ]
        read_with(scalars, cache, read)
        unseen[i] += read_row(
            counts, features, totals, scalars, bins, listed, cache, alpha, read, n_classes,
            slots, values, starts[i], starts[i + 1], sums[i], unseen, work, absent, settled,
        )  # fmt: skip
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(counts, totals, events[i, SHIFT], n_slots, n_classes)
                rebuild(counts, features, scalars, bins, listed, cache, n_slots, n_classes)
            learn_row(
                counts, features, totals, scalars, bins, listed, cache, n_slots, n_classes,
                slots, values, starts[i], starts[i + 1], int(events[i, WIDE]), int(events[i, LABEL]), events[i, WEIGHT],
            )  # fmt: skip
    return True


@jit
def learn(
    counts: Array,
    features: Floats,
    totals: Floats,
    scalars: Floats,
    bins: Ints,
    listed: Ints,
    cache: Ints,
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
                scale(counts, totals, events[i, SHIFT], n_slots, n_classes)
                rebuild(counts, features, scalars, bins, listed, cache, n_slots, n_classes)
            learn_row(
                counts, features, totals, scalars, bins, listed, cache, n_slots, n_classes,
                slots, values, starts[i], starts[i + 1], int(events[i, WIDE]), int(events[i, LABEL]), events[i, WEIGHT],
            )  # fmt: skip
    return True


@jit
def predict_one(
    counts: Array,
    features: Floats,
    totals: Floats,
    scalars: Floats,
    bins: Ints,
    listed: Ints,
    cache: Ints,
    alpha: float,
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
    work = np.empty((3, len(order)))
    absent = np.empty((3, len(order)), np.int64)
    start_sums(sums, marks, 1)
    read_with(scalars, cache, read)
    marks[0] = read_row(
        counts, features, totals, scalars, bins, listed, cache, alpha, read, len(order),
        slots, values, 0, n_entries, sums[0], marks, work, absent, True,
    )  # fmt: skip
    return answer_one(classes, order, prior, alpha, read, sums, marks, probabilities)


@jit
def learn_one(
    counts: Array,
    features: Floats,
    totals: Floats,
    scalars: Floats,
    bins: Ints,
    listed: Ints,
    cache: Ints,
    n_slots: int,
    n_classes: int,
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
    learn_row(
        counts, features, totals, scalars, bins, listed, cache, n_slots, n_classes,
        slots, values, 0, n_entries, 0, label, w,
    )  # fmt: skip
    learn_class(classes, label, w)
    return True
