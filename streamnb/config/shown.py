"""The effective configuration, to be looked at."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from pydantic import SecretStr

from streamnb.config.tree import Config, ModelConfig, Section
from streamnb.config.units import duration_text, time_text

DURATIONS = frozenset(
    {
        ("kafka", "session_timeout"),
        ("kafka", "transaction_timeout"),
        ("kafka", "start_timeout"),
        ("event", "max_ahead"),
        ("model", "half_life"),
        ("snapshots", "every"),
        ("watchdog",),
    }
)


def describe(config: Config) -> str:
    """The effective configuration as YAML that can be loaded again, without secrets."""
    shown = {name: _shown(getattr(config, name), (name,)) for name in Config.model_fields}
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=110)


def _shown(value: object, path: tuple[str, ...]) -> object:
    match value:
        case ModelConfig():
            kind, options = value.options()
            return {"kind": kind} | {name: _shown(option, (*path, name)) for name, option in options.items()}
        case Section():
            return dict(_shown_fields(value, path))
        case Mapping():
            return {name: _shown(item, (*path, name)) for name, item in value.items()}
        case SecretStr():
            return "(secret)"
        case Path():
            return str(value)
        case tuple() | list():
            return [_shown(item, path) for item in value]
        case float() if path in DURATIONS:
            return duration_text(value)
        case float() if path == ("input", "start"):
            return time_text(value)
    return value


def _shown_fields(section: Section, path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    for name in type(section).model_fields:
        value = getattr(section, name)
        # a password that came from a file would stand there twice
        if not (name == "password" and getattr(section, "password_file", None) is not None):
            yield name, _shown(value, (*path, name))
