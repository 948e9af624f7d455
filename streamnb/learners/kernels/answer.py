"""The class prior, and the last line of an answer: limits, log-sum-exp, the label.

`classes[c]` is (events, n, what rounding n dropped, known from the start, given prior).
"""

import math

from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.sums import LARGEST, add_pair
from streamnb.learners.kernels.types import Floats, Ints

EVENTS, N, N_LOW, DECLARED, GIVEN = range(5)
FIELDS = 5
EMPIRICAL, SMOOTHED, UNIFORM, MAPPING = range(4)


@jit
def log_priors(classes: Floats, order: Ints, n_classes: int, prior: int, alpha: float, read: float, out: Floats) -> None:
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
def keep_winners(joint: Floats, limits: Floats, n_classes: int) -> None:
    """Give -inf to every class that a limit rules out.

    Epsilon's limit first: the smallest squared distance over zero-variance cells (a pair of floats, so that equal distances
    compare equal in whatever order they were summed), then the most such cells; then alpha's: the smallest power.
    """
    high, low, cells, power = math.inf, 0.0, 0.0, 0.0
    for c in range(n_classes):
        if not joint[c] > -math.inf:
            continue
        difference = (limits[c, 0] - high) + (limits[c, 1] - low)
        slack = 1e-28 * limits[c, 0]
        better = difference < -slack
        if not better and difference <= slack:
            better = limits[c, 2] > cells
            if limits[c, 2] == cells:
                better = limits[c, 3] < power
        if better:
            high, low, cells, power = limits[c, 0], limits[c, 1], limits[c, 2], limits[c, 3]
    for c in range(n_classes):
        difference = (limits[c, 0] - high) + (limits[c, 1] - low)
        if (
            difference > 1e-28 * limits[c, 0]
            or limits[c, 2] < cells
            or limits[c, 3] - power > 1e-12 * max(abs(power), abs(limits[c, 3]))
        ) and joint[c] > -math.inf:
            joint[c] = -math.inf


@jit
def answer(
    classes: Floats,
    order: Ints,
    prior: int,
    alpha: float,
    n_classes: int,
    n_rows: int,
    labels: Ints,
    weights: Floats,
    decay: Floats,
    joint: Floats,
    limits: Floats,
    flags: Ints,
    probabilities: Floats,
    best: Ints,
) -> None:
    """Finish what the blocks have summed: add the prior, settle limits, normalise, name the best; learn the prior.

    `joint[row, class]` becomes the joint log-likelihood; `probabilities[row, j]` and `best[row]` go by sorted column.
    A class that is not known when its row comes is NaN in both; `best` is -1 while no class is known.
    """
    priors = probabilities[n_rows]  # one row more than there are rows, to work in
    stale = True
    for i in range(n_rows):
        if decay.shape[0] > 0:
            stale = True
        if stale:
            read = decay[i, 1] if decay.shape[0] > 0 else 1.0
            log_priors(classes, order, n_classes, prior, alpha, read, priors)
            stale = False
        for c in range(n_classes):
            joint[i, c] += priors[c]
        if flags[0] != 0:
            keep_winners(joint[i], limits[i], n_classes)
        top = -math.inf
        for c in range(n_classes):
            if joint[i, c] > top:
                top = joint[i, c]
        total = 0.0
        for j in range(n_classes):
            x = joint[i, order[j]]
            if x > -math.inf:
                p = math.exp(max(x - top, -LARGEST)) if x < top else 1.0
                total += p
                probabilities[i, j] = p
            else:
                probabilities[i, j] = x if x != x else 0.0
        best[i] = -1
        highest = -1.0
        for j in range(n_classes):
            p = probabilities[i, j] / total
            probabilities[i, j] = p
            if p > highest:
                highest = p
                best[i] = j
        if labels[i] >= 0:
            learn_class(classes, decay, i, labels[i], weights[i], n_classes)
            stale = True


@jit
def learn_class(classes: Floats, decay: Floats, i: int, label: int, w: float, n_classes: int) -> None:
    """Add one event to its class."""
    if decay.shape[0] > 0 and decay[i, 0] != 1.0:
        for c in range(n_classes):
            classes[c, N] *= decay[i, 0]
            classes[c, N_LOW] *= decay[i, 0]
    classes[label, EVENTS] += 1.0
    classes[label, N], classes[label, N_LOW] = add_pair(classes[label, N], classes[label, N_LOW], w)


@jit
def learn(classes: Floats, n_classes: int, n_rows: int, labels: Ints, weights: Floats, decay: Floats) -> None:
    """Learn the class of every row that has a label."""
    for i in range(n_rows):
        if labels[i] >= 0:
            learn_class(classes, decay, i, labels[i], weights[i], n_classes)
