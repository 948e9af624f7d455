"""What is wrong with a configuration, in one line: place, key, got, allowed."""

import difflib
import json

from pydantic_core import ErrorDetails

from streamnb.config.environment import is_secret, keys
from streamnb.config.marked import KeyPath, Marked
from streamnb.config.tree import OPTIONS, Config, ModelConfig, section_at

WORDS = {
    "string_type": "allowed is a text: write it in quotes",
    "string_too_short": "allowed is a text that is not empty",
    "int_type": "allowed is an integer",
    "float_type": "allowed is a number",
    "finite_number": "allowed is a finite number",
    "bool_type": "allowed is true or false",
    "dict_type": "allowed is a mapping",
    "model_type": "allowed is a mapping",
}
"""Our words for pydantic's types of error that speak of Python."""


def explained(problem: ErrorDetails, marked: Marked) -> str:
    """Put one of pydantic's findings into our words."""
    path: KeyPath = problem["loc"]
    match problem["type"]:
        case "extra_forbidden":
            return line(marked, path, f"unknown key; {_nearest(path, marked)}")
        case "missing":
            return line(marked, path, "missing")
        case "value_error":
            allowed = str(problem["ctx"]["error"])
        case kind:
            allowed = WORDS.get(kind) or problem["msg"].replace("Input should be", "allowed is")
    return line(marked, path, f"got {_got(path, problem['input'])}; {allowed}")


def line(marked: Marked, path: KeyPath, problem: str) -> str:
    """Say where a key was set and what is wrong with it."""
    return f"{marked.place(path) or 'configuration'}: {'.'.join(map(str, path))}: {problem}"


def _nearest(path: KeyPath, marked: Marked) -> str:
    """The key probably meant: a likely slip, else the same name elsewhere, else the least unlike."""
    name, section = str(path[-1]), section_at(path[:-1]) or Config
    siblings = list(section.model_fields)
    close = difflib.get_close_matches(name, siblings, n=1, cutoff=0.75)
    elsewhere = [".".join(known) for known, _ in keys(Config) if known[-1] == name]
    least_unlike = difflib.get_close_matches(name, siblings, n=1, cutoff=0)
    nearest = [*close, *elsewhere, *least_unlike][0]
    model = marked.values.get("model")
    if section is ModelConfig and isinstance(model, dict):
        siblings = ["kind", *OPTIONS.get(str(model.get("kind", "mixed")), siblings)]
    return f"the nearest is {nearest}; allowed are {', '.join(siblings)}"


def _got(path: KeyPath, value: object) -> str:
    secret = any(known == path[: len(known)] and is_secret(info) for known, info in keys(Config))
    if secret or section_at(path) is not None or isinstance(value, dict):
        # never the value itself: it is, or may hold, a secret
        kinds = ((dict, "a mapping"), (list, "a list"), (str, "a text"), (object, "a single value"))
        return next(name for kind, name in kinds if isinstance(value, kind))
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
