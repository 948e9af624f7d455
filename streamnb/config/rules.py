"""What one key's value demands of another's."""

import os
from collections.abc import Iterable, Iterator
from itertools import combinations

from streamnb.config.tree import OPTIONS, Config, ModelConfig, SecurityConfig

Broken = Iterator[tuple[tuple[str, ...], str]]
"""The path of the key to blame, and what is wrong with it."""


def broken_rules(config: Config) -> Broken:
    """Every rule between keys that this configuration breaks."""
    match config.transport:
        case "kafka":
            yield from _kafka(config)
        case "files":
            yield from _files(config)
    yield from _event_paths(config)
    yield from _model(config.model)
    if config.snapshots.store == "topic" and config.transport == "files":
        yield ("snapshots", "store"), "got topic; files keep their snapshots in a directory"


def _kafka(config: Config) -> Broken:
    reading, writing = config.input, config.output
    if not (reading.labelled or reading.unlabelled):
        yield ("input",), "there is nothing to read: name topics in input.labelled or input.unlabelled"
    if writing.predictions is None:
        yield ("output", "predictions"), "missing: predictions need a topic"
    if config.snapshots.store == "topic" and config.snapshots.topic is None:
        yield ("snapshots", "topic"), "missing: snapshots.store is topic"
    topics = [
        *((("input", "labelled"), topic) for topic in reading.labelled),
        *((("input", "unlabelled"), topic) for topic in reading.unlabelled),
        *(
            (path, topic)
            for path, topic in (
                (("output", "predictions"), writing.predictions),
                (("output", "dead_letters"), writing.dead_letters),
                (("snapshots", "topic"), config.snapshots.topic),
            )
            if topic is not None
        ),
    ]
    for path, topic in topics:
        if not _legal_topic(topic):
            yield path, f"got {topic!r}; allowed in a topic's name are 1 to 249 of A-Z a-z 0-9 . _ -"
    yield from _twice(topics, "topic")
    yield from _security(config.kafka.security)


def _legal_topic(topic: str) -> bool:
    plain = topic.isascii() and topic.replace(".", "").replace("_", "").replace("-", "").isalnum()
    return (plain or set(topic) <= set("._-")) and len(topic) <= 249 and topic not in (".", "..")


def _files(config: Config) -> Broken:
    files, output = config.files, config.output
    if files.input is None:
        yield ("files", "input"), "missing: allowed is the path of a file of JSON lines, or -"
    if output.predictions is None:
        yield ("output", "predictions"), "missing: allowed is a path, or - for standard output"
    paths = (
        (("files", "input"), files.input),
        (("output", "predictions"), output.predictions),
        (("output", "dead_letters"), output.dead_letters),
    )
    named = [(path, name) for path, name in paths if name is not None]
    outputs = [(path, name) for path, name in named if path[0] == "output"]
    yield from _twice([(path, os.path.realpath(name)) for path, name in named if name != "-"], "file")
    yield from _twice([(path, name) for path, name in outputs if name == "-"], "output")


def _twice(uses: Iterable[tuple[tuple[str, ...], str]], what: str) -> Broken:
    first: dict[str, tuple[str, ...]] = {}
    for path, name in uses:
        if name in first:
            yield path, f"the {what} {name} is already used in {'.'.join(first[name])}"
        first.setdefault(name, path)


def _security(security: SecurityConfig) -> Broken:
    here = ("kafka", "security")
    if security.password is not None and security.password_file is not None:
        yield (*here, "password_file"), "allowed is one of password and password_file"
    if security.protocol.startswith("sasl"):
        for name in ("sasl_mechanism", "username"):
            if getattr(security, name) is None:
                yield (*here, name), f"missing: the protocol {security.protocol} needs it"
        if security.password is None and security.password_file is None:
            yield (*here, "password"), f"missing: the protocol {security.protocol} needs it, or password_file"
    if (security.cert_file is None) != (security.key_file is None):
        given, lacking = ("cert_file", "key_file") if security.cert_file else ("key_file", "cert_file")
        yield (*here, lacking), f"missing: {given} needs it"


def _event_paths(config: Config) -> Broken:
    """Paths may lie inside the features, which lose them, but in no other way inside each other."""
    event = config.event
    paths = [
        (name, getattr(event, name))
        for name in ("features", "id", "label", "timestamp", "weight")
        if getattr(event, name) not in (None, ".")
    ]
    for (name, path), (other, inner) in combinations(paths, 2):
        around = inner.startswith(f"{path}.") and name != "features"
        if path == inner or path.startswith(f"{inner}.") or around:
            yield ("event", other), f"got {inner}, which overlaps with event.{name}, {path}"


def _model(model: ModelConfig) -> Broken:
    allowed = OPTIONS[model.kind]
    for name in model.model_fields_set - {"kind", *allowed}:
        yield ("model", name), f"the kind {model.kind} has no such option; allowed are {', '.join(allowed)}"
    if isinstance(model.priors, dict) and model.classes is not None:
        strangers = sorted(set(model.classes) - set(model.priors))
        if strangers:
            yield ("model", "classes"), f"model.priors has no probability for {', '.join(strangers)}"
