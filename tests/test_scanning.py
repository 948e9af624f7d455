"""What is read as bytes is what the JSON decoder reads, or it is not read."""

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb.scanning import end_of_name, read_number
from streamnb.slices import Slices
from streamnb.templates import Scan, template_of

END = b"\n"


def number(text: str) -> tuple[float, int]:
    return read_number(np.frombuffer(text.encode() + END, np.uint8), 0)


digits = st.integers(0, 10**19 - 1).map(str)
spelled = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}.{}".format, st.integers(-(10**6), 10**6), digits),
    st.builds("{}e{}".format, digits, st.integers(-70, 70)),
    st.builds("{}.{:020d}E+{}".format, st.integers(0, 9), st.integers(0, 10**18), st.integers(0, 30)),
    # at and beside the middle between two doubles
    st.builds("{}{}".format, st.integers(2**52, 2**53).map(lambda n: 2 * n + 1), st.sampled_from(["", "0e-1", "e3"])),
    st.builds(lambda n, k: str(2 * n + 1 << k), st.integers(2**52, 2**53 - 1), st.integers(1, 9)),
)


@settings(deadline=None)
@given(spelled)
@example("1" + "0" * 19)
@example("-0.0")
@example("1e-64")
def test_a_number_that_is_taken_is_the_nearest_double(text: str) -> None:
    value, end = number(text)
    if not math.isnan(value):
        assert (repr(value), end) == (repr(float(text)), len(text))


@settings(deadline=None)
@given(st.floats(1e-45, 1e64), st.booleans())
@example(900719925474100.0, False)
@example(2.0**52 + 0.5, True)
def test_every_double_of_usual_size_is_taken_as_it_is_printed(size: float, negative: bool) -> None:
    value = -size if negative else size
    assert number(repr(value)) == (value, len(repr(value)))


def test_decimals_of_all_magnitudes_are_rounded_in_the_last_bit() -> None:
    random = np.random.default_rng(0)
    found = zip(random.integers(2**53, 2**63, 50_000).tolist(), random.integers(-64, 64, 50_000).tolist(), strict=True)
    for digits, power in found:
        text = f"{digits}e{power}"
        assert number(text)[0] == float(text)


@pytest.mark.parametrize(
    ("text", "even"),
    [
        ("9007199254740993", 2**53),
        ("9007199254740995", 2**53 + 4),
        ("90071992547409930e-1", 2**53),
        ("14411518807585592e1", (2**53 + 4) << 4),
        ("14411518807585608e1", (2**53 + 12) << 4),
    ],
)
def test_half_way_between_two_doubles_the_even_one_is_taken(text: str, even: int) -> None:
    assert number(text) == (float(even), len(text))


@pytest.mark.parametrize("text", ["", "-", "01", "-01", ".5", "1.", "1.e5", "1e", "1e+", "-0", "+1", "nan", "1e999"])
def test_what_is_no_number_or_none_of_ours_is_left(text: str) -> None:
    assert math.isnan(number(text)[0])


@settings(deadline=None)
@given(st.binary(max_size=12) | st.text(max_size=9).map(lambda text: json.dumps(text).encode()))
@example(b"-0")
@example(b"007")
@example(b"999999999999999999")
@example(b'"a\x7f"')
@example(b'"\xff"')
def test_a_name_that_is_taken_is_its_own_spelling(text: bytes) -> None:
    end = end_of_name(np.frombuffer(text + END, np.uint8), 0)
    if end >= 0:
        name = msgspec.json.decode(text[:end])
        assert type(name) in (str, int)
        assert msgspec.json.encode(name) == text[:end]


@pytest.mark.parametrize("name", [b"0", b"-17", b"999999999999999999", b'""', b'"e-17 x"'])
def test_usual_names_are_taken(name: bytes) -> None:
    assert end_of_name(np.frombuffer(name + b",", np.uint8), 0) == len(name)


KEYS = {b'"id"': "id", b'"y"': "label", b'"w"': "weight", b'"t"': "timestamp", b'"x"': "features"}
EVENT = b'{"id": "e1", "w":null, "x" : {"a":1,"b": 2.5} ,"y":"spam","t":17.5}'


def taken(*events: bytes, of: bytes = EVENT, longest: int = 1000) -> list[bool]:
    template = template_of(of, ["a", "b"], KEYS)
    assert template is not None
    scan = Scan(Slices.of(events), longest)
    rows = scan.take(template, -1e9, 1e9)
    found: list[bool] = np.isin(np.arange(len(events)), rows).tolist()
    return found


