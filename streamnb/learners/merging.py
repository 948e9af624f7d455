"""The model of two streams together, from the models of each."""

from typing import TYPE_CHECKING

import numpy as np

from streamnb.learners.kernels.answer import EVENTS, N_LOW, N
from streamnb.learners.kernels.sums import add_pair
from streamnb.learners.options import json_options
from streamnb.learners.values import Label

if TYPE_CHECKING:
    from streamnb.learners.model import Model


def merge(model: "Model", other: "Model") -> None:
    """Add what another model of the same options has learned; raise ValueError, and change nothing, if they differ."""
    if type(other) is not type(model):
        raise ValueError(f"cannot merge a {type(other).__name__} into a {type(model).__name__}")
    mine, its = json_options(model.options), json_options(other.options)
    for name in mine:
        if mine[name] != its[name]:
            raise ValueError(f"cannot merge models of different {name}: {mine[name]!r} and {its[name]!r}")
    fresh: dict[Label, int] = {}
    for label in other.classes:
        if model.label_slot(label, fresh)[0] < 0:
            fresh[label] = len(fresh)
    other = other.copy()
    factors = model.forgetting.meet(other.forgetting)
    for side, factor in zip((model, other), factors, strict=True):
        if factor != 1.0:
            side.class_table[:, [N, N_LOW]] *= factor
            for block in side.blocks:
                block.scale(factor, len(side.labels))
    for label in fresh:
        model.add_label(label)
    model.sort_labels()
    slots = np.array([model.labels.slots[label] for label in other.labels.names], np.int64)
    for block, its_block in zip(model.blocks, other.blocks, strict=True):
        block.merge(its_block, slots, len(model.labels))
    for c, slot in enumerate(slots):
        row = model.class_table[slot]
        row[EVENTS] += other.class_table[c, EVENTS]
        for field in (N, N_LOW):
            row[N], row[N_LOW] = add_pair(row[N], row[N_LOW], other.class_table[c, field])
    model.rounded |= other.rounded
    model.version += 1
