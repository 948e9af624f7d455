"""What un-learning, merging, restoring and constructing refuse, and that a refusal changes nothing."""

from __future__ import annotations

import math
from typing import Any

import pytest
from learner_values import DECLARED, GOOD, block_of, config_of, every_learner, three_good
from reference import Event
from streams import Config, assert_equals_fit

# --- un-learning refuses what cannot have been learned ----------------------------------------------------


@every_learner
def test_an_unknown_label_cannot_be_unlearned(learner: str) -> None:
    model = config_of(learner).learned(three_good(learner))
    refuses(model, {"amount": GOOD[block_of(learner)][0]}, "never")


@every_learner
def test_more_weight_than_is_held_cannot_be_unlearned(learner: str) -> None:
    model = config_of(learner).learned(three_good(learner))
    refuses(model, {"amount": GOOD[block_of(learner)][0]}, "a", 3.0)


@every_learner
def test_an_unknown_feature_cannot_be_unlearned(learner: str) -> None:
    if learner in DECLARED:
        model = config_of(learner).learned([Event({}, "a")])
        refuses(model, {"amount": GOOD[block_of(learner)][0]}, "a")
    else:
        model = config_of(learner).learned(three_good(learner))
        refuses(model, {"g": GOOD[block_of(learner)][0]}, "a")


def refuses(model: Any, x: Any, y: Any, w: float = 1.0) -> None:
    before = model.to_bytes()
    with pytest.raises((ValueError, TypeError)):
        model.unlearn_one(x, y, w)
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("kind", "x"),
    [
        ("gaussian", {"amount": 50.0}),
        ("multinomial", {"amount": 4}),
        ("complement", {"amount": 4}),
        ("categorical", {"amount": "never"}),
        ("categorical", {"amount": "v"}),
        ("bernoulli", {"g": 1}),
    ],
    ids=str,
)
def test_a_value_that_this_class_never_had_cannot_be_unlearned(kind: str, x: Any) -> None:
    values = {"categorical": ["u", "u", "v"], "gaussian": [1.0, 2.0, 3.0]}.get(kind, [1, 2, 1])
    events = [Event({"amount": v}, label) for v, label in zip(values, "aab", strict=True)]
    refuses(Config(kind).learned([*events, Event({"g": values[0]}, "b")]), x, "a")


def test_the_last_event_of_a_cell_must_be_its_mean() -> None:
    model = Config("gaussian").learned([Event({"amount": 3.0}, "a"), Event({"amount": 4.0}, "b")])
    refuses(model, {"amount": 3.5}, "a")
    model.unlearn_one({"amount": 3.0}, "a")
    assert list(model.classes) == ["b"]


