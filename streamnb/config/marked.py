"""YAML and environment as one plain tree that remembers where every key came from."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from streamnb.config.tree import section_at, spelled
from streamnb.errors import ConfigError, why

KeyPath = tuple[str | int, ...]
TAG = "tag:yaml.org,2002:"


class _CoreLoader(yaml.SafeLoader):
    """YAML 1.2's core schema: `no` is a text, `2026-01-31` is a text, `1e-9` is a number."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own class attribute


for _tag, _pattern, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
):
    _CoreLoader.add_implicit_resolver(TAG + _tag, re.compile(rf"(?:{_pattern})\Z"), _first)


@dataclass(slots=True)
class Marked:
    """A tree of plain values, and for each key's path the place that set it."""

    values: dict[str, object] = field(default_factory=dict)
    places: dict[KeyPath, str] = field(default_factory=dict)

    def place(self, path: KeyPath) -> str | None:
        """Where this key, or the nearest one above it, was set."""
        for length in range(len(path), -1, -1):
            if (place := self.places.get(path[:length])) is not None:
                return place
        return None

    def put(self, path: tuple[str, ...], value: object, place: str) -> None:
        """Set one key, making the mappings above it; what was known of the places below is forgotten."""
        tree = self.values
        for depth, name in enumerate(path[:-1], start=1):
            below = tree.get(name)
            if below is None:
                below = tree[name] = {}
            if not isinstance(below, dict):
                name = ".".join(path[:depth])
                raise ConfigError(f"{self.place(path[:depth])}: {name}: allowed is a mapping")
            tree = below
        for known in [known for known in self.places if known[: len(path)] == path]:
            del self.places[known]
        tree[path[-1]] = value
        self.places[path] = place

    def overlay(self, overrides: Mapping[str, object], place: str, above: tuple[str, ...] = ()) -> None:
        """Set every key of a mapping of sections."""
        for name, value in overrides.items():
            if isinstance(value, Mapping) and section_at((*above, name)):
                self.overlay(value, place, (*above, name))
            else:
                self.put((*above, name), value, place)


def read_file(path: Path) -> Marked:
    """The tree of a YAML file, each key marked `file:line`."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: cannot be read: {why(exc)}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: not UTF-8: byte {exc.start}") from exc
    node = _compose(text.removeprefix("\ufeff"), str(path))
    if node is None:
        return Marked({}, {(): str(path)})
    if not isinstance(node, yaml.MappingNode):
        place = _place(node, str(path))
        raise ConfigError(f"{place}: got {_got(node)}; allowed is a mapping like 'app: fraud'")
    marked = Marked(places={(): str(path)})
    marked.values = dict(_mapping(node, str(path), (), marked.places, ()))
    return marked


def read_value(text: str, place: str) -> object:
    """The value that a text has in YAML, from outside a file."""
    node = _compose(text, place)
    return None if node is None else _value(node, place, (), {}, ())


def _compose(text: str, place: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_CoreLoader)
    except yaml.MarkedYAMLError as exc:
        # without the snippet that str(exc) shows: it may be a password
        where = f"{place}:{exc.problem_mark.line + 1}" if exc.problem_mark else place
        reasons = ", ".join(part for part in (exc.context, exc.problem) if part)
        raise ConfigError(f"{where}: not YAML: {reasons}") from exc
    except yaml.YAMLError as exc:
        raise ConfigError(f"{place}: not YAML: a character that YAML does not allow") from exc
    except RecursionError as exc:
        raise ConfigError(f"{place}: not YAML: nested too deeply") from exc
    return node


def _value(
    node: yaml.Node, file: str, path: KeyPath, places: dict[KeyPath, str], above: tuple[yaml.Node, ...]
) -> object:
    if node in above:
        raise ConfigError(f"{_place(node, file)}: an anchor that contains itself")
    if isinstance(node, yaml.MappingNode) and node.tag == TAG + "map":
        return dict(_mapping(node, file, path, places, (*above, node)))
    if isinstance(node, yaml.SequenceNode) and node.tag == TAG + "seq":
        values = []
        for index, item in enumerate(node.value):
            places[(*path, index)] = _place(item, file)
            values.append(_value(item, file, (*path, index), places, (*above, node)))
        return values
    return _scalar(node, file)


def _mapping(
    node: yaml.MappingNode, file: str, path: KeyPath, places: dict[KeyPath, str], above: tuple[yaml.Node, ...]
) -> Iterator[tuple[str, object]]:
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        place = _place(key_node, file)
        try:
            key = spelled(_scalar(key_node, file))
        except ValueError as exc:
            raise ConfigError(f"{place}: a key is a text, got {_got(key_node)}: write it in quotes") from exc
        if key in seen:
            name = ".".join(map(str, (*path, key)))
            raise ConfigError(f"{place}: {name}: the key is there twice, first in line {seen[key]}")
        seen[key] = key_node.start_mark.line + 1
        places[(*path, key)] = place
        yield key, _value(value_node, file, (*path, key), places, above)


def _scalar(node: yaml.Node, file: str) -> object:
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(f"{_place(node, file)}: got {_got(node)} where a single value belongs")
    text: str = node.value
    try:
        match node.tag.removeprefix(TAG):
            case "null":
                return None
            case "bool":
                return text.lower() == "true"
            case "int":
                return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
            case "float":
                return float(re.sub(r"\.(?=[iInN])", "", text))
            case "str":
                return text
    except ValueError as exc:
        raise ConfigError(f"{_place(node, file)}: not a number that can be used: {text[:40]}") from exc
    raise ConfigError(f"{_place(node, file)}: the tag {node.tag} is not allowed")


def _place(node: yaml.Node, file: str) -> str:
    return f"{file}:{node.start_mark.line + 1}"


def _got(node: yaml.Node) -> str:
    match node:
        case yaml.MappingNode():
            return "a mapping"
        case yaml.SequenceNode():
            return "a list"
    return f"{node.value[:40]!r}"
