"""YAML + environment -> one frozen tree of settings, or an error that names file, line and key."""

import hashlib
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pydantic import SecretStr, ValidationError

from streamnb.config.environment import overlay_environment
from streamnb.config.marked import Marked, read_file
from streamnb.config.problems import explained, line
from streamnb.config.rules import broken_rules
from streamnb.config.shown import describe
from streamnb.config.tree import (
    Config,
    EventConfig,
    FilesConfig,
    HttpConfig,
    InputConfig,
    KafkaConfig,
    LimitsConfig,
    ModelConfig,
    OutputConfig,
    SecurityConfig,
    SnapshotsConfig,
    section_at,
    spelled,
)
from streamnb.config.units import FIRST_SECOND, LAST_SECOND, time_seconds
from streamnb.errors import ConfigError, why

__all__ = [
    "FIRST_SECOND",
    "LAST_SECOND",
    "Config",
    "EventConfig",
    "FilesConfig",
    "HttpConfig",
    "InputConfig",
    "KafkaConfig",
    "LimitsConfig",
    "ModelConfig",
    "OutputConfig",
    "SecurityConfig",
    "SnapshotsConfig",
    "describe",
    "load",
    "quick_form",
    "spelled",
    "time_seconds",
]


def load(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = MappingProxyType({}),
) -> Config:
    """Read the file, lay the environment and then the command line over it, and check everything.

    Without a path the file counts as empty. Raise ConfigError with one line for each thing that is wrong.
    """
    marked = Marked() if path is None else read_file(path)
    overlay_environment(marked, environ)
    marked.overlay(overrides, "command line")
    try:
        config = Config.model_validate(_without_empty_sections(marked.values))
    except ValidationError as exc:
        problems = exc.errors(include_url=False)
        raise ConfigError("\n".join(explained(problem, marked) for problem in problems)) from exc
    broken = [line(marked, path, problem) for path, problem in broken_rules(config)]
    if broken:
        raise ConfigError("\n".join(broken))
    return _filled_in(config, marked)


def quick_form(source: str, predictions: str, dead_letters: str | None = None) -> dict[str, object]:
    """The overrides for `streamnb run --input F --predictions F`.

    The app is named by a hash of the input's absolute path, so every input has snapshots of its own.
    """
    name = "-" if source == "-" else os.path.abspath(source)
    return {
        "app": f"quick-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}",
        "transport": "files",
        "files": {"input": source},
        "output": {"predictions": predictions, "dead_letters": dead_letters},
    }


def _without_empty_sections(values: dict[str, object], above: tuple[str, ...] = ()) -> dict[str, object]:
    """`kafka:` with nothing below it is the section with its defaults."""
    filled = dict(values)
    for name, below in values.items():
        if section_at((*above, name)) and (below is None or isinstance(below, dict)):
            filled[name] = _without_empty_sections(below or {}, (*above, name))
    return filled


def _filled_in(config: Config, marked: Marked) -> Config:
    kafka = config.kafka
    update: dict[str, object] = {}
    if kafka.instance is None:
        host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())
        update["instance"] = host[:200].strip(".") or "instance"
    if config.transport == "kafka" and kafka.security.password_file is not None:
        password = _password(kafka.security.password_file, marked)
        update["security"] = kafka.security.model_copy(update={"password": password})
    return config.model_copy(update={"kafka": kafka.model_copy(update=update)})


def _password(file: str, marked: Marked) -> SecretStr:
    path = ("kafka", "security", "password_file")
    try:
        text = Path(file).read_text("utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as exc:
        raise ConfigError(line(marked, path, f"{file} cannot be read: {why(exc)}")) from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(line(marked, path, f"{file} is not UTF-8")) from exc
    if not text:
        raise ConfigError(line(marked, path, f"{file} is empty"))
    return SecretStr(text)
