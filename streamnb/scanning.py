"""Events that differ from a template only in their numbers and names, read as bytes.

A number is taken only where the double nearest to it is certain. Whatever is not taken, for whatever reason, is left
to the JSON decoder, which alone says what is refused.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamnb.learners.kernels.jit import inlined, jit
from streamnb.learners.kernels.types import Bytes, Floats, Ints

Words = NDArray[np.uint64]

NUMBER, NAME = 0, 1
"""What may stand between two literals: a JSON number, or a string or integer that is its own spelling."""
UNTRIED, LEFT = -1, -2
"""In place of the template that an event was taken by: it may be, it must not be."""

MINUS, PLUS, POINT, ZERO, NINE, LETTER_E = b"-"[0], b"+"[0], b"."[0], b"0"[0], b"9"[0], b"e"[0]
QUOTE, BACKSLASH, SPACE, DELETE = b'"'[0], b"\\"[0], b" "[0], 0x7F
LOWER_CASE = 0x20
MOST_DIGITS = 19
"""Significant ones: so many fit 64 bits."""
LONGEST_INTEGER = 18
LARGEST_POWER = 64
"""The largest power of ten, and of a tenth."""
WHOLE = np.uint64(1 << 53)
"""Up to here every integer is a double, and up to `EXACT_POWER` every power of ten: one operation rounds once."""
EXACT_POWER = 22
TENS = np.array([10.0**power for power in range(EXACT_POWER + 1)])
FEW_FIVES = 55
"""The largest power of five that 128 bits hold."""
WHOLE_FIVES = np.array([5**power for power in range(28)], np.uint64)
"""Those that one word holds."""

_U = np.uint64
ONE, TEN, ELEVEN, HALF_WORD, TOP = _U(1), _U(10), _U(11), _U(32), _U(63)
LOW_HALF, REST, HALF, CERTAIN = _U(2**32 - 1), _U(2**11 - 1), _U(2**10), _U(2**64 - 4)
NOTHING = _U(0)


def _fives() -> tuple[Words, Ints]:
    """Return 128 leading bits of each power of five, high and low half, and the power of two that they are to be times.

    What is cut off makes each of them less than one unit too small.
    """
    words: list[tuple[int, int]] = []
    shifts: list[int] = []
    for power in range(-LARGEST_POWER, LARGEST_POWER + 1):
        five = 5 ** abs(power)
        shift = five.bit_length() - 128 if power >= 0 else -(five.bit_length() + 127)
        if power < 0:
            leading = (1 << -shift) // five
            if leading.bit_length() > 128:
                leading, shift = leading >> 1, shift + 1
        else:
            leading = five >> shift if shift > 0 else five << -shift
        words.append(divmod(leading, 1 << 64))
        shifts.append(shift)
    return np.array(words, np.uint64), np.array(shifts, np.int64)


FIVES, SHIFTS = _fives()


@inlined
def product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return both words of the product of two."""
    a_low, a_high, b_low, b_high = a & LOW_HALF, a >> HALF_WORD, b & LOW_HALF, b >> HALF_WORD
    low = a_low * b_low
    middle = a_high * b_low + (low >> HALF_WORD)
    other = a_low * b_high + (middle & LOW_HALF)
    return a_high * b_high + (middle >> HALF_WORD) + (other >> HALF_WORD), a * b


@inlined
def nearest(digits: Any, power: int) -> float:
    """Return the double nearest to `digits` times ten to the `power`, NaN where it is not certain.

    Method: Lemire, Number parsing at a gigabyte per second (2021). The product with the leading bits of a power of
    five is less than a few units of the middle word too small.
    """
    if digits <= WHOLE and abs(power) <= EXACT_POWER:
        whole = float(np.int64(digits))
        value: float = whole * TENS[power] if power >= 0 else whole / TENS[-power]
        return value
    if digits == NOTHING:
        return 0.0
    if -len(WHOLE_FIVES) < power <= 0:
        whole_five = WHOLE_FIVES[-power]
        halves = digits // whole_five
        if halves * whole_five == digits and halves >> TOP == NOTHING:
            return math.ldexp(float(np.int64(halves)), power)  # the conversion rounds, if anything has to
    if abs(power) > LARGEST_POWER:
        return math.nan
    shift = SHIFTS[power + LARGEST_POWER] + power
    while digits >> TOP == NOTHING:
        digits <<= ONE
        shift -= 1
    upper, middle = product(digits, FIVES[power + LARGEST_POWER, 0])
    more, lowest = product(digits, FIVES[power + LARGEST_POWER, 1])
    middle += more
    if middle < more:
        upper += ONE
    if upper >> TOP == NOTHING:
        upper = upper << ONE | middle >> TOP
        middle = middle << ONE | lowest >> TOP
        lowest <<= ONE
        shift -= 1
    if middle > CERTAIN:
        return math.nan
    significand, rest = upper >> ELEVEN, upper & REST
    if rest == HALF and middle | lowest == NOTHING and 0 <= power <= FEW_FIVES:
        significand += significand & ONE  # half way, exactly: to the even one
    elif rest >= HALF:
        significand += ONE
    return math.ldexp(float(np.int64(significand)), shift + 128 + 11)


