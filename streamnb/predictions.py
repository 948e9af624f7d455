"""Predictions as they are published: a whole batch is encoded in one call."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamnb.events import SOURCE_HEADER
from streamnb.transport import Output, Partition

Explanation = Sequence[tuple[str, float]]

_encode_lines = msgspec.json.Encoder().encode_lines


@dataclass(slots=True)
class Asked:
    """Events that get an answer, column by column."""

    keys: list[bytes | None] = field(default_factory=list)
    sources: list[bytes] = field(default_factory=list)
    """See `sources`."""
    times: list[float | None] = field(default_factory=list)
    """Of the records, in seconds since 1970."""
    ids: list[Any] = field(default_factory=list)
    """Any JSON value, as given, or its spelling as msgspec.Raw; None: the event's source stands for it."""
    labels: list[str | None] = field(default_factory=list)
    """What they came with."""
    late: list[bool] = field(default_factory=list)
    explanations: list[Explanation | None] = field(default_factory=list)

    def extend(self, *columns: Iterable[Any]) -> None:
        """Add events, whose columns are given in the order above."""
        for name, more in zip(self.__slots__, columns, strict=True):
            getattr(self, name).extend(more)


@dataclass(frozen=True, slots=True)
class Answered:
    """The answers to them."""

    asked: Asked
    best: Sequence[int]
    """The columns of the classes that are named, -1 for none."""
    probabilities: NDArray[np.float64]
    """(n_events, n_classes), NaN where a class was not yet known."""
    n_events: Sequence[int]
    """How many had been learned."""


class _Model(msgspec.Struct, gc=False):
    app: str
    events: int
    version: str


class _Contribution(msgspec.Struct, gc=False):
    feature: str
    contribution: float
    """JSON cannot say minus infinity: it is null."""


class _Prediction(msgspec.Struct, omit_defaults=True, gc=False):
    id: Any
    label: str | None
    probabilities: Any
    model: _Model
    explanation: list[_Contribution] | None = None
    late: bool = False
    actual: str | None = None


class Writer:
    """Spells answers. A type that spells their probabilities is made anew when the classes have changed."""

    def __init__(self, app: str, version: str) -> None:
        self._app, self._version = app, version
        self._labels: Sequence[str] = ()
        self._row = _row_of(())

    def outputs(self, labels: Sequence[str], answered: Answered) -> list[Output]:
        """Return the predictions; `labels` are the classes."""
        values = self._values(labels, answered)
        headers = [[(SOURCE_HEADER, source)] for source in answered.asked.sources]
        columns = zip(repeat("predictions"), answered.asked.keys, values, headers)
        return list(map(tuple.__new__, repeat(Output), columns))  # a third of the time of calling Output

    def _values(self, labels: Sequence[str], answered: Answered) -> list[bytes]:
        asked = answered.asked
        named_by = zip(asked.ids, asked.sources, strict=True)
        ids = [source.decode() if name is None else name for name, source in named_by]
        named = [labels[best] if best >= 0 else None for best in answered.best]
        rows = self._rows(labels, answered.probabilities)
        models = map(_Model, repeat(self._app), answered.n_events, repeat(self._version))
        explanations = [None if why is None else [_Contribution(*one) for one in why] for why in asked.explanations]
        predictions = map(_Prediction, ids, named, rows, models, explanations, asked.late, asked.labels)
        return _encode_lines(predictions).splitlines()

    def _rows(self, labels: Sequence[str], probabilities: NDArray[np.float64]) -> Iterable[object]:
        """What is encoded as the probabilities of each event: of the classes that were known."""
        if self._labels != labels:
            self._labels, self._row = labels, _row_of(labels)
        columns: list[list[Any]] = probabilities.T.tolist()
        if np.isnan(probabilities).any():
            columns = [[p if p == p else msgspec.UNSET for p in column] for column in columns]
        return map(self._row, *columns) if columns else repeat({})


def _row_of(labels: Sequence[str]) -> Callable[..., object]:
    """Return what takes a probability, or UNSET, for each of these classes and is encoded as those that are set."""
    names = [f"p{column}" for column in range(len(labels))]
    try:
        return msgspec.defstruct("Probabilities", names, rename=dict(zip(names, labels, strict=True)), gc=False)
    except ValueError:  # a label that no field may have

        def row(*probabilities: object) -> object:
            return {label: p for label, p in zip(labels, probabilities, strict=True) if p is not msgspec.UNSET}

        return row


def sources(partition: Partition, offsets: Iterable[int]) -> Iterable[bytes]:
    """Return what `Record.source` says of these records, in UTF-8."""
    template = f"{partition}:".encode().replace(b"%", b"%%") + b"%d"
    return map(template.__mod__, offsets)
