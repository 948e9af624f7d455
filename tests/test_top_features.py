"""What speaks for a class is found in every kind of model, and looking for it does not hold up the loop."""

import math
import random
import time
from typing import Any

import pytest

from streamnb import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MixedNB, MultinomialNB
from streamnb.reports import TopFeature
from streamnb.top_features import CLASSES, LARGEST, SHOWN, TopFeaturesReader, top_features
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
        reader.refresh_if_due(model)
        return reader.latest.n_events == model.n_events

    wait_until(done, 20, "the features to be read")


def test_a_reading_is_of_the_model_as_it_was_and_the_next_waits_its_turn() -> None:
    now = [0.0]
    reader, model = TopFeaturesReader(lambda: now[0]), learned(MultinomialNB(), WORDS)
    refreshed(reader, model)
    first = reader.latest
    learned(model, WORDS)
    reader.refresh_if_due(model)
    assert reader.latest is first
    now[0] += 60.0
    refreshed(reader, model)
    assert reader.latest.n_events == 2 * first.n_events
    reader.close()


def test_the_largest_model_that_is_read_holds_the_loop_for_milliseconds() -> None:
    model = learned(
        MultinomialNB(), [({f"w{n}": 1 for n in range(k, k + 100)}, "ab"[k // 100 % 2]) for k in range(0, LARGEST, 100)]
    )
    reader, longest = TopFeaturesReader(time.monotonic), 0.0
    began = time.thread_time()
    reader.refresh_if_due(model)
    longest = time.thread_time() - began
    refreshed(reader, model)
    assert longest < 0.05
    assert len(reader.latest.classes["a"]) == SHOWN
    model.learn_one({"one more": 1}, "a")
    reader.close()


def test_a_larger_model_is_said_to_be_too_large() -> None:
    model = learned(
        MultinomialNB(),
        [({f"w{n}": 1 for n in range(k, k + 1000)}, "ab"[k // 1000 % 2]) for k in range(0, LARGEST + 1000, 1000)],
    )
    reader = TopFeaturesReader(lambda: 0.0)
    reader.refresh_if_due(model)
    assert (reader.latest.too_large, dict(reader.latest.classes)) == (True, {})
    reader.close()
