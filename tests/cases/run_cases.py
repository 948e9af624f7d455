"""Runs one case of learners.json against a module of learners; the file's header says what the steps mean."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

REFUSAL = (ValueError, TypeError)
CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "learners.json").read_text("utf-8"))["cases"]


def decode(value: Any) -> Any:
    """JSON to Python: the one-key objects whose key starts with $ stand for what JSON cannot carry."""
    match value:
        case list():
            return [decode(item) for item in value]
        case {"$float": text}:
            return float(text)
        case {"$none": _}:
            return None
        case {"$np": [kind, item]}:
            return getattr(np, kind)(decode(item))
        case {"$complex": [real, imaginary]}:
            return complex(real, imaginary)
        case {"$bytes": text}:
            return text.encode()
        case {"$map": pairs}:
            return {decode(key): decode(item) for key, item in pairs}
        case {"$fill": [count, prefix, item]}:
            return {f"{prefix}{i}": decode(item) for i in range(count)}
        case dict():
            return {key: decode(item) for key, item in value.items()}
    return value


def identity(label: Any) -> tuple[str, Any]:
    """A label as it is told apart: 1, True and '1' are three."""
    return type(label).__name__, label


def expected(value: Any) -> dict[tuple[str, Any], float]:
    pairs = value.items() if isinstance(value, dict) else value
    return {identity(label): float(decode(number)) for label, number in pairs}


def answered(value: Any) -> dict[tuple[str, Any], float]:
    assert isinstance(value, Mapping)
    return {identity(label): float(number) for label, number in value.items()}


class Runner:
    """One model, built and led through a case's steps."""

    def __init__(self, module: Any, case: Mapping[str, Any]) -> None:
        self.module, self.case, self.steps = module, case, case["steps"]

    def build(self) -> Any:
        options = decode(self.case.get("options", {}))
        features = [options.pop("features")] if "features" in options else []
        return getattr(self.module, self.case["model"])(*features, **options)

    def run(self) -> None:
        try:
            self.model = self.build()
        except REFUSAL:
            if self.steps[0][0] != "rejects":
                raise
            return
        for number, (action, *arguments) in enumerate(self.steps):
            try:
                getattr(self, f"do_{action}")(*arguments)
            except Exception as error:
                error.add_note(f"{self.case['about']} -- step {number}: {action} {json.dumps(arguments)[:200]}")
                raise

    # steps that change the model

    def do_learn(self, x: Any, y: Any, *rest: Any) -> None:
        self.model.learn_one(decode(x), decode(y), *map(decode, rest))

    def do_learn_repeat(self, x: Any, y: Any, count: int) -> None:
        for _ in range(count):
            self.do_learn(x, y)

    def do_unlearn(self, x: Any, y: Any, *rest: Any) -> None:
        self.model.unlearn_one(decode(x), decode(y), *map(decode, rest))

    def do_merge(self, steps: list[Any]) -> None:
        other = Runner(self.module, {**self.case, "steps": steps or [["nothing"]]})
        other.run()
        before = other.model.to_bytes()
        self.model.merge(other.model)
        assert other.model.to_bytes() == before, "merge changed the other model"

    def do_nothing(self) -> None:
        pass

    def do_roundtrip(self) -> None:
        data = self.model.to_bytes()
        self.model = type(self.model).from_bytes(data)
        assert self.model.to_bytes() == data

    # steps that must change nothing

    def refused(self, call: Callable[[], Any]) -> None:
        before = self.model.to_bytes()
        try:
            call()
        except REFUSAL:
            assert self.model.to_bytes() == before, "refused, but the state changed"
        else:
            raise AssertionError("accepted")

    def do_rejects(self, x: Any, y: Any, *rest: Any) -> None:
        self.refused(lambda: self.do_learn(x, y, *rest))

    def do_refuses(self, x: Any, y: Any, *rest: Any) -> None:
        self.refused(lambda: self.do_unlearn(x, y, *rest))

    def do_noop(self, x: Any, y: Any, w: float) -> None:
        before = self.model.to_bytes()
        self.do_learn(x, y, w)
        assert self.model.to_bytes() == before

    def read(self, method: str, x: Any) -> Any:
        before, event = self.model.to_bytes(), decode(x)
        kept = copy.deepcopy(event)
        answer = getattr(self.model, method)(event)
        assert self.model.to_bytes() == before, f"{method} changed the state"
        assert repr(event) == repr(kept), f"{method} changed the caller's event"
        return answer

    def do_proba(self, x: Any, want: Any, tolerance: float) -> None:
        got, due = answered(self.read("predict_proba_one", x)), expected(want)
        assert set(got) == set(due)
        assert all(0 <= p <= 1 for p in got.values())
        assert not got or abs(sum(got.values()) - 1) < 1e-9
        assert not {label: (got[label], p) for label, p in due.items() if not abs(got[label] - p) <= tolerance}

    def do_joint(self, x: Any, want: Any, tolerance: float) -> None:
        got, due = answered(self.read("joint_log_likelihood_one", x)), expected(want)
        assert set(got) == set(due)
        bad = {k: (got[k], v) for k, v in due.items() if got[k] != v}
        assert not {k: p for k, p in bad.items() if not abs(p[0] - p[1]) <= tolerance * max(1, abs(p[1]))}

    def do_predict(self, x: Any, want: Any) -> None:
        assert identity(self.read("predict_one", x)) == identity(decode(want))

    def do_moments(self, label: Any, feature: Any, mean: str, variance: str, tolerance: float) -> None:
        """A Gaussian cell read back from the joint log-likelihood, a parabola in the feature's value."""
        label, feature = decode(label), decode(feature)
        due_mean, due_variance = Fraction(mean), Fraction(variance)
        width = math.sqrt(due_variance)
        points = [Fraction(float(due_mean) + step * width) for step in (-1, 0, 1)]
        joint = [self.joint_of(label, {feature: float(point)}) for point in points]
        slopes = [(joint[i + 1] - joint[i]) / (points[i + 1] - points[i]) for i in (0, 1)]
        curve = (slopes[1] - slopes[0]) / (points[2] - points[0])
        assert curve < 0
        got_variance = -1 / (2 * curve)
        got_mean = (points[0] + points[1]) / 2 + slopes[0] * got_variance
        height = joint[1] - self.joint_of(label, {}) + (points[1] - got_mean) ** 2 / (2 * got_variance)
        due_height = -0.5 * math.log(2 * math.pi * due_variance)
        assert abs(got_variance - due_variance) <= tolerance * due_variance
        assert abs(got_mean - due_mean) <= tolerance * Fraction(width)
        assert abs(float(height) - due_height) <= 10 * tolerance * max(1.0, abs(due_height))

    def joint_of(self, label: Any, x: Any) -> Fraction:
        joint = answered(self.read("joint_log_likelihood_one", x))[identity(label)]
        assert math.isfinite(joint)
        return Fraction(joint)
