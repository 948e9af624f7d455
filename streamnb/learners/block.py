"""What every likelihood block can do: the machinery of a model runs over a list of these."""

import abc
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import countOf
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from streamnb.learners.copying import ArrayInPieces, InPieces
from streamnb.learners.kernels.layout import SUM_FIELDS
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.tables import Buffer, Names, Shape
from streamnb.learners.values import sort_key

Entries: TypeAlias = tuple[list[int], list[int] | None, list[float] | None, list[Any]]
"""One event as one block sees it: slots (-1: not known), what goes with each, values, and the names of the -1s."""


@dataclass(slots=True)
class Batch:
    """The rows of a batch as the kernels take them; see `kernels.layout`."""

    n_rows: int
    n_classes: int
    order: Ints
    events: Floats


@dataclass(slots=True)
class Sums:
    """What the blocks add up and the answers.

    See `kernels.layout`. Class by slot in `sums`, by column in `probabilities`.
    """

    sums: Floats
    unseen: Ints
    probabilities: Floats
    """(n_rows + 1, n_classes): one row more, to work in."""
    best: Ints
    first: int = 1
    """1 for the block that runs first: it sets the sums to zero."""


def new_sums(n_rows: int, n_classes: int) -> Sums:
    """Return room for the sums and answers of a batch."""
    return Sums(
        sums=np.empty((n_rows, n_classes, SUM_FIELDS)),
        unseen=np.empty(n_rows + 1, np.int64),
        probabilities=np.empty((n_rows + 1, n_classes)),
        best=np.empty(n_rows, np.int64),
    )


class Likelihood(NamedTuple):
    """One line of a likelihood table: the numbers of one feature (and category or token), per label."""

    feature: Any
    value: Any
    numbers: Mapping[Any, Mapping[str, float]]


def shares(count: Floats, alpha: float, whole: Floats, even: Array | float) -> Floats:
    """Return (count + alpha) / whole; where nothing was learned nor is smoothed, the even share."""
    out: Floats = np.broadcast_to(even, count.shape).copy()
    np.divide(count + alpha, whole, out=out, where=whole > 0.0)
    return out


