"""What `streamnb convert` does: models to skops files, and skops files to first snapshots.

A skops file is a zip of JSON and arrays. Reading one makes only objects of types that are trusted, and no others than
skops' own list (scikit-learn, numpy, scipy) are ever trusted here.
"""

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from streamnb import __version__
from streamnb.cli.sources import say_damaged, source_of
from streamnb.config import Config, load, spelled
from streamnb.errors import ConfigError, InputFileError, IoError, why
from streamnb.events import spelled_feature
from streamnb.learners.model import Model
from streamnb.processing import Processor
from streamnb.snapshots import Snapshot, write_whole

SUFFIX = ".skops"
SHOWN_NAMES = 8
SEED_LENGTH = 16
INSTALL = "pip install 'streamnb[sklearn]'"


@dataclass(frozen=True, slots=True)
class Exported:
    """A model written as a scikit-learn estimator."""

    file: str
    source: str
    estimator: str
    events: int
    classes: Sequence[str]
    columns: Sequence[str]

    def told(self) -> str:
        """Sentences for a person."""
        return (
            f"{self.file}: {self.estimator} of {self.source}, which has learned {self.events} events\n"
            f"classes: {_listed(self.classes)}\n"
            f"columns, in this order: {_listed(self.columns)}\n"
            f"read it with skops.io.load({self.file!r})"
        )


@dataclass(frozen=True, slots=True)
class Seeded:
    """An estimator written as the first snapshot of an app."""

    app: str
    instance: str
    place: str
    estimator: str
    events: int
    classes: Sequence[str]
    features: Sequence[str]
    other_options: Mapping[str, tuple[object, object]]
    """Options that the estimator has otherwise than the configuration, which decides."""

    def told(self) -> str:
        """Sentences for a person."""
        differing = [
            f"{name}: {theirs!r} in the estimator, {ours!r} in the configuration, which decides"
            for name, (theirs, ours) in self.other_options.items()
        ]
        lines = (
            f"{self.place}: first snapshot of {self.app}/{self.instance}, {self.events} events of a {self.estimator}",
            f"classes: {_listed(self.classes)}",
            f"features: {_listed(self.features)}",
            *differing,
            "'streamnb run' goes on learning from here, at the beginning of what is labelled",
            "keep the .skops file: should all snapshots be lost, it is needed again",
        )
        return "\n".join(lines)


def is_skops(path: Path) -> bool:
    """Whether this is a file of skops: by its name, or because it is a zip."""
    return path.suffix == SUFFIX or (path.is_file() and os.access(path, os.R_OK) and zipfile.is_zipfile(path))


def exported(place: Path, file: Path, columns: Sequence[str] | None, overwrite: bool) -> Exported:
    """Write the model as a fitted scikit-learn estimator. Raise StreamnbError; the file is then as it was."""
    if file.suffix != SUFFIX:
        raise ConfigError(f"{file}: the name of the file to write must end in {SUFFIX}")
    if columns is not None:
        raise ConfigError("--columns names the columns of a scikit-learn model, but the source is none")
    if file.is_dir():
        raise ConfigError(f"{file}: is a folder; name a file")
    if file.exists() and not overwrite:
        raise ConfigError(f"{file}: is there already; replace it with --overwrite")
    skops = _skops()
    source = source_of(place)
    model = source.model
    try:
        estimator = model.to_sklearn()
    except (TypeError, ValueError) as error:
        raise InputFileError(f"{source.name}: cannot become a scikit-learn model: {error}") from error
    _write(file, skops.io.dumps(estimator))
    return Exported(
        str(file),
        source.name,
        _name_of(estimator),
        model.n_events,
        [str(label) for label in model.classes],
        [spelled_feature(name) for name in model.features],
    )


def seeded(file: Path, config: Path, columns: Sequence[str] | None) -> Seeded:
    """Write the estimator as the first snapshot of the configuration's app. Raise StreamnbError, nothing written."""
    settings = load(config, os.environ)
    estimator = _read(file)
    seed = _model_of(file, estimator, columns)
    processor = _fitting(settings, seed)
    snapshot = _first_snapshot(settings, processor, hashlib.sha256(seed.to_bytes()).hexdigest()[:SEED_LENGTH])
    place = _save(settings, snapshot)
    ours = processor.model.options
    return Seeded(
        settings.app,
        settings.instance,
        place,
        _name_of(estimator),
        seed.n_events,
        [str(label) for label in seed.classes],
        [spelled_feature(name) for name in seed.features],
        {name: (seed.options[name], ours[name]) for name in seed.options if seed.options[name] != ours[name]},
    )


def _skops() -> ModuleType:
    try:
        import skops.io
    except ImportError as missing:
        raise ConfigError(f"{missing}: {INSTALL}") from missing
    return skops  # type: ignore[no-any-return]  # skops has no types


def _read(file: Path) -> Any:
    """The object in the file, if it is all of trusted types."""
    skops = _skops()
    try:
        with file.open("rb") as opened:
            untrusted = skops.io.get_untrusted_types(file=opened)
            if untrusted:
                raise InputFileError(
                    f"{file}: holds types that are not loaded from a file, since they could run code: "
                    f"{_listed(sorted(untrusted))}; a plain naive Bayes of scikit-learn holds none"
                )
            opened.seek(0)
            return skops.io.load(opened)
    except OSError as error:
        raise InputFileError(f"{file}: cannot be read: {why(error)}") from error
    except InputFileError:
        raise
    except Exception as error:  # of a damaged zip, JSON or array: whatever the readers of these raise
        raise InputFileError(f"{file}: is not a whole skops file: {type(error).__name__}: {error}") from error


