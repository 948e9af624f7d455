"""Templates of events: made from one event, tried on many at once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from streamnb.learners.kernels.types import Floats, Ints
from streamnb.scanning import LEFT, NAME, NUMBER, UNTRIED, scan
from streamnb.slices import NULL, Slices

NAMED = ("id", "label", "timestamp")
"""The parts that may be names, in the order of their spans."""
MOST_TEMPLATES = 8

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[-+.0-9a-zA-Z]+|[{}\[\]:,]')
PLAIN_NAME = re.compile(rb'"[^"\\\x00-\x1f\x7f-\xff]*"|-?[0-9]+')
NOTHING, QUOTE = b"null", b'"'


@dataclass(frozen=True, slots=True)
class Template:
    """What events have in common: all but the numbers of their features, ids, labels and timestamps."""

    features: tuple[str, ...]
    """Names in the order of the event."""
    named: frozenset[str]
    """The parts that differ and are names."""
    timed: bool
    """Whether the timestamp is a number: its column stands behind those of the features."""
    literals: bytes
    bounds: tuple[int, ...]
    kinds: tuple[int, ...]
    columns: tuple[int, ...]
    """See `scanning.scan`."""

    def shared(self, other: "Template") -> int:
        """Return how many parts both begin with."""
        ours, theirs = (list(zip(t.bounds[1:], t.kinds, t.columns, strict=False)) for t in (self, other))
        equal = [a == b for a, b in zip(ours, theirs, strict=False)]
        n = equal.index(False) if False in equal else len(equal)
        while self.literals[: self.bounds[n]] != other.literals[: other.bounds[n]]:
            n -= 1
        return n


class Scan:
    """Reads events template by template."""

    def __init__(self, documents: Slices, longest: int) -> None:
        n = len(documents)
        fits = (documents.begins != NULL) & (documents.ends - documents.begins <= longest)
        self.taken: Ints = np.where(fits, UNTRIED, LEFT)
        """(n_events,) by which `take`, from 0, each was taken."""
        self.values: Floats = np.empty((n, 0))
        """(n_events, n_numbers) the numbers of the events that were taken."""
        self._spans = np.empty((n, 2 * len(NAMED)), np.int64)
        self._documents = documents
        self._letters = np.frombuffer(documents.text, np.uint8)
        self._takes = 0
        self._last: tuple[Template, float, float] | None = None
        self._reached = np.column_stack((np.zeros(n, np.int64), documents.begins))

    def take(self, template: Template, least: float, limit: float) -> Ints:
        """Take the untried events of a template whose numbers are from least to below limit; return their rows."""
        self.widen(len(template.features) + template.timed)
        same = self._last is not None and self._last[1:] == (least, limit)
        shared = template.shared(self._last[0]) if self._last and same else 0
        self._last = template, least, limit
        scan(
            self._letters, self._documents.begins, self._documents.ends,
            np.frombuffer(template.literals, np.uint8), np.array(template.bounds), np.array(template.kinds),
            np.array(template.columns),
            least, limit, self._takes, shared, self.taken, self._reached, self.values, self._spans,
        )  # fmt: skip
        self._takes += 1
        return np.flatnonzero(self.taken == self._takes - 1)

    def names(self, part: str, rows: Ints) -> Iterator[bytes]:
        """Return the spelling of one of the parts in these events."""
        begins, ends = self._spans[rows, 2 * NAMED.index(part) :][:, :2].T.tolist()
        return map(self._documents.text.__getitem__, map(slice, begins, ends))

    def widen(self, n_numbers: int) -> None:
        """Have room for so many numbers of each event."""
        more = n_numbers - self.values.shape[1]
        if more > 0:
            self.values = np.concatenate((self.values, np.empty((len(self.values), more))), axis=1)


class Templates:
    """The templates of the latest events. `keys` tell which part of an event stands under a key, as it is spelled."""

    def __init__(self, keys: Mapping[bytes, str]) -> None:
        self._keys = keys
        self._templates: list[Template] = []

    def __iter__(self) -> Iterator[Template]:
        return iter(self._templates)

    def clear(self) -> None:
        """Forget them all."""
        self._templates = []

    def learned(self, document: bytes, features: Sequence[str]) -> Template | None:
        """Make a template of an event of these features, each a number; None if it cannot be done, or is not new."""
        made = template_of(document, features, self._keys)
        if made is None or made in self._templates:
            return None
        self._templates = [made, *self._templates][:MOST_TEMPLATES]
        return made


def template_of(document: bytes, features: Sequence[str], keys: Mapping[bytes, str]) -> Template | None:
    """Return the template of an event that is known to be JSON, with features of these names, all of them numbers.

    None if anything else may differ from event to event, or a key is there twice.
    """
    places: list[tuple[int, int, int, int]] = []  # begin, end, kind, column
    named: set[str] = set()
    timed, n_numbers = False, 0
    values = list(_values(document))
    parts = [keys.get(path[0]) for path, _, _ in values]
    if len({path for path, _, _ in values}) < len(values):
        return None
    for (path, begin, end), part in zip(values, parts, strict=True):
        text = document[begin:end]
        if part == "features" and len(path) == 2:
            places.append((begin, end, NUMBER, n_numbers))
            n_numbers += 1
        elif part is None or len(path) > 1:
            return None
        elif text == NOTHING:
            continue
        elif part == "timestamp" and text[:1] != QUOTE:
            places.append((begin, end, NUMBER, len(features)))
            timed = True
        elif part in NAMED and PLAIN_NAME.fullmatch(text):
            places.append((begin, end, NAME, NAMED.index(part)))
            named.add(part)
        else:
            return None
    if n_numbers != len(features):
        return None
    begins, ends, kinds, columns = zip(*places, strict=True)
    literals = [document[begin:end] for begin, end in zip((0, *ends), (*begins, len(document)), strict=True)]
    bounds = accumulate(map(len, literals), initial=0)
    return Template(tuple(features), frozenset(named), timed, b"".join(literals), tuple(bounds), kinds, columns)


def _values(document: bytes) -> Iterator[tuple[tuple[bytes, ...], int, int]]:
    """Yield path, as its keys are spelled, begin and end of every value that is neither object nor array."""
    path: list[bytes] = [b""]
    tokens = list(TOKEN.finditer(document))
    texts = [token.group() for token in tokens]
    for token, text, following in zip(tokens, texts, [*texts[1:], b""], strict=True):
        if text == b"{":
            path.append(b"")
        elif text == b"}":
            path.pop()
        elif following == b":":
            path[-1] = text
        elif text not in b",:":
            yield tuple(path[1:]), *token.span()