class Block(abc.ABC):
    """One likelihood block: raw sufficient statistics of some features, per class, and how they are read."""

    kind: str
    names: Names
    n_arrays: int
    """How many arrays `dump` returns."""

    @abc.abstractmethod
    def reserve(self, n_classes: int) -> None:
        """Make room for this many classes."""

    @abc.abstractmethod
    def encode(self, items: Iterable[tuple[Any, Any]]) -> Entries:
        """Validate features and look them up.

        Raise ValueError or TypeError naming feature, value and what is allowed.
        """

    @abc.abstractmethod
    def push(self, buffer: Buffer, row: int, entries: Entries, learn: bool) -> None:
        """Append a validated event to a batch."""

    usual: frozenset[type]
    """The types of values that `write` takes."""
    commonest: type
    """The one that most have."""

    @abc.abstractmethod
    def shape(self, names: tuple[Any, ...]) -> Shape | None:
        """Look names up, and keep the shape if events of this kind repeat; None if one is not known, or no string."""

    @abc.abstractmethod
    def write(self, buffer: Buffer, shape: Shape, values: Collection[Any]) -> int:
        """Write values of the usual types after the last row of a batch, `buffer.end_row` makes them the next one.

        Return how many entries there are; -1, and `encode` is due, if a value needs a second look.
        """

    def are_small(self, values: Collection[Any]) -> bool:  # noqa: ARG002
        """Whether numbers that `write` took are within the limits. The kernels for one event see to it themselves."""
        return True

    def are_usual(self, values: Collection[Any], n: int) -> bool:
        """Whether the types of `n` values are those that `write` takes."""
        return countOf(map(type, values), self.commonest) == n or self.usual.issuperset(map(type, values))

    def write_event(self, buffer: Buffer, x: dict[Any, Any]) -> int:
        """Do so with an event whose features all belong to this block; -1 also if a name needs a second look."""
        shape = self.names.latest
        if [*x] != shape.names:
            names = tuple(x)
            found = self.names.shapes.get(names) or self.shape(names)
            if found is None:
                return -1
            shape = self.names.latest = found
        values = x.values()
        return self.write(buffer, shape, values) if self.are_usual(values, shape.n) else -1

    @abc.abstractmethod
    def settle(self, buffer: Buffer, n_classes: int) -> None:
        """Take up the batch's new names, and make room for them and for this many classes."""

    @abc.abstractmethod
    def predict_learn(self, buffer: Buffer, batch: Batch, sums: Sums) -> None:
        """Read each row and then learn it if it has a label, in order."""

    @abc.abstractmethod
    def learn(self, buffer: Buffer, batch: Batch) -> None:
        """Learn each row that has a label, in order."""

    @abc.abstractmethod
    def predict_one(
        self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, prior: int, read: float, sums: Sums
    ) -> int:
        """Read the event at the start of a buffer and finish its answer; return the best column.

        `REFUSED`, and `encode` is due, if a number is not within the limits.
        """

    @abc.abstractmethod
    def learn_one(self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, label: int, w: float) -> bool:
        """Learn the event at the start of a buffer, and its class; names and label are known.

        False, and nothing is learned, if a number is not within the limits or makes a count that is held differently.
        """

    @abc.abstractmethod
    def check_unlearn(self, entries: Entries, label: int, w: float, last: bool) -> None:
        """Raise ValueError if this event cannot have been learned; `last`: it would be the last one of its class."""

    @abc.abstractmethod
    def unlearn(self, entries: Entries, label: int, w: float, order: Ints) -> None:
        """Take back an event that `check_unlearn` has let pass."""

    @abc.abstractmethod
    def forget_class(self, label: int, last: int) -> None:
        """Zero a class's statistics and move those of the last class into its slot."""

    @abc.abstractmethod
    def scale(self, factor: float, n_classes: int) -> None:
        """Multiply every weight by a power of two."""

    @abc.abstractmethod
    def merge(self, other: Self, classes: Ints, n_classes: int) -> None:
        """Add another block's statistics; `classes[c]` is this model's slot for the other's class c."""

    @property
    @abc.abstractmethod
    def n_features(self) -> int:
        """How many features are known."""

    @abc.abstractmethod
    def features(self) -> list[Any]:
        """The known features, unsorted."""

    @abc.abstractmethod
    def dump(self, order: Ints) -> tuple[dict[str, Any], list[Array]]:
        """Return names (as JSON) and arrays, both in sorted order: the block's whole state."""

    @abc.abstractmethod
    def load(self, names: Mapping[str, Any], arrays: list[Array], n_classes: int) -> None:
        """Take over a dumped state; classes are in the slots 0, 1, ..."""

    @property
    def n_lines(self) -> int:
        """How many features, or categories or tokens of features, are known: the lines of the likelihood table."""
        return len(self.names)

    def line(self, slot: int) -> tuple[Any, Any]:
        """The feature in a slot, and its category or token; None for that where a feature is one line."""
        return self.names.names[slot], None

    def line_order(self, slot: int) -> tuple[Any, ...]:
        """What lines are sorted by: features that are one line each, then feature by feature."""
        feature, value = self.line(slot)
        return ((), sort_key(feature)) if value is None else (sort_key(feature), sort_key(value))

    @abc.abstractmethod
    def numbers(self, slots: slice, columns: Ints, read: float) -> dict[str, Floats]:
        """Return what these lines say of the classes in these slots.

        `p` and what it is made of, or the moments; each (n_lines, n_classes).
        """

    def table(self, labels: list[Any], order: Ints, read: float) -> Iterable[Likelihood]:
        """Yield what each line says, per class, in sorted order."""
        numbers = self.numbers(slice(0, self.n_lines), order, read)
        rows = {name: array.tolist() for name, array in numbers.items()}
        for slot in sorted(range(self.n_lines), key=self.line_order):
            said = {label: {name: row[slot][c] for name, row in rows.items()} for c, label in enumerate(labels)}
            yield Likelihood(*self.line(slot), said)

    @abc.abstractmethod
    def names_of(self, entries: Entries) -> list[Any]:
        """The names of an event's entries in an explanation.

        A feature or (feature, token), None for what is unknown.
        """

    takes_arrays = False
    """Whether `fill` is there: every value of this block is a number."""
    presents_columns = False
    """Whether `fill_columns` and `fill_sparse` are there: a row of an array presents all its columns, stored or not."""

    def fill(self, buffer: Buffer, names: list[Any], values: Array, learned: Array) -> None:
        """Make a batch of a dense array with named columns; `learned` says which rows will be learned."""
        raise NotImplementedError

    def fill_columns(self, buffer: Buffer, values: Array, learned: Array) -> None:
        """Make a batch of a dense array whose columns are named 0, 1, ..."""
        raise NotImplementedError

    def fill_sparse(self, buffer: Buffer, X: Any, learned: Array) -> None:
        """Make a batch of a scipy sparse matrix whose columns are named 0, 1, ..."""
        raise NotImplementedError

    by_slot: tuple[str, ...] = ()
    """The arrays with a row for each line, of which a batch changes none but the rows in its buffer's `slots`."""

    def begin_copy(self) -> tuple[Self, list[InPieces]]:
        """Return a copy that is only to be read, and what of it is still to be made: the arrays by slot."""
        return self._begin_copy({}, [])

    def _begin_copy(self, instead: Mapping[str, Any], parts: list[InPieces]) -> tuple[Self, list[InPieces]]:
        arrays = {name: ArrayInPieces(getattr(self, name)[: self.n_lines]) for name in self.by_slot}
        twin = self._copy_but({**instead, **{name: part.copy for name, part in arrays.items()}})
        return twin, [*parts, *arrays.values()]

    def copy(self) -> Self:
        """Return an independent copy, as fast as its arrays are copied."""
        return self._copy_but({})

    def _copy_but(self, instead: Mapping[str, Any]) -> Self:
        twin = object.__new__(type(self))
        for name, value in self.__dict__.items():
            if name in instead:
                value = instead[name]
            elif isinstance(value, list) and value and isinstance(value[0], dict):
                value = [item.copy() for item in value]
            elif isinstance(value, np.ndarray):
                value = value.copy("K")
            elif hasattr(value, "copy"):
                value = value.copy()
            twin.__dict__[name] = value
        return twin
