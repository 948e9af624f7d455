"""The class prior, and the last line of an answer: limits, log-sum-exp, the label.

`classes[c]` is (events, n, what rounding n dropped, known from the start, given prior).
"""

import math

from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.layout import CELLS, DISTANCE, DISTANCE_LOW, JOINT, LABEL, POWER, READ, SHIFT, WEIGHT
from streamnb.learners.kernels.sums import LARGEST, add_pair
from streamnb.learners.kernels.types import Floats, Ints

EVENTS, N, N_LOW, DECLARED, GIVEN = range(5)
FIELDS = 5
EMPIRICAL, SMOOTHED, UNIFORM, MAPPING = range(4)
EQUAL_DISTANCE, EQUAL_POWER = 1e-28, 1e-12
"""Relative differences below these are rounding."""


@jit
def log_priors(
    classes: Floats, order: Ints, n_classes: int, prior: int, alpha: float, read: float, out: Floats
) -> None:
    """Write log P(class) to `out[class]`, NaN for a class that is not known yet."""
    total = 0.0
    known = 0
    for j in range(n_classes):
        c = order[j]
        if classes[c, EVENTS] > 0.0 or classes[c, DECLARED] > 0.0:
            known += 1
            total += classes[c, N]
    for c in range(n_classes):
        if not (classes[c, EVENTS] > 0.0 or classes[c, DECLARED] > 0.0):
            out[c] = math.nan
            continue
        if prior == MAPPING:
            p = classes[c, GIVEN]
        elif prior == UNIFORM or total == 0.0:
            p = 1.0 / known
        elif prior == SMOOTHED:
            p = (read * classes[c, N] + alpha) / (read * total + alpha * known)
        else:
            p = classes[c, N] / total
        out[c] = math.log(p) if p > 0.0 else -math.inf


@jit
def keep_winners(sums: Floats, n_classes: int) -> None:
    """Give -inf to every class that a limit rules out.

    Epsilon's limit first: the smallest squared distance over zero-variance cells (a pair of floats, so that equal
    distances compare equal in whatever order they were summed), then the most such cells; then alpha's: the
    smallest power.
    """
    high, low, cells, power = math.inf, 0.0, 0.0, 0.0
    for c in range(n_classes):
        if not sums[c, JOINT] > -math.inf:
            continue
        difference = (sums[c, DISTANCE] - high) + (sums[c, DISTANCE_LOW] - low)
        slack = EQUAL_DISTANCE * sums[c, DISTANCE]
        better = difference < -slack
        if not better and difference <= slack:
            better = sums[c, CELLS] > cells
            if sums[c, CELLS] == cells:
                better = sums[c, POWER] < power
        if better:
            high, low, cells, power = sums[c, DISTANCE], sums[c, DISTANCE_LOW], sums[c, CELLS], sums[c, POWER]
    for c in range(n_classes):
        difference = (sums[c, DISTANCE] - high) + (sums[c, DISTANCE_LOW] - low)
        if sums[c, JOINT] > -math.inf and (
            difference > EQUAL_DISTANCE * sums[c, DISTANCE]
            or sums[c, CELLS] < cells
            or sums[c, POWER] - power > EQUAL_POWER * max(abs(power), abs(sums[c, POWER]))
        ):
            sums[c, JOINT] = -math.inf


@jit
def answer(
    classes: Floats,
    order: Ints,
    prior: int,
    alpha: float,
    n_classes: int,
    n_rows: int,
    events: Floats,
    sums: Floats,
    unseen: Ints,
    probabilities: Floats,
    best: Ints,
) -> None:
    """Finish what the blocks have summed: add the prior, settle limits, normalise, name the best; learn the prior.

    `sums[row, class, JOINT]` becomes the joint log-likelihood; `probabilities[row, j]` and `best[row]` go by sorted
    column. A class that is not known when its row comes is NaN in both; `best` is -1 while no class is known.
    """
    priors = probabilities[n_rows]  # one row more than there are rows, to work in
    stale = True
    for i in range(n_rows):
        if stale or events[i, READ] != events[i - 1, READ]:
            log_priors(classes, order, n_classes, prior, alpha, events[i, READ], priors)
            stale = False
        best[i] = answer_row(order, n_classes, priors, sums[i], unseen, probabilities[i])
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(classes, events[i, SHIFT], n_classes)
            learn_class(classes, int(events[i, LABEL]), events[i, WEIGHT])
            stale = True


@inlined
def answer_row(order: Ints, n_classes: int, priors: Floats, sums: Floats, marks: Ints, probabilities: Floats) -> int:
    """Finish one row; return its best column."""
    for c in range(n_classes):
        sums[c, JOINT] += priors[c]
    if marks[-1] != 0:
        keep_winners(sums, n_classes)
    top = -math.inf
    for c in range(n_classes):
        if sums[c, JOINT] > top:
            top = sums[c, JOINT]
    total = 0.0
    for j in range(n_classes):
        x = sums[order[j], JOINT]
        if x > -math.inf:
            p = math.exp(max(x - top, -LARGEST)) if x < top else 1.0
            total += p
            probabilities[j] = p
        else:
            probabilities[j] = x if x != x else 0.0
    best = -1
    highest = -1.0
    for j in range(n_classes):
        p = probabilities[j] / total
        probabilities[j] = p
        if p > highest:
            highest = p
            best = j
    return best


@inlined
def answer_one(
    classes: Floats,
    order: Ints,
    prior: int,
    alpha: float,
    read: float,
    sums: Floats,
    marks: Ints,
    probabilities: Floats,
) -> int:
    """Finish the only row of a batch that is not learned; return its best column."""
    log_priors(classes, order, len(order), prior, alpha, read, probabilities[1])
    return answer_row(order, len(order), probabilities[1], sums[0], marks, probabilities[0])


@jit
def scale(classes: Floats, factor: float, n_classes: int) -> None:
    """Multiply every weight by a power of two."""
    for c in range(n_classes):
        classes[c, N] *= factor
        classes[c, N_LOW] *= factor


@inlined
def learn_class(classes: Floats, label: int, w: float) -> None:
    """Add one event to its class."""
    classes[label, EVENTS] += 1.0
    classes[label, N], classes[label, N_LOW] = add_pair(classes[label, N], classes[label, N_LOW], w)


@jit
def learn(classes: Floats, n_classes: int, n_rows: int, events: Floats) -> None:
    """Learn the class of every row that has a label."""
    for i in range(n_rows):
        if events[i, LABEL] >= 0.0:
            if events[i, SHIFT] != 1.0:
                scale(classes, events[i, SHIFT], n_classes)
            learn_class(classes, int(events[i, LABEL]), events[i, WEIGHT])
