"""A model is its events, in any order and split: laws that every learner keeps, whatever its options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import Event
from streams import CONFIGS, NAMES, Config, assert_equals_fit, configs_of, features_of, law, law_per_config, streams

every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
every_kind = pytest.mark.parametrize("kind", NAMES)
remembering = pytest.mark.parametrize("config", [c for c in CONFIGS if not c.forgets], ids=lambda config: config.name)


def answers(model: Any, probes: list[Any]) -> list[Any]:
    """Everything a model says, to be compared bit for bit."""
    return [(model.joint_log_likelihood_one(x), model.predict_proba_one(x), model.predict_one(x)) for x in probes]


# --- the state is a monoid --------------------------------------------------------------------------------


@every_config
@given(data=st.data())
@law_per_config
def test_a_model_equals_the_batch_fit_in_whatever_order_it_learned(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config))
    shuffled = data.draw(st.permutations(stream.events))
    assert_equals_fit(config.learned(shuffled), config.fitted(stream.events), stream.probes)


@every_config
@given(data=st.data())
@law_per_config
def test_merged_shards_equal_the_whole_stream(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config))
    shard_of = data.draw(st.lists(st.integers(0, 3), min_size=10, max_size=10))
    shards: list[list[Event]] = [[], [], [], []]
    for event, shard in zip(stream.events, shard_of, strict=False):
        shards[shard].append(event)
    first, second, third, fourth = (config.learned(shard) for shard in shards)
    before = [model.to_bytes() for model in (second, third, fourth)]
    first.merge(second)
    first.merge(third + fourth)
    assert [model.to_bytes() for model in (second, third, fourth)] == before
    everything = [event for shard in shards for event in shard]
    assert_equals_fit(first, config.fitted(everything), stream.probes)


@every_kind
@given(data=st.data())
@law
def test_merging_an_empty_model_changes_nothing(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config))
    model = config.learned(stream.events)
    before = model.to_bytes()
    model.merge(config.build())
    assert model.to_bytes() == before
    assert (config.build() + model).to_bytes() == before


@remembering
@given(data=st.data())
@law_per_config
def test_unlearning_equals_never_having_learned(config: Config, data: st.DataObject) -> None:
    kept, gone = data.draw(streams(config, min_size=1)), data.draw(streams(config, min_size=1))
    model = config.learned(data.draw(st.permutations(kept.events + gone.events)))
    for event in data.draw(st.permutations(gone.events)):
        model.unlearn_one(event.x, event.y, event.w)
    fitted = config.fitted(kept.events)
    if fitted.gaussian.pooled:
        assert_equals_fit(model, fitted, kept.probes[:1])
    else:
        assert_equals_fit(model, fitted, kept.probes)
        assert model.to_bytes() == config.learned(kept.events).to_bytes()


@every_config
@given(data=st.data())
@law_per_config
def test_weight_two_is_the_event_twice(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config, min_size=1))
    doubled = [event._replace(w=2 * event.w) for event in stream.events]
    assert_equals_fit(config.learned(doubled), config.fitted(stream.events * 2), stream.probes)


@every_kind
@given(data=st.data())
@law
def test_weight_zero_is_the_event_never(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config))
    nothing = data.draw(streams(config, min_size=1)).events
    model = config.learned(stream.events)
    before = model.to_bytes()
    for event in nothing:
        model.learn_one(event.x, event.y, 0.0, event.t)
    assert model.to_bytes() == before


# --- bytes ------------------------------------------------------------------------------------------------


@every_config
@given(data=st.data())
@law_per_config
def test_a_restored_model_is_the_same_bit_for_bit(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config))
    half = len(stream.events) // 2
    model = config.learned(stream.events[:half])
    restored = type(model).from_bytes(model.to_bytes())
    other_shell = config.build()
    other_shell.restore(model.to_bytes())
    for event in stream.events[half:]:
        for each in (model, restored, other_shell):
            each.learn_one(*event)
    assert restored.to_bytes() == model.to_bytes() == other_shell.to_bytes()
    assert answers(restored, stream.probes) == answers(model, stream.probes)
    assert answers(other_shell, stream.probes) == answers(model, stream.probes)


@every_kind
@given(data=st.data())
@law
def test_the_same_events_give_the_same_bytes(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config))
    asked = config.build()
    for event in stream.events:
        answers(asked, stream.probes)
        asked.learn_one(*event)
    assert asked.to_bytes() == config.learned(stream.events).to_bytes()


@every_kind
@given(data=st.data())
@law
def test_a_copy_is_independent(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config, min_size=1))
    model = config.learned(stream.events[:-1])
    copy, before = model.copy(), model.to_bytes()
    model.learn_one(*stream.events[-1])
    assert copy.to_bytes() == before
    copy.learn_one(*stream.events[-1])
    assert copy.to_bytes() == model.to_bytes()


@every_kind
@given(data=st.data())
@law
def test_predicting_changes_nothing(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config))
    model = config.learned(stream.events)
    before, probes = model.to_bytes(), [dict(x) for x in stream.probes]
    first = answers(model, stream.probes)
    for x in stream.probes:
        model.explain_one(x)
        model.check(x)
    assert model.to_bytes() == before
    assert repr(stream.probes) == repr(probes)
    assert answers(model, stream.probes) == first


@every_kind
@given(data=st.data())
@law
def test_a_refused_event_leaves_no_trace(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config, min_size=1))
    name = next(iter(config.options.get("features", ())), "d")
    bad = {**{k: v for k, v in stream.events[-1].x.items() if k != name}, name: float("inf")}
    model = config.learned(stream.events)
    before = model.to_bytes()
    for call in (
        lambda: model.learn_one(bad, "c"),
        lambda: model.unlearn_one(bad, "a"),
        lambda: model.predict_one(bad),
        lambda: model.check(bad),
    ):
        with pytest.raises((ValueError, TypeError)):
            call()
    assert model.to_bytes() == before


# --- answers ----------------------------------------------------------------------------------------------


@every_kind
@given(data=st.data())
@law
def test_probabilities_sum_to_one(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config))
    model = config.learned(stream.events)
    for x in stream.probes:
        proba = model.predict_proba_one(x)
        assert all(0 <= p <= 1 for p in proba.values())
        assert not proba or math.isclose(math.fsum(proba.values()), 1, abs_tol=1e-12)
        assert bool(proba) == bool(model.classes)


@every_config
@given(data=st.data())
@law_per_config
def test_an_explanation_adds_up_to_the_joint(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config))
    model, fitted = config.learned(stream.events), config.fitted(stream.events)
    for x in stream.probes:
        joint, sizes = model.joint_log_likelihood_one(x), fitted.sizes(x)
        for top in (None, 1):
            explained = model.explain_one(x, top=top)
            assert set(explained) == set(joint)
            for label, why in explained.items():
                assert top is None or len(why.features) <= top
                if math.isfinite(joint[label]):
                    whole = math.fsum([why.prior, *why.features.values(), why.absent, why.rest])
                    assert abs(whole - joint[label]) <= 1e-12 * float(sizes[label])


@every_kind
@given(data=st.data())
@law
def test_classes_are_sorted_and_the_first_wins_a_tie(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config))
    model = config.learned(stream.events)
    assert list(model.classes) == sorted(model.classes)
    for x in stream.probes:
        joint = model.joint_log_likelihood_one(x)
        assert list(joint) == list(model.classes)
        best = max(joint.values(), default=None)
        assert model.predict_one(x) == next((label for label in model.classes if joint[label] == best), None)


@pytest.mark.parametrize("kind", ["gaussian", "multinomial", "complement", "bernoulli", "categorical"])
@given(data=st.data(), order=st.permutations(["a", "b", "c"]))
@law
def test_classes_with_the_same_events_are_a_tie(kind: str, data: st.DataObject, order: list[str]) -> None:
    config = Config(kind)
    values = data.draw(st.lists(features_of(config, 0.0), min_size=1, max_size=4))
    model = config.learned([Event(x, label) for x in values for label in order])
    for x in values:
        assert model.predict_one(x) == "a"
        assert set(model.predict_proba_one(x).values()) == {1 / 3}


def test_labels_of_several_types_keep_apart() -> None:
    model = Config("categorical").build()
    for label in ("b", 10, 2, "a", "2"):
        model.learn_one({"x": "u"}, label)
    assert sorted(map(str, model.classes)) == ["10", "2", "2", "a", "b"]
    assert [c for c in model.classes if isinstance(c, int)] == [2, 10]
    assert [c for c in model.classes if isinstance(c, str)] == ["2", "a", "b"]
    assert {type(a) for a in model.classes[:2]} in ({int}, {str})


def test_a_label_equal_to_a_known_one_of_another_type_is_refused() -> None:
    model = Config("categorical").build()
    model.learn_one({"x": "u"}, 1)
    before = model.to_bytes()
    with pytest.raises((ValueError, TypeError)):
        model.learn_one({"x": "u"}, True)
    assert model.to_bytes() == before


# --- the Gaussian block -----------------------------------------------------------------------------------


@pytest.mark.parametrize("var_smoothing", [0.0, 1e-9, 0.25])
@given(data=st.data(), power=st.integers(-200, 200))
@law
def test_rescaling_by_a_power_of_two_shifts_the_joint_alone(
    var_smoothing: float, data: st.DataObject, power: int
) -> None:
    config = Config("gaussian", {"var_smoothing": var_smoothing})
    stream = data.draw(streams(config, min_size=1))

    def scaled(x: Mapping[Any, Any]) -> dict[Any, Any]:
        return {name: value and math.ldexp(value, power) for name, value in x.items()}

    model = config.learned(stream.events)
    rescaled = config.learned([event._replace(x=scaled(event.x)) for event in stream.events])
    assert_equals_fit(
        rescaled,
        config.fitted([event._replace(x=scaled(event.x)) for event in stream.events]),
        [scaled(x) for x in stream.probes],
    )
    for x in stream.probes:
        p, q = model.predict_proba_one(x), rescaled.predict_proba_one(scaled(x))
        largest = max((abs(v) for v in model.joint_log_likelihood_one(x).values() if math.isfinite(v)), default=0)
        assert all(abs(p[c] - q[c]) <= 1e-12 * max(1, largest + 150 * len(x)) for c in p)


@pytest.mark.parametrize("config", [c for c in CONFIGS if c.kind == "gaussian"], ids=lambda config: config.name)
@given(data=st.data())
@law_per_config
def test_the_likelihood_table_tells_the_moments(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config))
    model, fitted = config.learned(stream.events), config.fitted(stream.events)
    for line in model.likelihood_table():
        for label, told in line.numbers.items():
            cell = fitted.gaussian.cell(label, line.feature)
            variance = fitted.gaussian.variance(cell)
            scale = max(abs(cell.mean), Fraction(float(variance) ** 0.5))
            assert abs(Fraction(told["mean"]) - cell.mean) <= Fraction("1e-12") * scale
            assert abs(Fraction(told["variance"]) - variance) <= Fraction("1e-12") * variance


# --- forgetting -------------------------------------------------------------------------------------------

forgetting = pytest.mark.parametrize("config", [c for c in CONFIGS if c.forgets], ids=lambda config: config.name)


@forgetting
@given(data=st.data(), shift=st.sampled_from([-1e6, 1e9, 1.7e9 + 0.25]))
@law
def test_forgetting_depends_on_ages_alone(config: Config, data: st.DataObject, shift: float) -> None:
    stream = data.draw(streams(config, min_size=1))
    later = [event._replace(t=event.t + shift) for event in stream.events]
    assert_equals_fit(config.learned(later), config.fitted(stream.events), stream.probes)


@forgetting
@given(data=st.data())
@law
def test_an_event_without_a_time_counts_as_the_latest(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config, min_size=1))
    latest = max((event.t for event in stream.events), default=None)
    x = data.draw(features_of(config, 0.0))
    told, untold = config.learned(stream.events), config.learned(stream.events)
    told.learn_one(x, "a", 1.0, latest)
    untold.learn_one(x, "a", 1.0)
    assert told.to_bytes() == untold.to_bytes()


@forgetting
def test_a_model_that_forgets_unlearns_nothing(config: Config) -> None:
    model = config.learned([Event({}, "a", 1.0, 0.0)])
    with pytest.raises((ValueError, TypeError)):
        model.unlearn_one({}, "a")


# --- a batch is its events one by one ---------------------------------------------------------------------


@every_config
@given(data=st.data())
@law_per_config
def test_a_batch_of_rows_is_predicted_and_learned_one_by_one(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config))
    hidden = data.draw(st.lists(st.booleans(), min_size=10, max_size=10))
    truth = [None if hide else event.y for event, hide in zip(stream.events, hidden, strict=False)]
    model, loop = config.learned(stream.events[:2]), config.learned(stream.events[:2])
    rows = model.rows()
    for event, y in zip(stream.events, truth, strict=True):
        rows.append(event.x, y, event.w, event.t)
    scored = model.predict_learn_rows(rows)
    for i, (event, y) in enumerate(zip(stream.events, truth, strict=True)):
        known = loop.predict_proba_one(event.x)
        assert {c: p for c, p in zip(scored.labels, scored.probabilities[i].tolist(), strict=True) if p == p} == known
        best = loop.predict_one(event.x)
        assert (scored.labels[scored.best[i]] if scored.best[i] >= 0 else None) == best
        if y is not None:
            loop.learn_one(event.x, y, event.w, event.t)
    assert scored.labels == tuple(loop.classes)
    assert model.to_bytes() == loop.to_bytes()


@every_kind
@given(data=st.data())
@law
def test_a_refused_row_is_not_appended(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config, min_size=1))
    model = config.build()
    rows, before = model.rows(), model.to_bytes()
    rows.append(stream.events[0].x, "a", 1.0, 0.0 if config.forgets else None)
    name = next(iter(config.options.get("features", {"a": 1})), "p")
    with pytest.raises((ValueError, TypeError), match=name):
        rows.append({**stream.events[0].x, name: complex(1, 0)}, "b")
    with pytest.raises((ValueError, TypeError)):
        rows.append(stream.events[0].x, "b", -1.0)
    with pytest.raises((ValueError, TypeError)):
        rows.append(stream.events[0].x, 1.5)
    assert len(rows) == 1
    assert model.to_bytes() == before
    model.predict_learn_rows(rows)
    assert list(model.classes) == sorted({*config.build().classes, "a"})
    rows.clear()
    assert len(rows) == 0


@every_kind
@given(data=st.data())
@law
def test_counters_tell_the_events(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config))
    model = config.learned(stream.events)
    assert model.n_events == len(stream.events)
    assert model.n_features == len(list(model.features))
    if all(event.w == 1 for event in stream.events) and not config.forgets:
        expected = {label: sum(event.y == label for event in stream.events) for label in model.classes}
        assert dict(model.class_count) == expected


@every_kind
@given(data=st.data())
@law
def test_class_log_priors_are_the_joint_of_nothing_known(kind: str, data: st.DataObject) -> None:
    config = data.draw(configs_of(kind))
    stream = data.draw(streams(config))
    model, fitted = config.learned(stream.events), config.fitted(stream.events)
    got = model.class_log_prior()
    got = got if isinstance(got, Mapping) else dict(zip(model.classes, got, strict=True))
    for label in fitted.labels:
        _, prior = fitted.prior(label)
        due = Decimal(float(prior)).ln() if prior else Decimal("-Infinity")
        assert Decimal(float(got[label])) == due or abs(Decimal(float(got[label])) - due) <= Decimal("1e-14") * max(
            1, abs(due)
        )
