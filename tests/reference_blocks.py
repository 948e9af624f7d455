"""The oracle's likelihood blocks in exact arithmetic, each fitted from all its rows at once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
DIGITS = 45

# --- numbers ---------------------------------------------------------------------------------------------


def decimal(value: Fraction | int | float) -> Decimal:
    value = Fraction(value)
    with localcontext(Context(prec=DIGITS)):
        return Decimal(value.numerator) / Decimal(value.denominator)


@lru_cache(maxsize=100_000)
def ln(value: Fraction) -> Decimal:
    with localcontext(Context(prec=DIGITS)):
        return (Decimal(value.numerator) / Decimal(value.denominator)).ln()


def power_of_two(exponent: Fraction) -> Fraction:
    if exponent.denominator == 1:
        return Fraction(2) ** int(exponent)
    with localcontext(Context(prec=DIGITS)):
        return Fraction(Decimal(2) ** decimal(exponent))


def ratio(count: Fraction, total: Fraction, slots: int, alpha: Fraction) -> tuple[int, Fraction]:
    """(count + alpha) / (total + alpha slots) as alpha^power * coefficient, at the limit where alpha is 0."""
    if alpha > 0:
        return 0, (count + alpha) / (total + alpha * slots)
    if total == 0:
        return 0, Fraction(1, slots)
    return (1, 1 / total) if count == 0 else (0, count / total)


@dataclass(frozen=True)
class Score:
    """A log-likelihood with what goes before it: epsilon's limit, then the power of alpha."""

    log: Decimal = Decimal(0)
    size: Decimal = Decimal(0)  # the sum of the magnitudes of the terms
    distance: Fraction = Fraction(0)  # squared, over the zero-variance cells
    spikes: int = 0  # how many these are
    power: Decimal = Decimal(0)

    def __add__(self, other: Score) -> Score:
        with localcontext(Context(prec=DIGITS)):
            return Score(
                self.log + other.log,
                self.size + other.size,
                self.distance + other.distance,
                self.spikes + other.spikes,
                self.power + other.power,
            )

    @property
    def rank(self) -> tuple[Fraction, int, Decimal]:
        """Smaller wins outright. Powers made of logarithms are equal when 35 digits are."""
        return self.distance, -self.spikes, Context(prec=35).plus(self.power)


def factor(times: Decimal, power: int, coefficient: Fraction) -> Score:
    """The score of one probability, alpha^power * coefficient, taken ``times`` times."""
    with localcontext(Context(prec=DIGITS)):
        log = times * ln(coefficient)
        return Score(log, abs(log), power=times * power)


# --- the blocks: fitted from rows of (label, weight, values) ---------------------------------------------


class Row(NamedTuple):
    label: Any
    w: Fraction
    values: Any


class Cell(NamedTuple):
    n: Fraction
    mean: Fraction
    m2: Fraction


