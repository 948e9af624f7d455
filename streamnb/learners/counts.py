"""The counts block: token counts in one or more groups, each a multinomial; and the same counts read by complement."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

import numpy as np

from streamnb.learners.block import Batch, Entries, Sums, shares
from streamnb.learners.columns import Columns, dense_check, stored_of
from streamnb.learners.copying import InPieces, NamesInPieces, Unsearchable
from streamnb.learners.kernels import counts as kernel
from streamnb.learners.kernels.counts import COLUMN, DF, EVENTS, GROUP, WIDTH, N
from streamnb.learners.kernels.layout import LARGEST_NUMBER
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.kernels.whole import WHOLE
from streamnb.learners.pieces import Order, joined
from streamnb.learners.tables import (
    FIRST_CAPACITY,
    Buffer,
    Names,
    grown,
    packers,
    take_out,
)
from streamnb.learners.text import Tokenizer
from streamnb.learners.values import NUMBERS, finite_number, plain_name, refusal, sort_key
from streamnb.learners.vocabulary import VocabularyBlock
from streamnb.learners.words import Words

_Unknown = tuple[int, Any, Any]
"""Where an entry stands, its group and its token."""
ALLOWED = "real numbers from 0 to 1e120 (absent or None: 0)"
WEIGHTINGS = ("tf", "log1p", "tfidf")


class CountsBlock(VocabularyBlock):
    """`counts[slot, class]`, `features_[slot, field]`, `groups[group, class + 1]`; see the kernel.

    Group 0 holds the features that are counts themselves; every text and token list is a group named after its feature.
    """

    kind = "counts"
    usual = NUMBERS
    commonest = int
    takes_arrays = True
    presents_columns = True
    n_arrays = 4

    def __init__(self, alpha: float, smooth: bool = False, weighting: str = "tf") -> None:
        self.alpha = alpha
        self.smooth = int(smooth)
        self.weighting = WEIGHTINGS.index(weighting)
        self.names = Names()
        self.names.add(None)
        self.slots_of: list[dict[Any, int]] = [{}]
        self.words: dict[int, Words] = {}
        """Of the groups that are texts."""
        self.strings = True
        self.tokens: list[Any] = []
        self.order = Order()
        self.columns = Columns("count", 0.0, ALLOWED)
        self.counts = np.zeros((FIRST_CAPACITY, 2), WHOLE)
        self.features_: Floats = np.zeros((FIRST_CAPACITY, 4), order="F")
        self.groups: Floats = np.zeros((1, 3))
        self.scalars = np.zeros(3)

    def reserve(self, n_classes: int) -> None:
        self._make_room(n_classes, [])

    def encode(self, items: Iterable[tuple[Any, Any]]) -> Entries:
        """Validate counts; they all belong to group 0."""
        slots: list[int] = []
        values: list[float] = []
        unknown: list[_Unknown] = []
        get = self.slots_of[0].get
        for name, value in items:
            if type(name) is not str:
                name = plain_name(name)
            if value is None:
                continue
            if type(value) is not int and type(value) is not float:
                number = finite_number(value)
                if number is None:
                    raise refusal("count", name, value, ALLOWED)
                value = number
            if not 0 <= value <= LARGEST_NUMBER:
                raise refusal("count", name, value, ALLOWED)
            slot = get(name, -1)
            if slot < 0:
                unknown.append((len(slots), None, name))
            slots.append(slot)
            values.append(value)
        return slots, [0] * len(slots), values, unknown

    def write_text(self, buffer: Buffer, before: int, group: Any, text: str) -> int:
        """Write the counted words of a text behind the entries `before` after the last row of a batch.

        Return how many entries there are then; -1, and `encode` is due, if a word is not known.
        """
        g = self.names.slots.get(group, -1)
        if g < 0:
            return -1
        n, unknown = self._words_of(g).write(self.slots_of[g], text, buffer, before, g)
        return -1 if n < 0 or unknown else before + n

    def add_text(self, entries: Entries, group: Any, tokenizer: Tokenizer, text: str, buffer: Buffer) -> None:
        """Append the counted tokens of a text to an event's entries; an empty buffer is there to work in."""
        g = self.names.slots.get(group, -1)
        n = -1
        if g >= 0 and tokenizer.takes_words:
            words = self._words_of(g)
            n, _ = words.write(self.slots_of[g], text, buffer, 0, g)
        if n < 0:
            self.add_tokens(entries, group, tokenizer.counts(text))
        else:
            slots = buffer.slots[:n].tolist()
            unknown = [(i, group, words.word(i)) for i, slot in enumerate(slots) if slot < 0]
            _append(entries, g, slots, buffer.values[:n].tolist(), unknown)

    def _words_of(self, group: int) -> Words:
        words = self.words.get(group)
        if words is None:
            words = self.words[group] = Words()
        return words

    def add_tokens(self, entries: Entries, group: Any, tokens: Mapping[Any, int]) -> None:
        """The same with tokens that are counted already."""
        g = self.names.slots.get(group, -1)
        known = self.slots_of[g] if g >= 0 else {}
        slots = [known.get(token, -1) for token in tokens]
        unknown = [(i, group, token) for i, token in enumerate(tokens) if slots[i] < 0] if -1 in slots else []
        _append(entries, g, slots, tokens.values(), unknown)

    @staticmethod
    def _allowed(values: Array) -> Array:
        good: Array = (values >= 0.0) & (values <= LARGEST_NUMBER)
        return good

    def fill(self, buffer: Buffer, names: list[Any], values: Array, learned: Array) -> None:
        table = dense_check(values, names, self._allowed, "count", ALLOWED)
        n_rows, n_columns = table.shape
        wanted = [bool(learned.any())] * n_columns
        slots = buffer.look_up(self.slots_of[0], len(self.tokens), names, wanted, 0)
        starts = np.arange(n_rows + 1, dtype=np.int64) * n_columns
        buffer.take(starts, np.tile(slots, n_rows), table.reshape(-1))

    def fill_columns(self, buffer: Buffer, values: Array, learned: Array) -> None:
        stored = stored_of(values)
        self.columns.fill(buffer, self.slots_of[0], len(self.tokens), 0, values.shape[1], stored, learned)

    def fill_sparse(self, buffer: Buffer, X: Any, learned: Array) -> None:
        stored = self.columns.stored_in(X)
        self.columns.fill(buffer, self.slots_of[0], len(self.tokens), 0, X.shape[1], stored, learned)

    def push(self, buffer: Buffer, row: int, entries: Entries, learn: bool) -> None:
        slots, extras, values, unknown = entries
        assert extras is not None
        if unknown:
            buffer.resolve_pairs(self.names, len(self.tokens), slots, extras, unknown, learn)
        buffer.push(row, slots, extras, values)

    def vocabulary(self) -> tuple[Mapping[Any, int], bool]:
        return self.slots_of[0], self.strings

    def write_values(self, buffer: Buffer, n: int, values: Collection[Any]) -> bool:
        start = buffer.room(n)
        try:
            small = bytes(values)  # whole numbers up to 255 need no other check, and are read faster
        except (TypeError, ValueError):
            if not (min(values) >= 0 and sum(values) <= LARGEST_NUMBER):
                return False
            packers(n)[1](buffer.for_values, start, *values)
        else:
            buffer.values[buffer.used : buffer.used + n] = np.frombuffer(small, np.uint8)
        buffer.for_extras[start : start + 8 * n] = bytes(8 * n)  # all of group 0
        return True

    def settle(self, buffer: Buffer, n_classes: int) -> None:
        for name in buffer.fresh_outer:
            self._add_group(name)
        for group, token in buffer.fresh:
            self._add_token(group, token)
        self._make_room(n_classes, [group for group, _ in buffer.fresh])

    def _add_group(self, name: Any) -> None:
        self.names.add(name)
        self.slots_of.append({})

    def _add_token(self, group: int, token: Any) -> None:
        self.strings = self.strings and type(token) is str
        self.slots_of[group][token] = len(self.tokens)
        self.tokens.append(token)

    def _make_room(self, n_classes: int, groups: list[int]) -> None:
        """Make room for classes and tokens; `groups` are those of the tokens added last."""
        self.counts = grown(self.counts, [len(self.tokens), n_classes])
        self.features_ = grown(self.features_, [len(self.counts), 4])
        self.groups = grown(self.groups, [len(self.names), n_classes + 1])
        if groups:
            stop = len(self.tokens)
            start = stop - len(groups)
            self.features_[start:stop, GROUP] = groups
            self.features_[start:stop, COLUMN] = [self.columns.number(token) for token in self.tokens[start:]]

    def _group_of(self, slot: int) -> int:
        return int(self.features_[slot, GROUP])

    def predict_learn(self, buffer: Buffer, batch: Batch, sums: Sums) -> None:
        while not kernel.predict_learn(
            self.counts, self.features_, self.groups, self.scalars, self.alpha, self.smooth, self.weighting,
            len(self.tokens), batch.n_classes, batch.n_rows, buffer.starts, buffer.slots, buffer.extras, buffer.values,
            batch.events, sums.first, sums.sums, sums.unseen,
        ):  # fmt: skip
            self.hold_more()
        self.columns.learned(batch)

    def learn(self, buffer: Buffer, batch: Batch) -> None:
        while not kernel.learn(
            self.counts, self.features_, self.groups, self.scalars, len(self.tokens), batch.n_classes, batch.n_rows,
            buffer.starts, buffer.slots, buffer.values, batch.events,
        ):  # fmt: skip
            self.hold_more()
        self.columns.learned(batch)

    def predict_one(
        self, buffer: Buffer, n_entries: int, classes: Floats, order: Ints, prior: int, read: float, sums: Sums
    ) -> int:
        return kernel.predict_one(
            self.counts, self.features_, self.groups, self.scalars, self.alpha, self.smooth, self.weighting,
            buffer.slots, buffer.extras, buffer.values, n_entries,
            classes, order, prior, read, sums.sums, sums.unseen, sums.probabilities,
        )  # fmt: skip

    def learn_one(
        self,
        buffer: Buffer,
        n_entries: int,
        classes: Floats,
        order: Ints,  # noqa: ARG002
        label: int,
        w: float,
    ) -> bool:
        return kernel.learn_one(
            self.counts, self.features_, self.groups, self.scalars, len(self.tokens),
            buffer.slots, buffer.values, n_entries, classes, label, w,
        )  # fmt: skip

    def begin_copy(self) -> tuple[Self, list[InPieces]]:
        self.fold()
        tokens = NamesInPieces(self.tokens)
        slots_of = [Unsearchable(len(slots)) for slots in self.slots_of]
        return self._begin_copy({"tokens": tokens.copy, "slots_of": slots_of}, [tokens])

    def fold(self) -> None:
        """Count the rows of arrays on each of their columns, as if their names had been given."""
        for slot, rows in self.columns.folded(self.slots_of[0]):
            self.features_[slot, EVENTS] += rows
        self.scalars[WIDTH] = 0.0

    def check_unlearn(self, entries: Entries, label: int, w: float, last: bool) -> None:
        slots, _, values, _ = entries
        assert values is not None
        self.fold()
        for slot, f in zip(slots, values, strict=True):
            if slot < 0 or self.features_[slot, EVENTS] == 0.0:
                raise ValueError("a feature of this event was never learned")
            name = self.tokens[slot]
            held = float(self.counts[slot, label])
            if w * f > held * (1.0 + 1e-9):
                raise ValueError(f"count feature {name!r}: {w * f!r} is above the {held!r} that is held")
            everything = float(self.counts[slot].sum())
            if self.features_[slot, EVENTS] == 1.0 and everything - w * f > 1e-9 * everything:
                raise ValueError(f"count feature {name!r}: its last event had another count or class")
        if last:
            left = self.counts[: len(self.tokens), label].astype(np.float64)
            left[slots] -= w * np.array(values, np.float64)
            if (left > 1e-9 * self.counts[: len(self.tokens), label]).any():
                raise ValueError("the last event of this class had other counts")

    def unlearn(self, entries: Entries, label: int, w: float, order: Ints) -> None:  # noqa: ARG002
        slots, _, values, _ = entries
        assert values is not None
        self.scalars[N] = max(self.scalars[N] - w, 0.0)
        if not all((w * f).is_integer() for f in map(float, values)):
            self.hold_fractions()
        for slot, f in zip(slots, values, strict=True):
            group = self._group_of(slot)
            self.features_[slot, EVENTS] -= 1.0
            if f > 0.0:
                self.features_[slot, DF] = max(self.features_[slot, DF] - w, 0.0)
                self.counts[slot, label] = max(self.counts[slot, label] - w * f, 0.0)
                self.groups[group, label + 1] = max(self.groups[group, label + 1] - w * f, 0.0)
        self.words = {}  # tokens move to other slots
        for slot in sorted(slots, reverse=True):
            if self.features_[slot, EVENTS] == 0.0:
                group = self._group_of(slot)
                del self.slots_of[group][self.tokens[slot]]
                last = take_out(self.tokens, slot)
                for array in (self.counts, self.features_):
                    array[slot] = array[last]
                    array[last] = 0.0
                if slot != last:
                    self.slots_of[self._group_of(slot)][self.tokens[slot]] = slot
        self._refresh()

    def _refresh(self) -> None:
        """Count each group's features; forget the totals of empty ones."""
        for group, slots in enumerate(self.slots_of):
            self.groups[group, 0] = len(slots)
            if not slots:
                self.groups[group] = 0.0

    def forget_class(self, label: int, last: int) -> None:
        for array, c, end in ((self.counts, label, last), (self.groups, label + 1, last + 1)):
            array[:, c] = array[:, end]
            array[:, end] = 0.0

    def scale(self, factor: float, n_classes: int) -> None:
        self.hold_fractions()
        kernel.scale(self.counts, self.features_, self.groups, self.scalars, factor, len(self.tokens), n_classes)

    def merge(self, other: Self, classes: Ints, n_classes: int) -> None:
        self.fold()
        other = other.copy()
        other.fold()
        for name in other.names.names:
            if name not in self.names.slots:
                self._add_group(name)
        groups = np.array([self.names.slots[name] for name in other.names.names], np.int64)
        added: list[int] = []
        slots = np.empty(len(other.tokens), np.int64)
        for slot, token in enumerate(other.tokens):
            group = int(groups[other._group_of(slot)])
            if token not in self.slots_of[group]:
                self._add_token(group, token)
                added.append(group)
            slots[slot] = self.slots_of[group][token]
        self._make_room(n_classes, added)
        n_slots, n = len(slots), len(classes)
        self.add_counts(slots, classes, other)
        for field in (EVENTS, DF):
            self.features_[slots, field] += other.features_[:n_slots, field]
        self.groups[np.ix_(groups, classes + 1)] += other.groups[: len(groups), 1 : n + 1]
        self.scalars[N] += other.scalars[N]
        self._refresh()

    def copy(self) -> Self:
        """Leave out the words, which are found again when they are needed."""
        twin = super().copy()
        twin.words = {}
        return twin

    def names_of(self, entries: Entries) -> list[Any]:
        named = [self._named(slot) if slot >= 0 else None for slot in entries[0]]
        for position, group, token in entries[3]:
            named[position] = (group, token)
        return [None if pair is None else pair[1] if pair[0] is None else pair for pair in named]

    @property
    def n_features(self) -> int:
        return len(self.tokens)

    def features(self) -> list[Any]:
        return [
            token if group is None else (group, token) for group, token in map(self._named, range(len(self.tokens)))
        ]

    def _named(self, slot: int) -> tuple[Any, Any]:
        return self.names.names[self._group_of(slot)], self.tokens[slot]

    def dump(self, order: Ints) -> tuple[dict[str, Any], list[Array]]:
        self.fold()
        groups = sorted((g for g, slots in enumerate(self.slots_of) if slots), key=self._group_key)
        ordered, places = self.order.of(self.tokens)
        group_of = self.features_[places, GROUP]
        slots_of = [places[group_of == g] for g in groups]
        tokens = [ordered] if len(groups) == 1 else [[self.tokens[slot] for slot in slots] for slots in slots_of]
        slots = joined(slots_of)
        arrays = [
            self.counts[np.ix_(slots, order)],
            self.features_[slots][:, [EVENTS, DF]],
            self.groups[np.ix_(np.array(groups, np.int64), order + 1)],
            self.scalars[[N]],
        ]
        return {"groups": [self.names.names[g] for g in groups], "tokens": tokens}, arrays

    def _group_key(self, group: int) -> tuple[Any, ...]:
        return () if group == 0 else sort_key(self.names.names[group])

    def load(self, names: Mapping[str, Any], arrays: list[Array], n_classes: int) -> None:
        self.names, self.slots_of, self.tokens, self.columns = Names(), [], [], Columns("count", 0.0, ALLOWED)
        self.words = {}
        self._add_group(None)
        added: list[int] = []
        for name, tokens in zip(names["groups"], names["tokens"], strict=True):
            if name not in self.names.slots:
                self._add_group(name)
            group = self.names.slots[name]
            for token in tokens:
                self._add_token(group, token)
            added += [group] * len(tokens)
        self.scalars = np.zeros(3)
        self.scalars[N] = arrays[3][0]
        self.hold(grown(arrays[0], [FIRST_CAPACITY, max(n_classes, 1)]))
        self.features_ = np.zeros((FIRST_CAPACITY, 4), order="F")
        self.groups = np.zeros((1, n_classes + 1))
        self._make_room(n_classes, added)
        n_slots = len(self.tokens)
        self.features_[:n_slots, EVENTS] = arrays[1][:, 0]
        self.features_[:n_slots, DF] = arrays[1][:, 1]
        groups = [self.names.slots[group] for group in names["groups"]]
        self.groups[groups, 1 : n_classes + 1] = arrays[2]
        self.groups[:, 0] = [len(slots) for slots in self.slots_of]

    @property
    def n_lines(self) -> int:
        return len(self.tokens)

    def line(self, slot: int) -> tuple[Any, Any]:
        group, token = self._named(slot)
        return (token, None) if group is None else (group, token)

    def numbers(self, slots: slice, columns: Ints, read: float) -> dict[str, Floats]:
        groups = self.features_[slots, GROUP].astype(np.int64)
        count = read * self.counts[slots][:, columns]
        total = read * self.groups[groups][:, columns + 1]
        return {"p": self._shares(count, total, groups), "count": count, "total": total}

    def _shares(self, count: Floats, total: Floats, groups: Ints) -> Floats:
        sizes = np.array([[len(slots) + self.smooth] for slots in self.slots_of], np.float64)[groups]
        return shares(count, self.alpha, total + self.alpha * sizes, 1.0 / sizes)


def _append(entries: Entries, group: int, slots: list[int], counts: Iterable[float], unknown: list[_Unknown]) -> None:
    """Append tokens of one group to an event's entries; `unknown` are counted from the first of these tokens."""
    all_slots, all_groups, all_values, all_unknown = entries
    assert all_groups is not None
    assert all_values is not None
    if unknown:
        first = len(all_slots)
        all_unknown += [(first + i, group, token) for i, group, token in unknown]
    all_slots += slots
    all_groups += [group] * len(slots)
    all_values += counts
