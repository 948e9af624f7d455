"""Events that need no second look: numbers of features that the model knows, in runs of one layout.

They are read as bytes by the template of those before, else decoded by type. Anything else is left to
`events.Decoder`, which alone knows what is refused and why. What is taken here is, to the bit, what would be taken
there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamnb.config import EventConfig, LimitsConfig
from streamnb.errors import EventError
from streamnb.learners.dense import Layout, layout_of
from streamnb.learners.kernels.layout import LARGEST_NUMBER
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.model import Model
from streamnb.scanning import LEFT, UNTRIED
from streamnb.slices import Slices
from streamnb.templates import Scan, Template, Templates, template_of
from streamnb.transport import Run

PARTS = ("id", "label", "weight", "timestamp", "features")
FORBIDDEN = ('"', "\\", ".")
CANNOT_DECODE = (ValueError, TypeError, RecursionError, OverflowError, MemoryError)
PLAIN_IDS = {int, str, type(None)}
MOST_LAYOUTS = 100
LONGEST_PAUSE = 64
FEWEST = 16
"""So many events of one layout, one after another, are worth the while: the general path is as fast for fewer."""
MOST_TRIES = 4
"""Templates that are made of one run's events."""
NONE = -1
"""In place of the number of a layout."""

Decode = Callable[[Any], Any]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Typed:
    """Events of one layout, column by column: none has a weight of its own."""

    layout: Layout
    ids: Sequence[Any]
    """JSON values, or their spelling as msgspec.Raw."""
    labels: Sequence[str | None]
    labelled: Mask
    """Which have a label."""
    times: Sequence[float | None]
    table: Floats
    """(n_events, n_features), in the order of the layout: what the model takes."""


class TypedReader:
    """Takes out of runs of records what it can. `seconds` gives the time of an event, or refuses it.

    Ids of labelled events are read only where `every_id` is wanted.
    """

    def __init__(
        self,
        config: EventConfig,
        limits: LimitsConfig,
        model: Model,
        seconds: Callable[[object, float | None], float | None],
        every_id: bool,
    ) -> None:
        self._decode = _decoder(config)
        self._limits, self._model, self._seconds, self._every_id = limits, model, seconds, every_id
        self._templates = Templates({f'"{key}"'.encode(): part for part, key in _keys(config).items()})
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._pause = self._left_out = 0

    def warm_up(self) -> None:
        """Have the kernel compiled."""
        event = b'{"x":{"a":1}}'
        if self._decode is not None and (template := template_of(event, ["a"], {b'"x"': "features"})):
            Scan(Slices.of([event]), len(event)).take(template, 0.0, 1.0)

    def forget_layouts(self) -> None:
        """The model has other names now."""
        self._layouts.clear()
        self._templates.clear()

    def sorted(self, run: Run, known: Collection[str]) -> Iterator[tuple[Run, Typed | None]]:
        """Yield the run in parts, in order; `known` are the labels that may be taken without a question.

        Where few can be taken, most runs are not tried, so that trying costs next to nothing.
        """
        if self._decode is None or len(run) < FEWEST:
            yield run, None
            return
        if self._left_out < self._pause:
            self._left_out += 1
            yield run, None
            return
        found = self._found(run, known, self._decode)
        yield from found.parts()
        self._left_out = 0
        self._pause = 0 if 2 * found.count() >= len(run) else min(LONGEST_PAUSE, 2 * self._pause + 1)

    def _found(self, run: Run, known: Collection[str], decode: Decode) -> "_Found":
        labels = {f'"{label}"'.encode(): label for label in known if label in self._model.labels.slots}
        found = _Found(run, self._limits.event_bytes)
        for template in list(self._templates):
            self._settle(found, template, labels)
        names, tries = set(labels.values()), MOST_TRIES
        for row in np.flatnonzero(found.scan.taken == UNTRIED).tolist():
            if found.scan.taken[row] != UNTRIED:
                continue  # by the template of an earlier one
            found.scan.taken[row] = LEFT
            document = found.run.values[row] or b""
            features = self._decoded(found, row, document, names, decode)
            if features and tries:
                tries -= 1
                if learned := self._templates.learned(document, features):
                    self._settle(found, learned, labels)
        return found

    def _settle(self, found: "_Found", template: Template, labels: Mapping[bytes, str]) -> None:
        """Read the events of a template, and take those that can be."""
        layout = self._layout(template.features)
        if layout is None:
            return
        rows = found.scan.take(template, layout.least, LARGEST_NUMBER)
        fits: Mask = np.ones(len(rows), np.bool_)
        labelled = "label" in template.named
        if labelled:
            named = np.fromiter(map(labels.get, found.scan.names("label", rows)), object, len(rows))
            found.labels[rows] = named
            fits &= named != None  # noqa: E711  # of each
        if template.timed:
            self._time(found, rows, fits, found.scan.values[rows, len(template.features)].tolist())
        elif "timestamp" in template.named:
            self._time(found, rows, fits, map(msgspec.json.decode, found.scan.names("timestamp", rows)))
        elif None in found.times:
            self._time(found, rows, fits, repeat(None))
        if not fits.all():
            rows = rows[fits]
        found.take(layout, rows, labelled)
        if "id" in template.named and (self._every_id or not labelled):
            found.ids[rows] = np.fromiter(map(msgspec.Raw, found.scan.names("id", rows)), object, len(rows))

    def _time(self, found: "_Found", rows: Ints, fits: Mask, said: Iterable[object]) -> None:
        """Find the times of events that say `said`; what is refused does not fit."""
        for at, (row, timestamp) in enumerate(zip(rows.tolist(), said, strict=False)):
            try:
                found.times[row] = self._seconds(timestamp, found.times[row])
            except EventError:
                fits[at] = False

    def _decoded(self, found: "_Found", row: int, document: bytes, known: Collection[str], decode: Decode) -> list[str]:
        """Take an event, decoded by type, if that can be done: return the names of its features."""
        time = found.times[row]
        try:
            event = decode(document)
            names = list(event.features or ())
            plain = (
                (event.label is None or event.label in known) and event.weight is None and type(event.id) in PLAIN_IDS
            )
            if event.timestamp is not None or time is None:
                time = self._seconds(event.timestamp, time)
        except (*CANNOT_DECODE, EventError):
            return []
        layout = self._layout(tuple(names)) if plain and names else None
        if layout is None:
            return []
        values = list(event.features.values())
        if not all(layout.least <= value < LARGEST_NUMBER for value in values):
            return []
        found.take(layout, row, event.label is not None)
        found.scan.widen(len(names))
        found.scan.values[row, : len(names)] = values
        found.ids[row], found.labels[row], found.times[row] = event.id, event.label, time
        return names

    def _layout(self, names: tuple[str, ...]) -> Layout | None:
        if names not in self._layouts and len(names) <= self._limits.event_features:
            if len(self._layouts) == MOST_LAYOUTS:
                self._layouts.clear()
            if layout := layout_of(self._model, names):
                self._layouts[names] = layout
        return self._layouts.get(names)


