"""Batches of rows, as the engine uses them: validated one by one, learned in one go, in order."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from streamnb.learners import build, dense

EVENTS: dict[str, list[dict[str, Any]]] = {
    "gaussian": [{"a": 1.0, "b": 2.5}, {"a": 3.0}, {"b": -1.0}, {"a": 0.5, "b": 9.0}],
    "multinomial": [{"a": 2, "b": 1}, {"b": 3}, {"a": 1, "c": 4}, {}],
    "complement": [{"a": 2, "b": 1}, {"b": 3}, {"a": 1, "c": 4}, {}],
    "bernoulli": [{"a": 1, "b": 0}, {"b": 1}, {"a": True, "c": 1}, {}],
    "categorical": [{"a": "u", "b": 1}, {"a": "v"}, {"a": "u", "b": True}, {"b": "1"}],
    "mixed": [{"n": 1.0, "c": "u", "l": ["x", "x"]}, {"n": 2, "l": ["y"]}, {"c": True}, {"n": "text"}],
}
BAD: dict[str, dict[str, Any]] = {
    "gaussian": {"new": 1.0, "a": math.inf},
    "multinomial": {"new": 1, "a": -1},
    "complement": {"new": 1, "a": -1},
    "bernoulli": {"new": 1, "a": "on"},
    "categorical": {"new": "u", "a": math.inf},
    "mixed": {"new": 1.0, "l": ["x", 3]},
}
every_kind = pytest.mark.parametrize("kind", EVENTS)


def learned(kind: str, **options: Any) -> Any:
    model = build(kind, **options)
    for i, x in enumerate(EVENTS[kind]):
        model.learn_one(x, "pq"[i % 2])
    return model


@every_kind
def test_each_row_is_answered_by_the_model_that_has_learned_the_rows_before_it(kind: str) -> None:
    model, one_by_one = build(kind), build(kind)
    rows = model.rows()
    labels = ["p", None, "q", "p", None, "r", "q", None]
    events = EVENTS[kind] * 2
    for x, y in zip(events, labels, strict=True):
        rows.append(x, y)
    scored = model.predict_learn_rows(rows)
    assert scored.labels == ("p", "q", "r")
    for i, (x, y) in enumerate(zip(events, labels, strict=True)):
        answer = dict(zip(scored.labels, scored.probabilities[i].tolist(), strict=True))
        assert {label: p for label, p in answer.items() if not math.isnan(p)} == one_by_one.predict_proba_one(x)
        label = scored.labels[scored.best[i]] if scored.best[i] >= 0 else None
        assert label == one_by_one.predict_one(x)
        if y is not None:
            one_by_one.learn_one(x, y)
    assert model.to_bytes() == one_by_one.to_bytes()


@every_kind
def test_a_dict_is_taken_like_any_other_mapping(kind: str) -> None:
    """Known events in a dict take a shorter way: the same bits, and what is refused depends on the event alone."""
    short, long = build(kind), build(kind)
    events = [*EVENTS[kind] * 2, {"a": 3, "n": 3, "l": ["y"]} if kind == "mixed" else {1: 1, "b": 1}]
    for i, x in enumerate(events * 3):
        short.learn_one(dict(x), "pqr"[i % 3], 0.1 + i)
        long.learn_one(MappingProxyType(x), "pqr"[i % 3], 0.1 + i)
    for model in (short, long):
        kind_of = dict if model is short else MappingProxyType
        for _ in range(2):  # a name leaves, the last one moves to its slot
            early, late = ({name: value, **events[3]} for name, value in (("early", 1.0), ("late", 2.0)))
            model.learn_one(kind_of(early), "p")
            for _ in range(2):
                model.learn_one(kind_of(late), "q")
            model.unlearn_one(kind_of(early), "p")
            model.learn_one(kind_of(late), "p")
    assert short.to_bytes() == long.to_bytes()
    for name in ("a", "b", 1, True, 1.0, "n", "c", "l"):
        for value in (1, 2.0, 300, True, None, -1, "u", "1", ("true",), 1e130, 10**200, 10**400, math.inf, math.nan,
                      np.float32(1), np.int64(2), Decimal(1), b"u", ["y"]):  # fmt: skip
            x = {"b": 1, name: value}
            assert answered(short, x) == answered(long, MappingProxyType(x)), x
            assert answered(short, x) == answered(short, MappingProxyType(x)), x


def answered(model: Any, x: Any) -> Any:
    try:
        return model.joint_log_likelihood_one(x), model.predict_one(x)
    except (ValueError, TypeError) as refusal:
        return type(refusal), str(refusal)


@every_kind
def test_a_refused_row_leaves_batch_and_model_as_they_were(kind: str) -> None:
    model, undisturbed = learned(kind), learned(kind)
    rows, clean = model.rows(), undisturbed.rows()
    for batch in (rows, clean):
        batch.append(EVENTS[kind][0], "p")
    before = model.to_bytes()
    for args in (
        (BAD[kind], "p"),
        (EVENTS[kind][1], 1.5),
        (EVENTS[kind][1], "p", -1.0),
        (EVENTS[kind][1], "p", 1.0, "x"),
    ):
        with pytest.raises((ValueError, TypeError)):
            rows.append(*args)
    assert len(rows) == 1
    assert model.to_bytes() == before
    for batch in (rows, clean):
        batch.append(EVENTS[kind][2], "s")
    assert model.predict_learn_rows(rows).labels == undisturbed.predict_learn_rows(clean).labels == ("p", "q", "s")
    assert model.to_bytes() == undisturbed.to_bytes()


@every_kind
def test_checking_an_event_raises_what_appending_it_would(kind: str) -> None:
    model = learned(kind)
    before = model.to_bytes()
    model.check(EVENTS[kind][0])
    with pytest.raises((ValueError, TypeError)) as checked:
        model.check(BAD[kind])
    with pytest.raises((ValueError, TypeError)) as appended:
        model.rows().append(BAD[kind])
    assert str(checked.value) == str(appended.value)
    assert model.to_bytes() == before


@every_kind
def test_a_cleared_batch_leaves_no_trace(kind: str) -> None:
    model, undisturbed = learned(kind), learned(kind)
    rows = model.rows()
    rows.append({"never seen": BAD[kind]["new"]}, "never seen")
    rows.clear()
    assert len(rows) == 0
    rows.append(EVENTS[kind][0], "p")
    model.predict_learn_rows(rows)
    undisturbed.learn_one(EVENTS[kind][0], "p")
    assert model.classes == ["p", "q"]
    assert model.to_bytes() == undisturbed.to_bytes()


@every_kind
def test_a_batch_from_before_the_model_changed_is_refused(kind: str) -> None:
    model = learned(kind)
    rows = model.rows()
    rows.append(EVENTS[kind][0], "p")
    model.learn_one(EVENTS[kind][1], "q")
    before = model.to_bytes()
    with pytest.raises(ValueError, match="has changed"):
        model.predict_learn_rows(rows)
    assert model.to_bytes() == before


def test_names_of_later_rows_are_not_known_to_earlier_ones() -> None:
    model = build("multinomial")
    rows = model.rows()
    rows.append({"a": 1}, "p")
    rows.append({"a": 1, "b": 2, "c": 1})
    rows.append({"b": 1, "d": 1}, "q")
    rows.append({"a": 1, "b": 1, "zz": 1})
    scored = model.predict_learn_rows(rows)
    assert scored.unseen.tolist() == [1, 2, 2, 1]
    assert np.isnan(scored.probabilities[:, 1]).tolist() == [True, True, True, False]
    assert scored.best.tolist()[:3] == [-1, 0, 0]


def test_an_event_of_weight_zero_is_answered_and_not_learned() -> None:
    model = learned("categorical")
    before = model.to_bytes()
    rows = model.rows()
    rows.append({"a": "new"}, "new", 0.0)
    scored = model.predict_learn_rows(rows)
    assert scored.labels == ("p", "q")
    assert scored.probabilities[0].sum() == pytest.approx(1.0)
    assert model.to_bytes() == before


@every_kind
def test_a_model_restored_with_other_reading_options_reads_its_own_way(kind: str) -> None:
    options = {"var_smoothing": 0.5} if kind == "gaussian" else {"alpha": 0.25}
    data = learned(kind).to_bytes()
    restored, expected = build(kind, **options), learned(kind, **options)
    restored.restore(data)
    assert restored.shape() == learned(kind).shape()
    assert restored.joint_log_likelihood_one(EVENTS[kind][0]) == expected.joint_log_likelihood_one(EVENTS[kind][0])
    assert restored.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        ("gaussian", {"half_life": 60.0}, "half_life"),
        ("gaussian", {"classes": ["p", "q"]}, "classes"),
        ("gaussian", {"priors": {"p": 0.5, "q": 0.5}}, "classes|priors"),
        ("bernoulli", {"binarize": 0.5}, "binarize"),
        ("mixed", {"default": "ignore"}, "default"),
        ("mixed", {"features": {"l": "text"}}, "features"),
    ],
)
def test_a_state_of_another_shape_is_refused_by_the_name_of_the_difference(
    kind: str, options: dict[str, Any], named: str
) -> None:
    model = build(kind, **options)
    before = model.to_bytes()
    with pytest.raises(ValueError, match=named):
        model.restore(learned(kind).to_bytes())
    assert model.to_bytes() == before
    assert model.shape() != build(kind).shape()
    assert json.loads(json.dumps(model.shape())) == model.shape()


@every_kind
def test_damaged_bytes_are_refused(kind: str) -> None:
    data = bytearray(learned(kind).to_bytes())
    data[len(data) // 2] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        build(kind).restore(bytes(data))


@every_kind
def test_a_copy_goes_its_own_way(kind: str) -> None:
    model = learned(kind)
    twin, before = model.copy(), model.to_bytes()
    for x in EVENTS[kind]:
        twin.learn_one(x, "new")
    assert model.to_bytes() == before
    assert twin.n_events == model.n_events + len(EVENTS[kind])


@pytest.mark.parametrize("kind", ["gaussian", "multinomial"])
def test_single_rows_are_read_as_what_they_are_behind_a_matrix_and_in_the_batch_after_it(kind: str) -> None:
    model = build(kind)
    model.learn_one({"a": 1.0, "b": 5.0}, "p")
    model.learn_one({"a": 4.0, "b": 2.0}, "q")
    rows, layout = model.rows(), dense.layout_of(model, ["a", "b"])
    assert layout is not None
    both = [{"b": 4.0, "a": 1.0}, {"a": 3.0}]
    for n, single in ((1, both), (40, []), (0, both), (90, both)):
        events = [{"a": float(i), "b": 3.0} for i in range(n)]
        table = np.array([list(x.values()) for x in events], np.float64).reshape(n, 2)
        dense.append(rows, model, layout, table, [-1] * n, [None] * n)
        for x in single:
            rows.append(x)
        scored = model.predict_learn_rows(rows).probabilities
        assert scored.tolist() == [[*model.predict_proba_one(x).values()] for x in [*events, *single]]
        rows.clear()