def total(values: Iterable[Fraction]) -> Fraction:
    """The sum, over one common denominator."""
    terms = [value.as_integer_ratio() for value in values]
    whole = math.lcm(*{denominator for _, denominator in terms})
    return Fraction(sum(numerator * (whole // denominator) for numerator, denominator in terms), whole)


def moments(values: Sequence[tuple[Fraction, Fraction]]) -> Cell:
    n = total(w for w, _ in values)
    mean = total(w * v for w, v in values) / n
    return Cell(n, mean, total(w * v * v for w, v in values) - n * mean**2)


class Gaussian:
    def __init__(self, rows: Sequence[Row], options: Mapping[str, Any]) -> None:
        self.ddof = options.get("ddof", 0)
        by_cell, by_name = defaultdict(list), defaultdict(list)
        for label, w, values in rows:
            for name, value in values.items():
                by_cell[label, name].append((w, value))
                by_name[name].append((w, value))
        self.pooled = {name: moments(values) for name, values in by_name.items()}
        self.cells = {key: moments(values) for key, values in by_cell.items()}
        widest = max((cell.m2 / cell.n for cell in self.pooled.values()), default=Fraction(0))
        self.epsilon = Fraction(options.get("var_smoothing", 1e-9)) * widest

    def cell(self, label: Any, name: Any) -> Cell:
        """The cell, or where this class never had the feature the moments of all classes together."""
        return self.cells.get((label, name)) or self.pooled[name]

    def variance(self, cell: Cell) -> Fraction:
        return (cell.m2 / (cell.n - self.ddof) if cell.n > self.ddof else Fraction(0)) + self.epsilon

    def score(self, label: Any, values: Mapping[Any, Fraction]) -> Iterator[Score]:
        for name, value in values.items():
            if name not in self.pooled:
                continue
            cell = self.cell(label, name)
            variance, squared = self.variance(cell), (value - cell.mean) ** 2
            with localcontext(Context(prec=DIGITS)):
                if variance == 0:
                    height = -(2 * PI).ln() / 2
                    yield Score(height, abs(height), distance=squared, spikes=1)
                else:
                    height = -((2 * PI).ln() + ln(variance)) / 2
                    depth = decimal(squared / variance) / 2
                    yield Score(height - depth, abs(height) + depth)


class Bernoulli:
    def __init__(self, rows: Sequence[Row], options: Mapping[str, Any]) -> None:
        self.alpha = Fraction(options.get("alpha", 1.0))
        self.known = {name for row in rows for name in row.values}
        self.n: dict[Any, Fraction] = defaultdict(Fraction)
        self.on: dict[Any, Fraction] = defaultdict(Fraction)
        for label, w, values in rows:
            self.n[label] += w
            for name, is_on in values.items():
                self.on[label, name] += w if is_on else 0

    def score(self, label: Any, values: Mapping[Any, bool]) -> Iterator[Score]:
        n = self.n.get(label, Fraction(0))
        for name in self.known:
            on = self.on.get((label, name), Fraction(0))
            yield factor(Decimal(1), *ratio(on if values.get(name) else n - on, n, 2, self.alpha))


class Categorical:
    def __init__(self, rows: Sequence[Row], options: Mapping[str, Any]) -> None:
        self.alpha = Fraction(options.get("alpha", 1.0))
        self.smooth = options.get("unseen", "ignore") == "smooth"
        self.categories: dict[Any, set[Any]] = defaultdict(set)
        self.n: dict[Any, Fraction] = defaultdict(Fraction)
        self.count: dict[Any, Fraction] = defaultdict(Fraction)
        for label, w, values in rows:
            for name, value in values.items():
                self.categories[name].add(value)
                self.n[label, name] += w
                self.count[label, name, value] += w

    def score(self, label: Any, values: Mapping[Any, Any]) -> Iterator[Score]:
        for name, value in values.items():
            if name not in self.categories or (value not in self.categories[name] and not self.smooth):
                continue
            count = self.count.get((label, name, value), Fraction(0))
            n, slots = self.n.get((label, name), Fraction(0)), len(self.categories[name]) + self.smooth
            yield factor(Decimal(1), *ratio(count, n, slots, self.alpha))


class Counts:
    """One vocabulary, read as multinomial."""

    def __init__(self, rows: Sequence[Row], options: Mapping[str, Any]) -> None:
        self.alpha = Fraction(options.get("alpha", 1.0))
        self.smooth = options.get("unseen", "ignore") == "smooth"
        self.weighting = options.get("weighting", "tf")
        self.known = {token for row in rows for token in row.values}
        self.n = sum((row.w for row in rows), Fraction(0))
        self.df: dict[Any, Fraction] = defaultdict(Fraction)
        self.count: dict[Any, Fraction] = defaultdict(Fraction)
        self.total: dict[Any, Fraction] = defaultdict(Fraction)
        for label, w, values in rows:
            for token, f in values.items():
                self.df[token] += w if f > 0 else 0
                self.count[label, token] += w * f
                self.total[label] += w * f

    def times(self, token: Any, f: Fraction) -> Decimal:
        with localcontext(Context(prec=DIGITS)):
            match self.weighting:
                case "tf":
                    return decimal(f)
                case "log1p":
                    return ln(1 + f)
                case "tfidf":
                    return decimal(f) * ln(self.n / self.df[token])
                case other:
                    raise ValueError(f"no weighting {other!r}")

    def score(self, label: Any, values: Mapping[Any, Fraction]) -> Iterator[Score]:
        total, slots = self.total.get(label, Fraction(0)), len(self.known) + self.smooth
        for token, f in values.items():
            if f > 0 and (token in self.known or self.smooth):
                count = self.count.get((label, token), Fraction(0))
                yield factor(self.times(token, f), *ratio(count, total, slots, self.alpha))


class Complement(Counts):
    """The same counts, each class scored by all the others (Rennie et al. 2003)."""

    def __init__(self, rows: Sequence[Row], options: Mapping[str, Any]) -> None:
        super().__init__(rows, options)
        self.norm = options.get("norm", False)
        self.all: dict[Any, Fraction] = defaultdict(Fraction)
        for (_, token), count in self.count.items():
            self.all[token] += count

    def without(self, label: Any, token: Any) -> tuple[int, Fraction]:
        total = sum(self.total.values(), Fraction(0)) - self.total.get(label, Fraction(0))
        count = self.all[token] - self.count.get((label, token), Fraction(0))
        return ratio(count, total, len(self.known), self.alpha)

    def score(self, label: Any, values: Mapping[Any, Fraction]) -> Iterator[Score]:
        shares = self.shares(label) if self.norm else None
        for token, f in values.items():
            if f > 0 and token in self.known:
                if shares is None:
                    yield factor(-decimal(f), *self.without(label, token))
                else:
                    with localcontext(Context(prec=DIGITS)):
                        yield Score(decimal(f) * shares[token], decimal(f) * shares[token])

    def shares(self, label: Any) -> dict[Any, Decimal]:
        """Weights over their sum. Where alpha is 0, the infinite ones share the whole and leave 0."""
        weights = {token: self.without(label, token) for token in self.known}
        endless = sum(power for power, _ in weights.values())
        with localcontext(Context(prec=DIGITS)):
            if endless:
                return {token: Decimal(power) / endless for token, (power, _) in weights.items()}
            logs = {token: abs(ln(coefficient)) for token, (_, coefficient) in weights.items()}
            whole = sum(logs.values(), Decimal(0))
            return {token: log / whole if whole else Decimal(0) for token, log in logs.items()}
