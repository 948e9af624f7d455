"""The likelihoods of naive Bayes from their formulas: sums over events, and what they say of an event."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from streamnb.verification.exact import Dyadic, ExactSum, dyadic, log
from streamnb.verification.parts import Category, Name

ZERO = Fraction(0)
LOG_TAU = math.log(2 * math.pi)

Label = Any


class Term(NamedTuple):
    """One term of a joint log-likelihood, and what goes before it where a smoothing is 0: the limit of smoothing.

    `power` is that of alpha; a cell without any variance has a `distance` (squared) and is one of `spikes`.
    """

    log: float
    size: float
    power: float = 0.0
    distance: Fraction = ZERO
    spikes: int = 0


def ratio(count: Fraction, total: Fraction, slots: int, alpha: Fraction) -> tuple[int, Fraction]:
    """(count + alpha) / (total + alpha slots) as alpha^power * coefficient, the limit where alpha is 0."""
    if alpha > 0:
        return 0, (count + alpha) / (total + alpha * slots)
    if total == 0:
        return 0, Fraction(1, slots)
    return (1, 1 / total) if count == 0 else (0, count / total)


def factor(times: float, power: int, coefficient: Fraction) -> Term:
    """A probability that is taken so many times."""
    nats = times * log(coefficient)
    return Term(nats, abs(nats), times * power)


@dataclass(frozen=True, slots=True)
class Cell:
    """Moments of a feature in a class: exact."""

    n: Fraction
    mean: Fraction
    m2: Fraction


class _Sums:
    __slots__ = ("n", "x", "xx")

    def __init__(self) -> None:
        self.n, self.x, self.xx = ExactSum(), ExactSum(), ExactSum()


class Gaussian:
    """Sums of w, wx and wx² per feature and class."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._var_smoothing = Fraction(options.get("var_smoothing", 1e-9))
        self._ddof = Fraction(options.get("ddof", 0))
        self._sums: dict[tuple[Name, Label], _Sums] = {}

    def learn(self, values: Mapping[Name, float], label: Label, w: Dyadic) -> None:
        for name, value in values.items():
            sums = self._sums.get((name, label))
            if sums is None:
                sums = self._sums[name, label] = _Sums()
            x = dyadic(value)
            wx = w.times(x)
            sums.n.add(w)
            sums.x.add(wx)
            sums.xx.add(wx.times(x))

    def finish(self) -> None:
        """All events are learned: make moments of the sums."""
        self.cells: dict[tuple[Name, Label], Cell] = {}
        pooled: dict[Name, list[Fraction]] = defaultdict(lambda: [ZERO, ZERO, ZERO])
        for (name, label), sums in self._sums.items():
            values = [sums.n.value(), sums.x.value(), sums.xx.value()]
            self.cells[name, label] = _cell(values)
            pooled[name] = [a + b for a, b in zip(pooled[name], values, strict=True)]
        self.pooled = {name: _cell(values) for name, values in pooled.items()}
        widest = max((cell.m2 / cell.n for cell in self.pooled.values() if cell.n), default=ZERO)
        self.epsilon = self._var_smoothing * widest

    def terms(self, values: Mapping[Name, float], label: Label) -> Iterator[Term]:
        for name, value in values.items():
            if name not in self.pooled:
                continue
            cell = self.cells.get((name, label))
            if cell is None or not cell.n:
                cell = self.pooled[name]
            variance = self.epsilon + (cell.m2 / (cell.n - self._ddof) if cell.n > self._ddof else 0)
            squared = (Fraction(value) - cell.mean) ** 2
            if variance == 0:
                yield Term(-LOG_TAU / 2, LOG_TAU / 2, distance=squared, spikes=1)
            else:
                height, depth = -(LOG_TAU + log(variance)) / 2, _as_float(squared / variance) / 2
                yield Term(height - depth, abs(height) + depth)


def _cell(sums: list[Fraction]) -> Cell:
    n, x, xx = sums
    return Cell(n, x / n, xx - x * x / n) if n else Cell(ZERO, ZERO, ZERO)


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


