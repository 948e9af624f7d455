"""Predictions of a whole batch: the same bytes that `events.prediction` makes of one event after another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamnb.events import SOURCE_HEADER, Event, prediction
from streamnb.transport import Output, Record

Explanation = Sequence[tuple[str, float]]

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines


@dataclass(frozen=True, slots=True)
class Answered:
    """Events that get an answer, column by column."""

    records: Sequence[Record]
    ids: Sequence[Any]
    labels: Sequence[str | None]
    """What they came with."""
    late: Sequence[bool]
    best: Sequence[int]
    """The columns of the classes that are named, -1 for none."""
    probabilities: NDArray[np.float64]
    """(n_events, n_classes), NaN where a class was not yet known."""
    n_events: Sequence[int]
    """How many had been learned."""
    explanations: Mapping[int, Explanation]
    """Those that there are, by row."""


class Writer:
    """Fills a template, which is made anew when the classes have changed."""

    def __init__(self, app: str, version: str) -> None:
        self._app, self._version = app, version
        self._labels: Sequence[str] | None = None
        self._template = b""
        self._spelled: list[bytes] = []

    def outputs(self, labels: Sequence[str], answered: Answered) -> list[Output]:
        """Return the predictions; `labels` are the classes."""
        if answered.explanations or not labels or np.isnan(answered.probabilities).any():
            return [self._one_by_one(labels, answered, row) for row in range(len(answered.records))]
        sources = _sources(answered.records)
        values = self._values(labels, answered, sources)
        make = tuple.__new__  # a third of the time
        return [
            make(Output, ("predictions", record.key, value, ((SOURCE_HEADER, source),)))
            for record, value, source in zip(answered.records, values, sources, strict=True)
        ]

    def _values(self, labels: Sequence[str], answered: Answered, sources: Sequence[bytes]) -> list[bytes]:
        self._bind(labels)
        template, spelled = self._template, self._spelled
        names = [
            b"%d" % name if type(name) is int else _encode(source.decode() if name is None else name)
            for name, source in zip(answered.ids, sources, strict=True)
        ]
        rows = _encode_lines(answered.probabilities.tolist()).split(b"\n")
        rows.pop()  # behind the last line
        columns = zip(names, answered.best, rows, answered.n_events, _ends(answered), strict=True)
        return [template % (name, spelled[best], *row[1:-1].split(b","), n, end) for name, best, row, n, end in columns]

    def _one_by_one(self, labels: Sequence[str], answered: Answered, row: int) -> Output:
        best, probabilities = answered.best[row], answered.probabilities[row].tolist()
        return prediction(
            Event(answered.ids[row], {}, None, 1.0, None, False),
            answered.records[row],
            label=labels[best] if best >= 0 else None,
            probabilities={label: p for label, p in zip(labels, probabilities, strict=True) if p == p},
            app=self._app,
            n_events=answered.n_events[row],
            version=self._version,
            late=answered.late[row],
            actual=answered.labels[row],
            explanation=answered.explanations.get(row),
        )

    def _bind(self, labels: Sequence[str]) -> None:
        if self._labels != labels:
            self._labels = labels
            self._spelled = [_encode(label) for label in labels]
            probabilities = b",".join(_escaped(label) + b":%b" for label in self._spelled)
            app, version = (_escaped(_encode(text)) for text in (self._app, self._version))
            model = b'{"app":' + app + b',"events":%d,"version":' + version + b"}"
            self._template = b'{"id":%b,"label":%b,"probabilities":{' + probabilities + b'},"model":' + model + b"%b}"


def _sources(records: Sequence[Record]) -> list[bytes]:
    """What `Record.source` says, in UTF-8."""
    partition, prefix, sources = None, b"", []
    for record in records:
        if record.partition is not partition:
            partition = record.partition
            prefix = f"{partition}:".encode()
        sources.append(b"%b%d" % (prefix, record.offset))
    return sources


def _ends(answered: Answered) -> list[bytes]:
    """What stands behind the model: nothing, for most."""
    if not any(answered.late) and all(label is None for label in answered.labels):
        return [b""] * len(answered.late)
    return [
        (b',"late":true' if late else b"") + (b"" if label is None else b',"actual":' + _encode(label))
        for late, label in zip(answered.late, answered.labels, strict=True)
    ]


def _escaped(piece: bytes) -> bytes:
    return piece.replace(b"%", b"%%")
