"""A batch is its rows one by one, bit for bit: array, sparse matrix, pandas or polars frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from scipy.sparse import csr_matrix
from streams import CONFIGS, Config, configs_of, law

LABELS = ["a", "b", "c"]
CELLS: dict[str, SearchStrategy[Any]] = {
    "gaussian": st.integers(-64, 64).map(lambda i: i / 8 + 1e9),
    "multinomial": st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.5, 7.0]),
    "complement": st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.5, 7.0]),
    "bernoulli": st.sampled_from([0.0, 0.0, 1.0, 2.0]),
    "categorical": st.sampled_from([0.0, 1.0, 2.5, -3.0]),
}
numeric = pytest.mark.parametrize("config", [c for c in CONFIGS if c.kind in CELLS], ids=lambda config: config.name)


@st.composite
def tables(draw: Any, config: Config) -> tuple[np.ndarray[Any, Any], list[str], Any, Any]:
    """X (n, 3), y, w and t. A weighted word that no document has would have no weight: tf-idf gets none."""
    n = draw(st.integers(0, 8))
    cells = CELLS[config.kind]
    if config.options.get("weighting") == "tfidf":
        cells = cells.filter(bool)
    rows = draw(st.lists(st.lists(cells, min_size=3, max_size=3), min_size=n, max_size=n))
    y = draw(st.lists(st.sampled_from(LABELS), min_size=n, max_size=n))
    w = draw(st.none() | st.lists(st.sampled_from([0.0, 1.0, 2.0, 0.25]), min_size=n, max_size=n))
    t = draw(st.lists(st.sampled_from([0.0, 3.0, 8.0, 20.0]), min_size=n, max_size=n)) if config.forgets else None
    return np.array(rows, dtype=float).reshape(n, 3), y, w, t


def as_pandas(X: np.ndarray[Any, Any]) -> pd.DataFrame:
    return pd.DataFrame(X, columns=["0", "1", "2"])


def as_polars(X: np.ndarray[Any, Any]) -> pl.DataFrame:
    return pl.DataFrame(X, schema=["0", "1", "2"])


FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[int], Any]]] = {
    "numpy": (lambda X: X, int),
    "fortran": (np.asfortranarray, int),
    "csr": (csr_matrix, int),
    "pandas": (as_pandas, str),
    "polars": (as_polars, str),
}


forms = pytest.mark.parametrize(
    ("kind", "form"),
    [(kind, form) for kind in CELLS for form in FORMS if form != "csr" or kind not in ("gaussian", "categorical")],
)


def looped(config: Config, form: str, table: Any) -> tuple[Any, list[Any], list[dict[str, float]]]:
    """The model and the answers of predicting and learning each row as a mapping."""
    X, y, w, t = table
    model, best, proba = config.build(), [], []
    for i, row in enumerate(X.tolist()):
        x = {FORMS[form][1](name): value for name, value in enumerate(row)}
        best.append(model.predict_one(x))
        proba.append(model.predict_proba_one(x))
        model.learn_one(x, y[i], 1.0 if w is None else w[i], None if t is None else t[i])
    return model, best, proba


def rows_of(answer: Any) -> list[Any]:
    """A series, frame or array as plain rows; pandas says NaN for a label that is missing."""
    if isinstance(answer, pd.Series):
        return [None if label != label else label for label in answer.tolist()]
    if isinstance(answer, pl.DataFrame):
        return [list(row) for row in answer.rows()]
    if isinstance(answer, pl.Series):
        return answer.to_list()
    return np.asarray(answer).tolist()


@forms
@given(data=st.data())
@law
def test_learning_a_batch_is_learning_its_rows(kind: str, form: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    table = data.draw(tables(config))
    X, y, w, t = table
    model, (loop, _, _) = config.build(), looped(config, form, table)
    cut = data.draw(st.integers(0, len(y)))
    for part in (slice(None, cut), slice(cut, None)):
        model.learn_many(
            FORMS[form][0](X[part]),
            y[part],
            w=None if w is None else w[part],
            t=None if t is None else t[part],
        )
    assert model.to_bytes() == loop.to_bytes()


@forms
@given(data=st.data())
@law
def test_predicting_a_batch_is_predicting_its_rows(kind: str, form: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    X, y, w, t = data.draw(tables(config))
    make, name = FORMS[form]
    model = config.build()
    model.learn_many(make(X), y, w=w, t=t)
    before = model.to_bytes()
    xs = [{name(i): value for i, value in enumerate(row)} for row in X.tolist()]
    labels, proba = model.predict_many(make(X)), model.predict_proba_many(make(X))
    joint = model.joint_log_likelihood_many(make(X))
    assert rows_of(labels) == [model.predict_one(x) for x in xs]
    assert rows_of(proba) == [list(model.predict_proba_one(x).values()) for x in xs]
    assert rows_of(joint) == [list(model.joint_log_likelihood_one(x).values()) for x in xs]
    assert model.to_bytes() == before


@forms
@given(data=st.data())
@law
def test_test_then_train_is_the_loop_of_both(kind: str, form: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    table = data.draw(tables(config))
    X, y, w, t = table
    loop, best, proba = looped(config, form, table)
    model, other = config.build(), config.build()
    assert rows_of(model.predict_learn_many(FORMS[form][0](X), y, w=w, t=t)) == best
    got = rows_of(other.predict_proba_learn_many(FORMS[form][0](X), y, w=w, t=t))
    if loop.classes:  # a frame without columns has no rows
        assert got == [[p.get(label, 0.0) for label in loop.classes] for p in proba]
    assert model.to_bytes() == other.to_bytes() == loop.to_bytes()


@forms
@given(data=st.data())
@law
def test_one_bad_row_refuses_the_whole_batch(kind: str, form: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    X, y, w, t = data.draw(tables(config).filter(lambda table: len(table[1]) > 0))
    bad = X.copy()
    bad[-1, 1] = np.inf
    model = config.build()
    model.learn_many(FORMS[form][0](X), y, w=w, t=t)
    before = model.to_bytes()
    for call in (
        lambda: model.learn_many(FORMS[form][0](bad), y, w=w, t=t),
        lambda: model.predict_learn_many(FORMS[form][0](bad), y, w=w, t=t),
        lambda: model.predict_proba_many(FORMS[form][0](bad)),
        lambda: model.learn_many(FORMS[form][0](X), [*y[:-1], None], w=w, t=t),
        lambda: model.learn_many(FORMS[form][0](X), y, w=[-1.0] * len(y), t=t),
        lambda: model.learn_many(FORMS[form][0](X), [*y, "a"], t=t),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert model.to_bytes() == before


@numeric
def test_a_frame_in_gives_a_frame_out(config: Config) -> None:
    X, y = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]]), ["a", "b"]
    model = config.build()
    frame = as_pandas(X).set_index(pd.Index([10, 20]))
    model.learn_many(frame, pd.Series(y, index=frame.index))
    labels, proba = model.predict_many(frame), model.predict_proba_many(frame)
    assert isinstance(labels, pd.Series)
    assert list(labels.index) == list(proba.index) == [10, 20]
    assert list(proba.columns) == list(model.classes)
    assert isinstance(model.predict_many(as_polars(X)), pl.Series)
    assert list(model.predict_proba_many(as_polars(X)).columns) == list(model.classes)


def test_a_missing_value_of_a_frame_is_missing() -> None:
    model, loop = Config("gaussian").build(), Config("gaussian").build()
    model.learn_many(pd.DataFrame({"u": [1.0, None, 4.0], "v": [2.0, 3.0, np.nan]}), ["a", "a", "b"])
    model.learn_many(pl.DataFrame({"u": [1.5, None], "v": [None, 3.0]}), ["a", "b"])
    rows = [
        ({"u": 1.0, "v": 2.0}, "a"),
        ({"v": 3.0}, "a"),
        ({"u": 4.0}, "b"),
        ({"u": 1.5}, "a"),
        ({"v": 3.0}, "b"),
    ]
    for x, y in rows:
        loop.learn_one(x, y)
    assert model.to_bytes() == loop.to_bytes()


def test_a_mixed_frame_is_its_rows() -> None:
    features = {"n": "gaussian", "c": "categorical", "s": "text"}
    model, loop = (Config("mixed", {"features": features}).build() for _ in range(2))
    table: dict[str, list[Any]] = {"n": [1.0, 2.5, 3.0], "c": ["u", None, "v"], "s": ["red apple", "green", "red"]}
    labels = ["a", "b", "a"]
    model.learn_many(pd.DataFrame(table), labels)
    model.learn_many(pl.DataFrame(table), labels)
    for _ in range(2):
        for i, label in enumerate(labels):
            loop.learn_one({name: column[i] for name, column in table.items()}, label)
    assert model.to_bytes() == loop.to_bytes()


@pytest.mark.parametrize("form", ["csr", "wider"])
def test_a_sparse_row_presents_all_its_columns(form: str) -> None:
    model, dense = Config("multinomial").build(), Config("multinomial").build()
    X = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    model.learn_many(csr_matrix(X), ["a", "b"])
    dense.learn_many(X, ["a", "b"])
    if form == "wider":
        wide = np.array([[0.0, 0.0, 0.0, 0.0, 5.0]])
        model.learn_many(csr_matrix(wide), ["a"])
        dense.learn_many(wide, ["a"])
    assert model.to_bytes() == dense.to_bytes()
    assert list(model.features) == list(dense.features) == list(range(X.shape[1] if form == "csr" else 5))


def test_stored_zeros_and_unsorted_indices_change_nothing() -> None:
    tidy = csr_matrix(np.array([[1.0, 0.0, 3.0]]))
    untidy = csr_matrix((np.array([3.0, 0.0, 1.0]), np.array([2, 1, 0]), np.array([0, 3])), shape=(1, 3))
    models = [Config("multinomial").build() for _ in range(2)]
    for model, X in zip(models, (tidy, untidy), strict=True):
        model.learn_many(X, ["a"])
        model.learn_many(X, ["b"])
    assert models[0].to_bytes() == models[1].to_bytes()
    assert untidy.indices.tolist() == [2, 1, 0]


def test_a_sparse_row_stored_twice_in_a_cell_is_their_sum_or_refused() -> None:
    doubled = csr_matrix((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    model, summed = Config("multinomial").build(), Config("multinomial").build()
    summed.learn_one({0: 3.0}, "a")
    try:
        model.learn_many(doubled, ["a"])
    except ValueError:
        summed = Config("multinomial").build()
    assert model.to_bytes() == summed.to_bytes()


@pytest.mark.parametrize("kind", ["gaussian", "categorical"])
def test_a_sparse_matrix_is_refused_where_zero_is_a_value(kind: str) -> None:
    model = Config(kind).build()
    with pytest.raises((ValueError, TypeError)):
        model.learn_many(csr_matrix(np.eye(2)), ["a", "b"])


def test_a_negative_threshold_is_refused_for_a_sparse_matrix() -> None:
    model = Config("bernoulli", {"binarize": -0.5}).build()
    with pytest.raises((ValueError, TypeError)):
        model.learn_many(csr_matrix(np.eye(2)), ["a", "b"])
    model.learn_one({"x": 0}, "a")
    assert model.predict_proba_one({"x": 0, "y": None}) == {"a": 1.0}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int64", "uint16"])
@pytest.mark.parametrize("kind", ["gaussian", "multinomial", "complement", "bernoulli", "categorical"])
def test_every_numeric_type_of_array_is_taken(kind: str, dtype: str) -> None:
    X = np.array([[1, 0, 200 if dtype != "int8" else 100], [3, 2, 1]])
    model, plain = Config(kind).build(), Config(kind).build()
    model.learn_many(X.astype(dtype), np.array([1, 2]))
    plain.learn_many(X.astype(float), [1, 2])
    assert model.to_bytes() == plain.to_bytes()
