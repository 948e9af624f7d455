"""Byte strings in one text are what a list of them is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.slices import Slices

strings = st.lists(st.none() | st.binary(max_size=5))


@given(strings, st.data())
def test_they_are_what_a_list_of_them_is(parts: list[bytes | None], data: st.DataObject) -> None:
    slices = Slices.of(parts)
    assert (len(slices), list(slices)) == (len(parts), parts)
    assert [slices[i] for i in range(len(parts))] == parts
    part = data.draw(st.slices(len(parts)))
    assert list(slices[part]) == parts[part]


@given(strings, st.integers(0, 9), st.integers(0, 9))
def test_a_part_of_a_part_stands_where_it_stood(parts: list[bytes | None], start: int, stop: int) -> None:
    slices = Slices.of([b"before", *parts, b"behind"])[1:-1]
    assert list(slices[start:][:stop]) == parts[start:][:stop]
    assert slices[start:].text is slices.text


def test_there_is_nothing_behind_the_last() -> None:
    with pytest.raises(IndexError):
        Slices.of([b"a"])[1]
