"""Rows one by one, in batches or merged from shards: the model equals scikit-learn's fit of them all."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from datasets import htru2, iris, news, taught, titanic
from reference import Event, Fitted
from scipy.sparse import issparse
from sklearn import naive_bayes as sk
from sklearn.preprocessing import OrdinalEncoder
from streams import Config, assert_equals_fit


def one_by_one(config: Config, X: Any, y: Any) -> Any:
    model = config.build()
    for row, label in zip((X.toarray() if issparse(X) else X).tolist(), y, strict=True):
        model.learn_one(dict(enumerate(row)), label)
    return model


def in_batches(config: Config, X: Any, y: Any) -> Any:
    model, random, start = config.build(), np.random.default_rng(1), 0
    while start < len(y):
        end = start + int(random.integers(1, 400))
        model.learn_many(X[start:end], y[start:end])
        start = end
    return model


def from_shards(config: Config, X: Any, y: Any) -> Any:
    shard = np.random.default_rng(2).integers(0, 5, size=len(y))
    shard[shard == 3] = 2  # a shard that saw nothing
    models = []
    for i in range(5):
        rows = np.flatnonzero(shard == i)
        model = config.build()
        model.learn_many(X[rows], [y[j] for j in rows])
        models.append(model)
    whole = models[0] + models[1]
    whole.merge(models[2] + (models[3] + models[4]))
    return whole


ways = pytest.mark.parametrize("learned", [one_by_one, in_batches, from_shards])
Learned = Callable[[Config, Any, Any], Any]


def agrees(model: Any, estimator: Any, X: Any, magnitudes: np.ndarray[Any, Any]) -> None:
    """Joint to 1e-12 of its terms' magnitudes (n, K), posterior to 1e-12 of the largest joint."""
    joint, due = model.joint_log_likelihood_many(X), estimator.predict_joint_log_proba(X)
    assert list(model.classes) == list(estimator.classes_)
    assert (np.abs(joint - due) <= 1e-12 * magnitudes).all()
    proba, exact = model.predict_proba_many(X), estimator.predict_proba(X)
    assert (np.abs(proba - exact) <= 1e-12 * np.maximum(1, np.abs(due).max(axis=1, keepdims=True))).all()
    sure = np.sort(exact, axis=1)[:, -1] - np.sort(exact, axis=1)[:, -2] > 1e-9
    assert (model.predict_many(X) == estimator.predict(X))[sure].all()


