"""The machinery of every learner: a class prior and a list of likelihood blocks, one event or many at a time."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from river import base

from streamnb.learners import frames, merging, options, saving, unlearning
from streamnb.learners.block import Block, Entries, Likelihood, Sums, new_sums
from streamnb.learners.copying import Copying
from streamnb.learners.explaining import Explanation, explain
from streamnb.learners.forgetting import Forgetting
from streamnb.learners.kernels import answer as kernel
from streamnb.learners.kernels.answer import DECLARED, EVENTS, FIELDS, GIVEN, N
from streamnb.learners.kernels.layout import EVENT_FIELDS, JOINT
from streamnb.learners.kernels.types import Floats, Ints
from streamnb.learners.rows import Rows, Scored, label_codes
from streamnb.learners.tables import Buffer, Names, grown
from streamnb.learners.values import Label, plain_label, sorted_by_type


class Model(base.MiniBatchClassifier):
    """What the six learners share.

    A subclass names its options and blocks, and sorts an event's features to the blocks.
    """

    kind: str
    """What `build` and the configuration call this learner."""

    def __init__(self, given: Mapping[str, Any], blocks: list[Block]) -> None:
        self.options = dict(given)
        self.half_life = options.half_life_seconds(given["half_life"])
        self.forgets = self.half_life is not None
        self.blocks = blocks
        self._alpha = float(given.get("alpha", 1.0))
        self._given = options.given_priors(given["priors"])
        smooth = options.flag("smooth_priors", given.get("smooth_priors", False))
        if self._given is not None:
            self._prior = kernel.MAPPING
            self.options["priors"] = self._given
        elif given["priors"] == "uniform":
            self._prior = kernel.UNIFORM
        else:
            self._prior = kernel.SMOOTHED if smooth else kernel.EMPIRICAL
        self.declared = options.declared_classes(given["classes"])
        if given["classes"] is not None:
            self.options["classes"] = list(self.declared)
        if self._given is not None:
            for label in self.declared:
                if not any(label == other and type(label) is type(other) for other in self._given):
                    raise ValueError(f"classes: {label!r} has no prior; priors name {list(self._given)}")
            self.declared = sorted_by_type(self._given)
        self.start()

    def start(self) -> None:
        """Have learned nothing, with the blocks as they are."""
        self.labels = Names()
        self.version = 0
        self.rounded = False
        self.class_table: Floats = np.zeros((2, FIELDS))
        self.forgetting = Forgetting(self.half_life)
        self.copying: Copying[Self] | None = None
        for label in self.declared:
            self.add_label(label)
        self.sort_labels()
        self._bind()

    # -- the batch that everything goes through ---------------------------------------------------------------

    @abc.abstractmethod
    def encode(self, x: Any) -> list[Entries]:
        """Validate an event's features and return what each block is to see of them."""

    @abc.abstractmethod
    def write(self, buffers: Sequence[Buffer], x: Any) -> Sequence[int] | None:
        """Write an event that needs no second look after the last row of a batch; return each block's entries.

        None: `encode` is due.
        """

    def rows(self) -> Rows:
        """Return an empty batch. It must be learned before the model learns anything else."""
        return Rows(self)

    def check(self, x: Any) -> None:
        """Raise what learning or predicting this event would raise; change nothing."""
        self.encode(x)

    def predict_learn_rows(self, rows: Rows) -> Scored:
        """Test-then-train.

        Each row is predicted by the model that has learned all rows before it, then learned if it has a label.
        """
        sums, n = self.run(rows), len(rows)
        return Scored(tuple(self._sorted), sums.probabilities[:n], sums.best[:n], sums.unseen[:n])

    def run(self, rows: Rows) -> Sums:
        """Read and learn a batch; return the sums (joint by class slot) and the answers."""
        self._take_up(rows)
        batch, n_classes = rows.batch, len(self._sorted)
        n = batch.n_rows
        sums = new_sums(n, n_classes)
        if not self.blocks:
            sums.sums[:] = 0.0
            sums.unseen[:] = 0
        for block, buffer in zip(self.blocks, rows.buffers, strict=True):
            block.predict_learn(buffer, batch, sums)
            sums.first = 0
        kernel.answer(
            self.class_table, self.order, self._prior, self._alpha, n_classes, n, batch.events, sums.sums, sums.unseen,
            sums.probabilities, sums.best,
        )  # fmt: skip
        return sums

    def learn_rows(self, rows: Rows) -> None:
        """Learn a batch without reading it."""
        if rows.learned == 0:
            return
        self._take_up(rows)
        batch = rows.batch
        for block, buffer in zip(self.blocks, rows.buffers, strict=True):
            block.learn(buffer, batch)
        kernel.learn(self.class_table, len(self._sorted), batch.n_rows, batch.events)

    def _take_up(self, rows: Rows) -> None:
        """Make room for the batch's new labels and names, and set when its events count."""
        if rows.version != self.version and len(rows):
            raise ValueError(
                "the model has changed since the batch's first row was appended; clear it and append again"
            )
        batch = rows.batch
        if rows.learned:
            self.version += 1
            new_labels = bool(rows.fresh_labels)
            if new_labels:
                for label in rows.fresh_labels:
                    self.add_label(label)
                self.sort_labels()
            for block, buffer in zip(self.blocks, rows.buffers, strict=True):
                if new_labels or buffer.fresh or buffer.fresh_outer:
                    block.settle(buffer, len(self._sorted))
        batch.n_classes = len(self._sorted)
        batch.order = self.order
        if self.forgets:
            self.forgetting.weigh(rows)
        if self.copying and rows.learned:
            self.copying.before(rows)

    def label_slot(self, y: Any, fresh: Mapping[Label, int]) -> tuple[int, Label]:
        """Return a label's slot (-1: it has none) and the label in Python's own type; refuse what cannot be one."""
        if type(y) is not str and type(y) is not int:
            y = plain_label(y)
        slot = self.labels.slots.get(y, -1)
        if slot >= 0:
            known = self.labels.names[slot]
        elif self._given is not None:
            raise ValueError(f"label {y!r} has no prior; priors name {list(self._given)}")
        else:
            slot = fresh.get(y, -1)
            if slot < 0:
                return slot, y
            known = next(label for label in fresh if label == y)
        if type(known) is not type(y):
            raise ValueError(f"label {y!r} ({type(y).__name__}) equals the known label {known!r} of another type")
        return slot, y

    def known_label(self, y: Any) -> int:
        """Return a known label's slot, -1 for a new one; refuse what cannot be one."""
        if type(y) is str:
            return self.labels.slots.get(y, -1)
        return self.label_slot(y, {})[0]

    def add_label(self, label: Label) -> None:
        slot = len(self.labels)
        self.labels.add(label)
        self.class_table = grown(self.class_table, [slot + 1, FIELDS])
        self.class_table[slot] = 0.0
        if label in self.declared:
            self.class_table[slot, DECLARED] = 1.0
            self.class_table[slot, GIVEN] = 0.0 if self._given is None else self._given[label]

    def sort_labels(self) -> None:
        self._sorted: list[Label] = sorted_by_type(self.labels.names)
        self.order: Ints = np.array([self.labels.slots[label] for label in self._sorted], np.int64)
        self.label_codes = label_codes(self._sorted, self.order)
        self._start_one()
        for block in self.blocks:
            block.reserve(len(self._sorted))

    # -- one event --------------------------------------------------------------------------------------------

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: float | None = None) -> None:
        """Learn one event of weight `w` >= 0 at event time `t` (seconds; None: the latest learned).

        Raise ValueError or TypeError for what cannot be used; the model is then as it was.
        """
        rows = self._single()
        rows.add(x, y, w, t, supervised=True)
        self.learn_rows(rows)

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Take back one learned event; raise ValueError if it cannot have been learned."""
        unlearning.unlearn(self, x, y, w)

    def predict_one(self, x: Any, **_: Any) -> Label | None:
        """Return the most probable label, None before any class is known.

        Raise ValueError or TypeError for features that could not be learned either.
        """
        column = self._read_one(x)
        return self._sorted[column] if column >= 0 else None

    def predict_proba_one(self, x: Any, **_: Any) -> dict[Label, float]:
        """Return the probability of every known label; they sum to 1. {} before any class is known.

        Raise as `predict_one` does.
        """
        self._read_one(x)
        return dict(zip(self._sorted, self._one_answer.tolist()))  # noqa: B905 - `strict` costs as much as the rest

    def joint_log_likelihood_one(self, x: Any) -> dict[Label, float]:
        """Return log P(label) + log P(x | label) of every known label, in nats.

        Raise as `predict_one` does.
        """
        self._read_one(x)
        joint = self._one_sums.sums[0, :, JOINT].tolist()
        return {label: joint[slot] for label, slot in zip(self._sorted, self.order.tolist(), strict=True)}

    def explain_one(self, x: Any, top: int | None = None) -> dict[Label, Explanation]:
        """Return, per known label, the terms that add up to its joint log-likelihood.

        At most `top` features of each. Raise as `predict_one` does.
        """
        return explain(self, x, top)

    def unlabelled_events(self, n_rows: int) -> Floats:
        """Return the kernels' view of rows that are only read."""
        events = np.empty((max(n_rows, 1), EVENT_FIELDS))
        events[:] = (-1.0, 1.0, 1.0, self.forgetting.read_factor(), 0.0)
        return events

    def _start_one(self) -> None:
        """Have nothing to read a single event with, because the classes are new."""
        self._one: Rows | None = None
        self._one_sums = new_sums(1, len(self._sorted))
        self._one_answer = self._one_sums.probabilities[0]

    def _single(self) -> Rows:
        rows = self._one
        if rows is None:
            rows = self._one = Rows(self)
        elif rows.batch.n_rows:
            rows.clear()
        return rows

    @abc.abstractmethod
    def _read_one(self, x: Any) -> int:
        """Read one event into `_one_sums`; return the best column."""

    # -- many events ------------------------------------------------------------------------------------------

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a data frame, a 2-d array or a CSR matrix of events, (n_events, n_features), with one label each.

        `w` and `t`, if given, are (n_events,). Raise ValueError or TypeError, nothing learned, if there is a bad row.
        """
        self.learn_rows(frames.rows_of(self, X, _due(y), w, t))

    def predict_many(self, X: Any) -> Any:
        """Return the most probable label of each event, (n_events,): a Series for a frame, an array for an array.

        Raise ValueError or TypeError if there is a bad row.
        """
        return frames.labels_like(X, self._sorted, self.run(frames.rows_of(self, X)).best)

    def predict_proba_many(self, X: Any) -> Any:
        """Return each event's probabilities, (n_events, n_classes), with the columns of `classes`.

        A frame for a frame, an array for an array. Raise ValueError or TypeError if there is a bad row.
        """
        rows = frames.rows_of(self, X)
        return frames.numbers_like(X, self._sorted, self.run(rows).probabilities[: len(rows)])

    def joint_log_likelihood_many(self, X: Any) -> Any:
        """Return each event's joint log-likelihoods in nats, (n_events, n_classes), as `predict_proba_many` does."""
        sums = self.run(frames.rows_of(self, X)).sums
        return frames.numbers_like(X, self._sorted, sums[:, self.order, JOINT])

    def predict_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Test-then-train: return the label, (n_events,), that each row gets once all rows before it are learned.

        Raise ValueError or TypeError, nothing learned, if there is a bad row.
        """
        scored = self.predict_learn_rows(frames.rows_of(self, X, _due(y), w, t))
        return frames.labels_like(X, scored.labels, scored.best)

    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """The same with probabilities, (n_events, n_classes): the classes known afterwards, 0 where not yet known.

        Raise as `predict_learn_many` does.
        """
        scored = self.predict_learn_rows(frames.rows_of(self, X, _due(y), w, t))
        return frames.numbers_like(X, scored.labels, np.nan_to_num(scored.probabilities, nan=0.0))

    # -- what is known ----------------------------------------------------------------------------------------

    @property
    def classes(self) -> list[Label]:
        """The known labels, sorted by type, then value."""
        return list(self._sorted)

    @property
    def features(self) -> list[Any]:
        """The known features, sorted; tokens of a text or token list as (feature, token).

        In a mixed model a name that came with values of two kinds is there twice.
        """
        return sorted_by_type(name for block in self.blocks for name in block.features())

    @property
    def n_features(self) -> int:
        """How many features (and tokens) are known."""
        return sum(block.n_features for block in self.blocks)

    @property
    def n_events(self) -> int:
        """How many events of a weight above 0 were learned and not taken back."""
        return int(self.class_table[:, EVENTS].sum())

    @property
    def class_count(self) -> dict[Label, float]:
        """The summed weights of each label's events, at the latest event time learned."""
        read = self.forgetting.read_factor()
        return {
            label: float(self.class_table[slot, N]) * read for label, slot in zip(self._sorted, self.order, strict=True)
        }

    def class_log_prior(self) -> dict[Label, float]:
        """Return log P(label) of every known label."""
        out = np.zeros(len(self._sorted))
        read = self.forgetting.read_factor()
        kernel.log_priors(self.class_table, self.order, len(out), self._prior, self._alpha, read, out)
        return {label: float(out[slot]) for label, slot in zip(self._sorted, self.order, strict=True)}

    def likelihood_table(self) -> list[Likelihood]:
        """Return what every feature (and category or token) says, per label, in sorted order."""
        read = self.forgetting.read_factor()
        return [line for block in self.blocks for line in block.table(self._sorted, self.order, read)]

    # -- merging, copying, saving ------------------------------------------------------------------------------

    def merge(self, other: Self) -> None:
        """Learn everything that another model of the same options has learned.

        Raise ValueError if the options differ.
        """
        merging.merge(self, other)

    def __add__(self, other: Self) -> Self:
        """Return the model of both streams. Raise ValueError if the options differ."""
        total = self.copy()
        total.merge(other)
        return total

    def copy(self) -> Self:
        """Return an independent copy."""
        return self._twin([block.copy() for block in self.blocks])

    def begin_copy(self) -> Copying[Self]:
        """Begin a copy of the model as it is now, in place of one that is not done yet.

        Meanwhile the model may learn batches (`learn_rows`, `predict_learn_rows`) and nothing else.
        """
        blocks, parts = zip(*[block.begin_copy() for block in self.blocks], strict=True) if self.blocks else ((), ())
        self.copying = Copying(self, self._twin(list(blocks)), parts)
        return self.copying

    def _twin(self, blocks: list[Block]) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.labels = self.labels.copy()
        twin.blocks, twin.copying = blocks, None
        twin.class_table = self.class_table.copy()
        twin.forgetting = self.forgetting.copy()
        twin._start_one()
        twin._bind()
        return twin

    def _bind(self) -> None:
        """Refer to the blocks by name, where a subclass does."""

    def names_moved(self) -> None:
        """Drop what is kept about names and their slots, where a subclass does."""

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Return options and state as bytes: the same sequence of events gives the same bytes."""
        return saving.to_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the model that `to_bytes` was called on.

        Raise ValueError if the bytes are damaged or of another model.
        """
        return saving.from_bytes(cls, data)

    def restore(self, data: bytes) -> None:
        """Take over the state of a model of the same shape.

        Keep the own reading options. ValueError names the difference.
        """
        saving.restore(self, data)

    def shape(self) -> dict[str, Any]:
        """Return, as JSON values, the kind and the options that the state depends on.

        Equal iff states are exchangeable.
        """
        return saving.shape(self)

    def to_sklearn(self) -> Any:
        """Return a fitted scikit-learn estimator (or pipeline) that answers the same, columns as in `features`.

        Raise TypeError or ValueError saying what scikit-learn cannot express.
        """
        from streamnb.learners import exchange  # scikit-learn is optional

        return exchange.to_sklearn(self)

    @classmethod
    def from_sklearn(cls, estimator: Any) -> Self:
        """Return the model of a fitted scikit-learn estimator, or of an OrdinalEncoder and CategoricalNB pipeline.

        It refuses unlearning and tfidf. Raise TypeError or ValueError saying what cannot be taken over.
        """
        from streamnb.learners import adopting

        return adopting.from_sklearn(cls, estimator)

    # -- river ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"

    def _get_params(self) -> dict[str, Any]:
        return dict(self.options)

    @property
    def _multiclass(self) -> bool:
        return True


def _due(y: Any) -> Any:
    if y is None:
        raise TypeError("labels: one per event is due, got None")
    return y