def test_events_that_differ_in_numbers_and_names_alone_are_of_one_template() -> None:
    other = b'{"id": 42, "w":null, "x" : {"a":-1.25e2,"b": 0} ,"y":"ham","t":18}'
    template = template_of(EVENT, ["a", "b"], KEYS)
    assert template is not None
    scan = Scan(Slices.of([EVENT, other]), 1000)
    rows = scan.take(template, -1e9, 1e9)
    assert rows.tolist() == [0, 1]
    assert scan.values.tolist() == [[1.0, 2.5, 17.5], [-125.0, 0.0, 18.0]]
    assert list(scan.names("id", rows)) == [b'"e1"', b"42"]
    assert list(scan.names("label", rows)) == [b'"spam"', b'"ham"']


@pytest.mark.parametrize(
    "event",
    [
        b"",
        EVENT[:-1],
        EVENT + b" ",
        EVENT + b"}",
        EVENT.replace(b'"a"', b'"c"'),
        EVENT.replace(b"null", b"1"),
        EVENT.replace(b"2.5", b"2.5,"),
        EVENT.replace(b"2.5", b"1e9"),
        EVENT.replace(b"2.5", b'"2.5"'),
        EVENT.replace(b'"spam"', b"null"),
        EVENT.replace(b"spam", b"sp\\u0061m"),
        EVENT.replace(b"17.5", b"true"),
    ],
)
def test_an_event_that_differs_in_anything_else_is_not(event: bytes) -> None:
    assert taken(EVENT, event, EVENT) == [True, False, True]


def test_an_event_that_is_too_long_is_not_tried() -> None:
    assert taken(EVENT, EVENT.replace(b"spam", b"s" * 20), longest=len(EVENT)) == [True, False]


@pytest.mark.parametrize(
    ("event", "features"),
    [
        (b'{"x":{"a":1,"a":2}}', ["a"]),
        (b'{"x":{"a":1},"x":{"b":2}}', ["b"]),
        (b'{"x":{"a":1},"y":"p","y":"q"}', ["a"]),
        (b'{"x":{"a":1},"w":1}', ["a"]),
        (b'{"x":{"a":1},"id":1.5}', ["a"]),
        (b'{"x":{"a":1},"id":"\\n"}', ["a"]),
        (b'{"x":{"a":1},"\\u0079":"p"}', ["a"]),
    ],
)
def test_no_template_is_made_of_what_may_mean_something_else(event: bytes, features: list[str]) -> None:
    assert template_of(event, features, KEYS) is None


VARIANTS = [
    b'{"x":{"a":1,"b":2},"y":"p"}',
    b'{"x":{"a":1,"b":2}}',
    b'{"x":{"a":1,"b":2},"id":"p"}',
    b'{"x":{"a":1,"c":2},"y":"p"}',
    b'{"id":"e","x":{"a":1,"b":2}}',
    b'{"x":{"a":1},"y":"p"}',
    b'{"x":{"a":1 ,"b":2},"y":"p"}',
]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(VARIANTS), st.sampled_from([b"1", b"1.5", b'"1"', b"7e1"])), min_size=1, max_size=12
    ),
    st.lists(st.tuples(st.sampled_from(VARIANTS), st.sampled_from([5.0, 100.0])), max_size=8),
)
def test_what_a_template_takes_does_not_depend_on_those_tried_before(
    given_events: list[tuple[bytes, bytes]], tries: list[tuple[bytes, float]]
) -> None:
    events = [variant.replace(b":1", b":" + number) for variant, number in given_events]
    scan, left = Scan(Slices.of(events), 1000), set(range(len(events)))
    for variant, limit in tries:
        template = template_of(variant, ["a", "b"][: variant.count(b"1") + variant.count(b"2")], KEYS)
        assert template is not None
        alone = Scan(Slices.of(events), 1000)
        rows = alone.take(template, 0.0, limit)
        rows = rows[np.isin(rows, list(left))]
        assert scan.take(template, 0.0, limit).tolist() == rows.tolist()
        width = len(template.features)
        assert scan.values[rows, :width].tolist() == alone.values[rows, :width].tolist()
        for part in template.named:
            assert list(scan.names(part, rows)) == list(alone.names(part, rows))
        left -= set(rows.tolist())
