"""Where `inspect`, `explain` and `verify` take a model from: a snapshot, or what a configuration's daemon has saved."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streamnb.config import Config, EventConfig, LimitsConfig, ModelConfig, load
from streamnb.errors import ConfigError, InputFileError, SnapshotError, StateMismatch
from streamnb.learners import KINDS, build
from streamnb.learners.model import Model
from streamnb.snapshots import Snapshot, SnapshotStore, find, is_snapshot_place


@dataclass(frozen=True, slots=True)
class Source:
    """A model as it was saved, and the rules by which its events were read."""

    name: str
    """Where the snapshot lies, or which configuration it was saved for."""
    snapshot: Snapshot
    model: Model
    event: EventConfig
    limits: LimitsConfig
    labels: tuple[str, ...] | None
    """The only labels that events may carry, None if any may come."""
    config: Config | None = None
    """None for a bare snapshot."""


def source_of(path: Path) -> Source:
    """Read a snapshot, a folder of snapshots, or the newest snapshot of a configuration. Raise StreamnbError."""
    return of_snapshot(path) if is_snapshot_place(path) else of_config(path)


def of_snapshot(path: Path) -> Source:
    """A snapshot by itself: it tells the options of its model, and how events were read when it was taken."""
    if not path.exists():
        raise InputFileError(f"{path}: there is no such file or folder")
    try:
        found, snapshot = find(path, say_damaged)
    except SnapshotError as error:
        raise InputFileError(str(error)) from error
    rules = snapshot.settings
    try:
        model = KINDS[str(snapshot.shape["kind"])].from_bytes(snapshot.model)
        event, limits, given = (
            EventConfig.model_validate(_below(rules, "event")),
            LimitsConfig.model_validate(_below(rules, "limits")),
            ModelConfig.model_validate(_below(rules, "model")),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise InputFileError(f"{found}: the model or its settings cannot be read: {error}") from error
    labels = given.labels()
    return Source(str(found), snapshot, model, event, limits, None if labels is None else tuple(labels))


def of_config(path: Path) -> Source:
    """What a configuration's daemon saved last, read with the options that the configuration has now."""
    config = load(path, os.environ)
    snapshot = newest_of(config)
    kind, options = config.model.options()
    try:
        model = build(kind, **options)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"model: {error}") from error
    try:
        model.restore(snapshot.model)
    except ValueError as error:
        raise StateMismatch(f"{path}: its snapshot is of another model: {error}") from error
    labels = config.model.labels()
    name = f"snapshot of {snapshot.app}/{snapshot.instance}"
    return Source(name, snapshot, model, config.event, config.limits, None if labels is None else tuple(labels), config)


def newest_of(config: Config) -> Snapshot:
    """The newest whole snapshot of this instance; if it has none, the one that has learned most of the others'."""
    store = _store_of(config)
    newest = store.newest()
    if newest is None:
        newest = max(store.others(), key=lambda snapshot: sum(snapshot.learned.values()), default=None)
    store.close()
    if newest is None:
        place = config.snapshots.place
        raise InputFileError(f"{place}: holds no snapshot of app {config.app} yet; 'streamnb run' writes them")
    return newest


def say_damaged(name: str, error: SnapshotError) -> None:
    """Pass over it with a word on standard error."""
    words = str(error) if str(error).startswith(name) else f"{name}: {error}"
    print(f"streamnb: passed over: {words}", file=sys.stderr)


def _store_of(config: Config) -> SnapshotStore:
    from streamnb.cli.wiring import snapshot_store

    store = snapshot_store(config, say_damaged)
    if config.snapshots.store == "topic":
        store.open()  # which for a directory would lock it
    return store


def _below(settings: Mapping[str, object], name: str) -> object:
    return settings.get(name, {})
