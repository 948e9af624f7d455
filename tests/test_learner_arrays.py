"""Arrays take quick ways of their own, and must come out bit for bit as the same events one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from streams import law

import streamnb

SEEDS = st.integers(0, 10_000)


def one_by_one(model: Any, X: np.ndarray[Any, Any]) -> list[list[float]]:
    return [list(model.joint_log_likelihood_one(dict(enumerate(x))).values()) for x in X.tolist()]


@law
@given(seed=SEEDS, kind=st.sampled_from([np.int64, np.float64, np.float32]), smooth=st.booleans())
def test_arrays_of_categories_are_the_events_of_their_rows(seed: int, kind: Any, smooth: bool) -> None:
    random = np.random.default_rng(seed)
    X = (random.integers(-4, 4, (30, 3)) / (1 if kind is np.int64 else 2)).astype(kind)
    if kind is not np.int64:
        X[random.random(X.shape) < 0.2] = np.nan
    y, w = [f"c{c}" for c in random.integers(0, 3, 30)], random.choice([0.0, 0.5, 1.0], 30)
    arrays, events = (streamnb.CategoricalNB(unseen="smooth" if smooth else "ignore") for _ in range(2))
    arrays.learn_many(X[:10], y[:10], w[:10])
    arrays.predict_proba_learn_many(X[10:], y[10:], w[10:])
    for x, label, weight in zip(X.tolist(), y, w.tolist(), strict=True):
        events.learn_one(dict(enumerate(x)), label, weight)
    assert arrays.to_bytes() == events.to_bytes()
    Z = np.where(random.random(X.shape) < 0.2, 99, X).astype(kind)
    assert np.array_equal(arrays.joint_log_likelihood_many(Z), one_by_one(events, Z))


def test_a_frame_of_whole_numbers_and_floats_keeps_large_whole_numbers_apart() -> None:
    import pandas as pd

    frame = pd.DataFrame({"id": [2**60, 2**60 + 1], "x": [0.5, 1.5]})
    model = streamnb.CategoricalNB()
    model.learn_many(frame, ["u", "v"])
    assert [line.value for line in model.likelihood_table()] == [2**60, 2**60 + 1, 0.5, 1.5]


@law
@given(seed=SEEDS, kind=st.sampled_from(["multinomial", "complement", "bernoulli"]))
def test_columns_find_their_features_whatever_came_between(seed: int, kind: str) -> None:
    """Wider and narrower matrices, columns named in events, events taken back, a saved state."""
    random = np.random.default_rng(seed)
    arrays, events = streamnb.learners.build(kind), streamnb.learners.build(kind)
    for _ in range(8):
        X = random.poisson(0.7, random.integers(1, 8, 2)).astype(float)
        y = [f"c{c}" for c in random.integers(0, 3, len(X))]
        arrays.learn_many(csr_matrix(X), y)
        for x, label in zip(X.tolist(), y, strict=True):
            events.learn_one(dict(enumerate(x)), label)
        extra = {int(random.integers(0, 12)): 1.0, "name": 2.0}
        for model in (arrays, events):
            model.learn_one(extra, "c0")
            if random.random() < 0.5:
                model.unlearn_one(extra, "c0")
                model.learn_one(extra, "c0")
        Z = random.poisson(0.7, (3, int(random.integers(1, 14)))).astype(float)
        np.testing.assert_allclose(arrays.joint_log_likelihood_many(csr_matrix(Z)), one_by_one(events, Z), rtol=1e-12)
    assert arrays.to_bytes() == events.to_bytes()


@law
@given(seed=SEEDS, var_smoothing=st.sampled_from([1e-9, 0.0, 0.1]), ddof=st.integers(0, 1), gaps=st.booleans())
def test_a_gaussian_table_for_rows_alike_gives_the_bits_of_single_rows(
    seed: int, var_smoothing: float, ddof: int, gaps: bool
) -> None:
    random = np.random.default_rng(seed)
    n_features = int(random.integers(1, 40))
    X = random.normal(size=(25, n_features)) * 10.0 ** random.integers(-12, 13, n_features)
    if gaps:
        X[random.random(X.shape) < 0.1] = np.nan
    if seed % 3 == 0:
        X[:, 0] = 7.0
    model = streamnb.GaussianNB(var_smoothing=var_smoothing, ddof=ddof)
    model.learn_many(X, [f"c{c}" for c in random.integers(0, 5, 25)])
    Z = np.concatenate([X[:5] * 1.25, X[5:]])
    assert np.array_equal(model.joint_log_likelihood_many(Z), one_by_one(model, Z))


@law
@given(seed=SEEDS, offset=st.sampled_from([0.0, 1e12, -1e110]), weighted=st.booleans())
def test_a_gaussian_batch_of_rows_alike_is_learned_to_the_bits_of_single_rows(
    seed: int, offset: float, weighted: bool
) -> None:
    random = np.random.default_rng(seed)
    X = random.normal(size=(30, int(random.integers(1, 40)))) * 10.0 ** random.integers(-12, 100) + offset
    y = [f"c{c}" for c in random.integers(0, 4, 30)]
    w = 10.0 ** random.integers(-9, 9, 30) if weighted else np.ones(30)
    batches, events = streamnb.GaussianNB(), streamnb.GaussianNB()
    for part in (slice(0, 11), slice(11, 30)):
        batches.learn_many(X[part], y[part], w=w[part])
    for x, label, weight in zip(X.tolist(), y, w.tolist(), strict=True):
        events.learn_one(dict(enumerate(x)), label, weight)
    assert batches.to_bytes() == events.to_bytes()
    assert batches.predict_proba_one(dict(enumerate(X[0]))) == events.predict_proba_one(dict(enumerate(X[0])))


@pytest.mark.parametrize("kind", ["multinomial", "complement", "bernoulli"])
@pytest.mark.parametrize("alpha", [0.0, 1e-30, 1.0])
def test_factors_too_small_to_multiply_are_summed_as_logarithms(kind: str, alpha: float) -> None:
    random = np.random.default_rng(6)
    X = (random.random((40, 60)) < 0.2).astype(float)
    y = random.integers(0, 4, 40)
    model = streamnb.learners.build(kind, alpha=alpha)
    model.learn_many(X, y, w=10.0 ** random.integers(-9, 9, 40))
    joint = model.joint_log_likelihood_many(X)
    assert np.array_equal(joint, one_by_one(model, X))
    assert np.isfinite(joint).any(axis=1).all()
