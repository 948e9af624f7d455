"""bytes -> Event, dead letter."""

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb.config import EventConfig, LimitsConfig
from streamnb.errors import EventError, Reason
from streamnb.events import Decoder, Event, dead_letter, output_bytes
from streamnb.transport import Partition, Record, Role

RECORD_TIME = 1_700_000_000.0


def record(value: bytes | dict[str, Any] | None, *, timestamp: float | None = RECORD_TIME, **fields: Any) -> Record:
    raw = json.dumps(value).encode() if isinstance(value, dict) else value
    parts = {"partition": Partition("payments", 3), "offset": 17, "next_offset": 18, "key": b"k"} | fields
    return Record(timestamp=timestamp, value=raw, **parts)


def anything(_: object) -> None:
    pass


def decoder(
    *,
    classes: tuple[str, ...] | None = None,
    needs_time: bool = False,
    check: Callable[[dict[str, Any]], object] = anything,
    limits: dict[str, int] | None = None,
    **paths: Any,
) -> Decoder:
    return Decoder(EventConfig(**paths), LimitsConfig(**(limits or {})), classes, needs_time, check)


def decoded(value: bytes | dict[str, Any], role: Role = "labelled", **options: Any) -> Event:
    return decoder(**options).decode(record(value), role)


def refused(value: bytes | dict[str, Any], role: Role = "labelled", **options: Any) -> EventError:
    with pytest.raises(EventError) as caught:
        decoder(**options).decode(record(value), role)
    return caught.value


def outcome(value: bytes, role: Role = "labelled", **options: Any) -> Event | EventError:
    try:
        return decoder(**options).decode(record(value), role)
    except EventError as error:
        return error


def test_an_event_of_the_default_shape_is_taken_apart() -> None:
    value = {"id": "e1", "features": {"amount": 12.5, "country": "de", "flag": True, "text": ["a", "b"], "n": None}}
    event = decoded(value | {"label": "fraud", "weight": 2, "timestamp": 1_699_999_999.5})
    assert event == Event("e1", value["features"], "fraud", 2.0, 1_699_999_999.5, False)


def test_only_features_are_required() -> None:
    assert decoded({"features": {}}) == Event(None, {}, None, 1.0, RECORD_TIME, False)


def test_null_is_absent() -> None:
    value = {"features": {}, "id": None, "label": None, "weight": None, "timestamp": None}
    assert decoded(value) == decoded({"features": {}})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b'{"features": {}} {}', "not_json"),
        (b'\xef\xbb\xbf{"features": {}}', "not_json"),
        (b'{"features": {"a": NaN}}', "not_json"),
        (b'{"features": {"a": -Infinity}}', "not_json"),
        (b'{"features": {"a": 1e999}}', "not_json"),
        (b'{"features": {}, "unused": -1e999}', "not_json"),
        (b'{"features": {"a": "\\ud800"}}', "not_json"),
        (b'{"features": {"\\udc00\\ud800": 1}}', "not_json"),
        (b"{'features': {}}", "not_json"),
        (b'{"features": {"a": 01}}', "not_json"),
        (b'{"features": {},}', "not_json"),
        ('{"features": {}}'.encode("utf-16-le"), "not_json"),
        (b"[" * 100_000, "not_json"),
        (b'{"a":' * 100_000, "not_json"),
        (b'{"features": {"a": "\xff"}}', "not_utf8"),
        (b'{"features": {"\xc0\x80": 1}}', "not_utf8"),
        (b'{"features": {}, "unused": "\xed\xa0\x80"}', "not_utf8"),
        (b"\xff{", "not_utf8"),
        (b"null", "no_features"),
        (b"[]", "no_features"),
        (b'"features"', "no_features"),
        (b"{}", "no_features"),
        (b'{"features": null}', "no_features"),
        (b'{"features": [1]}', "no_features"),
    ],
)
def test_what_is_no_json_object_with_features_is_refused(value: bytes, reason: Reason) -> None:
    assert refused(value).reason == reason


def test_of_two_equal_keys_the_last_wins() -> None:
    event = decoded(b'{"features": {"a": 1, "a": 2}, "label": "x", "label": "y"}')
    assert (event.x, event.y) == ({"a": 2}, "y")


def test_a_number_too_small_for_a_float_is_zero_and_a_large_integer_stays_exact() -> None:
    assert decoded(b'{"features": {"a": 1e-999, "b": 18446744073709551617}}').x == {"a": 0.0, "b": 2**64 + 1}


