"""Sums that do not lose digits, and sums that do not depend on their order."""

import math

import numpy as np

from streamnb.learners.kernels.jit import inlined
from streamnb.learners.kernels.types import Floats

LARGEST = 1.7976931348623157e308
FACTORS = 16
"""As many factors are multiplied before one logarithm is taken of them."""
SMALLEST_FACTOR, LARGEST_FACTOR = 1e-18, 1e18
"""Only factors within these are multiplied, so that `FACTORS` of them cannot leave float64."""


LN2 = math.log(2.0)
EXPONENT = 52
BIAS = 1023
MANTISSA = (1 << EXPONENT) - 1


@inlined
def take_exponents(products: Floats, exponents: Floats, n: int) -> None:
    """Split positive normal numbers: leave them in [1, 2), add their binary exponents to `exponents`.

    So a long product costs one logarithm.
    """
    bits = products.view(np.int64)
    for c in range(n):
        held = bits[c]
        exponents[c] += (held >> EXPONENT) - BIAS
        bits[c] = (held & MANTISSA) | (BIAS << EXPONENT)


@inlined
def two_sum(a: float, b: float) -> tuple[float, float]:
    """Return a + b as it rounds, and what rounding dropped (Knuth 1969)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


@inlined
def two_square(a: float) -> tuple[float, float]:
    """Return a * a as it rounds, and what rounding dropped (Dekker 1971)."""
    square = a * a
    split = 134217729.0 * a
    high = split - (split - a)
    low = a - high
    return square, ((high * high - square) + 2.0 * high * low) + low * low


@inlined
def add_pair(high: float, low: float, term: float) -> tuple[float, float]:
    """Add a term to a sum kept as an unevaluated pair, which carries about 106 bits."""
    total, error = two_sum(high, term)
    error += low
    first = total + error
    return first, error - (first - total)


@inlined
def fixed(x: float) -> tuple[int, int]:
    """Return x >= -2^30 as two integers, in units of 2^-24 and 2^-60.

    Sums of integers are the same in every order, so a sum of logarithms over features needs no order of the features.
    """
    whole = math.floor(x * 16777216.0)
    return int(whole), int((x * 16777216.0 - whole) * 68719476736.0)


@inlined
def unfixed(high: int, low: int) -> float:
    """Return the number that a sum of `fixed` pairs stands for."""
    return high / 16777216.0 + low / 1152921504606846976.0
