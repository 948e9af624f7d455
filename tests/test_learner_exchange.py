"""Models become fitted scikit-learn estimators and come back: same answers, same state, clear refusals."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from datasets import htru2, iris, news, taught, titanic
from hypothesis import given
from hypothesis import strategies as st
from sklearn import naive_bayes as sk
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, StandardScaler
from streams import law

import streamnb
from streamnb.learners.model import Model

Pair = tuple[Any, Any, Any, Any]  # a model, the fit of the same rows, the rows and their labels
FITTED = {
    "class_count_",
    "class_prior_",
    "epsilon_",
    "theta_",
    "var_",
    "class_log_prior_",
    "feature_count_",
    "feature_log_prob_",
    "feature_all_",
    "category_count_",
    "n_categories_",
    "n_features_in_",
    "classes_",
    "feature_names_in_",
}


def iris_pair() -> Pair:
    X, y = iris()
    return streamnb.GaussianNB(), sk.GaussianNB(), X, y


def pulsars_pair() -> Pair:
    X, y = htru2()
    return streamnb.GaussianNB(var_smoothing=1e-6), sk.GaussianNB(var_smoothing=1e-6), X[::30], y[::30]


def titanic_pair() -> Pair:
    events, y = titanic()
    X = pd.DataFrame(events)[["age", "female", "pclass"]].fillna({"age": 30.0})
    return streamnb.GaussianNB(priors="uniform"), sk.GaussianNB(priors=[0.5, 0.5]), X, y


def _news(model: Any, estimator: Any) -> Pair:
    X, y = news("train")
    X = X[:300, :2000]
    return model, estimator, X[:, X.getnnz(axis=0) > 0], y[:300]


def multinomial_pair() -> Pair:
    return _news(streamnb.MultinomialNB(alpha=0.01), sk.MultinomialNB(alpha=0.01))


def complement_pair() -> Pair:
    return _news(streamnb.ComplementNB(priors="uniform"), sk.ComplementNB(fit_prior=False))


def normed_pair() -> Pair:
    return _news(streamnb.ComplementNB(norm=True, priors="uniform"), sk.ComplementNB(norm=True, fit_prior=False))


def bernoulli_pair() -> Pair:
    model, estimator = streamnb.BernoulliNB(binarize=1.0, priors="uniform"), sk.BernoulliNB(binarize=1, fit_prior=False)
    return _news(model, estimator)


def golf_pair() -> Pair:
    xs, y = taught("golf")
    estimator = make_pipeline(OrdinalEncoder(), sk.CategoricalNB(alpha=0.5))
    return streamnb.CategoricalNB(alpha=0.5), estimator, pd.DataFrame(xs)[sorted(xs[0])], y


PAIRS = [
    iris_pair,
    pulsars_pair,
    titanic_pair,
    multinomial_pair,
    complement_pair,
    normed_pair,
    bernoulli_pair,
    golf_pair,
]
every_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.__name__.removesuffix("_pair"))


def last(estimator: Any) -> Any:
    return estimator[-1] if hasattr(estimator, "steps") else estimator


def assert_same_attributes(found: Any, due: Any, rtol: float = 1e-12) -> None:
    """Every fitted attribute of the one is in the other, with the same value and type."""
    found, due = last(found), last(due)
    assert type(found) is type(due)
    names = {name for name in vars(due) if name.endswith("_")}
    assert names <= FITTED
    assert {name for name in vars(found) if name.endswith("_")} == names
    for name in names:
        one, other = getattr(found, name), getattr(due, name)
        for a, b in zip(one, other, strict=True) if isinstance(other, list) else [(one, other)]:
            a, b = np.asarray(a), np.asarray(b)
            assert (a.shape, a.dtype.kind) == (b.shape, b.dtype.kind), name
            if b.dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-15, err_msg=name)
            else:
                assert a.tolist() == b.tolist(), name


def assert_same_answers(model: Any, estimator: Any, X: Any) -> None:
    """The posteriors to 1e-12 times the largest joint, their logarithms, and the label where it is sure."""
    joint = estimator.predict_joint_log_proba(X) if hasattr(estimator, "predict_joint_log_proba") else None
    scale = 1.0 if joint is None else max(1.0, float(np.abs(joint[np.isfinite(joint)]).max()))
    ours, theirs = np.asarray(model.predict_proba_many(X)), estimator.predict_proba(X)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-12 * scale)
    with np.errstate(divide="ignore"):
        likely = theirs > 1e-3
        np.testing.assert_allclose(np.log(ours)[likely], estimator.predict_log_proba(X)[likely], atol=1e-9 * scale)
    top = np.sort(theirs, axis=1)
    sure = top[:, -1] - (top[:, -2] if top.shape[1] > 1 else 0) > 1e-9
    assert (np.asarray(model.predict_many(X)) == estimator.predict(X))[sure].all()


@every_pair
def test_a_learned_model_becomes_the_estimator_fitted_to_the_same_rows(pair: Any) -> None:
    model, estimator, X, y = pair()
    model.learn_many(X, y)
    exported = model.to_sklearn()
    assert_same_attributes(exported, estimator.fit(X, y))
    assert_same_answers(model, exported, X)


@every_pair
def test_a_fitted_estimator_becomes_the_model_of_the_same_rows(pair: Any) -> None:
    model, estimator, X, y = pair()
    back = type(model).from_sklearn(estimator.fit(X, y))
    model.learn_many(X, y)
    assert_same_answers(back, estimator, X)
    assert (back.classes, back.features, back.n_events) == (model.classes, model.features, model.n_events)
    assert back.class_count == model.class_count
    assert_same_attributes(back.to_sklearn(), estimator, rtol=1e-7 if model.kind == "gaussian" else 1e-12)


@every_pair
def test_a_model_from_an_estimator_goes_on_learning_to_the_whole_fit(pair: Any) -> None:
    model, estimator, X, y = pair()
    half = len(y) // 2 if model.kind != "categorical" else 10
    rows = np.random.default_rng(5).permutation(len(y))
    X, y = (X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]), [y[i] for i in rows]
    back = type(model).from_sklearn(estimator.fit(X[:half], y[:half]))
    back.learn_many(X[half:], y[half:])
    model.learn_many(X, y)
    np.testing.assert_allclose(
        np.asarray(back.predict_proba_many(X)), np.asarray(model.predict_proba_many(X)), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("pair", [multinomial_pair, complement_pair, normed_pair, bernoulli_pair])
def test_an_exported_estimator_goes_on_learning_what_the_model_would(pair: Any) -> None:
    model, _, X, y = pair()
    model.learn_many(X[::2], y[::2])
    exported = model.to_sklearn().partial_fit(X[1::2], y[1::2])
    model.learn_many(X[1::2], y[1::2])
    assert_same_attributes(exported, model.to_sklearn())


def test_an_exported_gaussian_goes_on_learning_means_and_weights() -> None:
    model, _, X, y = iris_pair()
    model.learn_many(X[::2], y[::2])
    exported = model.to_sklearn().partial_fit(X[1::2], y[1::2])
    model.learn_many(X[1::2], y[1::2])
    whole = model.to_sklearn()
    np.testing.assert_allclose(exported.theta_, whole.theta_, rtol=1e-12)
    np.testing.assert_allclose(exported.class_prior_, whole.class_prior_, rtol=1e-15)
    np.testing.assert_allclose(exported.var_, whole.var_, rtol=1e-7)  # scikit-learn's epsilon is the last batch's


# --- laws ---------------------------------------------------------------------------------------------------

TABLES = st.integers(1, 5).flatmap(
    lambda width: st.lists(
        st.tuples(st.lists(st.integers(0, 4), min_size=width, max_size=width), st.sampled_from(["a", "b", "c"])),
        min_size=2,
        max_size=20,
    )
)
PRIORS = st.sampled_from(["empirical", "uniform", {"a": 0.5, "b": 0.25, "c": 0.25, "never": 0.0}])
DECLARED = st.sampled_from([None, ["a", "never"]])
ALPHAS = st.sampled_from([1.0, 0.25, 1e-3, 10.0])


def taught_rows(model: Any, rows: list[Any]) -> np.ndarray[Any, Any]:
    X = np.array([x for x, _ in rows], dtype=float)
    model.learn_many(X, [label for _, label in rows], w=np.arange(1, len(rows) + 1) / 2)
    return X


def options_of(kind: str, priors: Any, classes: Any, alpha: float, smooth: bool) -> dict[str, Any]:
    if kind == "complement":
        priors = "uniform"
    options = {"priors": priors, "classes": classes if isinstance(priors, str) else None}
    return options if kind == "gaussian" else {**options, "alpha": alpha, "smooth_priors": smooth}


@pytest.mark.parametrize("kind", ["gaussian", "multinomial", "complement", "bernoulli", "categorical"])
@law
@given(rows=TABLES, priors=PRIORS, classes=DECLARED, alpha=ALPHAS, smooth=st.booleans())
def test_an_exported_estimator_answers_the_same(
    kind: str, rows: list[Any], priors: Any, classes: Any, alpha: float, smooth: bool
) -> None:
    model = streamnb.learners.build(kind, **options_of(kind, priors, classes, alpha, smooth))
    X = taught_rows(model, rows)
    if kind == "gaussian" and not X.var(axis=0).any():
        with pytest.raises(ValueError, match="variance 0"):
            model.to_sklearn()
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "divide by zero encountered in log")  # a prior of 0 is one to scikit-learn
        assert_same_answers(model, model.to_sklearn(), X)


@pytest.mark.parametrize("kind", ["gaussian", "multinomial", "complement", "bernoulli", "categorical"])
@law
@given(rows=TABLES, priors=PRIORS, classes=DECLARED, alpha=ALPHAS)
def test_there_and_back_is_the_same_model(kind: str, rows: list[Any], priors: Any, classes: Any, alpha: float) -> None:
    model = streamnb.learners.build(kind, **options_of(kind, priors, classes, alpha, smooth=False))
    X = taught_rows(model, rows)
    if kind == "gaussian" and not X.var(axis=0).any():
        return
    back = Model.from_sklearn(model.to_sklearn())
    assert type(back) is type(model)
    assert (back.classes, back.class_count, back.features) == (model.classes, model.class_count, model.features)
    joint, due = back.joint_log_likelihood_many(X), model.joint_log_likelihood_many(X)
    np.testing.assert_allclose(joint, due, rtol=1e-5 if kind == "gaussian" else 1e-12, atol=1e-12)


# --- what the columns, labels and priors become --------------------------------------------------------------


def test_columns_come_in_the_order_of_the_features() -> None:
    model = streamnb.GaussianNB()
    for x, y in [({"b": 1.0, "a": 10.0}, "u"), ({"b": 3.0, "a": 30.0}, "u"), ({"b": 5.0, "a": 10.0}, "v")]:
        model.learn_one(x, y)
    exported = model.to_sklearn()
    assert exported.feature_names_in_.tolist() == ["a", "b"] == model.features
    assert exported.theta_[0].tolist() == [20.0, 2.0]


def test_columns_without_names_of_their_own_have_none() -> None:
    model = streamnb.MultinomialNB()
    model.learn_one({("a", "b"): 1, "c": 2, 7: 1}, "u")
    exported = model.to_sklearn()
    assert not hasattr(exported, "feature_names_in_")
    assert exported.n_features_in_ == 3


@pytest.mark.parametrize("labels", [["x", "y"], [3, -1], [False, True]])
def test_labels_of_each_type_go_there_and_come_back(labels: list[Any]) -> None:
    model = streamnb.BernoulliNB()
    model.learn_many(np.eye(2), labels)
    exported = model.to_sklearn()
    assert exported.predict(np.eye(2)).tolist() == labels
    back = streamnb.BernoulliNB.from_sklearn(exported)
    assert [(type(label), label) for label in back.classes] == [(type(label), label) for label in sorted(labels)]


def test_a_class_declared_and_never_seen_is_known_on_both_sides() -> None:
    model = streamnb.GaussianNB(classes=["never", "u", "v"], priors="uniform")
    model.learn_many(np.array([[1.0, 2.0], [3.0, 5.0], [2.0, 2.0], [0.0, 1.0]]), ["u", "u", "v", "v"])
    exported, X = model.to_sklearn(), np.array([[1.0, 2.5]])
    np.testing.assert_allclose(exported.predict_proba(X), model.predict_proba_many(X), rtol=1e-12)
    assert exported.class_count_.tolist() == [0, 2, 2]
    assert streamnb.GaussianNB.from_sklearn(exported).class_count == {"never": 0.0, "u": 2.0, "v": 2.0}
    exported.partial_fit([[7.0, 7.0], [7.0, 9.0]], ["never", "never"])
    assert exported.theta_[0].tolist() == [7.0, 8.0]


def test_smoothed_priors_go_as_they_are_now() -> None:
    model = streamnb.BernoulliNB(alpha=2.0, smooth_priors=True)
    model.learn_many(np.eye(4), ["u", "v", "v", "v"])
    exported = model.to_sklearn()
    np.testing.assert_allclose(exported.class_prior, [3 / 8, 5 / 8])
    np.testing.assert_allclose(exported.predict_proba(np.eye(4)), model.predict_proba_many(np.eye(4)), rtol=1e-12)


def test_priors_of_an_estimator_that_do_not_sum_to_one_are_scaled() -> None:
    estimator = sk.MultinomialNB(class_prior=[0.2, 0.6]).fit(np.eye(2), ["u", "v"])
    model = streamnb.MultinomialNB.from_sklearn(estimator)
    assert model.options["priors"] == pytest.approx({"u": 0.25, "v": 0.75})
    np.testing.assert_allclose(model.predict_proba_many(np.eye(2)), estimator.predict_proba(np.eye(2)), rtol=1e-12)


def test_missing_values_leave_the_answers_to_whole_rows_the_same() -> None:
    events, y = titanic()
    model = streamnb.GaussianNB()
    for x, label in zip(events, y, strict=True):
        model.learn_one(x, label)
    whole = np.array([[x["age"], x["female"], x["pclass"]] for x in events if x["age"] is not None])
    frame = pd.DataFrame(whole, columns=["age", "female", "pclass"])
    assert_same_answers(model, model.to_sklearn(), frame)


def test_missing_categories_leave_the_answers_to_whole_rows_the_same() -> None:
    xs, y = taught("golf")
    model = streamnb.CategoricalNB()
    for i, (x, label) in enumerate(zip(xs, y, strict=True)):
        model.learn_one({name: value for j, (name, value) in enumerate(x.items()) if (i + j) % 4}, label)
    frame = pd.DataFrame(xs)[model.features]
    np.testing.assert_allclose(model.to_sklearn().predict_proba(frame), model.predict_proba_many(frame), rtol=1e-12)


def test_log1p_becomes_a_pipeline() -> None:
    model, _, X, y = _news(streamnb.MultinomialNB(weighting="log1p"), None)
    model.learn_many(X, y)
    exported = model.to_sklearn()
    assert exported.n_features_in_ == X.shape[1]
    for rows in (X, X.toarray()):
        np.testing.assert_allclose(exported.predict_proba(rows), model.predict_proba_many(rows), atol=1e-9)


def test_ddof_goes_into_the_variances() -> None:
    X, y = iris()
    model = streamnb.GaussianNB(ddof=1)
    model.learn_many(X, y)
    exported = model.to_sklearn()
    np.testing.assert_allclose(exported.var_[0], X[:50].var(axis=0, ddof=1) + exported.epsilon_, rtol=1e-12)
    assert_same_answers(model, exported, X)


def test_categories_of_every_type_go_there_and_come_back() -> None:
    rows = [{"n": 1, "s": "1", "b": True}, {"n": 2.5, "s": "2", "b": False}]
    model = streamnb.CategoricalNB()
    for x, label in zip(rows, "uv", strict=True):
        model.learn_one(x, label)
    table = pd.DataFrame(rows)[model.features]
    exported = model.to_sklearn()
    np.testing.assert_allclose(exported.predict_proba(table), [list(model.predict_proba_one(x).values()) for x in rows])
    back = streamnb.CategoricalNB.from_sklearn(exported)
    assert [line.value for line in back.likelihood_table()] == [line.value for line in model.likelihood_table()]
    assert [back.predict_proba_one(x) for x in rows] == [model.predict_proba_one(x) for x in rows]


def test_a_code_that_never_came_is_a_category_where_scikit_learn_says_so() -> None:
    X, y = np.array([[0], [3], [3]]), ["u", "u", "v"]
    estimator = sk.CategoricalNB(min_categories=6).fit(X, y)
    model = streamnb.CategoricalNB.from_sklearn(estimator)
    codes = np.arange(6)[:, None]
    np.testing.assert_allclose(model.predict_proba_many(codes), estimator.predict_proba(codes), rtol=1e-12)
    again = streamnb.CategoricalNB.from_bytes(model.to_bytes())
    assert (again.predict_proba_many(codes) == model.predict_proba_many(codes)).all()


def test_an_unforced_alpha_comes_back_as_it_was_used() -> None:
    with pytest.warns(UserWarning, match="alpha too small"):
        estimator = sk.MultinomialNB(alpha=0.0, force_alpha=False).fit(np.eye(2), ["u", "v"])
    assert streamnb.MultinomialNB.from_sklearn(estimator).alpha == 1e-10


def test_sample_weights_come_back_as_they_were_summed() -> None:
    estimator = sk.BernoulliNB().fit(np.eye(3), ["u", "v", "v"], sample_weight=[0.25, 1.5, 2.0])
    model = streamnb.BernoulliNB.from_sklearn(estimator)
    assert model.class_count == {"u": 0.25, "v": 3.5}
    np.testing.assert_allclose(model.predict_proba_many(np.eye(3)), estimator.predict_proba(np.eye(3)), rtol=1e-12)


# --- refusals -----------------------------------------------------------------------------------------------


def two_events(model: Any, labels: Any = ("u", "v")) -> Any:
    for x, label in zip([{"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 0.0}], labels, strict=True):
        model.learn_one(x, label)
    return model


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (streamnb.MixedNB(), "no counterpart"),
        (streamnb.GaussianNB(half_life=5.0), "never forget"),
        (streamnb.MultinomialNB(weighting="tfidf"), "tfidf"),
        (streamnb.MultinomialNB(unseen="smooth"), "never learned"),
        (streamnb.CategoricalNB(unseen="smooth"), "never learned"),
        (streamnb.ComplementNB(), 'priors="uniform"'),
        (streamnb.BernoulliNB(binarize=-1.0), "threshold"),
    ],
    ids=repr,
)
def test_options_that_scikit_learn_has_not_are_refused_by_name(model: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        two_events(model).to_sklearn()


@pytest.mark.parametrize("labels", [("u", 1), (True, 2), ("u", "v\0"), (1, 2**70)])
def test_labels_that_no_array_holds_are_refused(labels: Any) -> None:
    with pytest.raises(TypeError, match="labels"):
        two_events(streamnb.GaussianNB(), labels).to_sklearn()


@pytest.mark.parametrize("kind", ["multinomial", "bernoulli", "categorical"])
def test_a_probability_of_zero_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="probability 0"):
        two_events(streamnb.learners.build(kind, alpha=0.0)).to_sklearn()


def test_alpha_zero_is_no_reason_to_refuse_where_nothing_is_impossible() -> None:
    model = streamnb.MultinomialNB(alpha=0.0)
    model.learn_many(np.array([[1, 2], [3, 1]]), ["u", "v"])
    assert_same_answers(model, model.to_sklearn(), np.array([[1.0, 0.0], [2.0, 2.0]]))


@pytest.mark.parametrize("model", [streamnb.GaussianNB(), streamnb.BernoulliNB(classes=["u"])], ids=repr)
def test_a_model_without_a_feature_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="no feature"):
        model.to_sklearn()


@pytest.mark.parametrize("other", [1, "1"])
def test_categories_of_several_types_in_one_feature_are_refused(other: Any) -> None:
    model = streamnb.CategoricalNB()
    model.learn_one({"a": True}, "u")
    model.learn_one({"a": other}, "v")
    with pytest.raises(ValueError, match="all of one type"):
        model.to_sklearn()


def fitted_to_three_rows(fitted: Any) -> Any:
    return fitted.fit(np.array([[1.0, 0.0], [0.0, 1.0], [3.0, 1.0]]), ["u", "v", "v"])


@pytest.mark.parametrize(
    ("estimator", "kind", "error"),
    [
        (sk.GaussianNB(), streamnb.BernoulliNB, TypeError),
        (sk.GaussianNB(), streamnb.MixedNB, TypeError),
        (StandardScaler(), streamnb.GaussianNB, TypeError),
        (make_pipeline(StandardScaler(), sk.GaussianNB()), streamnb.GaussianNB, TypeError),
        (sk.MultinomialNB(alpha=[1.0, 2.0]), streamnb.MultinomialNB, TypeError),
        (sk.BernoulliNB(binarize=None), streamnb.BernoulliNB, ValueError),  # it has learned a 3
        (make_pipeline(OrdinalEncoder(max_categories=2), sk.CategoricalNB()), streamnb.CategoricalNB, TypeError),
    ],
    ids=repr,
)
def test_estimators_that_no_model_answers_like_are_refused(estimator: Any, kind: Any, error: Any) -> None:
    with pytest.raises(error):
        kind.from_sklearn(fitted_to_three_rows(estimator))


def test_labels_that_are_no_labels_of_ours_are_refused() -> None:
    with pytest.raises(TypeError, match="label"):
        streamnb.GaussianNB.from_sklearn(sk.GaussianNB().fit(np.eye(2), [0.0, 1.0]))


def test_a_missing_category_is_refused() -> None:
    X = np.array([["x"], [None], ["y"]], object)
    encoder = OrdinalEncoder(encoded_missing_value=2)
    estimator = make_pipeline(encoder, sk.CategoricalNB()).fit(X, ["u", "v", "v"])
    with pytest.raises(TypeError, match="missing"):
        streamnb.CategoricalNB.from_sklearn(estimator)


def test_an_estimator_that_is_not_fitted_is_refused() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        streamnb.GaussianNB.from_sklearn(sk.GaussianNB())


@pytest.mark.parametrize("pair", [iris_pair, multinomial_pair, golf_pair])
def test_a_model_from_an_estimator_unlearns_nothing(pair: Any) -> None:
    model, estimator, X, y = pair()
    back = type(model).from_sklearn(estimator.fit(X, y))
    merged = back + type(model)(**back.options)
    for refusing in (back, merged, type(model).from_bytes(back.to_bytes())):
        with pytest.raises(ValueError, match="scikit-learn"):
            refusing.unlearn_one({}, y[0])


def test_a_model_from_an_estimator_is_not_read_by_tfidf() -> None:
    back = streamnb.MultinomialNB.from_sklearn(sk.MultinomialNB().fit(np.eye(2), ["u", "v"]))
    reader = streamnb.MultinomialNB(weighting="tfidf")
    reader.learn_one({"a": 1}, "u")
    before = reader.to_bytes()
    with pytest.raises(ValueError, match="tfidf"):
        reader.restore(back.to_bytes())
    assert reader.to_bytes() == before


def test_without_scikit_learn_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.naive_bayes", None)
    with pytest.raises(ImportError, match=r"pip install streamnb\[sklearn\]"):
        two_events(streamnb.GaussianNB()).to_sklearn()
