"""Random event streams for every learner and option set, and when a model equals the batch fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from reference import Event, Fitted, posterior

import streamnb

law = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)

law_per_config = settings(law, max_examples=6)

NAMES = {
    "gaussian": streamnb.GaussianNB,
    "multinomial": streamnb.MultinomialNB,
    "complement": streamnb.ComplementNB,
    "bernoulli": streamnb.BernoulliNB,
    "categorical": streamnb.CategoricalNB,
    "mixed": streamnb.MixedNB,
}


@dataclass(frozen=True)
class Config:
    """One learner with one set of options."""

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    whole_weights: bool = False  # where fractional weights would make ties a matter of rounding

    @property
    def name(self) -> str:
        options = ",".join(f"{k}={v}" for k, v in self.options.items() if k != "features")
        features = "+".join(sorted(self.options.get("features", {})))
        return f"{self.kind}({features}{';' if features else ''}{options})".replace(" ", "")[:90]

    @property
    def forgets(self) -> bool:
        return self.options.get("half_life") is not None

    def build(self) -> Any:
        options = dict(self.options)
        features = [options.pop("features")] if self.kind == "mixed" else []
        return NAMES[self.kind](*features, **options)

    def learned(self, events: Sequence[Event]) -> Any:
        model = self.build()
        for event in events:
            model.learn_one(*event)
        return model

    def fitted(self, events: Sequence[Event]) -> Fitted:
        return Fitted(self.kind, events, **self.options)


MAPPED = {"a": 0.5, "b": 0.125, "c": 0.375, "never": 0.0}
MIXED = {"n": "gaussian", "m": "gaussian", "c": "categorical", "f": "bernoulli", "k": "counts", "l": "counts"}
TEXT = {"s": "text", "n": "gaussian"}
GRAMS = {"s": {"kind": "text", "stop_words": ["the", "of"], "ngrams": [1, 2]}, "f": "bernoulli"}
HASHED = {"s": {"kind": "text", "hash_buckets": 4}}

CONFIGS = [
    Config("gaussian"),
    Config("gaussian", {"priors": "uniform", "var_smoothing": 0.5}),
    Config("gaussian", {"priors": MAPPED}),
    Config("gaussian", {"var_smoothing": 0.0}),
    Config("gaussian", {"ddof": 1, "classes": ["a", "never"]}, whole_weights=True),
    Config("gaussian", {"half_life": 8.0}),
    Config("gaussian", {"half_life": 8.0, "ddof": 1}),
    Config("multinomial"),
    Config("multinomial", {"alpha": 0.0}),
    Config("multinomial", {"alpha": 0.25, "unseen": "smooth", "classes": ["never", "b"]}),
    Config("multinomial", {"weighting": "log1p", "priors": MAPPED}),
    Config("multinomial", {"weighting": "tfidf", "alpha": 0.01}),
    Config("multinomial", {"smooth_priors": True, "half_life": 8.0}),
    Config("multinomial", {"priors": "uniform", "classes": ["never"]}),
    Config("complement"),
    Config("complement", {"alpha": 0.0}),
    Config("complement", {"norm": True, "priors": "uniform"}),
    Config("complement", {"norm": True, "alpha": 0.0, "priors": MAPPED}),
    Config("complement", {"classes": ["never"], "half_life": 8.0}),
    Config("bernoulli"),
    Config("bernoulli", {"alpha": 0.0}),
    Config("bernoulli", {"binarize": 1.5, "priors": MAPPED}),
    Config("bernoulli", {"half_life": 8.0, "smooth_priors": True, "alpha": 0.5}),
    Config("bernoulli", {"priors": "uniform", "classes": ["never"]}),
    Config("categorical"),
    Config("categorical", {"alpha": 0.0}),
    Config("categorical", {"unseen": "smooth", "smooth_priors": True, "classes": ["never"]}),
    Config("categorical", {"unseen": "smooth", "alpha": 0.0, "priors": MAPPED}),
    Config("categorical", {"half_life": 8.0, "priors": "uniform"}),
    Config("mixed", {"features": {}}),
    Config("mixed", {"features": {}, "alpha": 0.0, "var_smoothing": 0.0}),
    Config("mixed", {"features": MIXED, "default": "ignore"}),
    Config("mixed", {"features": MIXED, "unseen": "smooth", "ddof": 1, "priors": MAPPED}, whole_weights=True),
    Config("mixed", {"features": MIXED, "half_life": 8.0, "smooth_priors": True}),
    Config("mixed", {"features": TEXT, "weighting": "log1p"}),
    Config("mixed", {"features": GRAMS, "unseen": "smooth", "binarize": 0.5}),
    Config("mixed", {"features": HASHED, "alpha": 0.5}),
]


def configs_of(kind: str) -> SearchStrategy[Config]:
    return st.sampled_from([config for config in CONFIGS if config.kind == kind])


# --- values ----------------------------------------------------------------------------------------------

reals = st.integers(-64, 64).map(lambda i: i / 8)
names = st.sampled_from(["a", "b", "d", 7, ("u", "v")])
whole_counts = st.sampled_from([0, 1, 1, 2, 3, 7])
counts = whole_counts | st.sampled_from([0.5, 2.0, 2.25])
flags = st.sampled_from([0, 1, True, False, 0.5, 2, 3.0])
categories = st.sampled_from(["u", "v", 1, True, "1", 2.5, -3])
words = st.sampled_from(["red", "Red", "blue", "the", "of", "a", "green!", "bluer"])
texts = st.lists(words, max_size=5).map(" ".join)
tokens = st.lists(st.sampled_from(["u", "v", "w"]), max_size=4)
labels = st.sampled_from(["a", "a", "b", "c"])
times = st.sampled_from([0.0, 2.0, 8.0, 12.0, 16.0, 24.0, 29.0])


def shifted(offset: float) -> SearchStrategy[float]:
    return reals.map(lambda v: v + offset)


def optional(values: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return values | values | values | st.none()


def features_of(config: Config, offset: float) -> SearchStrategy[dict[Any, Any]]:
    match config.kind:
        case "gaussian":
            numbers = shifted(offset)
            return st.dictionaries(names, optional(numbers | st.just(float("nan"))), max_size=4)
        case "multinomial" | "complement":
            some = counts.filter(bool) if config.options.get("weighting") == "tfidf" else counts
            return st.dictionaries(names, optional(some), max_size=4)
        case "bernoulli":
            return st.dictionaries(names, optional(flags), max_size=4)
        case "categorical":
            return st.dictionaries(names, optional(categories), max_size=3)
    kinds = {
        "n": shifted(offset),
        "m": reals,
        "c": categories,
        "f": flags,
        "k": counts,
        "l": whole_counts,
        "s": texts,
    }
    declared = config.options["features"]
    auto = {
        "p": shifted(offset) | st.sampled_from(["x", "y", True]),
        "q": tokens,
        "r": reals,
    }
    named = {name: values for name, values in kinds.items() if name in declared}
    return st.fixed_dictionaries({}, optional={**named, **auto})


@dataclass(frozen=True)
class Stream:
    events: list[Event]
    probes: list[dict[Any, Any]]


@st.composite
def streams(draw: Any, config: Config, min_size: int = 0, max_size: int = 10) -> Stream:
    offset = draw(st.sampled_from([0.0, 0.0, 1e3, -1e9]))
    features = features_of(config, offset)
    weights = st.sampled_from([1.0, 1.0, 2.0, 3.0] if config.whole_weights else [1.0, 1.0, 2.0, 0.5, 3.25])
    events = st.builds(Event, features, labels, weights, times if config.forgets else st.none())
    learned = draw(st.lists(events, min_size=min_size, max_size=max_size))
    return Stream(learned, [{}, *draw(st.lists(features, min_size=1, max_size=3))])


# --- equal to the batch fit, as exactly as the design asks ------------------------------------------------


def assert_equals_fit(model: Any, fitted: Fitted, probes: Sequence[Any], tolerance: str = "1e-12") -> None:
    """Joint log-likelihoods to 1e-12 of their terms' magnitudes, posteriors to 1e-12 of the largest joint."""
    assert set(model.classes) == set(fitted.labels)
    for x in probes:
        scores = fitted.scores(x)
        due = {label: score.log for label, score in scores.items()}
        got = model.joint_log_likelihood_one(x)
        assert set(got) == set(due)
        for label, score in scores.items():
            if score.log.is_finite():
                off = abs(Decimal(got[label]) - score.log)
                assert off <= Decimal(tolerance) * score.size, (x, label, got[label], score.log, off)
            else:
                assert got[label] == -math.inf, (x, label, got, due)
        largest = max((abs(log) for log in due.values() if log.is_finite()), default=Decimal(0))
        proba, exact = model.predict_proba_one(x), posterior(due)
        assert set(proba) == set(exact)
        for label, p in exact.items():
            off = abs(Decimal(proba[label]) - p)
            assert off <= Decimal(tolerance) * max(1, largest), (x, label, proba, exact)