class _Found:
    """What has been taken of a run."""

    def __init__(self, run: Run, event_bytes: int) -> None:
        self.run = run
        documents = run.values if isinstance(run.values, Slices) else Slices.of(run.values)
        self.scan = Scan(documents, event_bytes)
        self.times = list(run.timestamps)
        self.ids: Array = np.full(len(run), None)
        self.labels: Array = np.full(len(run), None)
        self._labelled = np.zeros(len(run), np.bool_)
        self._numbers: dict[Layout, int] = {}
        self._layouts = np.full(len(run), NONE)

    def count(self) -> int:
        """Return how many events have been taken."""
        return int(np.count_nonzero(self._layouts != NONE))

    def take(self, layout: Layout, rows: Ints | int, labelled: bool) -> None:
        """Note that these events have been taken."""
        self._labelled[rows] = labelled
        self._layouts[rows] = self._numbers.setdefault(layout, len(self._numbers))

    def parts(self) -> Iterator[tuple[Run, Typed | None]]:
        """Yield the run, cut where the layout changes; where it soon does again, nothing has been taken."""
        layouts = list(self._numbers)
        sizes = np.diff(self._cuts())
        self._layouts[np.repeat(sizes < FEWEST, sizes)] = NONE
        for start, stop in pairwise(self._cuts()):
            part, number = self.run.part(start, stop), self._layouts[start]
            if number == NONE:
                yield part, None
                continue
            layout = layouts[number]
            yield (
                part,
                Typed(
                    layout,
                    self.ids[start:stop].tolist(),
                    self.labels[start:stop].tolist(),
                    self._labelled[start:stop],
                    self.times[start:stop],
                    self.scan.values[start:stop, : len(layout.slots)],
                ),
            )

    def _cuts(self) -> list[int]:
        return [0, *(np.flatnonzero(np.diff(self._layouts)) + 1).tolist(), len(self.run)]


def _keys(config: EventConfig) -> dict[str, str]:
    keys: dict[str, str | None] = {part: getattr(config, part) for part in PARTS}
    return {part: key for part, key in keys.items() if key is not None}


def _decoder(config: EventConfig) -> Decode | None:
    """Return what decodes an event whose features are all numbers, and raises one of CANNOT_DECODE for any other.

    Every key must be one that is looked for: of what is skipped nobody would know whether it is JSON. None if the
    configured paths are not plain keys.
    """
    present = _keys(config)
    plain = all(key.isprintable() and not any(sign in key for sign in FORBIDDEN) for key in present.values())
    if not plain or len(set(present.values())) < len(present):
        return None
    absent: dict[str, Any] = {part: None for part in PARTS if part not in present}
    fields: list[Any] = [(part, dict[str, float] if part == "features" else Any, None) for part in present]
    typed = msgspec.defstruct(
        "TypedEvent", fields, rename=present, forbid_unknown_fields=True, gc=False, namespace=absent
    )
    decode: Decode = msgspec.json.Decoder(typed).decode
    return decode
