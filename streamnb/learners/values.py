"""What a name, a label, a number, a category and a weight may be, and their one canonical form."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from streamnb.learners.kernels.layout import LARGEST_NUMBER

Name: TypeAlias = str | int | tuple[Any, ...]
Label: TypeAlias = str | int | bool
Category: TypeAlias = str | bool | int | float
Event: TypeAlias = Mapping[Any, Any]

LARGEST_WEIGHT = 1e60
_LARGEST_INTEGER = int(LARGEST_NUMBER)


NUMBERS = frozenset({float, int})
NAMES = frozenset({str, int})
"""The usual types, which need no second look."""
SMALL_NORM = LARGEST_NUMBER / 10
"""A Euclidean norm up to this bounds each number, and rules out NaN; beyond it each is looked at."""


def finite_number(value: object) -> float | int | None:
    """Return a real number within the limits as a Python number, NaN as NaN, and None for anything else."""
    kind = type(value)
    if kind is not float and kind is not int:
        if isinstance(value, np.floating | np.integer) and not isinstance(value, np.timedelta64):
            value = value.item() if value.dtype.itemsize <= 8 else float(value)
        elif not isinstance(value, float | int) or isinstance(value, bool):
            return None
    if isinstance(value, int):
        return value if -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER else None
    assert isinstance(value, float)
    return value if -LARGEST_NUMBER <= value <= LARGEST_NUMBER or value != value else None


def refusal(block: str, name: object, value: object, allowed: str) -> ValueError:
    """Return the error for a feature whose value a block does not take."""
    return ValueError(f"{block} feature {name!r}: got {_shown(value)}; allowed are {allowed}")


def check_name(name: object) -> None:
    """Refuse what is not a str, an int or a tuple of these."""
    if type(name) is str or (isinstance(name, str | int) and not isinstance(name, bool)):
        return
    if isinstance(name, tuple):
        for part in name:
            check_name(part)
        return
    raise TypeError(f"feature name {_shown(name)}: allowed are strings, integers and tuples of these")


def plain_name(name: Any) -> Name:
    """Return a name as Python's own type: column labels may be numpy integers."""
    if isinstance(name, np.integer) and not isinstance(name, np.timedelta64):
        return int(name)
    if isinstance(name, np.str_):
        return str(name)
    if isinstance(name, tuple):
        return tuple(plain_name(part) for part in name)
    check_name(name)
    return name  # type: ignore[no-any-return]  # check_name has seen to it


def plain_label(label: object) -> Label:
    """Return a label as Python's own str, int or bool; refuse every other type."""
    if isinstance(label, np.bool_ | np.integer | np.str_) and not isinstance(label, np.timedelta64):
        label = label.item()
    if isinstance(label, bool):
        return label
    if isinstance(label, str):
        return str(label)
    if isinstance(label, int):
        return int(label)
    raise TypeError(f"label {_shown(label)}: allowed are strings, integers and booleans")


def plain_category(value: object) -> Category | None:
    """Return a category in canonical form (1.0 is 1), None if it is missing.

    Refuse every other value with TypeError.
    """
    if value is None:
        return None
    if isinstance(value, np.bool_ | np.str_):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    number = finite_number(value)
    if number is None:
        raise TypeError
    if isinstance(number, float):
        if number != number:
            return None
        return int(number) if number.is_integer() else number
    return int(number)


def plain_weight(w: object) -> float:
    """Return a weight as a float; refuse negative, infinite and too large ones."""
    number = finite_number(w)
    if number is None or not 0.0 <= number <= LARGEST_WEIGHT:
        raise ValueError(f"weight {_shown(w)}: allowed are numbers from 0 to {LARGEST_WEIGHT:g}")
    return float(number)


def plain_time(t: object) -> float | None:
    """Return an event time as a float, None as None; refuse what is not a finite number."""
    if t is None:
        return None
    number = finite_number(t)
    if number is None or number != number:
        raise ValueError(f"event time {_shown(t)}: allowed are numbers of seconds")
    return float(number)


def sort_key(value: Any) -> tuple[Any, ...]:
    """Order by type, then value; numbers among themselves; tuples part by part."""
    if isinstance(value, tuple):
        return ("tuple", tuple(sort_key(part) for part in value))
    if isinstance(value, float):
        return ("int", value)
    return (type(value).__name__, value)


def sorted_by_type(values: Iterable[Any]) -> list[Any]:
    """Return names, labels or categories in the order in which they are shown and saved."""
    return sorted(values, key=sort_key)


def as_json(value: Any) -> Any:
    """Return a name as a JSON value; a tuple becomes a list."""
    return [as_json(part) for part in value] if isinstance(value, tuple) else value


def from_json(value: Any) -> Any:
    """Return the name that `as_json` was given."""
    return tuple(from_json(part) for part in value) if isinstance(value, list) else value


def check_hashable(value: object) -> None:
    """Refuse a name that cannot be looked up, in the words of `check_name`."""
    if not isinstance(value, Hashable):
        check_name(value)


def _shown(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def as_items(x: Any) -> Iterable[tuple[Any, Any]]:
    """Return an event's features; refuse what is not a mapping."""
    try:
        return x.items()  # type: ignore[no-any-return]  # whatever has items is a mapping here
    except AttributeError:
        raise TypeError(f"an event is a mapping of names to values, got {_shown(x)}") from None
