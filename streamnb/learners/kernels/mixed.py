"""One event of several kinds of features, read or learned in a single call.

`n_entries` of a block is -1 if the model has no such block. The steps are those of the blocks' own kernels.
"""

import numpy as np

from streamnb.learners.kernels import bernoulli, categorical, counts, gaussian
from streamnb.learners.kernels.answer import answer_one, learn_class
from streamnb.learners.kernels.jit import jit
from streamnb.learners.kernels.layout import REFUSED, start_sums
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.kernels.whole import fits_row


@jit
def predict_one(
    cells: Floats,
    cache: Floats,
    var_smoothing: float,
    ddof: float,
    n_gaussian: int,
    gaussian_slots: Ints,
    gaussian_values: Floats,
    cat_features: Floats,
    cat_values: Floats,
    n_categorical: int,
    cat_slots: Ints,
    cat_extras: Ints,
    on_counts: Array,
    on_features: Floats,
    on_totals: Floats,
    on_scalars: Floats,
    on_bins: Ints,
    on_listed: Ints,
    on_cache: Ints,
    n_bernoulli: int,
    on_slots: Ints,
    on_values: Floats,
    token_counts: Array,
    token_features: Floats,
    token_groups: Floats,
    token_scalars: Floats,
    weighting: int,
    n_counts: int,
    token_slots: Ints,
    token_extras: Ints,
    token_values: Floats,
    alpha: float,
    smooth: int,
    classes: Floats,
    order: Ints,
    prior: int,
    read: float,
    sums: Floats,
    marks: Ints,
    probabilities: Floats,
) -> int:
    """Read one event and finish its answer; return the best column, `REFUSED` if a number is too large."""
    if not gaussian.are_small(gaussian_values, n_gaussian):
        return REFUSED
    n_classes = len(order)
    work = np.empty((4, n_classes))
    start_sums(sums, marks, 1)
    if n_gaussian >= 0:
        marks[0] += gaussian.read_row(
            cells, cache, var_smoothing, ddof, read, n_classes, gaussian_slots, gaussian_values, 0, n_gaussian,
            sums[0], marks,
        )  # fmt: skip
    if n_categorical >= 0:
        marks[0] += categorical.read_row(
            cat_features, cat_values, alpha, smooth, read, n_classes, cat_slots, cat_extras, 0, n_categorical,
            sums[0], marks, work,
        )  # fmt: skip
    if n_bernoulli >= 0:
        absent = np.empty((3, n_classes), np.int64)
        bernoulli.read_with(on_scalars, on_cache, read)
        marks[0] += bernoulli.read_row(
            on_counts, on_features, on_totals, on_scalars, on_bins, on_listed, on_cache, alpha, read, n_classes,
            on_slots, on_values, 0, n_bernoulli, sums[0], marks, work, absent, True,
        )  # fmt: skip
    if n_counts >= 0:
        marks[0] += counts.read_row(
            token_counts, token_features, token_groups, token_scalars, alpha, smooth, weighting, read, n_classes,
            token_slots, token_extras, token_values, 0, n_counts, sums[0], marks, work, True,
        )  # fmt: skip
    return answer_one(classes, order, prior, alpha, read, sums, marks, probabilities)


@jit
def learn_one(
    cells: Floats,
    cache: Floats,
    n_features: int,
    n_gaussian: int,
    gaussian_slots: Ints,
    gaussian_values: Floats,
    cat_features: Floats,
    cat_values: Floats,
    n_categorical: int,
    cat_slots: Ints,
    cat_extras: Ints,
    on_counts: Array,
    on_features: Floats,
    on_totals: Floats,
    on_scalars: Floats,
    on_bins: Ints,
    on_listed: Ints,
    on_cache: Ints,
    n_on: int,
    n_bernoulli: int,
    on_slots: Ints,
    on_values: Floats,
    token_counts: Array,
    token_features: Floats,
    token_groups: Floats,
    token_scalars: Floats,
    n_tokens: int,
    n_counts: int,
    token_slots: Ints,
    token_values: Floats,
    classes: Floats,
    n_classes: int,
    label: int,
    w: float,
) -> bool:
    """Learn one event and its class; return False, and learn nothing, if a number or a count does not fit."""
    if not (
        gaussian.are_small(gaussian_values, n_gaussian)
        and fits_row(on_counts, on_scalars, on_values, 0, n_bernoulli, w)
        and fits_row(token_counts, token_scalars, token_values, 0, n_counts, w)
    ):
        return False
    if n_gaussian >= 0:
        gaussian.learn_row(cells, cache, n_features, gaussian_slots, gaussian_values, 0, n_gaussian, label, w)
    if n_categorical >= 0:
        categorical.learn_row(cat_features, cat_values, cat_slots, cat_extras, 0, n_categorical, label, w)
    if n_bernoulli >= 0:
        bernoulli.learn_row(
            on_counts, on_features, on_totals, on_scalars, on_bins, on_listed, on_cache, n_on, n_classes,
            on_slots, on_values, 0, n_bernoulli, 0, label, w,
        )  # fmt: skip
    if n_counts >= 0:
        counts.learn_row(
            token_counts, token_features, token_groups, token_scalars, n_tokens, token_slots, token_values,
            0, n_counts, 0, label, w,
        )  # fmt: skip
    learn_class(classes, label, w)
    return True
