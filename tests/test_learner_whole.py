"""Counts are held as 32-bit integers as long as they can be: nobody can tell."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streamnb import BernoulliNB, ComplementNB, MixedNB, MultinomialNB
from streamnb.learners.kernels.whole import LARGEST_WHOLE, WHOLE
from streamnb.learners.model import Model
from streamnb.learners.vocabulary import VocabularyBlock

KINDS: dict[str, Callable[[], Any]] = {
    "multinomial": MultinomialNB,
    "complement": ComplementNB,
    "bernoulli": BernoulliNB,
    "forgetting": lambda: MultinomialNB(half_life=10.0),
    "mixed": lambda: MixedNB({"a": "counts", "b": "counts", "c": "bernoulli"}),
}
X = csr_matrix(np.array([[1, 0, 2], [0, 3, 0], [1, 1, 1]]))
NEXT = int(LARGEST_WHOLE) + 1


def blocks_of(model: Model) -> Iterator[VocabularyBlock]:
    return (block for block in model.blocks if isinstance(block, VocabularyBlock))


def act(model: Model, step: tuple[str, dict[str, float], str, float]) -> Any:
    """Do one thing to a model; return what can be seen of it."""
    how, x, y, w = step
    seen = None
    try:
        if how == "learn":
            model.learn_one(x, y, w)
        elif how == "unlearn":
            model.unlearn_one(x, y, w)
        elif how == "merge":
            other = model.copy()
            other.learn_one(x, y, w)
            model.merge(other)
        elif how == "many" and not isinstance(model, MixedNB):
            model.learn_many(X, [y, "n", y], [1.0, w, 1.0])
        elif how == "test then train":
            rows = model.rows()
            for weight in (1.0, w):
                rows.append(x, y, weight)
            seen = model.predict_learn_rows(rows).probabilities.tolist()
        elif how == "restore":
            model.restore(model.to_bytes())
    except ValueError as error:
        seen = str(error)
    return seen, model.joint_log_likelihood_one({"a": 1, "b": 2.5, "c": 1})


steps = st.tuples(
    st.sampled_from(["learn", "learn", "unlearn", "merge", "many", "test then train", "restore"]),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from([0, 1, 2, 7, 0.5, NEXT // 2]), max_size=4),
    st.sampled_from(["n", "p", "q"]),
    st.sampled_from([1.0, 1.0, 2.0, 0.25, float(NEXT // 2), float(NEXT), 1e50]),
)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(steps, max_size=8))
@settings(max_examples=40, deadline=None)
def test_a_model_that_holds_floats_from_the_start_is_the_same_to_the_bit(
    kind: str, history: list[tuple[str, dict[str, float], str, float]]
) -> None:
    usual, floats = KINDS[kind](), KINDS[kind]()
    for step in history:
        for block in blocks_of(floats):
            block.hold_fractions()
        assert repr(act(usual, step)) == repr(act(floats, step)), step
        assert usual.to_bytes() == floats.to_bytes(), step


@pytest.mark.parametrize("kind", ["multinomial", "complement", "bernoulli", "mixed"])
def test_counts_are_whole_until_one_is_not(kind: str) -> None:
    model = KINDS[kind]()
    for w in (1.0, 3.0, float(NEXT - 99)):
        model.learn_one({"a": 1, "c": 1}, "p", w)
        if kind != "mixed":
            model.learn_many(X, ["p", "p", "q"])
        assert {block.counts.dtype for block in blocks_of(model)} == {np.dtype(WHOLE)}
    model.unlearn_one({"a": 1, "c": 1}, "p", float(NEXT - 99))
    model.learn_one({"a": 1, "c": 1}, "p", float(NEXT - 99))  # the bound is stale, the counts still fit
    assert {block.counts.dtype for block in blocks_of(model)} == {np.dtype(WHOLE)}
    model.learn_one({"a": 1, "c": 1}, "p", 0.5)
    assert {block.counts.dtype for block in blocks_of(model)} == {np.dtype(np.float64)}
    model.unlearn_one({"a": 1, "c": 1}, "p", 0.5)
    twin = type(model).from_bytes(model.to_bytes())
    assert {block.counts.dtype for block in blocks_of(twin)} == {np.dtype(WHOLE)}
