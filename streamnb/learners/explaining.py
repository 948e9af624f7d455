"""Why a model answers as it does: the joint log-likelihood, term by term."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamnb.learners.bernoulli import BernoulliBlock
from streamnb.learners.block import Block, Entries, new_sums
from streamnb.learners.kernels.layout import JOINT
from streamnb.learners.kernels.types import Floats
from streamnb.learners.rows import Rows
from streamnb.learners.values import Label

if TYPE_CHECKING:
    from streamnb.learners.model import Model


@dataclass(frozen=True, slots=True)
class Explanation:
    """The terms of one label's joint log-likelihood, in nats; they add up to it."""

    prior: float
    features: Mapping[Any, float]
    """By feature, or (feature, token) for a text or token list; those of the largest magnitude first."""
    absent: float
    """Of all known Bernoulli features that are off, together."""
    rest: float
    """What is not listed: features beyond `top`, rounding, and -inf where a limit rules the label out."""


def explain(model: "Model", x: Any, top: int | None) -> dict[Label, Explanation]:
    """Return, for every known label, what prior and features contribute; at most `top` features of each."""
    joint = model.joint_log_likelihood_one(x)
    priors = model.class_log_prior()
    terms: dict[Any, Floats] = {}
    absent = np.zeros(len(joint))
    for index, (block, entries) in enumerate(zip(model.blocks, model.encode(x), strict=True)):
        names = block.names_of(entries)
        alone = _one_by_one(model, index, entries)
        if isinstance(block, BernoulliBlock):
            absent, on = block.split(entries, alone)
            alone = np.concatenate([alone[:1], on])
        for name, term in zip(names, alone[1:], strict=True):
            if name is not None:
                terms[name] = terms.get(name, 0.0) + term
    explained = {}
    for (label, total), slot in zip(joint.items(), model.order.tolist(), strict=True):
        mine = {name: float(term[slot]) for name, term in terms.items()}
        listed = dict(sorted(mine.items(), key=lambda item: -abs(item[1]))[:top])
        listed_sum = math.fsum([priors[label], absent[slot], *listed.values()])
        rest = total - listed_sum if total != listed_sum else 0.0  # both -inf: nothing is left to say
        explained[label] = Explanation(priors[label], listed, float(absent[slot]), rest)
    return explained


def _one_by_one(model: "Model", index: int, entries: Entries) -> Floats:
    """Return what one block says, by class slot: of an event without features, then of each feature alone."""
    block: Block = model.blocks[index]
    slots, extras, values, _ = entries
    rows = Rows(model)
    buffer = rows.buffers[index]
    buffer.push(0, [], None if extras is None else [], None if values is None else [])
    for k, slot in enumerate(slots):
        buffer.push(k + 1, [slot], None if extras is None else [extras[k]], None if values is None else [values[k]])
    n_rows, n_classes = len(slots) + 1, len(model.order)
    rows.batch.n_rows, rows.batch.n_classes, rows.batch.order = n_rows, n_classes, model.order
    rows.batch.events = model.unlabelled_events(n_rows)
    sums = new_sums(n_rows, n_classes)
    block.predict_learn(buffer, rows.batch, sums)
    joint: Floats = sums.sums[:, :, JOINT]
    return joint
