"""What naive Bayes answers for a list of events, in exact arithmetic: the oracle of the learners' tests.

Everything is fitted from the whole list at once, in fractions; logarithms have 45 digits. Slow on purpose.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

from reference_blocks import (
    DIGITS,
    Bernoulli,
    Categorical,
    Complement,
    Counts,
    Gaussian,
    Row,
    Score,
    factor,
    power_of_two,
    ratio,
)
from reference_events import parts_of, plain

LOSES = Decimal("-Infinity")


class Event(NamedTuple):
    x: Mapping[Any, Any]
    y: Any
    w: float = 1.0
    t: float | None = None


class Fitted:
    """The batch fit of ``events``. Labels are in no special order."""

    def __init__(self, kind: str, events: Sequence[Event], **options: Any) -> None:
        self.kind, self.options = kind, options
        self.priors = options.get("priors", "empirical")
        learned = [event for event in events if event.w > 0]
        parts = [parts_of(kind, options, event.x) for event in learned]
        weights = self.effective_weights(learned)
        self.weight: dict[Any, Fraction] = defaultdict(Fraction)
        for event, w in zip(learned, weights, strict=True):
            self.weight[plain(event.y)] += w
        mapped = self.priors if isinstance(self.priors, Mapping) else ()
        self.labels = list(dict.fromkeys([*self.weight, *(options.get("classes") or ()), *mapped]))

        def rows(values: list[Any]) -> list[Row]:
            triples = zip(learned, weights, values, strict=True)
            return [Row(plain(event.y), w, v) for event, w, v in triples]

        self.gaussian = Gaussian(rows([p.gaussian for p in parts]), options)
        self.bernoulli = Bernoulli(rows([p.bernoulli for p in parts]), options)
        self.categorical = Categorical(rows([p.categorical for p in parts]), options)
        counted = Complement if kind == "complement" else Counts
        vocabularies = {name for p in parts for name in p.counts} | {"counts"}
        self.counts = {name: counted(rows([p.counts.get(name, {}) for p in parts]), options) for name in vocabularies}

    def effective_weights(self, events: Sequence[Event]) -> list[Fraction]:
        half_life = self.options.get("half_life")
        if half_life is None:
            return [Fraction(event.w) for event in events]
        latest: Fraction | None = None
        times = []
        for event in events:
            t = Fraction(event.t) if event.t is not None else (latest or Fraction(0))
            latest = t if latest is None else max(latest, t)
            times.append(t)
        return [
            Fraction(event.w) * power_of_two((t - (latest or 0)) / Fraction(half_life))
            for event, t in zip(events, times, strict=True)
        ]

    def prior(self, label: Any) -> tuple[int, Fraction]:
        """As alpha^power * coefficient."""
        if isinstance(self.priors, Mapping):
            return 0, Fraction(self.priors[label])
        total, k = sum(self.weight.values(), Fraction(0)), len(self.labels)
        if self.priors == "uniform" or total == 0:
            return 0, Fraction(1, k)
        own = self.weight.get(label, Fraction(0))
        if self.options.get("smooth_priors"):
            return ratio(own, total, k, Fraction(self.options.get("alpha", 1.0)))
        return 0, own / total

    def scores(self, x: Mapping[Any, Any]) -> dict[Any, Score]:
        """The score of every label; -inf for a prior of 0 and for what a limit rules out."""
        parts = parts_of(self.kind, self.options, x)
        out = {}
        for label in self.labels:
            power, prior = self.prior(label)
            if prior:
                score = factor(Decimal(1), power, prior)
                terms = [self.gaussian.score(label, parts.gaussian)]
                terms += [self.bernoulli.score(label, parts.bernoulli)]
                terms += [self.categorical.score(label, parts.categorical)]
                terms += [self.counts[v].score(label, c) for v, c in parts.counts.items() if v in self.counts]
                out[label] = sum((term for block in terms for term in block), score)
        best = min((score.rank for score in out.values()), default=None)
        lost = Score(log=LOSES)
        return {label: out[label] if label in out and out[label].rank == best else lost for label in self.labels}

    def joint(self, x: Mapping[Any, Any]) -> dict[Any, Decimal]:
        return {label: score.log for label, score in self.scores(x).items()}

    def sizes(self, x: Mapping[Any, Any]) -> dict[Any, Decimal]:
        """The sum of the magnitudes of the terms of each joint log-likelihood: the scale of its rounding."""
        return {label: score.size for label, score in self.scores(x).items()}

    def proba(self, x: Mapping[Any, Any]) -> dict[Any, Decimal]:
        return posterior(self.joint(x))


def posterior(joint: Mapping[Any, Decimal]) -> dict[Any, Decimal]:
    top = max(joint.values(), default=LOSES)
    with localcontext(Context(prec=DIGITS)):
        parts = {label: (log - top).exp() if log != LOSES else Decimal(0) for label, log in joint.items()}
        whole = sum(parts.values(), Decimal(0))
        return {label: part / whole for label, part in parts.items()}
