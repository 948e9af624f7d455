"""One event's features, sorted to the likelihoods that they belong to."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from streamnb.learners.text import Tokenizer
from streamnb.learners.values import finite_number, plain_category

BLOCKS = {
    "gaussian": "gaussian",
    "multinomial": "counts",
    "complement": "counts",
    "bernoulli": "bernoulli",
    "categorical": "categorical",
}
ALONE = None
"""The vocabulary of the features that are counts themselves."""

Name = Any
Category = tuple[bool, Any]
"""Whether it is a boolean, and the value: True and 1 are two categories."""


class Parts(NamedTuple):
    """Missing values are left out."""

    gaussian: dict[Name, float]
    bernoulli: dict[Name, bool]
    categorical: dict[Name, Category]
    counts: dict[Name, dict[Any, float]]
    """By vocabulary: token -> how often."""


class PartsReader:
    """Sorts the features of events that a learner of these options does not refuse."""

    def __init__(self, kind: str, options: Mapping[str, Any]) -> None:
        self._block = BLOCKS.get(kind)
        self._threshold = options.get("binarize", 0.0)
        self._ignores = options.get("default") == "ignore"
        self._kinds: dict[Name, str] = {}
        self._tokenizers: dict[Name, Tokenizer] = {}
        for name, given in (options.get("features") or {}).items():
            written_out = given if isinstance(given, Mapping) else {"kind": given}
            self._kinds[name] = written_out["kind"]
            if written_out["kind"] == "text":
                self._tokenizers[name] = Tokenizer.from_options(name, written_out)

    def read(self, x: Mapping[Name, Any]) -> Parts:
        parts = Parts({}, {}, {}, {})
        for name, value in x.items():
            kind = self._block or self._kinds.get(name) or (None if self._ignores else _own_kind(value))
            if kind is not None and value is not None:
                self._put(parts, kind, name, value)
        return parts

    def _put(self, parts: Parts, kind: str, name: Name, value: Any) -> None:
        match kind:
            case "gaussian":
                number = finite_number(value)
                if number is not None and number == number:
                    parts.gaussian[name] = number
            case "bernoulli":
                parts.bernoulli[name] = value > self._threshold
            case "categorical":
                category = plain_category(value)
                if category is not None:
                    parts.categorical[name] = (type(category) is bool, category)
            case "counts":
                parts.counts.setdefault(ALONE, {})[name] = value
            case "text":
                parts.counts[name] = dict(self._tokenizers[name].counts(value))
            case "tokens":
                parts.counts[name] = dict(Counter(value))


def _own_kind(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool() | str():
            return "categorical"
        case list():
            return "tokens"
    return "gaussian"
