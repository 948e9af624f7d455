"""The learners are river's: its conformance checks, none skipped, its pipelines, its way of evaluating."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from river import (
    base,
    checks,
    compose,
    datasets,
    evaluate,
    feature_extraction,
    metrics,
    preprocessing,
    stream,
)
from streams import CONFIGS, Config

CHECKED = [
    Config("gaussian"),
    Config("gaussian", {"var_smoothing": 0.0, "ddof": 1, "priors": "uniform"}),
    Config("gaussian", {"half_life": 50.0}),
    Config("multinomial"),
    Config("multinomial", {"alpha": 0.0, "weighting": "log1p"}),
    Config("multinomial", {"unseen": "smooth", "smooth_priors": True, "half_life": 50.0}),
    Config("complement"),
    Config("complement", {"norm": True, "priors": "uniform"}),
    Config("bernoulli"),
    Config("bernoulli", {"binarize": 0.5, "alpha": 0.0}),
    Config("categorical"),
    Config("categorical", {"unseen": "smooth", "half_life": 50.0}),
    Config("mixed", {"features": {}}),
    Config("mixed", {"features": {"long_url": "categorical", "is_popular": "counts", "https": "bernoulli"}}),
    Config("mixed", {"features": {"value-mean": "gaussian", "https": "gaussian"}, "default": "ignore"}),
]
CHECKS = [(config, i, check) for config in CHECKED for i, check in enumerate(checks.yield_checks(config.build()))]


@pytest.fixture(autouse=True)
def _shuffled_alike() -> None:
    random.seed(7)  # river's checks shuffle and drop features


@pytest.mark.parametrize(
    ("config", "check"),
    [pytest.param(config, check, id=f"{config.name}-{check.__name__}-{i}") for config, i, check in CHECKS],
)
def test_river_finds_nothing_to_object_to(config: Config, check: Callable[[Any], None]) -> None:
    check(config.build().clone())


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_no_check_is_skipped(config: Config) -> None:
    model = config.build()
    assert model._unit_test_skips() == set()
    assert isinstance(model, base.MiniBatchClassifier)
    assert model._multiclass


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_a_clone_has_the_options_and_none_of_the_events(config: Config) -> None:
    model = config.build()
    model.learn_one({}, "a", 1.0, 0.0)
    clone = model.clone()
    assert clone.to_bytes() == config.build().to_bytes()
    assert repr(clone) == repr(config.build())


def test_a_pipeline_scales_and_learns() -> None:
    model = compose.Pipeline(preprocessing.StandardScaler(), Config("gaussian").build())
    score = evaluate.progressive_val_score(datasets.Phishing().take(600), model, metrics.Accuracy())
    assert score.get() > 0.8


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
@pytest.mark.parametrize("kind", ["multinomial", "complement", "bernoulli"])
def test_a_pipeline_counts_words_and_learns(kind: str, ngrams: tuple[int, int]) -> None:
    words = feature_extraction.BagOfWords(lowercase=True, ngram_range=ngrams)
    model = compose.Pipeline(words, Config(kind).build())
    for text, label in (
        ("cheap pills cheap", "spam"),
        ("meeting notes today", "ham"),
        ("Cheap meds", "spam"),
    ):
        model.learn_one(text, label)
    assert model.predict_one("cheap pills now") == "spam"
    assert model.predict_proba_one("meeting notes")["ham"] > 0.5


@pytest.mark.parametrize("config", CHECKED, ids=lambda config: config.name)
def test_progressive_validation_predicts_before_it_learns(config: Config) -> None:
    model, loop, right = config.build(), config.build(), 0
    for x, y in datasets.Phishing().take(150):
        guess = loop.predict_one(x)
        right += guess is not None and guess == y
        loop.learn_one(x, y)
    score = evaluate.progressive_val_score(datasets.Phishing().take(150), model, metrics.Accuracy())
    assert model.to_bytes() == loop.to_bytes()
    assert score.get() == pytest.approx(right / 149) or score.get() == pytest.approx(right / 150)


@pytest.mark.parametrize("config", CHECKED, ids=lambda config: config.name)
def test_answers_that_come_late_are_learned_late(config: Config) -> None:
    def questions() -> Any:
        for second, (x, y) in enumerate(datasets.Phishing().take(60)):
            yield {**x, "moment": dt.datetime(2026, 1, 1) + dt.timedelta(seconds=second)}, y

    model, loop = config.build(), config.build()
    waiting: dict[int, Any] = {}
    for i, x, y in stream.simulate_qa(questions(), moment="moment", delay=dt.timedelta(seconds=5)):
        x = {name: value for name, value in x.items() if name != "moment"}
        if y is None:
            waiting[i] = x
            model.predict_proba_one(x)
        else:
            model.learn_one(waiting.pop(i), y)
    for x, y in datasets.Phishing().take(60):
        loop.learn_one(x, y)
    assert not waiting
    assert model.to_bytes() == loop.to_bytes()


def test_a_pipeline_learns_frames() -> None:
    model = compose.Pipeline(preprocessing.StandardScaler(), Config("gaussian").build())
    rows = list(datasets.Phishing().take(100))
    X, y = pd.DataFrame([x for x, _ in rows]).astype(float), pd.Series([label for _, label in rows])
    model.learn_many(X, y)
    assert (model.predict_many(X) == y).mean() > 0.8
    assert model.predict_proba_many(X).sum(axis=1).tolist() == pytest.approx([1.0] * 100)
