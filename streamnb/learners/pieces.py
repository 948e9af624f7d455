"""Long lists sorted and written as JSON a piece at a time.

A snapshot is written beside a loop that must go on: one call into C holds the interpreter from its begin to its end,
so none may take long.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

from streamnb.learners.values import sort_key

PIECE = 5_000
SAMPLED = 20


def in_order(values: Iterable[Any]) -> list[Any]:
    """Return the values sorted by `sort_key`, as `sorted` does in one go."""
    found = list(values)
    kinds = set(map(type, found))
    key = None if kinds == {str} or kinds == {int} else sort_key  # within a type, the plain order is that of the key
    n_pieces = len(found) // PIECE
    sample = sorted(found[:: max(1, len(found) // (SAMPLED * n_pieces + 1))], key=key)
    bounds = [sample[len(sample) * i // n_pieces] for i in range(1, n_pieces)]
    pieces: list[list[Any]] = [[] for _ in range(max(1, n_pieces))]
    if key is not None:
        bounds = list(map(key, bounds))
        for value in found:
            pieces[bisect_right(bounds, key(value))].append(value)
    else:
        for value in found:
            pieces[bisect_right(bounds, value)].append(value)
    ordered: list[Any] = []
    for piece in pieces:
        piece.sort(key=key)
        ordered += piece
    return ordered


def json_pieces(value: Any) -> Iterator[str]:
    """Yield what `json.dumps` returns, without spaces and without NaN."""
    if isinstance(value, dict) and all(type(key) is str for key in value):
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield ("," if place else "") + _dumps(key) + ":"
            yield from json_pieces(item)
        yield "}"
    elif isinstance(value, list) and any(isinstance(item, list | dict) for item in value[:1]) and len(value) <= PIECE:
        yield "["
        for place, item in enumerate(value):
            yield "," if place else ""
            yield from json_pieces(item)
        yield "]"
    elif isinstance(value, list):
        yield "["
        for at in range(0, len(value), PIECE):
            yield ("," if at else "") + _dumps(value[at : at + PIECE])[1:-1]
        yield "]"
    else:
        yield _dumps(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