def _model_of(file: Path, estimator: Any, columns: Sequence[str] | None) -> Model:
    """The learner that the estimator is, with names and labels as events have them."""
    steps = [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]
    first, inner = steps[0], steps[-1]
    try:
        if not hasattr(inner, "class_count_"):
            raise TypeError(
                f"{_name_of(estimator)} is no fitted naive Bayes; what starts a stream is a GaussianNB, MultinomialNB, "
                "ComplementNB, BernoulliNB or CategoricalNB, or an OrdinalEncoder before a CategoricalNB"
            )
        if not hasattr(first, "n_features_in_"):
            raise TypeError(
                f"{type(first).__name__} reads text, which the daemon does by itself, in models of kind mixed that no "
                f"estimator fits; its {type(inner).__name__} alone can start a stream of counts ({{'word': 2}}), with "
                "get_feature_names_out() as --columns"
            )
        inner.classes_ = _labels(inner.classes_)
        _name_columns(first, columns)
        return Model.from_sklearn(estimator)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputFileError(f"{file}: cannot start a stream: {error}") from error


def _labels(classes: Any) -> Any:
    """Labels as the daemon has them, which are texts: 1 is "1"."""
    import numpy as np

    try:
        return np.array([spelled(label) for label in classes.tolist()], object)
    except ValueError as error:
        raise ValueError(f"classes_: {error}; fit it again with texts as labels") from error


def _name_columns(estimator: Any, columns: Sequence[str] | None) -> None:
    import numpy as np

    n = estimator.n_features_in_
    known = getattr(estimator, "feature_names_in_", None)
    if columns is None and known is None:
        raise ValueError(
            f"it was fitted on an array, so its {n} columns have no names, but the features of an event do: "
            "name them with --columns, in the order of the array, or fit it on a data frame. (Hashed text, as of a "
            "HashingVectorizer, has no names to give)"
        )
    if columns is not None:
        if known is not None and list(known) != list(columns):
            raise ValueError(f"its columns have names already: {_listed(list(known))}; leave --columns out")
        if len(columns) != n or len(set(columns)) != n or not all(columns):
            raise ValueError(f"--columns: {len(columns)} given; due are {n} different names")
        estimator.feature_names_in_ = np.array(columns, object)


def _fitting(settings: Config, seed: Model) -> Processor:
    """What the configuration's daemon would begin with, having taken over the state. Raise ConfigError."""
    try:
        processor = Processor(settings, __version__)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"model: {error}") from error
    wanted, found = processor.model.shape(), seed.shape()
    differing = [
        f"{name} is {found.get(name)!r} of the estimator, and {wanted.get(name)!r} in the configuration"
        for name in {**found, **wanted}
        if found.get(name) != wanted.get(name) and (name in found) == (name in wanted)
    ]
    if seed.kind != processor.model.kind:
        differing = [f"kind is {seed.kind!r} of the estimator, and {processor.model.kind!r} in the configuration"]
    if differing:
        raise ConfigError(f"model: {'; '.join(differing)}. What fits: model: {_section(seed)}")
    try:
        processor.model.restore(seed.to_bytes())
    except ValueError as error:
        raise ConfigError(f"model: {error}") from error
    return processor


def _section(seed: Model) -> str:
    """The section `model` for this learner, in one line of YAML."""
    section: dict[str, object] = {"kind": seed.kind}
    section |= {name: value for name, value in seed.options.items() if value not in (None, False, "ignore", "tf")}
    return json.dumps(section, ensure_ascii=False)


def _first_snapshot(settings: Config, processor: Processor, seed: str) -> Snapshot:
    return Snapshot(
        app=settings.app,
        instance=settings.instance,
        version=__version__,
        taken=time.time(),
        shape=processor.model.shape(),
        settings=processor.settings(),
        learned={},
        learn_from={},
        noted={},
        topics={},
        classes={},
        lost=0,
        scores=processor.scores.to_dict(),
        marks={},
        model=processor.model.to_bytes(),
        seed=seed,
    )


def _save(settings: Config, snapshot: Snapshot) -> str:
    """Put it where the daemon looks, if nothing is there; return where that is."""
    from streamnb.cli.wiring import NoStore, snapshot_store

    store = snapshot_store(settings, say_damaged)
    if isinstance(store, NoStore):
        raise ConfigError("files.input is -, standard input: it always begins with an empty model")
    store.open()
    try:
        if store.newest() is not None or store.others():
            raise ConfigError(
                f"{settings.snapshots.place}: app {settings.app} has snapshots already, so it has begun to learn; "
                "name another app, or remove them"
            )
        store.save(snapshot)
    finally:
        store.close()
    return settings.snapshots.place


def _write(file: Path, data: bytes) -> None:
    try:
        write_whole(file, (data,))
    except OSError as error:
        raise IoError(f"{file}: cannot be written: {why(error)}") from error


def _name_of(estimator: Any) -> str:
    steps = getattr(estimator, "steps", None)
    return " + ".join(type(step).__name__ for _, step in steps) if steps else type(estimator).__name__


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(map(str, names[:SHOWN_NAMES])) + more
