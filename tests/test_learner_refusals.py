"""Nothing poisons a model: a value is learned as what it is, or its event is refused without a trace."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from learner_values import (
    GOOD,
    KINDS,
    LEARNERS,
    block_of,
    config_of,
    every_learner,
    refused,
    taken,
    three_good,
)
from reference import Event
from reference_events import plain
from streams import Config, assert_equals_fit


def cases(of: Callable[[str], dict[str, Any]]) -> Any:
    return pytest.mark.parametrize(
        ("learner", "value"),
        [pytest.param(learner, v, id=f"{learner}-{name}") for learner in LEARNERS for name, v in of(learner).items()],
    )


@cases(refused)
def test_what_no_block_takes_is_refused_whole(learner: str, value: Any) -> None:
    model = config_of(learner).learned(three_good(learner))
    before = model.to_bytes()
    x = {"amount": value}
    rows = model.rows()
    for call in (
        lambda: model.learn_one(x, "new"),
        lambda: model.unlearn_one(x, "a"),
        lambda: model.predict_one(x),
        lambda: model.predict_proba_one(x),
        lambda: model.joint_log_likelihood_one(x),
        lambda: model.explain_one(x),
        lambda: model.check(x),
        lambda: rows.append(x, "new"),
        lambda: rows.append(x),
    ):
        with pytest.raises((ValueError, TypeError), match="amount"):
            call()
    assert model.to_bytes() == before
    assert len(rows) == 0


@cases(taken)
def test_what_a_block_takes_is_learned_and_leaves_the_model_sound(learner: str, value: Any) -> None:
    model, x = config_of(learner).learned(three_good(learner)), {"amount": value}
    model.check(x)
    for probe in (x, {"amount": GOOD[block_of(learner)][0]}, {}):
        is_distribution(model.predict_proba_one(probe))
    model.learn_one(x, "new")
    for probe in (x, {"amount": GOOD[block_of(learner)][0]}, {}):
        is_distribution(model.predict_proba_one(probe))
        assert not any(math.isnan(v) for v in model.joint_log_likelihood_one(probe).values())
    data = model.to_bytes()
    assert type(model).from_bytes(data).to_bytes() == data
    model.unlearn_one(x, "new")
    is_distribution(model.predict_proba_one({"amount": GOOD[block_of(learner)][0]}))
    assert list(model.classes) == ["a", "b"]


def is_distribution(proba: dict[Any, float]) -> None:
    assert all(0 <= p <= 1 for p in proba.values())
    assert math.isclose(math.fsum(proba.values()), 1, abs_tol=1e-12)


@cases(lambda learner: {k: v for k, v in taken(learner).items() if k not in ("huge int", "1e120", "-1e120")})
def test_what_a_block_takes_counts_as_exact_arithmetic_says(learner: str, value: Any) -> None:
    config, x = config_of(learner), {"amount": value}
    events = [*three_good(learner), Event(x, "b"), Event(x, "a"), *three_good(learner)]
    assert_equals_fit(config.learned(events), config.fitted(events), [{"amount": GOOD[block_of(learner)][0]}, {}])


@pytest.mark.parametrize("value", [Decimal("1.5"), Fraction(3, 2), np.longdouble(1.5)], ids=repr)
@pytest.mark.parametrize("kind", ["gaussian", "multinomial", "complement", "bernoulli", "categorical"])
def test_a_number_of_a_rare_type_is_itself_or_refused(kind: str, value: Any) -> None:
    config, events = Config(kind), [Event({"amount": 1.0}, "a"), Event({"amount": 2.0}, "b")]
    model, same = config.learned(events), config.learned([*events, Event({"amount": 1.5}, "b")])
    before = model.to_bytes()
    try:
        model.learn_one({"amount": value}, "b")
    except (ValueError, TypeError):
        assert model.to_bytes() == before
    else:
        assert model.to_bytes() == same.to_bytes()


@pytest.mark.parametrize(
    "spelling",
    [1, 1.0, np.int8(1), np.uint64(1), np.float32(1), np.float64(1)],
    ids=lambda v: type(v).__name__,
)
def test_one_number_is_one_category_however_it_is_spelt(spelling: Any) -> None:
    model = Config("categorical").learned([Event({"amount": 1}, "a"), Event({"amount": 2}, "b")])
    other = Config("categorical").learned([Event({"amount": spelling}, "a"), Event({"amount": 2}, "b")])
    assert model.to_bytes() == other.to_bytes()


def test_true_one_and_the_text_are_three_categories() -> None:
    model = Config("categorical", {"alpha": 0.0}).learned(
        [Event({"amount": 1}, "number"), Event({"amount": True}, "truth"), Event({"amount": "1"}, "text")]
    )
    assert [model.predict_one({"amount": value}) for value in (1, True, "1")] == ["number", "truth", "text"]


@pytest.mark.parametrize("kind", KINDS)
def test_minus_zero_is_zero(kind: str) -> None:
    config = Config(kind)
    one, two = (
        config.learned([Event({"amount": zero}, "a"), Event({"amount": 0.0}, "b"), Event({"amount": 1.0}, "b")])
        for zero in (-0.0, 0.0)
    )
    for value in (0.0, -0.0, 1.0):
        assert one.joint_log_likelihood_one({"amount": value}) == two.joint_log_likelihood_one({"amount": value})


# --- labels -----------------------------------------------------------------------------------------------

BAD_LABELS: dict[str, Any] = {
    "none": None,
    "nan": math.nan,
    "float": 1.5,
    "whole float": 1.0,
    "numpy float": np.float64(1),
    "bytes": b"a",
    "complex": 1j,
    "decimal": Decimal(1),
    "fraction": Fraction(1),
    "tuple": ("a",),
    "list": ["a"],
    "dict": {"a": 1},
    "object": object(),
    "array": np.array(["a"]),
    "date": datetime(2026, 1, 1),
    "not a time": pd.NaT,
}


@every_learner
@pytest.mark.parametrize("label", BAD_LABELS.values(), ids=BAD_LABELS.keys())
def test_what_is_no_label_is_refused(learner: str, label: Any) -> None:
    model = config_of(learner).learned(three_good(learner))
    before, x = model.to_bytes(), {"amount": GOOD[block_of(learner)][0]}
    rows = model.rows()
    for call in (lambda: model.learn_one(x, label), lambda: model.unlearn_one(x, label)):
        with pytest.raises((ValueError, TypeError)):
            call()
    if label is not None:
        with pytest.raises((ValueError, TypeError)):
            rows.append(x, label)
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("", ""),
        ("é\n\x00", "é\n\x00"),
        (2**70, 2**70),
        (-1, -1),
        (True, True),
        (np.str_("a"), "a"),
        (np.int16(7), 7),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.bool_(False), False),
    ],
    ids=repr,
)
def test_a_label_comes_back_as_it_went_in(label: Any, plain: Any) -> None:
    model = Config("gaussian").build()
    model.learn_one({"amount": 1.0}, label)
    model = type(model).from_bytes(model.to_bytes())
    (got,) = model.classes
    assert got == plain
    assert type(got) is type(plain)
    assert model.predict_one({"amount": 1.0}) == plain
    assert list(model.predict_proba_one({})) == [plain]


# --- names ------------------------------------------------------------------------------------------------

GOOD_NAMES = ["", "a.b", "é\x00", 0, -3, 2**70, ("a", "b"), ("a", 1), (), np.str_("s"), np.int64(5)]
BAD_NAMES: dict[str, Any] = {
    "float": 1.5,
    "none": None,
    "bytes": b"f",
    "complex": 1j,
    "frozenset": frozenset("f"),
    "object": object(),
    "tuple of none": (None,),
    "tuple of float": ("a", 1.5),
    "decimal": Decimal(1),
    "date": datetime(2026, 1, 1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GOOD_NAMES, ids=repr)
def test_a_name_survives_the_bytes(kind: str, name: Any) -> None:
    model = Config(kind).learned([Event({name: 1}, "a"), Event({name: 0}, "b"), Event({name: 1}, "b")])
    restored = type(model).from_bytes(model.to_bytes())
    assert list(restored.features) == list(model.features)
    assert restored.predict_proba_one({name: 1}) == model.predict_proba_one({name: 1})
    assert [(type(n), n) for n in model.features] == [(type(plain(name)), plain(name))]


@pytest.mark.parametrize("kind", [*KINDS, "mixed"])
@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
def test_what_is_no_name_is_refused(kind: str, name: Any) -> None:
    config = Config(kind, {"features": {}} if kind == "mixed" else {})
    model = config.learned([Event({"amount": 1}, "a")])
    before = model.to_bytes()
    for call in (
        lambda: model.learn_one({"amount": 1, name: 1}, "a"),
        lambda: model.predict_one({"amount": 1, name: 1}),
        lambda: model.check({name: 1}),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert model.to_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_names_one_and_its_spelling_are_two(kind: str) -> None:
    model = Config(kind).learned([Event({1: 1, "1": 0}, "a"), Event({1: 0, "1": 1}, "b")])
    assert len(list(model.features)) == 2


@pytest.mark.parametrize("x", [None, 1, "f", ["f"], [("f", 1)], {"f"}, b"f", object()], ids=range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_mapping_is_refused(kind: str, x: Any) -> None:
    model = Config(kind).learned([Event({"amount": 1}, "a")])
    before = model.to_bytes()
    for call in (lambda: model.learn_one(x, "a"), lambda: model.predict_one(x), lambda: model.check(x)):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert model.to_bytes() == before


# --- weights and times ------------------------------------------------------------------------------------

BAD_NUMBERS: dict[str, Any] = {
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "text": "1",
    "true": True,
    "bytes": b"1",
    "complex": 1 + 0j,
    "list": [1.0],
    "array": np.array([1.0]),
    "object": object(),
    "10**400": 10**400,
    "numpy nan": np.float64("nan"),
}
BAD_WEIGHTS = {
    **BAD_NUMBERS,
    "negative": -1.0,
    "tiny negative": -5e-324,
    "beyond 1e60": 1.01e60,
    "none": None,
}


@every_learner
@pytest.mark.parametrize("weight", BAD_WEIGHTS.values(), ids=BAD_WEIGHTS.keys())
def test_what_is_no_weight_is_refused(learner: str, weight: Any) -> None:
    model = config_of(learner).learned(three_good(learner))
    before, x, rows = model.to_bytes(), {"amount": GOOD[block_of(learner)][0]}, model.rows()
    for call in (
        lambda: model.learn_one(x, "a", weight),
        lambda: model.unlearn_one(x, "a", weight),
        lambda: rows.append(x, "a", weight),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert model.to_bytes() == before
    assert len(rows) == 0


@every_learner
@pytest.mark.parametrize("weight", [5e-324, 1e-300, 1e-9, 1e9, 1e60, np.float32(2), np.int8(3), 7])
def test_any_good_weight_leaves_the_model_sound(learner: str, weight: Any) -> None:
    model = config_of(learner).learned(three_good(learner))
    for value in GOOD[block_of(learner)]:
        model.learn_one({"amount": value}, "b", weight)
        is_distribution(model.predict_proba_one({"amount": value}))
        is_distribution(model.predict_proba_one({}))
        assert not any(math.isnan(v) for v in model.joint_log_likelihood_one({"amount": value}).values())


@every_learner
@pytest.mark.parametrize("time", BAD_NUMBERS.values(), ids=BAD_NUMBERS.keys())
def test_what_is_no_time_is_refused(learner: str, time: Any) -> None:
    config = config_of(learner)
    config.options["half_life"] = 10.0
    model = config.learned([event._replace(t=5.0) for event in three_good(learner)])
    before, x = model.to_bytes(), {"amount": GOOD[block_of(learner)][0]}
    with pytest.raises((ValueError, TypeError)):
        model.learn_one(x, "a", 1.0, time)
    assert model.to_bytes() == before


@every_learner
@pytest.mark.parametrize("time", [-1e9, 0.0, 1e-300, 1.7e9, 1e15, np.float32(3), 7])
def test_any_good_time_leaves_the_model_sound(learner: str, time: Any) -> None:
    config = config_of(learner)
    config.options["half_life"] = 10.0
    model = config.learned([event._replace(t=5.0) for event in three_good(learner)])
    model.learn_one({"amount": GOOD[block_of(learner)][0]}, "b", 1.0, time)
    for x in ({"amount": GOOD[block_of(learner)][1]}, {}):
        is_distribution(model.predict_proba_one(x))
        assert not any(math.isnan(v) for v in model.joint_log_likelihood_one(x).values())
