"""Naive Bayes over all events at once, in exact arithmetic."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from streamnb.verification.blocks import ZERO, Bernoulli, Categorical, Counts, Gaussian, Label, Term, factor, ratio
from streamnb.verification.exact import Dyadic, ExactSum, decayed, dyadic
from streamnb.verification.parts import Name, PartsReader

SAME_POWER = 1e-12


@dataclass(frozen=True, slots=True)
class Joint:
    """A joint log-likelihood and the sum of its terms' magnitudes, the scale of its rounding."""

    log: float
    size: float


class Reference:
    """The batch fit of the events given to `learn`; complete after `finish`.

    `latest` is the event time at which weights with a half-life are read.
    """

    def __init__(self, kind: str, options: Mapping[str, Any], latest: float | None = None) -> None:
        self._options, self._latest = options, latest
        self._half_life = options.get("half_life")
        self._complement = kind == "complement"
        self._reader = PartsReader(kind, options)
        self._weight: dict[Label, ExactSum] = defaultdict(ExactSum)
        self.gaussian, self.bernoulli = Gaussian(options), Bernoulli(options)
        self.categorical = Categorical(options)
        self.counts: dict[Name, Counts] = {}
        self.n_events = 0

    def learn(self, x: Mapping[Name, Any], label: Label, w: float, t: float | None) -> None:
        """Learn one event that the learner would not refuse."""
        if w == 0:
            return
        weight = self._weight_of(w, t)
        parts = self._reader.read(x)
        self.n_events += 1
        self._weight[label].add(weight)
        self.gaussian.learn(parts.gaussian, label, weight)
        self.bernoulli.learn(parts.bernoulli, label, weight)
        self.categorical.learn(parts.categorical, label, weight)
        for name, tokens in parts.counts.items():
            if name not in self.counts:
                self.counts[name] = Counts(self._options, self._complement)
            self.counts[name].learn(tokens, label, weight)

    def finish(self) -> None:
        """Make everything of the sums that can be compared."""
        self.weight = {label: total.value() for label, total in self._weight.items()}
        priors = self._options["priors"]
        mapped = priors if isinstance(priors, Mapping) else ()
        self.labels = list(dict.fromkeys([*self.weight, *(self._options.get("classes") or ()), *mapped]))
        for block in (self.gaussian, self.bernoulli, self.categorical):
            block.finish()
        for counts in self.counts.values():
            counts.finish(self.labels, sum(self.weight.values(), ZERO))

    def prior(self, label: Label) -> tuple[int, Fraction]:
        """As alpha^power * coefficient."""
        priors, total = self._options["priors"], sum(self.weight.values(), ZERO)
        if isinstance(priors, Mapping):
            return 0, Fraction(priors[label])
        if priors == "uniform" or total == 0:
            return 0, Fraction(1, len(self.labels))
        own = self.weight.get(label, ZERO)
        if self._options.get("smooth_priors"):
            return ratio(own, total, len(self.labels), Fraction(self._options["alpha"]))
        return 0, own / total

    def joint(self, x: Mapping[Name, Any]) -> dict[Label, Joint]:
        """Of every label; -inf for a prior of 0, and for what loses by a limit."""
        parts = self._reader.read(x)
        terms: dict[Label, list[Term]] = {}
        for label in self.labels:
            power, prior = self.prior(label)
            if prior:
                terms[label] = [
                    factor(1.0, power, prior),
                    *self.gaussian.terms(parts.gaussian, label),
                    *self.bernoulli.terms(parts.bernoulli, label),
                    *self.categorical.terms(parts.categorical, label),
                ]
                for name, tokens in parts.counts.items():
                    if name in self.counts:
                        terms[label] += self.counts[name].terms(tokens, label)
        winners = _not_ruled_out(terms)
        return {
            label: Joint(math.fsum(t.log for t in terms[label]), math.fsum(t.size for t in terms[label]))
            if label in winners
            else Joint(-math.inf, 0.0)
            for label in self.labels
        }

    def _weight_of(self, w: float, t: float | None) -> Dyadic:
        if self._half_life is None or t is None or self._latest is None:
            return dyadic(w)
        return decayed(w, Fraction(self._latest) - Fraction(t), Fraction(self._half_life))


def _not_ruled_out(terms: Mapping[Label, list[Term]]) -> set[Label]:
    """The labels that are left in the limits: smallest distance, then most spikes, then smallest power of alpha."""
    ranks = {
        label: (sum((t.distance for t in some), ZERO), -sum(t.spikes for t in some), math.fsum(t.power for t in some))
        for label, some in terms.items()
    }
    nearest = min((rank[:2] for rank in ranks.values()), default=None)
    left = {label: rank[2] for label, rank in ranks.items() if rank[:2] == nearest}
    least = min(left.values(), default=0.0)
    return {label for label, power in left.items() if power <= least + SAME_POWER * max(1.0, abs(least))}


def posterior(joint: Mapping[Label, Joint]) -> dict[Label, float]:
    """The probabilities that joint log-likelihoods stand for."""
    top = max((one.log for one in joint.values()), default=-math.inf)
    parts = {label: math.exp(one.log - top) if one.log > -math.inf else 0.0 for label, one in joint.items()}
    whole = math.fsum(parts.values())
    return {label: part / whole for label, part in parts.items()}
