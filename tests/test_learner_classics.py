"""The worked examples of the textbooks, with the figures that they print."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from datasets import htru2, iris, news, taught, titanic
from sklearn import naive_bayes as sk
from streams import Config


def learned(kind: str, xs: Any, ys: Any, **options: Any) -> Any:
    model = Config(kind, options).build()
    for x, y in zip(xs, ys, strict=True):
        model.learn_one(x, y)
    return model


def accuracy(model: Any, xs: Any, ys: Any) -> float:
    return sum(model.predict_one(x) == y for x, y in zip(xs, ys, strict=True)) / len(ys)


def scores(model: Any, x: Any) -> dict[Any, float]:
    return {label: math.exp(log) for label, log in model.joint_log_likelihood_one(x).items()}


def test_four_documents_about_china() -> None:
    X = np.array([[2, 1, 0, 0, 0, 0], [2, 0, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 1]])
    model = Config("multinomial").build()
    model.learn_many(X, [1, 1, 1, 0])
    assert model.joint_log_likelihood_one({}) == pytest.approx({0: -1.386294, 1: -0.287682}, abs=5e-7)
    assert model.predict_many(np.array([[3, 0, 0, 0, 1, 1], [0, 1, 1, 0, 1, 1]])).tolist() == [1, 0]
    got = scores(model, {0: 3, 4: 1, 5: 1})
    assert got == pytest.approx({1: 3 / 4 * (3 / 7) ** 3 / 14**2, 0: 1 / 4 * (2 / 9) ** 5}, rel=1e-12)


def test_iris_with_priors_and_no_smoothing() -> None:
    X, y = iris()
    priors = {"setosa": 0.1, "versicolor": 0.2, "virginica": 0.7}
    model = Config("gaussian", {"priors": priors, "var_smoothing": 0.0}).build()
    model.learn_many(X, y)
    assert round(float(np.mean(model.predict_many(X) == np.array(y))), 6) == 0.953333
    estimator = sk.GaussianNB(priors=[0.1, 0.2, 0.7], var_smoothing=0.0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba_many(X), estimator.predict_proba(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize(("names", "right"), [(("pclass", "female"), 701), (("pclass", "female", "age"), 703)])
def test_who_survived_the_titanic(ddof: int, names: tuple[str, ...], right: int) -> None:
    xs, ys = titanic()
    rows = [{name: x[name] for name in names} for x in xs]
    model = learned("gaussian", rows, ys, ddof=ddof)
    assert round(accuracy(model, rows, ys), 10) == round(right / 891, 10)


def test_the_titanic_figure_is_the_one_printed() -> None:
    assert round(701 / 891, 10) == 0.7867564534


GOLF = {
    ("outlook", "overcast"): {"yes": 4 / 9, "no": 0.0},
    ("outlook", "rainy"): {"yes": 3 / 9, "no": 2 / 5},
    ("outlook", "sunny"): {"yes": 2 / 9, "no": 3 / 5},
    ("temperature", "hot"): {"yes": 2 / 9, "no": 2 / 5},
    ("temperature", "mild"): {"yes": 4 / 9, "no": 2 / 5},
    ("temperature", "cool"): {"yes": 3 / 9, "no": 1 / 5},
    ("humidity", "high"): {"yes": 3 / 9, "no": 4 / 5},
    ("humidity", "normal"): {"yes": 6 / 9, "no": 1 / 5},
    ("windy", "true"): {"yes": 3 / 9, "no": 3 / 5},
    ("windy", "false"): {"yes": 6 / 9, "no": 2 / 5},
}


def test_fourteen_days_of_golf() -> None:
    xs, ys = taught("golf")
    model = learned("categorical", xs, ys, alpha=0.0)
    assert scores(model, {}) == pytest.approx({"no": 0.357143, "yes": 0.642857}, abs=5e-7)
    assert round(accuracy(model, xs, ys), 6) == 0.928571
    assert [i for i, (x, y) in enumerate(zip(xs, ys, strict=True)) if model.predict_one(x) != y] == [5]


@pytest.mark.parametrize(("feature", "category"), GOLF)
def test_the_likelihoods_of_golf(feature: str, category: str) -> None:
    xs, ys = taught("golf")
    model = learned("categorical", xs, ys, alpha=0.0)
    prior, both = {"no": 5 / 14, "yes": 9 / 14}, scores(model, {feature: category})
    due = GOLF[feature, category]
    assert {y: p / prior[y] for y, p in both.items()} == pytest.approx(due, rel=1e-12)


def test_half_of_the_golf_days_were_humid() -> None:
    xs, ys = taught("golf")
    both = scores(learned("categorical", xs, ys, alpha=0.0), {"humidity": "high"})
    assert math.isclose(sum(both.values()), 0.5, rel_tol=1e-12)


def test_ten_loans_without_smoothing_are_declined() -> None:
    xs, ys = taught("loan-alpha-zero")
    query = {"job": "true", "deposit": "high", "family": "children"}
    model = learned("categorical", xs, ys, alpha=0.0)
    assert scores(model, query) == pytest.approx({"Decline": 0.016, "Approve": 0.0}, abs=1e-15)
    assert model.predict_one(query) == "Decline"


def test_ten_loans_with_add_one_smoothing_are_approved() -> None:
    xs, ys = taught("loan-add-one")
    query = {"job": "true", "deposit": "high", "family": "children"}
    model = learned("categorical", xs, ys, alpha=1.0, smooth_priors=True)
    assert scores(model, {}) == pytest.approx({"Decline": 6 / 12, "Approve": 6 / 12})
    assert scores(model, query) == pytest.approx({"Decline": 0.0230, "Approve": 0.0255}, abs=5e-5)
    assert model.predict_one(query) == "Approve"


def test_pulsars() -> None:
    X, y = htru2()
    model = Config("gaussian").build()
    model.learn_many(X, y)
    assert round(float(np.mean(model.predict_many(X) == np.array(y))), 6) == 0.945245


NEWS = [
    *[("multinomial", {"alpha": a}, n) for a, n in zip((1.0, 0.1, 0.01, 0.001), (459, 577, 582, 565), strict=True)],
    *[("bernoulli", {"alpha": a}, n) for a, n in zip((1.0, 0.1, 0.01, 0.001), (329, 463, 517, 520), strict=True)],
    *[("complement", {"alpha": a}, n) for a, n in zip((1.0, 0.1, 0.01, 0.001), (561, 548, 533, 522), strict=True)],
    ("multinomial", {"alpha": 0.01, "weighting": "log1p"}, 570),
    ("multinomial", {"alpha": 0.01, "weighting": "tfidf"}, 570),
]


@pytest.mark.parametrize(("kind", "options", "right"), NEWS, ids=lambda value: str(value).replace(" ", ""))
def test_postings_to_twenty_news_groups(kind: str, options: dict[str, Any], right: int) -> None:
    (X, y), (T, groups) = news("train"), news("test")
    model = Config(kind, options | ({"priors": "uniform"} if kind == "complement" else {})).build()
    model.learn_many(X, y)
    assert int((model.predict_many(T) == np.array(groups)).sum()) == right


def test_a_rare_illness_and_a_good_test() -> None:
    model = Config("categorical", {"alpha": 0.0, "priors": {"ill": 0.0001, "well": 0.9999}}).build()
    for test, y, w in (("+", "ill", 99.0), ("-", "ill", 1.0), ("+", "well", 1.0), ("-", "well", 99.0)):
        model.learn_one({"test": test}, y, w)
    assert math.isclose(model.predict_proba_one({"test": "+"})["ill"], 0.000099 / 0.010098, rel_tol=1e-12)
    assert model.predict_one({"test": "+"}) == "well"
