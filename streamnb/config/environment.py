"""`STREAMNB_SECTION__KEY` variables, laid over the marked tree."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from streamnb.config.marked import Marked, read_value
from streamnb.config.tree import Config, Section
from streamnb.errors import ConfigError

PREFIX = "STREAMNB_"


def overlay_environment(marked: Marked, environ: Mapping[str, str]) -> None:
    """Set every key that a variable names; only variables with `__` are read, and unknown ones are errors."""
    known = {variable(path): (path, info) for path, info in keys(Config)}
    for name in sorted(name for name in environ if name.startswith(PREFIX) and "__" in name):
        if name not in known:
            (nearest,) = difflib.get_close_matches(name, known, n=1, cutoff=0)
            raise ConfigError(f"environment variable {name}: there is no such key; the nearest is {nearest}")
        path, info = known[name]
        marked.put(path, _read(environ[name], info, name), f"environment variable {name}")


def keys(section: type[Section], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Every key that holds a value rather than a section."""
    for name, info in section.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Section):
            yield from keys(info.annotation, (*above, name))
        else:
            yield (*above, name), info


def variable(path: tuple[str, ...]) -> str:
    """The variable that sets this key."""
    return f"{PREFIX}{'_' if len(path) == 1 else ''}{'__'.join(path)}".upper()


def is_secret(info: FieldInfo) -> bool:
    """Whether the key's value must never be shown."""
    return SecretStr in _types(info.annotation)


def _types(annotation: object) -> set[object]:
    """The types that a union, or a single type, allows."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _types(arguments[0])
    if origin in (Union, UnionType):
        return set().union(*map(_types, arguments))
    return {annotation}


def _read(text: str, info: FieldInfo, name: str) -> object:
    types = _types(info.annotation)
    if is_secret(info):
        return text or None
    if types <= {str, Path, NoneType}:
        return None if NoneType in types and text in ("", "~", "null") else text
    return read_value(text, f"environment variable {name}")
