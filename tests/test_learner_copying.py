"""A copy that is made in pieces while its model learns is the copy that would have been made at once."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import CONFIGS, Config, law_per_config, streams

import streamnb
from streamnb.learners import copying

every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "PIECE", 1)
        patch.setattr(copying, "PIECE_BYTES", 1)
        yield


def read(model: Any) -> tuple[bytes, str]:
    return model.to_bytes(), repr(model.likelihood_table())


@every_config
@given(data=st.data())
@law_per_config
def test_a_copy_in_pieces_is_of_the_moment_at_which_it_was_begun(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config))
    begin = data.draw(st.integers(0, len(stream.events)))
    model = config.learned(stream.events[:begin])
    before = read(model.copy())
    begun = model.begin_copy()
    rows = model.rows()
    for event in stream.events[begin:]:
        rows.append(*event)
        if data.draw(st.booleans()):
            begun.go_on()
        if data.draw(st.booleans()):
            model.predict_learn_rows(rows)
            rows.clear()
    model.learn_rows(rows)
    assert read(begun.finish()) == before
    assert model.to_bytes() == config.learned(stream.events).to_bytes()


@pytest.mark.parametrize("kind", [streamnb.MultinomialNB, streamnb.BernoulliNB])
def test_the_rows_of_arrays_count_in_the_copy(kind: Any) -> None:
    model = kind()
    X, y = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), ["a", "b"]
    model.learn_many(X, y)
    before = read(model.copy())
    begun = model.begin_copy()
    model.learn_many(X, y)
    assert read(begun.finish()) == before


@pytest.mark.parametrize("kind", [streamnb.MultinomialNB, streamnb.BernoulliNB])
def test_rows_that_are_scaled_when_the_landmark_moves_are_copied_first(kind: Any) -> None:
    model = kind(half_life=1.0)
    for x, y in [({"u": 1, "v": 2}, "a"), ({"w": 3}, "b")]:
        model.learn_one(x, y, t=0.0)
    before = read(model.copy())
    begun, rows = model.begin_copy(), model.rows()
    rows.append({"u": 1}, "a", 1.0, 100.0)
    model.learn_rows(rows)
    assert read(begun.finish()) == before


@pytest.mark.parametrize("change", [
    lambda model: model.learn_one({"u": 1}, "a"),
    lambda model: model.unlearn_one({"u": 1, "v": 2}, "a"),
    lambda model: model.merge(model.copy()),
    lambda model: model.restore(model.to_bytes()),
    lambda model: model.begin_copy(),
])  # fmt: skip
def test_what_is_no_batch_may_not_change_a_model_that_is_being_copied(change: Any) -> None:
    model = streamnb.MultinomialNB()
    model.learn_one({"u": 1, "v": 2}, "a")
    model.learn_one({"u": 1, "v": 2}, "b")
    begun = model.begin_copy()
    change(model)
    with pytest.raises(RuntimeError, match="batches"):
        begun.finish()
