"""Sums without rounding, and logarithms of fractions rounded once."""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

DIGITS = 60
FRACTION_BITS = 120
LEAST_EXPONENT = -1100
"""Weights below two to this power are 0 in float64, however large the event's own weight."""


class Dyadic(NamedTuple):
    """`numerator / 2**shift`: what every float is."""

    numerator: int
    shift: int

    def times(self, other: "Dyadic") -> "Dyadic":
        return Dyadic(self.numerator * other.numerator, self.shift + other.shift)


def dyadic(value: float | int) -> Dyadic:
    """The number itself."""
    numerator, denominator = value.as_integer_ratio()
    return Dyadic(numerator, denominator.bit_length() - 1)


def decayed(weight: float, age_seconds: Fraction, half_life: Fraction) -> Dyadic:
    """`weight * 2**(-age / half_life)`, to thirty digits and more."""
    exponent = -age_seconds / half_life
    whole = math.floor(exponent)
    if whole < LEAST_EXPONENT:
        return Dyadic(0, 0)
    part = exponent - whole
    with localcontext(Context(prec=DIGITS)):
        power = Decimal(2) ** (Decimal(part.numerator) / Decimal(part.denominator))
        numerator = int(power * 2**FRACTION_BITS)
    return dyadic(weight).times(Dyadic(numerator, FRACTION_BITS - whole))


class ExactSum:
    """A sum of dyadic numbers."""

    __slots__ = ("_numerator", "_shift")

    def __init__(self) -> None:
        self._numerator = self._shift = 0

    def add(self, term: Dyadic) -> None:
        numerator, shift = term
        if shift > self._shift:
            self._numerator <<= shift - self._shift
            self._shift = shift
        self._numerator += numerator << (self._shift - shift)

    def value(self) -> Fraction:
        return Fraction(self._numerator, 1 << self._shift)


@lru_cache(maxsize=200_000)
def log(value: Fraction) -> float:
    """The natural logarithm of a fraction above 0; near 1 too, it is right to its last digits."""
    if Fraction(1, 2) < value < 2:
        return math.log1p(value - 1)
    if value.numerator.bit_length() < 1000 and value.denominator.bit_length() < 1000:
        return math.log(value.numerator / value.denominator)
    with localcontext(Context(prec=DIGITS)):
        return float((Decimal(value.numerator) / Decimal(value.denominator)).ln())
