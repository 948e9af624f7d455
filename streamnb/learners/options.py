"""What the constructors' options may be."""

from collections.abc import Iterable, Mapping
from typing import Any

from streamnb.learners.values import Label, finite_number, plain_label, sort_key, sorted_by_type

READING = frozenset({"alpha", "priors", "smooth_priors", "var_smoothing", "ddof", "unseen", "weighting", "norm"})
"""Options that are applied when reading, so the state does not depend on them (but on the labels of a priors mapping).
"""


def number(name: str, value: object, *, least: float = 0.0, allowed: str) -> float:
    """Return a numeric option as a float."""
    found = finite_number(value)
    if found is None or not found >= least:
        raise ValueError(f"{name}={value!r}: allowed are {allowed}")
    return float(found)


def smoothing(alpha: object) -> float:
    """Return alpha: 0 (the limit), or a number that float64 can divide by."""
    value = number("alpha", alpha, allowed="numbers from 0 to 1e120")
    if 0.0 < value < 1e-200:
        raise ValueError(f"alpha={alpha!r}: allowed are 0 and numbers from 1e-200 on")
    return value


def flag(name: str, value: object) -> bool:
    """Return a boolean option."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: allowed are True and False")
    return value


def choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return an option that is one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r}: allowed are {', '.join(map(repr, allowed))}")
    return value


def half_life_seconds(value: object) -> float | None:
    """Return half_life in seconds, None for never."""
    if value is None:
        return None
    found = finite_number(value)
    if found is None or not found > 0.0:
        raise ValueError(f"half_life={value!r}: allowed are None and seconds above 0")
    return float(found)


def declared_classes(classes: object) -> list[Label]:
    """Return the labels of `classes=` in sorted order, each once."""
    if classes is None:
        return []
    if isinstance(classes, str | bytes | Mapping) or not isinstance(classes, Iterable):
        raise TypeError(f"classes={classes!r}: a list of labels is due")
    labels: dict[Label, None] = {}
    for label in map(plain_label, classes):
        for other in labels:
            if other == label and type(other) is not type(label):
                raise ValueError(f"classes: {other!r} and {label!r} are equal labels of two types")
        labels[label] = None
    return sorted_by_type(labels)


def given_priors(priors: object) -> dict[Label, float] | None:
    """Return a mapping of priors with plain labels, None for "empirical" and "uniform"; refuse everything else."""
    if not isinstance(priors, Mapping):
        choice("priors", priors, ("empirical", "uniform"))
        return None
    given: dict[Label, float] = {}
    for label, p in priors.items():
        found = finite_number(p)
        if found is None or not found >= 0.0:
            raise ValueError(f"priors: {label!r} has {p!r}; allowed are probabilities that sum to 1")
        given[plain_label(label)] = float(found)
    total = sum(given.values())
    if not abs(total - 1.0) <= 1e-9:
        raise ValueError(f"priors sum to {total!r}; they must sum to 1")
    return given


def json_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as JSON values: mappings as lists of pairs, because labels and names need not be strings."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            items = sorted(value.items(), key=lambda pair: sort_key(pair[0]))
            return {"pairs": [[plain(key), plain(item)] for key, item in items]}
        if isinstance(value, tuple):
            return {"tuple": [plain(item) for item in value]}
        if isinstance(value, list | set | frozenset):
            return [plain(item) for item in value]
        if hasattr(value, "item"):
            return value.item()
        return value

    return {name: plain(value) for name, value in options.items()}


def options_from_json(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that `json_options` was given."""

    def native(value: Any) -> Any:
        if isinstance(value, dict):
            if "pairs" in value:
                return {native(key): native(item) for key, item in value["pairs"]}
            return tuple(native(item) for item in value["tuple"])
        return [native(item) for item in value] if isinstance(value, list) else value

    return {name: native(value) for name, value in options.items()}


def threshold(binarize: object) -> float:
    """Return the value above which a Bernoulli feature is on."""
    found = finite_number(binarize)
    if found is None or found != found:
        raise ValueError(f"binarize={binarize!r}: allowed are numbers up to 1e120 in magnitude")
    return float(found)
