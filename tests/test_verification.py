"""The exact fit beside the learners: two ways to the same model."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.learners import build
from streamnb.verification import Reference, compare
from tests.streams import CONFIGS, Config, Stream, law_per_config, streams


def fitted(config: Config, stream: Stream) -> Reference:
    times = [event.t for event in stream.events if event.t is not None]
    reference = Reference(config.kind, config.build().options, max(times, default=None))
    for event in stream.events:
        reference.learn(event.x, event.y, event.w, event.t)
    reference.finish()
    return reference


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@law_per_config
@given(st.data())
def test_every_learner_equals_the_exact_fit_in_every_parameter(config: Config, data: st.DataObject) -> None:
    stream = data.draw(streams(config))
    whole = all(event.w.is_integer() for event in stream.events) and not config.forgets
    rows = compare(config.learned(stream.events), fitted(config, stream), stream.probes, fractional=not whole)
    assert [row for row in rows if not row.equal] == []


EVENTS: dict[str, list[tuple[Mapping[str, Any], str]]] = {
    "gaussian": [({"a": 1.0, "b": 2.0}, "x"), ({"a": 4.0, "b": 2.5}, "x"), ({"a": 3.0, "b": 9.0}, "y")],
    "multinomial": [({"a": 1, "b": 2}, "x"), ({"a": 3}, "x"), ({"b": 3}, "y")],
    "complement": [({"a": 1, "b": 2}, "x"), ({"a": 3}, "x"), ({"b": 3}, "y")],
    "bernoulli": [({"a": 1, "b": 0}, "x"), ({"a": 1}, "x"), ({"b": 1}, "y")],
    "categorical": [({"a": "u", "b": "v"}, "x"), ({"a": "w"}, "x"), ({"b": "u"}, "y")],
}


@pytest.mark.parametrize("kind", EVENTS)
def test_one_event_learned_twice_or_not_at_all_is_found(kind: str) -> None:
    model, reference = build(kind), Reference(kind, build(kind).options)
    for x, y in EVENTS[kind]:
        model.learn_one(x, y)
        reference.learn(x, y, 1.0, None)
    reference.finish()
    probes = [x for x, _ in EVENTS[kind]]
    assert all(row.equal for row in compare(model, reference, probes, fractional=False))
    model.learn_one(*EVENTS[kind][1])
    different = {row.what for row in compare(model, reference, probes, fractional=False) if not row.equal}
    assert {"counts", "priors", "joint log-likelihoods"} <= different


def test_a_last_digit_in_one_variance_is_found() -> None:
    options = build("gaussian").options
    values = np.random.default_rng(1).normal(1e9, 1.0, 200).tolist()
    model, reference = build("gaussian"), Reference("gaussian", options)
    for i, value in enumerate(values):
        model.learn_one({"a": value}, "xy"[i % 2])
        reference.learn({"a": value + 2e-7 * (i == 7)}, "xy"[i % 2], 1.0, None)
    reference.finish()
    rows = {row.what: row for row in compare(model, reference, [], fractional=False)}
    assert rows["counts"].equal
    assert not rows["variances"].equal
    assert rows["variances"].largest < 1e-7