@inlined
def read_number(text: Bytes, at: int) -> tuple[float, int]:
    """Return the number that begins here and the place behind it; NaN if there is none, or it is not taken."""
    negative = text[at] == MINUS
    if negative:
        at += 1
    digits, significant, first, whole = NOTHING, 0, at, True
    while ZERO <= text[at] <= NINE:
        digits = digits * TEN + _U(text[at] - ZERO)
        significant += digits != NOTHING
        at += 1
    if at == first or (text[first] == ZERO and at > first + 1):
        return math.nan, at
    power = 0
    if text[at] == POINT:
        whole = False
        at += 1
        first = at
        while ZERO <= text[at] <= NINE:
            digits = digits * TEN + _U(text[at] - ZERO)
            significant += digits != NOTHING
            at += 1
        if at == first:
            return math.nan, at
        power = first - at
    if text[at] | LOWER_CASE == LETTER_E:
        whole = False
        at += 1
        down = text[at] == MINUS
        if down or text[at] == PLUS:
            at += 1
        first, exponent = at, 0
        while ZERO <= text[at] <= NINE:
            exponent = min(10 * exponent + text[at] - ZERO, 1000)
            at += 1
        if at == first:
            return math.nan, at
        power += -exponent if down else exponent
    if significant > MOST_DIGITS or (negative and digits == NOTHING and whole):  # `-0` is 0, but -0.0 is not
        return math.nan, at
    value = nearest(digits, power)
    return (-value if negative else value), at


@inlined
def end_of_name(text: Bytes, at: int) -> int:
    """Return the place behind the string or integer that begins here, -1 if there is none that is its own spelling."""
    if text[at] == QUOTE:
        at += 1
        while SPACE <= text[at] < DELETE and text[at] != QUOTE and text[at] != BACKSLASH:
            at += 1
        return at + 1 if text[at] == QUOTE else -1
    if text[at] == MINUS:
        at += 1
        if text[at] == ZERO:
            return -1
    first = at
    while ZERO <= text[at] <= NINE:
        at += 1
    plain = first < at <= first + LONGEST_INTEGER and (text[first] != ZERO or at == first + 1)
    return at if plain else -1


@inlined
def read(
    text: Bytes, at: int, stop: int, part: int, literals: Bytes, bounds: Ints, kinds: Ints, columns: Ints,
    least: float, limit: float, values: Floats, spans: Ints,
) -> tuple[int, int]:  # fmt: skip
    """Read an event from a part of the template on; return the part that it has not, and where this would begin.

    Behind the last part there is none, which the event then has. What stands in the other parts is noted.
    """
    while part <= len(kinds):
        begin, start, end = at, bounds[part], bounds[part + 1]
        if at + end - start > stop:
            return part, begin
        for k in range(end - start):
            if text[at + k] != literals[start + k]:
                return part, begin
        at += end - start
        if part == len(kinds):
            if at < stop:
                return part, begin
        elif kinds[part] == NUMBER:
            value, at = read_number(text, at)
            if not least <= value < limit:  # nor NaN
                return part, begin
            values[columns[part]] = value
        else:
            spans[2 * columns[part]] = at
            at = end_of_name(text, at)
            if at < 0:
                return part, begin
            spans[2 * columns[part] + 1] = at
        part += 1
    return part, at


@jit
def scan(
    text: Bytes, begins: Ints, ends: Ints, literals: Bytes, bounds: Ints, kinds: Ints, columns: Ints,
    least: float, limit: float, number: int, shared: int, taken: Ints, reached: Ints, values: Floats, spans: Ints,
) -> None:  # fmt: skip
    """Mark the untried events of a template, its numbers all from least to below limit, as taken by `number`.

    `begins` and `ends` (n_events,) in `text` (n_bytes,), whose last byte is one that no number and no name has.
    The template: its literals, `bounds` (n_places + 2,) of each, and between two of them the kind and the column of
    what stands there: a number goes to `values` (n_events, n_numbers), begin and end of a name to `spans`
    (n_events, 2 n_names). A part is a literal and what follows it. The first `shared` parts are those of the template
    before, of which `reached` (n_events, 2) says the part that an untried event has not, and where it would begin.
    """
    for i in range(len(taken)):
        if taken[i] != UNTRIED or reached[i, 0] < shared:
            continue
        first, at = 0, begins[i]
        if reached[i, 0] == shared:
            first, at = shared, reached[i, 1]
        part, at = read(text, at, ends[i], first, literals, bounds, kinds, columns, least, limit, values[i], spans[i])
        reached[i, 0], reached[i, 1] = part, at
        if part > len(kinds):
            taken[i] = number
