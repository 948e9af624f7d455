"""Streaming naive Bayes: the model always equals the batch fit, and every event counts exactly once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamnb.learners import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MixedNB, MultinomialNB

__version__ = "0.1.0"

__all__ = ["BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MixedNB", "MultinomialNB"]


def __getattr__(name: str) -> Any:
    """Import the learners, and numba with them, when the first of them is asked for."""
    if name in __all__:
        return getattr(import_module("streamnb.learners"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