# --- options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("gaussian", {"var_smoothing": -1e-9}),
        ("gaussian", {"var_smoothing": math.nan}),
        ("gaussian", {"ddof": -1}),
        ("gaussian", {"half_life": 0.0}),
        ("gaussian", {"half_life": -5.0}),
        ("gaussian", {"half_life": math.inf}),
        ("gaussian", {"priors": {"a": 0.5, "b": 0.4}}),
        ("gaussian", {"priors": {"a": -0.5, "b": 1.5}}),
        ("gaussian", {"priors": {"a": math.nan}}),
        ("gaussian", {"priors": "even"}),
        ("gaussian", {"priors": {"a": 1.0}, "classes": ["a", "b"]}),
        ("gaussian", {"classes": ["a", None]}),
        ("gaussian", {"classes": [1, True]}),
        ("multinomial", {"alpha": -1.0}),
        ("multinomial", {"alpha": math.inf}),
        ("multinomial", {"alpha": math.nan}),
        ("multinomial", {"alpha": "1"}),
        ("multinomial", {"unseen": "drop"}),
        ("multinomial", {"weighting": "bm25"}),
        ("categorical", {"unseen": "error"}),
        ("bernoulli", {"binarize": math.nan}),
        ("mixed", {"features": {"a": "poisson"}}),
        ("mixed", {"features": {"a": {"kind": "text", "hash_buckets": 0}}}),
        ("mixed", {"features": {"a": {"kind": "text", "ngrams": [2, 1]}}}),
        ("mixed", {"features": {"a": {"kind": "text", "stemmer": "porter"}}}),
        ("mixed", {"features": {}, "default": "drop"}),
    ],
    ids=str,
)
def test_options_without_a_meaning_are_refused(kind: str, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        Config(kind, options).build()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Config("gaussian"), Config("multinomial")),
        (Config("gaussian"), Config("gaussian", {"half_life": 5.0})),
        (Config("multinomial"), Config("complement")),
        (Config("multinomial"), Config("multinomial", {"alpha": 0.5})),
        (Config("bernoulli"), Config("bernoulli", {"binarize": 0.5})),
        (Config("mixed", {"features": {}}), Config("mixed", {"features": {"a": "counts"}})),
    ],
    ids=lambda config: config.name,
)
def test_models_of_other_options_do_not_merge(one: Config, other: Config) -> None:
    a, b = (
        one.learned([Event({"amount": 1}, "a", 1.0, 0.0)]),
        other.learned([Event({"amount": 1}, "b", 1.0, 0.0)]),
    )
    before = a.to_bytes(), b.to_bytes()
    with pytest.raises((ValueError, TypeError)):
        a.merge(b)
    assert (a.to_bytes(), b.to_bytes()) == before


def test_a_label_of_another_type_does_not_merge() -> None:
    one = Config("categorical").learned([Event({"amount": "u"}, 1)])
    other = Config("categorical").learned([Event({"amount": "u"}, True), Event({"amount": "v"}, "z")])
    before = one.to_bytes()
    with pytest.raises((ValueError, TypeError)):
        one.merge(other)
    assert one.to_bytes() == before


@every_learner
def test_damaged_bytes_are_refused(learner: str) -> None:
    model = config_of(learner).learned(three_good(learner))
    data, kind = model.to_bytes(), type(model)
    for damaged in (b"", data[:-1], data[: len(data) // 2], data + b"\0", b"\0" + data, b"nonsense"):
        with pytest.raises(ValueError, match=r".+"):
            kind.from_bytes(damaged)
    for at in range(0, len(data), 7):
        with pytest.raises(ValueError, match=r".+"):
            kind.from_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_restoring_another_shape_names_the_difference() -> None:
    data = Config("bernoulli", {"binarize": 0.5}).learned([Event({"amount": 1}, "a")]).to_bytes()
    model = Config("bernoulli").learned([Event({"amount": 1}, "b")])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="binarize"):
        model.restore(data)
    assert model.to_bytes() == before


READING = [
    ("multinomial", {"alpha": 0.25, "smooth_priors": True, "unseen": "smooth", "weighting": "log1p"}),
    ("complement", {"alpha": 0.25, "norm": True, "priors": "uniform"}),
    ("gaussian", {"var_smoothing": 0.5, "ddof": 1}),
    ("categorical", {"alpha": 0.0, "unseen": "smooth"}),
    ("bernoulli", {"alpha": 3.0}),
]


@pytest.mark.parametrize(("kind", "options"), READING, ids=str)
def test_restoring_keeps_the_options_that_only_read(kind: str, options: dict[str, Any]) -> None:
    events = [
        Event({"amount": 1, "g": 2}, "a"),
        Event({"amount": 0, "g": 1}, "a"),
        Event({"g": 3}, "b"),
        Event({"amount": 4}, "b"),
    ]
    plain, other = Config(kind), Config(kind, options)
    assert plain.build().shape() == other.build().shape()
    model = other.build()
    model.restore(plain.learned(events).to_bytes())
    assert_equals_fit(model, other.fitted(events), [{"amount": 1, "g": 1}, {"amount": 2}, {}])