class Bernoulli:
    """How much weight each feature is on with, per class."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._alpha = Fraction(options.get("alpha", 1.0))
        self._n: dict[Label, ExactSum] = defaultdict(ExactSum)
        self._on: dict[tuple[Name, Label], ExactSum] = defaultdict(ExactSum)
        self.known: dict[Name, None] = {}

    def learn(self, values: Mapping[Name, bool], label: Label, w: Dyadic) -> None:
        self._n[label].add(w)
        for name, on in values.items():
            self.known[name] = None
            if on:
                self._on[name, label].add(w)

    def finish(self) -> None:
        self.n = {label: total.value() for label, total in self._n.items()}
        self.on = {key: total.value() for key, total in self._on.items()}

    def terms(self, values: Mapping[Name, bool], label: Label) -> Iterator[Term]:
        n = self.n.get(label, ZERO)
        for name in self.known:
            on = self.on.get((name, label), ZERO)
            yield factor(1.0, *ratio(on if values.get(name) else n - on, n, 2, self._alpha))


class Categorical:
    """How much weight each value of each feature has, per class."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._alpha = Fraction(options.get("alpha", 1.0))
        self._smooth = options.get("unseen") == "smooth"
        self._n: dict[tuple[Name, Label], ExactSum] = defaultdict(ExactSum)
        self._count: dict[tuple[Name, Category, Label], ExactSum] = defaultdict(ExactSum)
        self.known: dict[Name, dict[Category, None]] = {}

    def learn(self, values: Mapping[Name, Category], label: Label, w: Dyadic) -> None:
        for name, value in values.items():
            self.known.setdefault(name, {})[value] = None
            self._n[name, label].add(w)
            self._count[name, value, label].add(w)

    def finish(self) -> None:
        self.n = {key: total.value() for key, total in self._n.items()}
        self.count = {key: total.value() for key, total in self._count.items()}

    def terms(self, values: Mapping[Name, Category], label: Label) -> Iterator[Term]:
        for name, value in values.items():
            known = self.known.get(name)
            if known is not None and (value in known or self._smooth):
                count, n = self.count.get((name, value, label), ZERO), self.n.get((name, label), ZERO)
                yield factor(1.0, *ratio(count, n, len(known) + self._smooth, self._alpha))


class Counts:
    """How often each token came, per class: one vocabulary."""

    def __init__(self, options: Mapping[str, Any], complement: bool) -> None:
        self._alpha = Fraction(options.get("alpha", 1.0))
        self._smooth = options.get("unseen") == "smooth"
        self._weighting = options.get("weighting", "tf")
        self._complement, self._norm = complement, options.get("norm", False)
        self._count: dict[tuple[Any, Label], ExactSum] = defaultdict(ExactSum)
        self._total: dict[Label, ExactSum] = defaultdict(ExactSum)
        self._df: dict[Any, ExactSum] = defaultdict(ExactSum)
        self.known: dict[Any, None] = {}

    def learn(self, values: Mapping[Any, float], label: Label, w: Dyadic) -> None:
        for token, f in values.items():
            self.known[token] = None
            if f > 0:
                times = w.times(dyadic(f))
                self._count[token, label].add(times)
                self._total[label].add(times)
                self._df[token].add(w)

    def finish(self, labels: list[Label], n: Fraction) -> None:
        """`n` is the weight of all events, those without any token too."""
        self._n = n
        count = {key: total.value() for key, total in self._count.items()}
        total = {label: value.value() for label, value in self._total.items()}
        self._documents = {token: value.value() for token, value in self._df.items()}
        if self._complement:
            whole = sum(total.values(), ZERO)
            every: dict[Any, Fraction] = defaultdict(Fraction)
            for (token, _), value in count.items():
                every[token] += value
            count = {(t, label): every[t] - count.get((t, label), ZERO) for t in self.known for label in labels}
            total = {label: whole - total.get(label, ZERO) for label in labels}
        self.count, self.total = count, total
        """Of a class; in a complement, of all other classes."""
        self._shares: dict[Label, dict[Any, float]] = {}

    def terms(self, values: Mapping[Any, float], label: Label) -> Iterator[Term]:
        for token, f in values.items():
            if f > 0 and (token in self.known or self._smooth):
                if self._complement and self._norm:
                    nats = f * self._share_of(label)[token]
                    yield Term(nats, abs(nats))
                else:
                    times = self._times(token, f)
                    yield factor(-times if self._complement else times, *self._ratio(token, label))

    def _ratio(self, token: Any, label: Label) -> tuple[int, Fraction]:
        slots = len(self.known) + self._smooth
        return ratio(self.count.get((token, label), ZERO), self.total.get(label, ZERO), slots, self._alpha)

    def _times(self, token: Any, f: float) -> float:
        match self._weighting:
            case "log1p":
                return log(1 + Fraction(f))
            case "tfidf":
                return f * log(self._n / self._documents[token])
        return float(f)

    def _share_of(self, label: Label) -> dict[Any, float]:
        """Each weight over the sum of their magnitudes; those that are infinite where alpha is 0 share the whole."""
        if label not in self._shares:
            ratios = {token: self._ratio(token, label) for token in self.known}
            endless = sum(power for power, _ in ratios.values())
            if endless:
                shares = {token: power / endless for token, (power, _) in ratios.items()}
            else:
                logs = {token: -log(coefficient) for token, (_, coefficient) in ratios.items()}
                whole = math.fsum(logs.values())
                shares = {token: nats / whole if whole else 0.0 for token, nats in logs.items()}
            self._shares[label] = shares
        return self._shares[label]