@pytest.mark.parametrize("value", [b'\0\0\0\0\x07{"features": {}}', b"\0\0\0\0\x07\x02\xff\xfe"])
def test_a_leading_zero_byte_is_named_as_schema_registry_framing(value: bytes) -> None:
    assert "schema registry" in str(refused(value))


def test_a_byte_order_mark_is_named() -> None:
    assert "byte order mark" in str(refused(b"\xef\xbb\xbf{}"))


@pytest.mark.parametrize(("levels", "accepted"), [(500, True), (501, False)])
def test_nesting_is_refused_at_one_depth_whoever_calls(levels: int, accepted: bool) -> None:
    nested = b'{"features": {}, "unused": ' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    def from_a_stack_of(calls: int) -> Event | EventError:
        return from_a_stack_of(calls - 1) if calls else outcome(nested)

    for calls in (0, 300):
        found = from_a_stack_of(calls)
        assert isinstance(found, Event) if accepted else getattr(found, "reason", None) == "not_json"


def test_many_brackets_in_a_row_are_not_depth() -> None:
    value = b'{"features": {"text": "' + b"[{" * 2000 + b'"}, "unused": [' + b"[]," * 2000 + b"[]]}"
    assert decoded(value).x == {"text": "[{" * 2000}


def test_the_limit_on_bytes_counts_the_values_bytes_and_comes_first() -> None:
    value = '{"features": {"a": "ä"}}'.encode()
    assert decoded(value, limits={"event_bytes": len(value)}).x == {"a": "ä"}
    assert refused(value, limits={"event_bytes": len(value) - 1}).reason == "too_large"
    assert refused(b"\xff" * 9, limits={"event_bytes": 8}).reason == "too_large"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"features": 1, "label": 1.0, "weight": -1, "timestamp": "x"}, "no_features"),
        ({"features": {"a": "bad"}, "label": 1.0, "weight": -1, "timestamp": "x"}, "bad_feature"),
        ({"features": {"a": "bad"}, "weight": -1}, "bad_feature"),
        ({"features": {"a": "bad"}, "timestamp": "x"}, "bad_feature"),
        ({"features": {}, "label": 1.0, "weight": -1, "timestamp": "x"}, "bad_label"),
        ({"features": {}, "weight": -1, "timestamp": "x"}, "bad_weight"),
        ({"features": {}, "timestamp": "x"}, "bad_timestamp"),
    ],
)
def test_the_first_thing_wrong_is_the_reason(wrong: dict[str, Any], reason: Reason) -> None:
    def check(x: dict[str, Any]) -> None:
        if "bad" in x.values():
            raise TypeError("feature a: got 'bad'")

    assert refused(wrong, check=check).reason == reason


def test_the_values_of_features_are_left_to_the_learner_when_nothing_else_is_wrong() -> None:
    def check(x: dict[str, Any]) -> None:
        raise AssertionError(f"asked to check {x}")

    assert decoded({"features": {"a": [[1]]}, "label": "y"}, check=check).x == {"a": [[1]]}


# --- labels, weights, times


@pytest.mark.parametrize(
    ("label", "y"),
    [("a", "a"), ("", ""), (1, "1"), (-7, "-7"), (True, "true"), (False, "false"), (2**70, str(2**70)), ("1", "1")],
)
def test_a_label_is_its_spelling(label: object, y: str) -> None:
    assert decoded({"features": {}, "label": label}).y == y


@pytest.mark.parametrize("label", [1.0, 0.5, [], ["a"], {}, {"a": 1}])
def test_what_is_no_label_is_refused_in_labelled_topics_and_only_flagged_in_others(label: object) -> None:
    value = {"features": {}, "label": label}
    assert refused(value).reason == "bad_label"
    event = decoded(value, role="unlabelled")
    assert (event.y, event.label_ignored) == (None, True)


def test_a_label_in_an_unlabelled_topic_is_flagged_but_null_is_not() -> None:
    assert decoded({"features": {}, "label": "a"}, role="unlabelled").label_ignored
    assert not decoded({"features": {}, "label": None}, role="unlabelled").label_ignored
    assert not decoded({"features": {}, "label": "a"}, role="labelled").label_ignored


def test_with_declared_classes_other_labels_are_bad() -> None:
    classes = ("1", "true")
    assert [decoded({"features": {}, "label": y}, classes=classes).y for y in (1, "1", True)] == ["1", "1", "true"]
    assert refused({"features": {}, "label": "other"}, classes=classes).reason == "bad_label"
    assert decoded({"features": {}}, classes=classes).y is None
    assert decoded({"features": {}, "label": "other"}, "unlabelled", classes=classes).label_ignored


