"""The oracle itself is right: it agrees with scikit-learn's fit wherever that is exact enough to tell."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from datasets import DATA
from reference import Event, Fitted
from reference_events import tokens_of
from sklearn import naive_bayes as sk
from sklearn.feature_extraction.text import CountVectorizer

RANDOM = np.random.default_rng(5)
LABELS = RANDOM.integers(0, 3, size=40)
REALS = RANDOM.normal(size=(40, 4)) * [1, 3, 0.1, 10] + LABELS[:, None]
COUNTS = RANDOM.poisson(0.2 + LABELS[:, None] * [0.1, 0.5, 0.2, 0.4, 0.0])
CODES = (RANDOM.integers(0, 3, size=(40, 3)) + LABELS[:, None]) % 4


def events(X: np.ndarray[Any, Any], w: np.ndarray[Any, Any] | None = None) -> list[Event]:
    weights = np.ones(len(X)) if w is None else w
    return [
        Event(dict(enumerate(row)), y, n)
        for row, y, n in zip(X.tolist(), LABELS.tolist(), weights.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("kind", "options", "estimator", "X"),
    [
        ("gaussian", {}, sk.GaussianNB(), REALS),
        ("gaussian", {"var_smoothing": 0.1}, sk.GaussianNB(var_smoothing=0.1), REALS),
        ("gaussian", {"priors": {0: 0.2, 1: 0.3, 2: 0.5}}, sk.GaussianNB(priors=[0.2, 0.3, 0.5]), REALS),
        ("multinomial", {}, sk.MultinomialNB(), COUNTS),
        ("multinomial", {"alpha": 0.01}, sk.MultinomialNB(alpha=0.01), COUNTS),
        ("multinomial", {"priors": "uniform"}, sk.MultinomialNB(fit_prior=False), COUNTS),
        ("complement", {"priors": "uniform"}, sk.ComplementNB(), COUNTS),
        ("complement", {"priors": "uniform", "norm": True}, sk.ComplementNB(norm=True), COUNTS),
        ("bernoulli", {}, sk.BernoulliNB(), COUNTS),
        ("bernoulli", {"binarize": 1.0, "alpha": 0.3}, sk.BernoulliNB(binarize=1.0, alpha=0.3), COUNTS),
        ("categorical", {}, sk.CategoricalNB(), CODES),
        ("categorical", {"alpha": 0.5}, sk.CategoricalNB(alpha=0.5), CODES),
    ],
    ids=str,
)
def test_the_oracle_agrees_with_scikit_learn(
    kind: str, options: dict[str, Any], estimator: Any, X: np.ndarray[Any, Any]
) -> None:
    estimator.fit(X, LABELS)
    fitted = Fitted(kind, events(X), **options)
    got = [[float(fitted.proba(event.x)[c]) for c in (0, 1, 2)] for event in events(X)]
    np.testing.assert_allclose(got, estimator.predict_proba(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "estimator", "X"),
    [
        ("multinomial", sk.MultinomialNB(), COUNTS),
        ("bernoulli", sk.BernoulliNB(), COUNTS),
        ("categorical", sk.CategoricalNB(), CODES),
    ],
    ids=str,
)
def test_the_oracle_weighs_events_as_scikit_learn_does(kind: str, estimator: Any, X: np.ndarray[Any, Any]) -> None:
    w = RANDOM.uniform(0.1, 3, size=len(X))
    estimator.fit(X, LABELS, sample_weight=w)
    fitted = Fitted(kind, events(X, w))
    got = [[float(fitted.proba(event.x)[c]) for c in (0, 1, 2)] for event in events(X)]
    np.testing.assert_allclose(got, estimator.predict_proba(X), rtol=1e-9, atol=1e-12)


def test_a_weight_is_a_repetition_to_the_oracle() -> None:
    once, twice = events(REALS, np.full(len(REALS), 2.0)), events(REALS) * 2
    a, b = Fitted("gaussian", once), Fitted("gaussian", twice)
    assert a.gaussian.cells == b.gaussian.cells
    assert a.gaussian.epsilon == b.gaussian.epsilon


@pytest.mark.parametrize(("stop_words", "ngrams"), [([], (1, 1)), (["the", "you", "to"], (1, 2)), ([], (2, 3))])
def test_the_oracle_finds_the_words_that_scikit_learn_finds(stop_words: list[str], ngrams: tuple[int, int]) -> None:
    vectorizer = CountVectorizer(stop_words=stop_words or None, ngram_range=ngrams)
    found = vectorizer.build_analyzer()
    for text in [*texts()[:300], "Äpfel_1 x2 don't\u00a0stop İstanbul 3.5 \U0001d7d8\U0001d7d9 \n", ""]:
        due = Counter(found(text))
        assert tokens_of("s", text, {"stop_words": stop_words, "ngrams": ngrams}) == due


def texts() -> list[str]:
    with gzip.open(DATA / "sms_spam.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line)["features"]["text"] for line in file]


def test_an_event_one_half_life_old_counts_half_to_the_oracle() -> None:
    aged = [Event({"a": 1}, 0, 1.0, 0.0), Event({"b": 3}, 1, 1.0, 10.0), Event({"a": 2}, 1, 4.0, -10.0)]
    fitted = Fitted("multinomial", aged, half_life=10.0)
    plain = Fitted("multinomial", [Event({"a": 1}, 0, 0.5), Event({"b": 3}, 1), Event({"a": 2}, 1)])
    assert fitted.joint({"a": 1, "b": 2}) == plain.joint({"a": 1, "b": 2})
