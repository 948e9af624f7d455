"""Long lists sorted and written as JSON, and arrays as bytes, a piece at a time.

A snapshot is written beside a loop that must go on: one call into C holds the interpreter from its begin to its end,
so none may take long; and one that touches many objects, if only to copy a list of them, waits for memory at each.
NumPy's on large arrays of numbers, hashing and writing let it go. And between the pieces the interpreter is given up
for a moment, if the thread has a `PAUSE` for that: Python itself shares it half and half.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from operator import is_
from typing import Any

import numpy as np

from streamnb.learners.kernels.types import Array, Ints
from streamnb.learners.values import sort_key

PIECE = 2_000
PIECE_BYTES = 1 << 18
SAMPLED = 20
MANY_NEW = 4
"""From this share of new names on, all are sorted."""
PAUSE: ContextVar[Callable[[], None]] = ContextVar("PAUSE", default=lambda: None)
"""What a thread does after each piece. So deep inside the blocks that everyone between would have to pass it on."""


def in_pieces(values: list[Any]) -> Iterator[list[Any]]:
    """Yield a list's parts, one after another."""
    pause = PAUSE.get()
    for at in range(0, len(values), PIECE):
        yield values[at : at + PIECE]
        pause()


def in_order(names: Any, slots: Iterable[int]) -> tuple[list[Any], Ints]:
    """Return the names in these slots as `sorted_by_type` does, and their slots; `names[slot]` is a name."""
    found = list(slots)
    key = _key_of({type(names[slot]) for slot in found})
    keys = names if key is None else {slot: key(names[slot]) for slot in found}
    n_pieces = max(1, len(found) // PIECE)
    sample = sorted(keys[slot] for slot in found[:: max(1, len(found) // (SAMPLED * n_pieces))])
    bounds = [sample[len(sample) * i // n_pieces] for i in range(1, n_pieces)]
    pieces: list[list[int]] = [[] for _ in range(n_pieces)]
    for some in in_pieces(found):
        for slot in some:
            pieces[bisect_right(bounds, keys[slot])].append(slot)
    ordered: list[Any] = []
    pause = PAUSE.get()
    for piece in pieces:
        piece.sort(key=keys.__getitem__)
        ordered += [names[slot] for slot in piece]
        pause()
    return ordered, joined(np.array(piece, np.int64) for piece in pieces)


class Order:
    """Sorts names that mostly grow: when it is asked again, only those that are new.

    A model and its copies share it, since what it has kept is compared with what it is asked for.
    """

    def __init__(self) -> None:
        self._kept: tuple[list[Any], list[Any], Ints] = [], [], joined([])

    def of(self, names: list[Any]) -> tuple[list[Any], Ints]:
        """Return the names sorted, and the places that they were given in: both not to be changed."""
        known, ordered, places = self._kept
        old, new = len(known), len(names) - len(known)
        grown = new >= 0 and all(all(map(is_, *both)) for both in zip(in_pieces(known), in_pieces(names), strict=False))
        if grown and new == 0:
            return ordered, places
        if grown and 0 < new <= old // MANY_NEW:
            fresh, positions = in_order(names, range(old, old + new))
            key = _key_of({type(ordered[0]), type(ordered[-1]), *map(type, fresh)})
            at = [bisect_right(ordered, name if key is None else key(name), key=key) for name in fresh]
            ordered, places = _inserted(ordered, at, fresh), np.insert(places, at, positions)
        else:
            ordered, places = in_order(names, range(len(names)))
        self._kept = [name for piece in in_pieces(names) for name in piece], ordered, places
        return ordered, places


def _key_of(kinds: set[type]) -> Callable[[Any], Any] | None:
    """What names of these types are sorted by. Within a type, the plain order is that of the key."""
    return None if kinds == {str} or kinds == {int} else sort_key


def _inserted(ordered: list[Any], places: Sequence[int], fresh: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    begin = 0
    for place, name in zip(places, fresh, strict=True):
        found += ordered[begin:place]
        found.append(name)
        begin = place
    return found + ordered[begin:]


def joined(parts: Iterable[Ints]) -> Ints:
    """Return integers one after another."""
    return np.concatenate([np.zeros(0, np.int64), *parts])


def byte_pieces(array: Array) -> Iterator[bytes]:
    """Yield the float64 numbers of an array, little-endian. Joining bytes, and nothing else, lets others go on."""
    data = np.ascontiguousarray(array, "<f8").reshape(-1).view(np.uint8).data
    pause = PAUSE.get()
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES].tobytes()
        pause()


def json_pieces(value: Any) -> Iterator[str]:
    """Yield what `json.dumps` returns, without spaces and without NaN."""
    if isinstance(value, dict) and all(type(key) is str for key in value):
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield ("," if place else "") + _dumps(key) + ":"
            yield from json_pieces(item)
        yield "}"
    elif isinstance(value, list) and 0 < len(value) <= PIECE and isinstance(value[0], list | dict):
        yield "["
        for place, item in enumerate(value):
            yield "," if place else ""
            yield from json_pieces(item)
        yield "]"
    elif isinstance(value, list):
        yield "["
        for place, piece in enumerate(in_pieces(value)):
            yield ("," if place else "") + (_plain(piece) or _dumps(piece)[1:-1])
        yield "]"
    else:
        yield _dumps(value)


def _plain(names: list[Any]) -> str:
    """Return strings that need no escaping, as most names, 20 times as fast as `json.dumps`; "" if there are others."""
    if set(map(type, names)) != {str}:
        return ""
    text = "".join(names)
    simple = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    return '"' + '","'.join(names) + '"' if simple else ""


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