@pytest.mark.parametrize("weight", [0, 0.0, 1, 0.25, 1e60, 10**60, 5e-324])
def test_a_weight_is_a_number_from_0_to_1e60(weight: float) -> None:
    assert decoded({"features": {}, "weight": weight}).w == float(weight)


@pytest.mark.parametrize("role", get_args(Role))
@pytest.mark.parametrize("weight", [True, False, "1", -1, -5e-324, 1.1e60, 10**60 + 10**50, 10**400, [], {}])
def test_any_other_weight_is_bad_in_every_topic(weight: object, role: Role) -> None:
    assert refused({"features": {}, "weight": weight}, role).reason == "bad_weight"


@pytest.mark.parametrize(
    ("timestamp", "t"),
    [
        (1_700_000_000, 1_700_000_000.0),
        (-1.5, -1.5),
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:00:00.5z", 0.5),
        ("1970-01-01t01:00:00+01:00", 0.0),
        ("1969-12-31 22:29:59.25-01:30", -0.75),
        ("2016-12-31T23:59:60Z", 1_483_228_800.0),
        ("2017-01-01T00:59:60.5+01:00", 1_483_228_800.5),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000.123456789),
        ("2024-02-29T00:00:00-00:00", 1_709_164_800.0),
        ("0001-01-01T00:00:00+23:59", -62_135_596_800.0 - 86_340),
    ],
)
def test_a_timestamp_is_seconds_or_rfc_3339_text(timestamp: object, t: float) -> None:
    value = {"features": {}, "timestamp": timestamp}
    assert decoder(max_ahead=1e12).decode(record(value), "labelled").t == t


@pytest.mark.parametrize("role", get_args(Role))
@pytest.mark.parametrize(
    "timestamp",
    [
        True, [], {}, "", "now", "1700000000", "2023-11-14", "2023-11-14T22:13:20", "2023-11-14T22:13Z",
        "20231114T221320Z", "2023-W46-2T22:13:20Z", "2023-02-29T00:00:00Z", "2023-11-14T24:00:00Z",
        "2023-11-14T22:13:60Z", "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20+0100", "0000-01-01T00:00:00Z",
        "\uff12023-11-14T22:13:20Z", "2023-11-14T22:13:20Z\n", "2023-11-14T22:13:20+24:00", 1.7e12, 10**400, -1e11,
    ],
)  # fmt: skip
def test_any_other_timestamp_is_bad_in_every_topic(timestamp: object, role: Role) -> None:
    value = record({"features": {}, "timestamp": timestamp}, timestamp=None)
    with pytest.raises(EventError) as caught:
        decoder().decode(value, role)
    assert caught.value.reason == "bad_timestamp"


def test_a_timestamp_may_be_max_ahead_of_its_record_and_no_further() -> None:
    just = {"features": {}, "timestamp": RECORD_TIME + 60}
    assert decoded(just, max_ahead="60s").t == RECORD_TIME + 60
    assert refused(just, max_ahead="59s").reason == "bad_timestamp"
    assert decoded({"features": {}, "timestamp": 0}, max_ahead=0).t == 0.0


def test_without_a_timestamp_the_records_own_is_taken() -> None:
    assert decoder().decode(record({"features": {}}, timestamp=5.0), "labelled").t == 5.0
    assert decoder().decode(record({"features": {}}, timestamp=None), "labelled").t is None


@pytest.mark.parametrize("role", get_args(Role))
def test_an_event_without_any_time_is_refused_where_one_is_needed(role: Role) -> None:
    timeless = decoder(needs_time=True)
    with pytest.raises(EventError) as caught:
        timeless.decode(record({"features": {}}, timestamp=None), role)
    assert caught.value.reason == "bad_timestamp"
    assert timeless.decode(record({"features": {}, "timestamp": 7}, timestamp=None), role).t == 7.0


# --- paths


def test_paths_lead_into_nested_objects() -> None:
    value = {"meta": {"key": 7, "at": 3}, "data": {"row": {"a": 1}, "truth": "y", "w": 2}}
    paths = {"id": "meta.key", "timestamp": "meta.at", "features": "data.row", "label": "data.truth"}
    paths |= {"weight": "data.w"}
    assert decoded(value, **paths) == Event(7, {"a": 1}, "y", 2.0, 3.0, False)