def gaussian_magnitudes(estimator: Any, X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    height = np.abs(np.log(2 * np.pi * estimator.var_)).sum(axis=1) / 2
    depth = ((X[:, None, :] - estimator.theta_) ** 2 / estimator.var_).sum(axis=2) / 2
    return height + depth + np.abs(np.log(estimator.class_prior_))


# --- Gaussian ---------------------------------------------------------------------------------------------


@cache
def exact_htru2() -> Fitted:
    X, y = htru2()
    return Fitted("gaussian", [Event(dict(enumerate(x)), c) for x, c in zip(X.tolist(), y, strict=True)])


@ways
def test_gaussian_on_pulsars(learned: Learned) -> None:
    X, y = htru2()
    model, estimator = learned(Config("gaussian"), X, y), sk.GaussianNB().fit(X, y)
    agrees(model, estimator, X, gaussian_magnitudes(estimator, X))
    moments_agree(model, exact_htru2())
    assert_equals_fit(model, exact_htru2(), [dict(enumerate(x)) for x in X[::2000].tolist()])


@ways
def test_gaussian_on_iris(learned: Learned) -> None:
    X, y = iris()
    model, estimator = learned(Config("gaussian"), X, y), sk.GaussianNB().fit(X, y)
    agrees(model, estimator, X, gaussian_magnitudes(estimator, X))
    events = [Event(dict(enumerate(x)), label) for x, label in zip(X.tolist(), y, strict=True)]
    moments_agree(model, Fitted("gaussian", events))
    assert_equals_fit(model, Fitted("gaussian", events), [event.x for event in events[::10]])


def moments_agree(model: Any, fitted: Fitted) -> None:
    """Counts exactly, or to 1e-9 of fractions; means to 1e-12 of magnitude or deviation; variances to 1e-12."""
    for line in model.likelihood_table():
        for label, told in line.numbers.items():
            cell, own = fitted.gaussian.cell(label, line.feature), fitted.gaussian.cells.get((label, line.feature))
            mean, variance = Fraction(told["mean"]), Fraction(told["variance"])
            exact = fitted.gaussian.variance(cell)
            scale = max(abs(cell.mean), Fraction(float(exact) ** 0.5))
            assert abs(mean - cell.mean) <= Fraction("1e-12") * scale
            assert abs(variance - exact) <= Fraction("1e-12") * exact
            n = own.n if own else Fraction(0)
            assert abs(Fraction(told["n"]) - n) <= (0 if n.denominator == 1 else Fraction("1e-9") * n)


@ways
def test_a_class_of_one_event_shows_epsilon(learned: Learned) -> None:
    flowers, species = iris()
    X, y = np.vstack([flowers, [[5.0, 3.0, 4.0, 1.0]]]), [*species, "lone"]
    events = [Event(dict(enumerate(x)), label) for x, label in zip(X.tolist(), y, strict=True)]
    model, fitted = learned(Config("gaussian"), X, y), Fitted("gaussian", events)
    shown = {Fraction(line.numbers["lone"]["variance"]) for line in model.likelihood_table()}
    assert all(
        abs(epsilon - fitted.gaussian.epsilon) <= Fraction("1e-12") * fitted.gaussian.epsilon for epsilon in shown
    )
    moments_agree(model, fitted)


@ways
def test_gaussian_on_titanic(learned: Learned) -> None:
    events, y = titanic()
    X = np.array([[x["pclass"], x["female"]] for x in events])
    model, estimator = learned(Config("gaussian"), X, y), sk.GaussianNB().fit(X, y)
    agrees(model, estimator, X, gaussian_magnitudes(estimator, X))


@pytest.mark.parametrize("ddof", [0, 1])
def test_gaussian_on_titanic_with_the_gaps_in_age(ddof: int) -> None:
    xs, y = titanic()
    config = Config("gaussian", {"ddof": ddof})
    events = [Event(x, label) for x, label in zip(xs, y, strict=True)]
    whole = config.learned(events[::3])
    whole.merge(config.learned(events[1::3] + events[2::3]))
    for model in (config.learned(events), whole):
        assert_equals_fit(model, config.fitted(events), xs[::40])


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3, 1e6, -1e9, 1e12, 1e15])
@pytest.mark.parametrize("weights", ["even", "uneven", "steep"])
@pytest.mark.parametrize("shards", [1, 3])
def test_the_variance_is_exact_at_any_offset(offset: float, weights: str, shards: int) -> None:
    random = np.random.default_rng(int(abs(offset)) % 1000 + shards)
    values = random.normal(size=60) * 3 + offset
    values[::7] += 40
    w = {
        "even": np.ones(60),
        "uneven": random.choice([0.001, 0.3, 1.0, 7.0, 900.0], size=60),
        "steep": 10.0 ** random.uniform(-9, 9, size=60),
    }[weights]
    config = Config("gaussian", {"var_smoothing": 0.0})
    rows = zip(values.tolist(), w.tolist(), strict=True)
    events = [Event({"x": v}, "ab"[i % 2], n) for i, (v, n) in enumerate(rows)]
    model = config.build()
    for shard in range(shards):
        model.merge(config.learned(events[shard::shards]))
    moments_agree(model, config.fitted(events))


@ways
@pytest.mark.parametrize("var_smoothing", [0.0, 1e-9, 0.1])
def test_gaussian_on_random_rows(learned: Learned, var_smoothing: float) -> None:
    random = np.random.default_rng(3)
    y = random.integers(0, 4, size=300).tolist()
    X = random.normal(size=(300, 6)) * [1, 10, 1e-3, 1, 5, 100] + np.array(y)[:, None] * [
        1,
        3,
        1e-3,
        0,
        1e4,
        1,
    ]
    model = learned(Config("gaussian", {"var_smoothing": var_smoothing}), X, y)
    estimator = sk.GaussianNB(var_smoothing=var_smoothing).fit(X, y)
    agrees(model, estimator, X, gaussian_magnitudes(estimator, X))


# --- counts -----------------------------------------------------------------------------------------------


def count_magnitudes(estimator: Any, X: Any) -> np.ndarray[Any, Any]:
    return X @ np.abs(estimator.feature_log_prob_).T + np.abs(estimator.class_log_prior_)


def bernoulli_magnitudes(estimator: Any, X: Any) -> np.ndarray[Any, Any]:
    on, log = np.asarray(X > 0, dtype=float), np.abs(estimator.feature_log_prob_)
    off = np.abs(np.log1p(-np.exp(estimator.feature_log_prob_)))
    return on @ (log - off).T + off.sum(axis=1) + np.abs(estimator.class_log_prior_)


def bernoulli_sparse_magnitudes(estimator: Any, X: Any) -> np.ndarray[Any, Any]:
    return bernoulli_magnitudes(estimator, X.toarray())


COUNT_MODELS = [
    ("multinomial", {}, sk.MultinomialNB, {}, count_magnitudes),
    ("complement", {"priors": "uniform"}, sk.ComplementNB, {}, count_magnitudes),
    ("complement", {"priors": "uniform", "norm": True}, sk.ComplementNB, {"norm": True}, count_magnitudes),
    ("bernoulli", {}, sk.BernoulliNB, {}, bernoulli_sparse_magnitudes),
]
counting = pytest.mark.parametrize(
    ("kind", "options", "estimator", "same", "magnitudes"),
    COUNT_MODELS,
    ids=[f"{kind}{'-norm' * ('norm' in options)}" for kind, options, *_ in COUNT_MODELS],
)


