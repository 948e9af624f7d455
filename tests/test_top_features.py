"""What speaks for a class is found in every kind of model, and looking for it does not hold up the loop."""

import math
import random
import threading
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import CONFIGS, Config, law_per_config, streams

import streamnb.top_features
from streamnb import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MixedNB, MultinomialNB
from streamnb.reports import TopFeature
from streamnb.top_features import CLASSES, SHOWN, TopFeaturesReader, spelled, top_features
from tests.broker import wait_until

WORDS: list[tuple[dict[str, Any], str]] = [({"win": 3, "the": 2}, "spam"), ({"noon": 3, "the": 2}, "ham")] * 20
FLAGS: list[tuple[dict[str, Any], str]] = [({"win": 1.0, "the": 1.0}, "spam"), ({"noon": 1.0, "the": 1.0}, "ham")] * 20


def learned(model: Any, events: list[tuple[dict[str, Any], str]]) -> Any:
    for x, y in events:
        model.learn_one(x, y)
    return model


@pytest.mark.parametrize(
    ("model", "events"),
    [
        *((MultinomialNB(), WORDS), (MultinomialNB(alpha=0), WORDS), (ComplementNB(), WORDS), (BernoulliNB(), FLAGS)),
        (MultinomialNB(half_life=60), WORDS),
    ],
    ids=repr,
)
def test_the_word_that_only_one_class_has_is_its_first(model: Any, events: list[tuple[dict[str, Any], str]]) -> None:
    found = top_features(learned(model, events))
    if model.options.get("alpha") == 0:  # a ratio to nothing is no number
        assert not found["spam"]
        return
    assert found["spam"][0].name == "win"
    assert found["ham"][0].name == "noon"
    assert all(feature.here > feature.elsewhere for features in found.values() for feature in features)


def test_a_share_is_weighed_by_hand() -> None:
    model = learned(CategoricalNB(alpha=0), [({"c": v}, y) for v, y in zip("aabaabbb", "xxxxyyyy", strict=True)])
    (feature,) = top_features(model)["x"]
    assert (feature.name, feature.measure, feature.here, feature.elsewhere) == ("c=a", "share", 0.75, 0.25)
    assert feature.nats == pytest.approx(0.75 * math.log(3))


def test_a_number_is_weighed_by_the_divergence_of_its_densities() -> None:
    events = [({"n": v}, y) for y, v in (*(("x", v) for v in (-1.0, 1.0)), *(("y", v) for v in (9.0, 11.0)))]
    (feature,) = top_features(learned(GaussianNB(var_smoothing=0), events))["x"]
    assert feature == TopFeature("n", pytest.approx(0.5 * 10**2), "mean", 0.0, 10.0)  # type: ignore[arg-type]


def test_all_other_classes_are_taken_together() -> None:
    events = [({"w": v}, y) for y, v in (("x", 10), ("y", 2), ("y", 4), ("z", 6))]
    found = top_features(learned(MultinomialNB(), [({**x, "rest": 5}, y) for x, y in events]))
    shares = {"x": 11 / 17, "y": 7 / 18, "z": 7 / 13}
    (top,) = [feature for feature in found["x"] if feature.name == "w"]
    assert top.elsewhere == pytest.approx((2 * shares["y"] + shares["z"]) / 3)


@pytest.mark.parametrize("events", [[], [({"a": 1.0}, "only")] * 3, [({}, "x"), ({}, "y")]], ids=len)
def test_where_nothing_tells_classes_apart_nothing_is_found(events: list[tuple[dict[str, Any], str]]) -> None:
    assert not any(top_features(learned(MixedNB(), events)).values())


def test_the_list_is_bounded_in_features_classes_and_names() -> None:
    chance = random.Random(1)
    events = [({f"{n}" * 200: chance.random() for n in range(30)}, f"c{i % 70}") for i in range(210)]
    found = top_features(learned(GaussianNB(), events))
    assert len(found) == CLASSES
    assert max(len(features) for features in found.values()) == SHOWN
    assert max(len(feature.name) for features in found.values() for feature in features) <= 120


def refreshed(reader: TopFeaturesReader, model: Any) -> None:
    def done() -> bool:
        reader.read_if_due(model.copy())
        return reader.latest.n_events == model.n_events

    wait_until(done, 20, "the features to be read")


def test_a_reading_is_of_the_model_as_it_was_and_the_next_waits_its_turn() -> None:
    now = [0.0]
    reader, model = TopFeaturesReader(lambda: now[0]), learned(MultinomialNB(), WORDS)
    refreshed(reader, model)
    first = reader.latest
    learned(model, WORDS)
    reader.read_if_due(model)
    assert reader.latest is first
    now[0] += 60.0
    refreshed(reader, model)
    assert reader.latest.n_events == 2 * first.n_events
    reader.close()


