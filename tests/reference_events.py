"""The oracle's reading of one event: which value goes to which block, and what no block takes."""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np


@dataclass
class Parts:
    """One event, sorted into the blocks. Missing values are left out."""

    gaussian: dict[Any, Fraction] = field(default_factory=dict)
    bernoulli: dict[Any, bool] = field(default_factory=dict)
    categorical: dict[Any, Any] = field(default_factory=dict)
    counts: dict[Any, dict[Any, Fraction]] = field(default_factory=dict)  # vocabulary -> token -> count


SINGLE = {
    "gaussian": "gaussian",
    "multinomial": "counts",
    "complement": "counts",
    "bernoulli": "bernoulli",
    "categorical": "categorical",
}
LARGEST = 10**120


def plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def number(name: Any, value: Any) -> Fraction:
    value = plain(value)
    if type(value) not in (int, float):
        raise TypeError(f"{name!r}: {value!r} is not a number")
    if not (abs(value) <= LARGEST):
        raise ValueError(f"{name!r}: {value!r} is beyond 1e120 or not finite")
    return Fraction(value)


def is_missing(value: Any) -> bool:
    value = plain(value)
    return value is None or (type(value) is float and math.isnan(value))


def category(name: Any, value: Any) -> tuple[str, Any]:
    """True, 1 and "1" are three; 1.0 is 1."""
    value = plain(value)
    if type(value) in (str, bool):
        return type(value).__name__, value
    return "number", number(name, value)


def tokens_of(name: Any, text: Any, spec: Mapping[str, Any]) -> Counter[Any]:
    if not isinstance(text, str):
        raise TypeError(f"{name!r}: {text!r} is not a text")
    stop = set(spec.get("stop_words") or ())
    words = [word for word in re.findall(r"(?u)\b\w\w+\b", text.lower()) if word not in stop]
    low, high = spec.get("ngrams") or (1, 1)
    grams = [" ".join(words[i : i + n]) for n in range(low, high + 1) for i in range(len(words) - n + 1)]
    buckets = spec.get("hash_buckets")
    return Counter(zlib.crc32(gram.encode()) % buckets if buckets else gram for gram in grams)


def own_kind(name: Any, value: Any) -> str:
    value = plain(value)
    if type(value) in (str, bool):
        return "categorical"
    if isinstance(value, list):
        return "tokens"
    number(name, value)
    return "gaussian"


def parts_of(kind: str, options: Mapping[str, Any], x: Mapping[Any, Any]) -> Parts:
    """Sort an event's values into blocks; TypeError or ValueError for what no block takes."""
    parts = Parts()
    for name, value in x.items():
        spec: Any = SINGLE.get(kind) or options["features"].get(name)
        if spec is None and options.get("default", "auto") == "ignore":
            continue
        if value is None or (is_missing(value) and spec in (None, "gaussian", "categorical")):
            continue
        settings = spec if isinstance(spec, Mapping) else {"kind": spec or own_kind(name, value)}
        put(parts, settings, name, value, Fraction(options.get("binarize", 0.0)))
    return parts


def put(parts: Parts, spec: Mapping[str, Any], name: Any, value: Any, threshold: Fraction) -> None:
    match spec["kind"]:
        case "gaussian":
            parts.gaussian[name] = number(name, value)
        case "categorical":
            parts.categorical[name] = category(name, value)
        case "bernoulli":
            value = plain(value)
            parts.bernoulli[name] = number(name, int(value) if type(value) is bool else value) > threshold
        case "counts":
            count = number(name, value)
            if count < 0:
                raise ValueError(f"{name!r}: {value!r} is negative")
            parts.counts.setdefault("counts", {})[name] = count
        case "text":
            found = tokens_of(name, value, spec)
            parts.counts["text", name] = {token: Fraction(n) for token, n in found.items()}
        case "tokens":
            if not all(type(token) is str for token in value):
                raise TypeError(f"{name!r}: {value!r} is not a list of strings")
            parts.counts["tokens", name] = {token: Fraction(n) for token, n in Counter(value).items()}
        case other:
            raise ValueError(f"{name!r}: no kind {other!r}")
