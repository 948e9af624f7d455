"""A model goes to scikit-learn and comes back; what scikit-learn cannot hold is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import Event
from sklearn import naive_bayes as sk
from streams import Config


def table_for(kind: str) -> tuple[np.ndarray[Any, Any], list[int]]:
    random = np.random.default_rng(8)
    y = random.integers(0, 3, size=60).tolist()
    X = random.poisson(random.gamma(0.7, size=(3, 5))[y]).astype(float)
    if kind == "categorical":
        X = np.minimum(X, 2)  # scikit-learn counts the gaps between codes as categories, we do not
    return (X + random.normal(size=X.shape) if kind == "gaussian" else X), y


SINGLE = ["gaussian", "multinomial", "complement", "bernoulli", "categorical"]


@pytest.mark.parametrize("kind", SINGLE)
def test_a_model_goes_to_scikit_learn_and_answers_the_same(kind: str) -> None:
    X, y = table_for(kind)
    config = Config(kind, {"priors": "uniform"} if kind == "complement" else {})
    model = config.build()
    model.learn_many(X, y)
    estimator = model.to_sklearn()
    np.testing.assert_allclose(estimator.predict_proba(X), model.predict_proba_many(X), rtol=1e-10, atol=1e-13)
    assert list(estimator.classes_) == list(model.classes)


@pytest.mark.parametrize("kind", ["gaussian", "multinomial", "complement", "bernoulli", "categorical"])
def test_a_model_comes_back_from_scikit_learn(kind: str) -> None:
    X, y = table_for(kind)
    estimators = {
        "gaussian": sk.GaussianNB(),
        "multinomial": sk.MultinomialNB(),
        "complement": sk.ComplementNB(),
        "bernoulli": sk.BernoulliNB(),
        "categorical": sk.CategoricalNB(),
    }
    fitted = estimators[kind].fit(X[:40], y[:40])
    shell = type(Config(kind).build())
    model = shell.from_sklearn(fitted)
    np.testing.assert_allclose(model.predict_proba_many(X[:40]), fitted.predict_proba(X[:40]), rtol=1e-9, atol=1e-12)
    model.learn_many(X[40:], y[40:])
    whole = estimators[kind].fit(X, y)
    np.testing.assert_allclose(model.predict_proba_many(X), whole.predict_proba(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "config",
    [
        Config("mixed", {"features": {}}),
        Config("gaussian", {"half_life": 5.0}),
        Config("multinomial", {"weighting": "tfidf"}),
        Config("multinomial", {"unseen": "smooth"}),
        Config("categorical", {"unseen": "smooth"}),
    ],
    ids=lambda config: config.name,
)
def test_what_scikit_learn_cannot_hold_is_refused(config: Config) -> None:
    model = config.learned([Event({"a": 1.0}, "u", 1.0, 0.0), Event({"a": 2.0}, "v", 1.0, 0.0)])
    with pytest.raises(TypeError):
        model.to_sklearn()


def test_a_model_from_scikit_learn_unlearns_nothing() -> None:
    X, y = table_for("gaussian")
    model = type(Config("gaussian").build()).from_sklearn(sk.GaussianNB().fit(X, y))
    before = model.to_bytes()
    with pytest.raises((ValueError, TypeError)):
        model.unlearn_one(dict(enumerate(X[0].tolist())), y[0])
    assert model.to_bytes() == before
