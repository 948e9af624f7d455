"""Whatever is decoded by type and appended as a matrix is, to the bit, what the general path makes of it."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamnb import processing, typed
from streamnb.config import load
from streamnb.learners import dense
from streamnb.ledger import Watermarks
from streamnb.processing import Answers, Processor
from streamnb.transport import Partition, Record, Role, runs_of

LOG, OTHER, QUESTIONS = Partition("log", 0), Partition("log", 1), Partition("questions", 0)
ROLES: dict[str, Role] = {"log": "labelled", "questions": "unlabelled"}
NAMES = ["a", "b", "c"]
MODELS: list[dict[str, Any]] = [
    {"kind": "gaussian"},
    {"kind": "gaussian", "half_life": "1h"},
    {"kind": "multinomial", "weighting": "tfidf"},
    {"kind": "complement"},
    {"kind": "bernoulli"},
    {"kind": "mixed"},
    {"kind": "mixed", "features": {"a": "gaussian", "b": "counts", "c": "gaussian"}},
    {"kind": "mixed", "features": {"a": "gaussian", "b": "gaussian"}, "default": "ignore"},
    {"kind": "mixed", "features": {"a": "counts", "b": "counts"}, "default": "ignore", "classes": ["x", "y"]},
]


def processor(model: dict[str, Any], publish: str, **sections: Any) -> Processor:
    kafka = {"input": {"labelled": ["log"], "unlabelled": ["questions"]}}
    output = {"predictions": "answers", "dead_letters": "dead", "publish": publish}
    tree = {"app": "a", "kafka": {"instance": "i"}, **kafka, "output": output, "model": model, **sections}
    made = Processor(load(None, {}, tree), "1")
    made.prediction_bytes = 400
    return made


def event(x: Any, label: Any = None, event_id: Any = 1, **more: Any) -> bytes:
    document = {"id": event_id, "features": x, **({} if label is None else {"label": label}), **more}
    return json.dumps(document).encode()


def taught(n: int = 6) -> list[bytes]:
    """Events from which the model knows the names and two labels."""
    return [event({"a": i, "b": 2 * i, "c": 0.5}, "xy"[i % 2]) for i in range(n)]


plain = st.floats(0, 100) | st.integers(0, 3)
odd = st.sampled_from(
    [-0.0, -1, -1e-300, 1e119, 1e120, 1.1e120, 10**120, 10**121, 2**53 + 1, 2**64 + 1, True, None, "1", [1], {"z": 1}]
)
features = st.permutations(NAMES).flatmap(
    lambda names: st.sampled_from([0, 1, 2, 3, 3, 3]).flatmap(
        lambda n: st.fixed_dictionaries(dict.fromkeys(names[:n], plain))
    )
)
odd_features = st.dictionaries(st.sampled_from([*NAMES, "d", "a.b", ""]), plain | odd, max_size=4)
labels = st.sampled_from([None, None, "x", "y"])
odd_labels = st.sampled_from(["", "z", 1, True, 1.0, ["x"], "x%d", "ü"])
ids = st.sampled_from([1, 0, -(2**70), "e%b", "ü\n", "e"])
odd_ids = st.sampled_from([None, 1.5, True, [1], {"n": None}])
more = st.fixed_dictionaries(
    {},
    optional={
        "weight": st.sampled_from([None, 1, 0, 2.5, -1, "1", [0]]),
        "timestamp": st.sampled_from([None, 0, 1.7e9, "2023-11-14T22:13:20Z", "now", 1e30, [0], 9e9]),
        "unused": st.sampled_from([0, None, "x"]),
    },
)
LIMITED = {"limits": {"event_bytes": 1000, "classes": 2, "event_features": 3}}
RAW = [
    *(event({"a": 1, "b": 20, "c": 3}), event({"c": 1, "b": 20, "a": 3})),
    *(event({"d": 1}, "x"), event({"a": 1, "b": 1, "c": 1, "d": 1})),
    *(None, b"", b"{", b"[]", b'{"features": null}', b'{"features": 1}', b"\xff", b'{"features":{"a":1}} x'),
    *(b'{"features":{"a":NaN}}', b'{"features":{"a":1e999}}', b'{"features":{"a":1},"unused":1e999}'),
    *(b'{"features":{"a":1,"b":2,"a":3}}', b'{"features":{"a":"x"},"features":{"a":1,"b":2,"c":3}}'),
    *(b'{"features":{"a":-0,"b":1,"c":1},"label":"x"}', b'{"features":{"a":1,"b":1,"c":1},"label":"x","label":"y"}'),
    *(b'{"id":"\\ud800","features":{"a":1,"b":1,"c":1}}', b'{"features":{"\\u0061":1,"b":1,"c":1}}'),
    event({"a": 1, "b": 1, "c": 1}, "x", "long" * 60),
    event({"a": 1, "b": 1, "c": 1}, None, "long" * 100),
    event({"a": 1, "b": 1, "c": 1}, None, "x" * 2000),
    b'{"id":' + b"[" * 600 + b"]" * 600 + b',"features":{"a":1,"b":1,"c":1}}',
    *(event({"a": -1, "b": -1, "c": 1}, label) for label in ("x", None)),
    *(event({"a": 1.1e120, "b": 1e120, "c": 1}, label) for label in ("x", None)),
    *(event({"a": 1, "b": 1}, label, timestamp=1.7e9 + 5000) for label in ("x", "y", None)),
]
usual = st.builds(event, features, labels, ids)
unusual = st.one_of(
    st.builds(event, odd_features, labels, ids),
    st.builds(event, features, odd_labels, ids),
    st.builds(event, features, labels, odd_ids),
    st.builds(lambda x, y, i, others: event(x, y, i, **others), features, labels, ids, more),
)
values = st.lists(usual | unusual | unusual | st.sampled_from(RAW), min_size=3, max_size=16)


def batches(values: list[bytes | None], partition: Partition, sizes: list[int], timed: bool) -> Iterator[list[Record]]:
    records = [
        Record(partition, i, i + 1, 1.7e9 + i if timed else None, None if i % 3 else b"k", value)
        for i, value in enumerate([*taught(), *values, *taught(3), *values])
    ]
    for size in [len(taught()), *sizes, len(records)]:
        yield records[:size]
        records = records[size:]


def total(answers: list[Answers]) -> Answers:
    """What all these brought together."""
    whole = Answers()
    for one in answers:
        for name in ("outputs", "drifts", "answered_times"):
            setattr(whole, name, getattr(whole, name) + getattr(one, name))
        for name in ("labels_ignored", "features", "unseen_features", "late", "predictions"):
            setattr(whole, name, getattr(whole, name) + getattr(one, name))
        for name in ("events", "published", "dead_letters"):
            setattr(whole, name, dict(Counter(getattr(whole, name)) + Counter(getattr(one, name))))
    return whole


def worked(one: Processor, given: list[list[Record]], marks: Watermarks) -> Any:
    """Everything that is left of the records, once they have been processed in these batches and answered again."""
    partition, end = given[-1][-1].partition, given[-1][-1].next_offset
    again = Watermarks({LOG: end}, {partition: 0}, {partition: end // 2})
    answers = [one.process(runs_of(batch), ROLES, due) for due in (marks, again) for batch in given]
    return total(answers), one.model.to_bytes(), one.scores.to_dict(), one.class_sets()


SIZES: list[list[int]] = [[], [1] * len(RAW), [2] * len(RAW)]


def on_raw_records(test: Any) -> Any:
    """Have every model try the records of RAW."""
    for model in MODELS:
        for timed in (True, False):
            for sizes in SIZES:
                test = example(RAW, model, LOG, sizes, "unlabelled", (0, 0), timed, {}, 1)(test)
    for sizes in SIZES:
        test = example(RAW, MODELS[0], LOG, sizes, "all", (0, 0), True, LIMITED, 1)(test)
    return test


@settings(deadline=None, max_examples=100)
@given(
    values,
    st.sampled_from(MODELS),
    st.sampled_from([LOG, LOG, QUESTIONS]),
    st.lists(st.integers(0, 8), max_size=4),
    st.sampled_from(["unlabelled", "all"]),
    st.sampled_from([(0, 0), (3, 0), (0, 3), (9, 2), (100, 0), (0, 100)]),
    st.booleans(),
    st.sampled_from(
        [{}, {"limits": {"event_bytes": 1000, "classes": 2, "event_features": 3}}, {"event": {"id": None}}]
    ),
    st.sampled_from([1, 1, 2, 3]),
)
@on_raw_records
def test_a_batch_decoded_by_type_is_its_records_one_by_one_on_the_general_path(
    values: list[bytes | None],
    model: dict[str, Any],
    partition: Partition,
    sizes: list[int],
    publish: str,
    due: tuple[int, int],
    timed: bool,
    sections: dict[str, Any],
    fewest: int,
) -> None:
    learned, owned = due
    marks = Watermarks({LOG: learned}, {partition: owned}, {partition: 4})
    found = [batch for batch in batches(values, partition, sizes, timed) if batch]
    if partition is QUESTIONS:  # what the model knows, it has from the log
        found.insert(0, [Record(LOG, i, i + 1, 1.7e9, None, value) for i, value in enumerate(taught())])
        marks = Watermarks({LOG: 0}, {partition: owned}, {})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed, "LONGEST_PAUSE", 0)
        patch.setattr(typed, "FEWEST", fewest)
        by_type = worked(processor(model, publish, **sections), found, marks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typed, "layout_of", lambda *_: None)
        singles = [[one] for batch in found for one in batch]
        assert worked(processor(model, publish, **sections), singles, marks) == by_type


@pytest.mark.parametrize("model", [m for m in MODELS if m["kind"] != "bernoulli"], ids=str)
def test_plain_numbers_are_appended_as_a_matrix(model: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    appended = []
    monkeypatch.setattr(
        processing.dense, "append", lambda *given: (appended.append(len(given[3])), dense_append(*given))
    )
    one = processor(model, "unlabelled")
    names = (
        ["a", "c"]
        if model.get("features", {}).get("b") == "counts" and model.get("default") != "ignore"
        else ["a", "b"]
    )
    events = [event(dict.fromkeys(names, i), [None, "x", "y"][i % 3]) for i in range(1, 41)]
    records = [Record(LOG, i, i + 1, 1.7e9, None, value) for i, value in enumerate(events)]
    for batch in (records[:6], records[6:12], records[12:]):
        one.process(runs_of(batch), ROLES, Watermarks({LOG: 0}, {LOG: 0}, {}))
    assert sum(appended) >= 28


dense_append = dense.append
