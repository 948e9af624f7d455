"""Taking back a learned event."""

from typing import TYPE_CHECKING, Any

from streamnb.learners.kernels.answer import DECLARED, EVENTS, N_LOW, N
from streamnb.learners.kernels.sums import add_pair
from streamnb.learners.values import plain_weight

if TYPE_CHECKING:
    from streamnb.learners.model import Model


def unlearn(model: "Model", x: Any, y: Any, w: Any) -> None:
    """Take an event of weight `w` back; raise ValueError, and change nothing, if it cannot have been learned."""
    if model.forgets:
        raise ValueError("a model with half_life cannot unlearn: it no longer knows what an event's weight was")
    if model.rounded:
        raise ValueError("a model from scikit-learn cannot unlearn: its moments are rounded")
    entries = model.encode(x)
    slot, label = model.label_slot(y, {})
    weight = plain_weight(w)
    if weight == 0.0:
        return
    row = model.class_table[slot]
    if slot < 0 or row[EVENTS] == 0.0:
        raise ValueError(f"label {label!r} was never learned")
    held = float(row[N])
    last = row[EVENTS] == 1.0
    if weight > held * (1.0 + 1e-9) or (last and held - weight > 1e-9 * held):
        raise ValueError(f"weight {weight!r} is not among the {held!r} that label {label!r} holds")
    for block, part in zip(model.blocks, entries, strict=True):
        block.check_unlearn(part, slot, weight, last)
    for block, part in zip(model.blocks, entries, strict=True):
        block.unlearn(part, slot, weight, model.order)
    row[EVENTS] -= 1.0
    row[N], row[N_LOW] = (0.0, 0.0) if last else add_pair(row[N], row[N_LOW], -weight)
    if last:
        _forget_class(model, slot)
    model.version += 1
    model.names_moved()
    if model.n_events == 0:
        for block in model.blocks:
            block.scale(0.0, len(model.labels))


def _forget_class(model: "Model", slot: int) -> None:
    """Make a class's statistics exactly zero, and forget its name unless it was declared."""
    for block in model.blocks:
        block.forget_class(slot, slot)
    if model.class_table[slot, DECLARED] > 0.0:
        return
    last = model.labels.forget(slot)
    for block in model.blocks:
        block.forget_class(slot, last)
    model.class_table[slot] = model.class_table[last]
    model.class_table[last] = 0.0
    model.sort_labels()
