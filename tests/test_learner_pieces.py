"""What is done piece by piece, so that a snapshot does not stop the loop, is what is done at once."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.learners import pieces
from streamnb.learners.values import sorted_by_type

ESCAPED = ['"', "\\", "\n", "\x7f", "\u00e9", "\u2028"]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=3) | st.sampled_from(["", "a", *ESCAPED])
names = st.lists(texts) | st.lists(st.integers()) | st.lists(st.integers() | texts | st.tuples(texts, st.integers()))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: (
        st.lists(texts, max_size=9)
        | st.lists(inner, max_size=9)
        | st.dictionaries(texts | st.integers(), inner, max_size=4)
    ),
)


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE", 3)
        yield


@given(names.map(lambda found: list(dict.fromkeys(found))), st.data())
def test_names_come_in_the_order_of_one_sort_with_their_slots(found: list[Any], data: st.DataObject) -> None:
    some = data.draw(st.sets(st.sampled_from(range(len(found))))) if found else set()
    ordered, slots = pieces.in_order(found, some)
    assert ordered == sorted_by_type(found[slot] for slot in some) == [found[slot] for slot in slots]


@given(st.lists(names, min_size=1, max_size=6))
def test_an_order_that_is_asked_again_gives_what_a_new_one_does(steps: list[list[Any]]) -> None:
    order, found = pieces.Order(), []
    for step in steps:
        found = list(dict.fromkeys([*found, *step, *range(100, 103)]))
        for asked in (found, found[::-1], found[:-1], found):
            ordered, places = order.of(asked)
            assert ordered == sorted_by_type(asked) == [asked[place] for place in places]


@given(st.lists(st.floats(), max_size=9), st.sampled_from([8, 16, 24]))
def test_an_array_in_pieces_is_its_bytes(numbers: list[float], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", size)
        assert b"".join(pieces.byte_pieces(np.array(numbers))) == np.array(numbers, "<f8").tobytes()


@given(values)
def test_json_is_the_text_of_one_call(value: Any) -> None:
    assert "".join(pieces.json_pieces(value)) == json.dumps(value, separators=(",", ":"), allow_nan=False)


def test_a_number_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        list(pieces.json_pieces({"a": [[float("nan")]]}))