def test_the_loop_does_not_wait_for_a_reading() -> None:
    loop, gate, waited = threading.current_thread(), threading.Event(), []

    def clock() -> float:
        if threading.current_thread() is not loop:
            waited.append(gate.wait(5))
        return 0.0

    reader, model = TopFeaturesReader(clock), learned(MultinomialNB(), WORDS)
    reader.read_if_due(model)
    gate.set()
    refreshed(reader, model)
    assert waited == [True, True]  # the clock, before and after
    reader.close()


def test_a_large_model_is_read_as_well() -> None:
    classes = [f"c{c}" for c in range(20)]
    model = MultinomialNB()
    for c in range(0, 200_000, 1000):
        model.learn_one({f"w{n}": 1 + n % 3 for n in range(c, c + 1000)}, classes[c // 1000 % 20])
    for label in classes:
        model.learn_one({f"the {label}": 9000, "a": 9000}, label)
    reader = TopFeaturesReader(time.monotonic)
    refreshed(reader, model)
    assert all(reader.latest.classes[label][0].name == f"the {label}" for label in classes)
    reader.close()


class Said(NamedTuple):
    """What one line of a likelihood table says for one class."""

    nats: float
    name: str
    here: float
    elsewhere: float


def said(model: Any, label: str) -> list[Said]:
    """The same by one line after another, strongest first; others are summed exactly."""
    weights = {other: n for other, n in model.class_count.items() if n > 0.0}
    others = [other for other in weights if other != label]
    found = []
    for line in model.likelihood_table():
        name = spelled(line.feature, line.value)
        if "mean" in line.numbers[label]:
            found.append(Said(*divergence(line.numbers, label, others, name)))
            continue
        p, q = line.numbers[label]["p"], math.fsum(weights[o] * line.numbers[o]["p"] for o in others)
        q /= math.fsum(weights[o] for o in others)
        if model.kind == "complement":
            rest = {key: math.fsum(n[key] for n in line.numbers.values()) for key in ("count", "total")}
            own = {key: total / (len(line.numbers) - 1) - line.numbers[label][key] for key, total in rest.items()}
            p, q = own["count"] / own["total"] if own["total"] else 0.0, p
        elif not line.numbers[label]["count"]:
            p = 0.0
        found.append(Said(p * math.log(p / q) if p > 0.0 and q > 0.0 else 0.0, name, p, q))
    return sorted((one for one in found if one.nats > 1e-12), key=lambda one: -one.nats)


def divergence(
    numbers: Mapping[str, Mapping[str, float]], label: str, others: list[str], name: str
) -> tuple[float, str, float, float]:
    exact = {o: {key: Fraction(n) for key, n in numbers[o].items()} for o in (label, *others) if numbers[o]["n"]}
    mine, rest = exact.pop(label, None), sum(o["n"] for o in exact.values())
    if mine is None or not rest:
        return 0.0, name, 0.0, 0.0
    mean = sum(o["n"] * o["mean"] for o in exact.values()) / rest
    wide = sum(o["n"] * (o["variance"] + (o["mean"] - mean) ** 2) for o in exact.values()) / rest
    if not (mine["variance"] and wide):
        return 0.0, name, 0.0, 0.0
    ratio = mine["variance"] / wide
    apart = (mine["mean"] - mean) ** 2 / wide
    return 0.5 * (float(ratio - 1 + apart) - math.log(ratio)), name, float(mine["mean"]), float(mean)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@given(data=st.data(), shown=st.integers(1, 4), cells=st.sampled_from([1, 7, 1000]))
@law_per_config
def test_what_is_found_at_once_is_what_line_after_line_says(
    config: Config, data: st.DataObject, shown: int, cells: int
) -> None:
    model = config.learned(data.draw(streams(config, min_size=4, max_size=16)).events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamnb.top_features, "CELLS", cells)
        top = top_features(model, shown)
    for label, found in top.items():
        due = said(model, label) if len(top) > 1 else []
        found = tuple(one for one in found if one.nats > 1e-12)
        assert [one.nats for one in found] == pytest.approx([one.nats for one in due[:shown]], rel=1e-9, abs=1e-12)
        for one in found:  # which of those that bring the same is left to another test
            assert any(
                (one.name, one.nats, one.here, one.elsewhere)
                == (other.name, approx(other.nats), approx(other.here), approx(other.elsewhere))
                for other in due
            )


def approx(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("cells", [1, 8, 1000])
@pytest.mark.parametrize("learner", [MultinomialNB, BernoulliNB, ComplementNB])
def test_words_that_bring_the_same_are_taken_in_sorted_order(
    learner: Any, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamnb.top_features, "CELLS", cells)
    model = learner()
    names = [f"w{n:02}" for n in range(40)]
    random.Random(3).shuffle(names)
    for name in names:
        model.learn_one({name: 1}, "x")
        model.learn_one({"other": 1}, "y")
    assert [one.name for one in top_features(model, 8)["x"]] == sorted(names)[:8]