@pytest.mark.parametrize("value", [{"meta": 3}, {"meta": None}, {"meta": {"key": None}}, {"meta": []}, {}])
def test_a_path_that_leads_nowhere_finds_nothing(value: dict[str, Any]) -> None:
    assert decoded(value | {"features": {}}, id="meta.key", label="meta.key.deeper").id is None


def test_a_dot_takes_the_whole_object_less_the_other_paths() -> None:
    value = {"id": 1, "a": 2, "label": "y", "meta": {"at": 3, "b": {"c": 4}}, "weight": 5}
    event = decoded(value, features=".", timestamp="meta.at", weight=None)
    assert event == Event(1, {"a": 2, "meta.b.c": 4, "weight": 5}, "y", 1.0, 3.0, False)


def test_a_label_inside_the_features_is_not_a_feature() -> None:
    value = {"row": {"a": 1, "truth": {"class": "y", "by": "me"}}}
    event = decoded(value, features="row", label="row.truth.class")
    assert (event.x, event.y) == ({"a": 1, "truth.by": "me"}, "y")


def test_a_label_is_not_a_feature_in_unlabelled_topics_either() -> None:
    assert decoded({"a": 1, "label": 1.0}, "unlabelled", features=".").x == {"a": 1}


def test_nested_objects_become_dotted_names_in_the_events_order() -> None:
    event = decoded({"features": {"z": 1, "a": {"y": {"x": 2}, "empty": {}, "b": [{"c": 3}]}, "": {"": 4}, "m": 5}})
    assert list(event.x.items()) == [("z", 1), ("a.y.x", 2), ("a.b", [{"c": 3}]), (".", 4), ("m", 5)]


@pytest.mark.parametrize("features", [{"a": {"b": 1}, "a.b": 2}, {"a.b": 2, "a": {"b": 2}}])
def test_a_name_that_is_there_flat_and_nested_is_refused(features: dict[str, Any]) -> None:
    error = refused({"features": features})
    assert error.reason == "bad_feature"
    assert "a.b" in str(error)


@pytest.mark.parametrize("features", [{"a": 1, "b": 2, "c": 3}, {"a": {"b": 1, "c": 2}, "d": 3}])
def test_features_are_counted_after_flattening(features: dict[str, Any]) -> None:
    value = {"features": features, "label": 1.0}
    assert refused(value, limits={"event_features": 2}).reason == "too_many_features"
    assert refused(value, limits={"event_features": 3}).reason == "bad_label"


def test_objects_that_hold_nothing_are_no_features() -> None:
    assert decoded({"features": {"a": {}, "b": {"c": {}}}}, limits={"event_features": 1}).x == {}


def test_dotted_names_cannot_grow_far_beyond_the_event() -> None:
    value = {"features": {"n" * 50_000: {str(n): n for n in range(5_000)}}}
    assert refused(value).reason == "too_many_features"


# --- any bytes

names = st.sampled_from(["id", "features", "label", "timestamp", "weight", "a", "a.b"]) | st.text(max_size=3)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=5),
    max_leaves=12,
)
events = st.dictionaries(names, documents).map(lambda value: json.dumps(value).encode())


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | events, st.sampled_from(get_args(Role)), st.sampled_from(["features", ".", "a"]))
def test_any_bytes_are_an_event_or_are_refused_with_a_reason(value: bytes, role: Role, features: str) -> None:
    found = outcome(value, role, features=features)
    if isinstance(found, EventError):
        assert found.reason in get_args(Reason)
        assert str(found)
        return
    assert not any(isinstance(item, dict) for item in found.x.values())
    assert math.isfinite(found.w)
    assert json.loads(msgspec.json.encode(found.id)) == found.id


@settings(max_examples=100, deadline=None)
@given(events, st.data())
def test_a_damaged_event_is_refused_or_decoded_never_worse(value: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(value)))
    damaged = value[:at] + data.draw(st.binary(max_size=2)) + value[at + data.draw(st.integers(0, 2)) :]
    assert isinstance(found := outcome(damaged), Event) or found.reason in get_args(Reason)


