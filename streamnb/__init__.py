"""Streaming naive Bayes: equal to the batch fit, each event counted exactly once.

The learners are imported when they are first used, so that the command line answers at once.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamnb.learners import (
        BernoulliNB,
        CategoricalNB,
        ComplementNB,
        GaussianNB,
        MixedNB,
        MultinomialNB,
    )

__version__ = "0.1.0"
__all__ = ["BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MixedNB", "MultinomialNB"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from streamnb import learners

    return getattr(learners, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
