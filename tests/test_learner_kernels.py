"""What the compiled loops promise bit for bit, on streams that make every one of their branches run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streamnb.learners import build
from streamnb.learners.kernels.sums import add_pair, fixed, two_square, unfixed

Row = tuple[dict[str, Any], str | None, float, float]


def numbers(random: np.random.Generator) -> dict[str, Any]:
    return {f"f{i}": float(random.normal(1e9 * (i == 3), 10.0**i)) for i in range(6) if random.random() < 0.8}


def counts(random: np.random.Generator) -> dict[str, Any]:
    return {f"f{i}": int(random.poisson(0.6)) for i in range(40) if random.random() < 0.8}


def flags(random: np.random.Generator) -> dict[str, Any]:
    return {f"f{i}": bool(random.random() < i / 20) for i in range(20) if random.random() < 0.9}


def categories(random: np.random.Generator) -> dict[str, Any]:
    values = [1, True, "1", 2.5, "u", None]
    return {f"f{i}": values[random.integers(6)] for i in range(20) if random.random() < 0.8}


def everything(random: np.random.Generator) -> dict[str, Any]:
    words = " ".join(random.choice(["aa", "bb", "cc", "dd", "ee"], 4))
    return {
        **numbers(random),
        "flag": int(random.integers(2)),
        "text": words,
        "list": words.split()[:2],
        "c": words[:2],
    }


MIXED = {"features": {"flag": "bernoulli", "text": {"kind": "text", "ngrams": [1, 2]}, "f5": "categorical"}}
STREAMS = [
    ("gaussian", {}, numbers),
    ("gaussian", {"var_smoothing": 0.0, "ddof": 1}, numbers),
    ("gaussian", {"half_life": 3.0}, numbers),
    ("multinomial", {}, counts),
    ("multinomial", {"alpha": 0.0, "unseen": "smooth"}, counts),
    ("multinomial", {"weighting": "tfidf", "half_life": 3.0}, counts),
    ("multinomial", {"weighting": "log1p", "smooth_priors": True}, counts),
    ("complement", {}, counts),
    ("complement", {"alpha": 0.0}, counts),
    ("complement", {"norm": True, "half_life": 3.0}, counts),
    ("bernoulli", {}, flags),
    ("bernoulli", {"alpha": 0.0}, flags),
    ("bernoulli", {"half_life": 3.0}, flags),
    ("categorical", {}, categories),
    ("categorical", {"alpha": 0.0, "unseen": "smooth", "half_life": 3.0}, categories),
    ("mixed", MIXED, everything),
    ("mixed", {**MIXED, "alpha": 0.0, "var_smoothing": 0.0, "half_life": 3.0}, everything),
]
every_stream = pytest.mark.parametrize(
    ("kind", "options", "event"), STREAMS, ids=lambda v: getattr(v, "__name__", str(v))
)


def stream(event: Any, n_rows: int = 300, whole: bool = False) -> Iterator[Row]:
    random = np.random.default_rng(7)
    for i in range(n_rows):
        label = None if random.random() < 0.2 else str(random.choice(["d", "b", "a", "c"][: 1 + i // 50]))
        weight = 1.0 if whole else float(random.choice([0.0, 0.3, 1.0, 2.0, 1e6]))
        yield event(random), label, weight, i - float(random.integers(0, 40))


def in_batches(model: Any, rows: list[Row], size: int) -> list[np.ndarray]:
    """Test-then-train in batches of this size; the probabilities over the final classes, NaN where not known."""
    answers: list[dict[str, float]] = []
    for start in range(0, len(rows), size):
        batch = model.rows()
        for x, y, w, t in rows[start : start + size]:
            batch.append(x, y, w, t)
        scored = model.predict_learn_rows(batch)
        answers += [dict(zip(scored.labels, row.tolist(), strict=True)) for row in scored.probabilities]
    return [np.array([answer.get(label, math.nan) for label in model.classes]) for answer in answers]


@every_stream
@pytest.mark.parametrize("whole", [True, False])
def test_one_batch_is_bit_for_bit_as_many_batches(kind: str, options: Any, event: Any, whole: bool) -> None:
    rows = list(stream(event, whole=whole))
    together, apart, uneven = (build(kind, **options) for _ in range(3))
    answers = in_batches(together, rows, len(rows))
    np.testing.assert_array_equal(answers, in_batches(apart, rows, 1))
    np.testing.assert_array_equal(answers, in_batches(uneven, rows, 37))
    assert together.to_bytes() == apart.to_bytes() == uneven.to_bytes()


@every_stream
def test_a_restored_model_goes_on_bit_for_bit(kind: str, options: Any, event: Any) -> None:
    rows = list(stream(event))
    model = build(kind, **options)
    in_batches(model, rows[:200], 50)
    restored, copied = build(kind, **options), model.copy()
    restored.restore(model.to_bytes())
    answers = in_batches(model, rows[200:], 100)
    np.testing.assert_array_equal(answers, in_batches(restored, rows[200:], 100))
    np.testing.assert_array_equal(answers, in_batches(copied, rows[200:], 100))
    assert model.to_bytes() == restored.to_bytes() == copied.to_bytes()


@every_stream
def test_internal_slots_decide_nothing(kind: str, options: Any, event: Any) -> None:
    rows = [(x, y, w, t) for x, y, w, t in stream(event) if y is not None]
    model, other = build(kind, **options), build(kind, **options)
    names = sorted({name for x, *_ in rows for name in x})
    for given, labels in ((model, "dbac"), (other, "cabd")):  # classes and names in slots of another order
        for label in labels:
            for name in names if labels == "dbac" else reversed(names):
                x = next(x for x, *_ in rows if name in x)
                given.learn_one({name: x[name]}, label, 2.0**-20, 0.0)
    a, b = (build(kind, **options) for _ in range(2))
    a.restore(model.to_bytes())
    b.restore(other.to_bytes())
    for x, *_ in rows[:40]:
        assert model.joint_log_likelihood_one(x) == a.joint_log_likelihood_one(x)
        assert other.joint_log_likelihood_one(x) == b.joint_log_likelihood_one(x)


def test_a_whole_count_and_a_listed_one_give_the_same_bits() -> None:
    """Half weights twice end in the same counts as whole ones, but by way of the list instead of the histogram."""
    halves, whole = build("bernoulli"), build("bernoulli")
    for x, y, _, _ in stream(flags, whole=True):
        if y is not None:
            whole.learn_one(x, y)
            halves.learn_one(x, y, 0.5)
            halves.learn_one(x, y, 0.5)
    for x, *_ in stream(flags):
        assert halves.joint_log_likelihood_one(x) == whole.joint_log_likelihood_one(x)


def test_fractional_counts_give_the_same_bits_as_whole_ones_twice_as_large() -> None:
    random = np.random.default_rng(8)
    events = [(dict.fromkeys(f"f{i}" for i in random.permutation(60)[:13]), f"c{i % 5}") for i in range(40)]
    whole, halves = build("complement"), build("complement", alpha=0.5)
    for x, y in events:
        whole.learn_one(dict.fromkeys(x, 1), y)
        halves.learn_one(dict.fromkeys(x, 1), y, w=0.5)
    for x, _ in events:
        probe = dict.fromkeys(x, 1)
        assert halves.joint_log_likelihood_one(probe) == whole.joint_log_likelihood_one(probe)


def test_a_feature_on_more_often_than_the_histogram_is_wide_is_counted() -> None:
    model = build("bernoulli")
    model.learn_many(np.ones((700, 1)), ["p"] * 700)
    model.learn_many(np.eye(300)[:, :2], ["p"] * 300)
    on, off = Fraction(702, 1002), Fraction(1001 - 1, 1002)
    expected = math.log(on) + math.log(off)
    assert model.joint_log_likelihood_one({0: 1})["p"] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("n_factors", [1, 15, 16, 17, 33])
@pytest.mark.parametrize("size", [1.0, 1e17, 1e-17, 1e19, 1e-19])
def test_products_of_densities_are_sums_of_logarithms(n_factors: int, size: float) -> None:
    model = build("gaussian", var_smoothing=0.0)
    names = [f"f{i}" for i in range(n_factors)]
    for x in (-size, size):
        model.learn_one(dict.fromkeys(names, x), "p")
    expected = -n_factors * 0.5 * math.log(2 * math.pi * size * size)
    got = model.joint_log_likelihood_one(dict.fromkeys(names, 0.0))["p"]
    assert got == pytest.approx(expected, rel=1e-13)


def test_sums_of_fixed_logarithms_do_not_depend_on_their_order() -> None:
    random = np.random.default_rng(3)
    terms = np.log(10.0 ** random.uniform(-18, 18, 5000)).tolist()
    totals = Counter[tuple[int, int]]()
    for _ in range(5):
        random.shuffle(terms)
        pairs = [fixed(term) for term in terms]
        totals[sum(high for high, _ in pairs), sum(low for _, low in pairs)] += 1
    assert len(totals) == 1
    assert unfixed(*next(iter(totals))) == pytest.approx(math.fsum(terms), abs=1e-12)


@pytest.mark.parametrize("x", [0.1, 1e120, 3e-100, -7.7])
def test_a_square_and_what_it_drops_are_the_exact_square(x: float) -> None:
    square, dropped = two_square(x)
    assert Fraction(square) + Fraction(dropped) == Fraction(x) ** 2


def test_a_sum_kept_as_a_pair_does_not_drift() -> None:
    high, low = 0.0, 0.0
    for _ in range(100_000):
        high, low = add_pair(high, low, 0.1)
    assert abs(Fraction(high) + Fraction(low) - 100_000 * Fraction(0.1)) < Fraction(1, 10**20)