def strictly_parsed(value: bytes) -> Any:
    """The standard library's reading, made strict."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    document = json.loads(value.decode("utf-8"), parse_constant=refuse)
    json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8")
    return document


@settings(max_examples=300, deadline=None)
@given(st.text('[]{}",:0123456789.eE+-truefalsn \\ud8', max_size=8).map(str.encode) | st.binary(max_size=5))
def test_what_strict_json_refuses_is_refused_and_nothing_else(middle: bytes) -> None:
    value = b'{"features": {}, "a": ' + middle + b"}"
    try:
        strictly_parsed(value)
    except ValueError:
        assert refused(value).reason in ("not_json", "not_utf8")
    else:
        assert isinstance(outcome(value), Event)


# --- dead letters

BAD = EventError("bad_label", "label 1.0: allowed are texts")


def test_a_dead_letter_is_the_record_as_it_came_and_why() -> None:
    came = record(b"\xff\0raw", key=b"\xfe", headers=[("trace", b"\x01"), ("empty", None)])
    letter = dead_letter(came, BAD, "host-1", "1.2.3")
    assert (letter.sink, letter.key, letter.value) == ("dead_letters", b"\xfe", b"\xff\0raw")
    assert list(letter.headers) == [
        ("trace", b"\x01"),
        ("empty", b""),
        ("streamnb.error.reason", b"bad_label"),
        ("streamnb.error.message", b"label 1.0: allowed are texts"),
        ("streamnb.error.topic", b"payments"),
        ("streamnb.error.partition", b"3"),
        ("streamnb.error.offset", b"17"),
        ("streamnb.error.timestamp", b"1700000000.0"),
        ("streamnb.error.instance", b"host-1"),
        ("streamnb.error.version", b"1.2.3"),
    ]


def test_headers_of_an_earlier_dead_letter_give_way() -> None:
    again = dead_letter(record(b"x"), BAD, "host-0", "0")
    came = record(b"x", headers=[("a", b"1"), *again.headers, ("streamnb.source", b"s"), ("a", b"2")])
    names = [name for name, _ in dead_letter(came, BAD, "host-1", "1").headers]
    assert names[:3] == ["a", "streamnb.source", "a"]
    assert len(set(names[3:])) == len(names[3:]) == 8


def test_a_record_without_a_time_has_an_empty_time_header() -> None:
    headers = dict(dead_letter(record(b"x", timestamp=None), BAD, "i", "v").headers)
    assert headers["streamnb.error.timestamp"] == b""


def test_where_the_dead_letter_would_be_too_large_size_and_digest_stand_for_the_value() -> None:
    came = record(b"v" * 1000, headers=[("trace", b"\x01")])
    whole = dead_letter(came, BAD, "i", "v")
    size = output_bytes(whole)
    assert dead_letter(came, BAD, "i", "v", size) == whole
    letter = dead_letter(came, BAD, "i", "v", size - 1)
    assert (letter.key, letter.value) == (b"k", None)
    assert list(letter.headers) == [
        *whole.headers,
        ("streamnb.error.size", b"1000"),
        ("streamnb.error.sha256", hashlib.sha256(b"v" * 1000).hexdigest().encode()),
    ]


@pytest.mark.parametrize("limit", [None, 2000, 1])
@pytest.mark.parametrize("value", [None, b"", b"v" * 5000])
def test_no_dead_letter_is_without_both_key_and_value(limit: int | None, value: bytes | None) -> None:
    letter = dead_letter(record(value, key=None), BAD, "i", "v", limit)
    assert not (letter.key is None and letter.value is None)


@pytest.mark.parametrize(
    "came",
    [
        record(b"x" * 5000),
        record(b"x", headers=[("h", b"x" * 5000)]),
        record(b"x", key=b"x" * 5000),
        record(b"x" * 5000, key=b"x" * 5000, headers=[("h" * 5000, None)]),
    ],
)
def test_whatever_part_is_too_large_the_dead_letter_fits(came: Record) -> None:
    long_message = EventError("bad_feature", "ä" * 5000)
    letter = dead_letter(came, long_message, "i", "v", 4000)
    assert output_bytes(letter) <= 4000
    assert dict(letter.headers)["streamnb.error.reason"] == b"bad_feature"


def test_headers_that_are_too_large_go_before_the_key_does() -> None:
    letter = dead_letter(record(b"x", headers=[("h", b"x" * 5000)]), BAD, "i", "v", 4000)
    assert (letter.key, letter.value) == (b"k", None)
    assert "h" not in dict(letter.headers)


@given(st.text(st.characters(exclude_categories=())), st.binary(), st.none() | st.binary())
@example("feature \ud800", b"", None)
def test_dead_letter_headers_are_utf_8_whatever_the_message(message: str, value: bytes, key: bytes | None) -> None:
    letter = dead_letter(record(value, key=key), EventError("bad_feature", message), "i", "v")
    assert (letter.key, letter.value) == (key, value)
    assert "\ufffd" not in "".join(header.decode("utf-8") for _, header in letter.headers) or "\ufffd" in message
