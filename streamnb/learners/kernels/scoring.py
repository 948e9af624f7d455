"""Counts what the answers to labelled events were worth, one event after the other.

`classes[slot]` holds what is counted of a class, and where it stands: its place in the sorted order of all slots, its
column among the probabilities (-1 if it has none), and its row and column of the confusion (-1 before it has any).
"""

import math

from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.types import Array, Floats, Ints

CLASS_EVALUATED, CLASS_CORRECT, CLASS_PREDICTED, CHANGE, RANK, COLUMN, PLACE = range(7)
CLASS_FIELDS = 7
NEVER, SHOWN, CHANGED = range(3)
"""Whether anything of a class was counted, and whether that was since it was last shown."""
EVALUATED, CORRECT, UNKNOWN, MAJORITY_CORRECT, MAJORITY, PLACES = range(6)
TOTALS = 6
LOG_LOSS, BRIER, PRIOR_LOG_LOSS = range(3)
SUMS = 3
BIN_EVENTS, BIN_CORRECT = range(2)
BIN_FIELDS = 2
SMALLEST_P = 1e-15


@jit
def score(
    truths: Ints,
    columns: Ints,
    probabilities: Floats,
    best: Ints,
    classes: Ints,
    totals: Ints,
    sums: Floats,
    bins: Ints,
    confidence: Floats,
    confusion: Ints,
    wrong: Array,
) -> int:
    """Score the rows that have a truth; return how many these are, whether each was wrong going to `wrong`.

    `truths` are slots, -1 where there is none; `columns` are the slots of the columns of `probabilities`, (n, K), which
    are NaN for a class that was not known; `best` is a column or -1. The last row and column of `confusion` are shared
    by all classes that came when the others were taken.
    """
    scored = 0
    for i in range(len(truths)):
        slot = truths[i]
        if slot < 0:
            continue
        p = probabilities[i]
        column, answer = classes[slot, COLUMN], best[i]
        known = column >= 0 and not math.isnan(p[column])
        right = known and answer == column
        sums[LOG_LOSS] -= math.log(max(p[column] if known else 0.0, SMALLEST_P))
        sums[BRIER] += brier(p, column if known else -1)
        if answer >= 0:
            told = 0.0 if math.isnan(p[answer]) else p[answer]
            held = min(int(told * len(bins)), len(bins) - 1)
            bins[held, BIN_EVENTS] += 1
            bins[held, BIN_CORRECT] += right
            confidence[held] += told
            said = columns[answer]
            classes[said, CLASS_PREDICTED] += 1
            classes[said, CHANGE] = CHANGED
            row = place(slot, classes, totals, len(confusion) - 1)
            confusion[row, place(said, classes, totals, len(confusion) - 1)] += 1
        count_class(slot, classes, totals, sums)
        classes[slot, CLASS_CORRECT] += right
        totals[CORRECT] += right
        totals[UNKNOWN] += not known
        wrong[scored] = not right
        scored += 1
    return scored


@jit
def brier(p: Floats, column: int) -> float:
    """Return the squared distance from what was true: this column, or at -1 a class that has none."""
    total = 0.0
    for j in range(len(p)):
        x = 0.0 if math.isnan(p[j]) else p[j]
        if j == column:
            x -= 1.0
        total += x * x
    return total + 1.0 if column < 0 else total


@jit
def place(slot: int, classes: Ints, totals: Ints, last: int) -> int:
    """Return the place of a class in the confusion, which goes by the order of arrival."""
    if classes[slot, PLACE] < 0:
        if totals[PLACES] == last:
            return last
        classes[slot, PLACE] = totals[PLACES]
        totals[PLACES] += 1
    return int(classes[slot, PLACE])


@jit
def count_class(slot: int, classes: Ints, totals: Ints, sums: Floats) -> None:
    """Count an event of this class, and score what always answers the majority class, or the shares of all classes."""
    before, leader = totals[EVALUATED], totals[MAJORITY]
    share = classes[slot, CLASS_EVALUATED] / before if before > 0 else 0.0
    sums[PRIOR_LOG_LOSS] -= math.log(max(share, SMALLEST_P))
    totals[EVALUATED] += 1
    classes[slot, CLASS_EVALUATED] += 1
    classes[slot, CHANGE] = CHANGED
    if slot == leader:
        totals[MAJORITY_CORRECT] += 1
        return
    # ties go to the first in sorted order, as the model's do
    ahead = classes[slot, CLASS_EVALUATED] - classes[leader, CLASS_EVALUATED] if leader >= 0 else 1
    if ahead > 0 or (ahead == 0 and classes[slot, RANK] < classes[leader, RANK]):
        totals[MAJORITY] = slot