def news_config(kind: str, options: dict[str, Any], alpha: float) -> Config:
    return Config(kind, {**options, "alpha": alpha})


def shifted_to(estimator: Any, kind: str) -> Any:
    """scikit-learn's complement leaves the prior out; ours adds the uniform one, the same for every class."""
    if kind != "complement":
        return estimator
    joint = estimator.predict_joint_log_proba
    estimator.predict_joint_log_proba = lambda X: joint(X) - np.log(len(estimator.classes_))
    return estimator


@counting
@pytest.mark.parametrize("alpha", [1.0, 0.01])
@pytest.mark.parametrize("learned", [in_batches, from_shards])
def test_counts_on_news(
    learned: Learned, alpha: float, kind: str, options: Any, estimator: Any, same: Any, magnitudes: Any
) -> None:
    (X, y), (T, _) = news("train"), news("test")
    model = learned(news_config(kind, options, alpha), X, y)
    fitted = shifted_to(estimator(alpha=alpha, **same).fit(X, y), kind)
    agrees(model, fitted, T, magnitudes(fitted, T) + np.log(20))


@counting
def test_counts_on_news_one_by_one(kind: str, options: Any, estimator: Any, same: Any, magnitudes: Any) -> None:
    """Mappings of the words a posting has; a word never met before is not yet in the vocabulary."""
    (X, y), (T, _) = news("train"), news("test")
    model = Config(kind, options).build()
    for i, label in enumerate(y):
        row = X[[i]]
        model.learn_one(dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)), label)
    known = np.unique(X.indices)
    fitted = shifted_to(estimator(**same).fit(X[:, known], y), kind)
    some = T[:60]
    due = fitted.predict_joint_log_proba(some[:, known])
    sizes = magnitudes(fitted, some[:, known]) + np.log(20)
    for i in range(some.shape[0]):
        row = some[[i]]
        joint = model.joint_log_likelihood_one(dict(zip(row.indices.tolist(), row.data.tolist(), strict=True)))
        assert (np.abs(np.array(list(joint.values())) - due[i]) <= 1e-12 * sizes[i]).all()


@counting
@ways
def test_counts_on_random_rows(
    learned: Learned, kind: str, options: Any, estimator: Any, same: Any, magnitudes: Any
) -> None:
    random = np.random.default_rng(4)
    y = random.integers(0, 4, size=200).tolist()
    X = random.poisson(random.gamma(0.5, size=(4, 12))[y]).astype(float)
    model = learned(Config(kind, options), X, y)
    fitted = shifted_to(estimator(**same).fit(X, y), kind)
    sizes = bernoulli_magnitudes if kind == "bernoulli" else magnitudes
    agrees(model, fitted, X, sizes(fitted, X) + np.log(4))


@counting
@ways
def test_weighted_counts_on_random_rows(
    learned: Learned, kind: str, options: Any, estimator: Any, same: Any, magnitudes: Any
) -> None:
    random = np.random.default_rng(6)
    y = random.integers(0, 3, size=80).tolist()
    X = random.poisson(random.gamma(0.5, size=(3, 7))[y]).astype(float)
    w = random.uniform(0.01, 5, size=80)
    half = len(y) // 2
    model, other = Config(kind, options).build(), Config(kind, options).build()
    model.learn_many(X[:half], y[:half], w=w[:half])
    other.learn_many(X[half:], y[half:], w=w[half:])
    model.merge(other)
    fitted = shifted_to(estimator(**same).fit(X, y, sample_weight=w), kind)
    sizes = bernoulli_magnitudes if kind == "bernoulli" else magnitudes
    agrees(model, fitted, X, sizes(fitted, X) + np.log(3))
    assert learned is not None


# --- categorical ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.0, 0.1])
@ways
def test_categorical_on_golf(learned: Learned, alpha: float) -> None:
    xs, y = taught("golf")
    names = list(xs[0])
    X = np.array([[x[name] for name in names] for x in xs], dtype=object)
    codes = OrdinalEncoder().fit_transform(X)
    estimator = sk.CategoricalNB(alpha=alpha).fit(codes, y)
    config = Config("categorical", {"alpha": alpha})
    for model, rows in ((learned(config, X, y), X), (learned(config, codes, y), codes)):
        np.testing.assert_allclose(
            model.joint_log_likelihood_many(rows), estimator.predict_joint_log_proba(codes), rtol=1e-12
        )
        np.testing.assert_allclose(model.predict_proba_many(rows), estimator.predict_proba(codes), rtol=1e-11)


@ways
def test_categorical_on_random_rows(learned: Learned) -> None:
    random = np.random.default_rng(7)
    y = random.integers(0, 3, size=200).tolist()
    X = ((random.integers(0, 4, size=(200, 5)) + np.array(y)[:, None]) % 5).astype(float)
    model, estimator = learned(Config("categorical"), X, y), sk.CategoricalNB().fit(X, y)
    np.testing.assert_allclose(model.joint_log_likelihood_many(X), estimator.predict_joint_log_proba(X), rtol=1e-12)
