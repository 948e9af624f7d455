"""Naive Bayes learners that learn one event at a time and always equal the batch fit on the same events."""

from typing import Any

from streamnb.learners.mixed import MixedNB
from streamnb.learners.model import Model
from streamnb.learners.nb import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

__all__ = ["BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MixedNB", "MultinomialNB", "build"]

KINDS: dict[str, type[Model]] = {
    learner.kind: learner for learner in (MixedNB, GaussianNB, MultinomialNB, ComplementNB, BernoulliNB, CategoricalNB)
}


def build(kind: str, **options: Any) -> Model:
    """Return the learner of this kind: mixed, gaussian, multinomial, complement, bernoulli or categorical."""
    if kind not in KINDS:
        raise ValueError(f"model kind {kind!r}; allowed are {', '.join(KINDS)}")
    return KINDS[kind](**options)
