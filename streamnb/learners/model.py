"""The machinery of every learner: a class prior and a list of likelihood blocks, one event or many at a time."""

import abc
import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from river import base

from streamnb.learners import codec, frames, options, unlearning
from streamnb.learners.block import Block, Entries, Likelihood, Sums, new_sums
from streamnb.learners.kernels import answer as kernel
from streamnb.learners.kernels.answer import DECLARED, EVENTS, FIELDS, GIVEN, N, N_LOW
from streamnb.learners.kernels.layout import JOINT, LABEL, READ, SHIFT, WEIGHT
from streamnb.learners.kernels.types import Array, Floats, Ints
from streamnb.learners.options import json_options
from streamnb.learners.rows import Rows, Scored
from streamnb.learners.tables import Names, grown
from streamnb.learners.values import Label, plain_label, sorted_by_type

LANDMARK_LAG = 16
"""Half-lives that the landmark may lie behind the latest event before every weight is rescaled."""


class Model(base.MiniBatchClassifier):
    """What the six learners share. A subclass names its options and blocks, and sorts an event's features to the blocks."""

    def __init__(self, given: Mapping[str, Any], blocks: list[Block]) -> None:
        self._options = dict(given)
        self.half_life = options.half_life_seconds(given["half_life"])
        self.forgets = self.half_life is not None
        self.blocks = blocks
        self._alpha = float(given.get("alpha", 1.0))
        self._given = options.given_priors(given["priors"])
        smooth = options.flag("smooth_priors", given.get("smooth_priors", False))
        if self._given is not None:
            self._prior = kernel.MAPPING
        elif given["priors"] == "uniform":
            self._prior = kernel.UNIFORM
        else:
            self._prior = kernel.SMOOTHED if smooth else kernel.EMPIRICAL
        self._declared = options.declared_classes(given["classes"])
        if self._given is not None:
            for label in self._declared:
                if not any(label == other and type(label) is type(other) for other in self._given):
                    raise ValueError(f"classes: {label!r} has no prior; priors name {list(self._given)}")
            self._declared = sorted_by_type(self._given)
        self._start()

    def _start(self) -> None:
        """Have learned nothing, with the blocks as they are."""
        self.labels = Names()
        self.version = 0
        self.rounded = False
        self._classes: Floats = np.zeros((2, FIELDS))
        self._landmark: float | None = None
        self._latest: float | None = None
        for label in self._declared:
            self._add_label(label)
        self._sort_labels()
        self._one: Rows | None = None
        self._one_sums = new_sums(0, 0)
        self._bind()

    # -- the batch that everything goes through ---------------------------------------------------------------

    @abc.abstractmethod
    def encode(self, x: Any) -> list[Entries]:
        """Validate an event's features and return what each block is to see of them."""

    def rows(self) -> Rows:
        """Return an empty batch. It must be learned before the model learns anything else."""
        return Rows(self)

    def check(self, x: Any) -> None:
        """Raise what learning or predicting this event would raise; change nothing."""
        self.encode(x)

    def predict_learn_rows(self, rows: Rows) -> Scored:
        """Test-then-train: each row is predicted by the model that has learned all rows before it, then learned if it has a label."""
        sums, probabilities, best = self.run(rows)
        n = len(rows)
        return Scored(tuple(self._sorted), probabilities[:n], best[:n], sums.unseen[:n])

    def run(self, rows: Rows, sums: Sums | None = None) -> tuple[Sums, Floats, Ints]:
        """Read and learn a batch; return the sums (joint by class slot), the probabilities and the best columns."""
        self._take_up(rows)
        batch, n_classes = rows.batch, len(self._sorted)
        n = batch.n_rows
        if sums is None:
            sums = new_sums(n, n_classes)
        probabilities, best = sums.probabilities, sums.best
        sums.first = 1
        for block, buffer in zip(self.blocks, rows.buffers, strict=True):
            block.predict_learn(buffer, batch, sums)
            sums.first = 0
        kernel.answer(
            self._classes, self._order, self._prior, self._alpha, n_classes, n, batch.events, sums.sums, sums.unseen,
            probabilities, best,
        )  # fmt: skip
        return sums, probabilities, best

    def learn_rows(self, rows: Rows) -> None:
        """Learn a batch without reading it."""
        if rows.learned == 0:
            return
        self._take_up(rows)
        batch = rows.batch
        for block, buffer in zip(self.blocks, rows.buffers, strict=True):
            block.learn(buffer, batch)
        kernel.learn(self._classes, len(self._sorted), batch.n_rows, batch.events)

    def _take_up(self, rows: Rows) -> None:
        """Make room for the batch's new labels and names, and set when its events count."""
        if rows.version != self.version and len(rows):
            raise ValueError("the model has changed since the batch's first row was appended; clear it and append again")
        batch = rows.batch
        if rows.learned:
            self.version += 1
            new_labels = bool(rows.fresh_labels)
            if new_labels:
                for label in rows.fresh_labels:
                    self._add_label(label)
                self._sort_labels()
            for block, buffer in zip(self.blocks, rows.buffers, strict=True):
                if new_labels or buffer.fresh or buffer.fresh_outer:
                    block.settle(buffer, len(self._sorted))
        batch.n_classes = len(self._sorted)
        batch.order = self._order
        if self.forgets:
            self._forget(rows)

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

    def _add_label(self, label: Label) -> None:
        slot = len(self.labels)
        self.labels.add(label)
        self._classes = grown(self._classes, [slot + 1, FIELDS])
        self._classes[slot] = 0.0
        if label in self._declared:
            self._classes[slot, DECLARED] = 1.0
            self._classes[slot, GIVEN] = 0.0 if self._given is None else self._given[label]

    def _sort_labels(self) -> None:
        self._sorted: list[Label] = sorted_by_type(self.labels.names)
        self._order: Ints = np.array([self.labels.slots[label] for label in self._sorted], np.int64)
        self._one = None
        for block in self.blocks:
            block.reserve(len(self._sorted))

    # -- forgetting -------------------------------------------------------------------------------------------

    def _split(self, t: float) -> tuple[float, float]:
        """Return a time in half-lives: whole ones, and the rest in [0, 1)."""
        assert self.half_life is not None
        rest = math.fmod(t, self.half_life)
        if rest < 0.0:
            rest += self.half_life
        return round((t - rest) / self.half_life), rest / self.half_life

    def _read_factor(self) -> float:
        """What every weight in the state is to be multiplied by to be read at the latest event time learned."""
        if self._latest is None or self._landmark is None:
            return 1.0
        whole, rest = self._split(self._latest)
        return math.ldexp(2.0**-rest, int(self._landmark - whole))

    def _forget(self, rows: Rows) -> None:
        """Turn each row's weight into its weight at the landmark (Cormode et al. 2009); note what the state is read with."""
        events = rows.batch.events
        for i, time in enumerate(rows.times):
            events[i, READ] = self._read_factor()
            if events[i, LABEL] < 0.0:
                continue
            if time is None:
                time = 0.0 if self._latest is None else self._latest
            whole, rest = self._split(time)
            if self._latest is None or time > self._latest:
                self._latest = time
            newest, _ = self._split(self._latest)
            if self._landmark is None:
                self._landmark = newest
            elif newest - self._landmark > LANDMARK_LAG:
                events[i, SHIFT] = _power_of_two(self._landmark - newest)
                self._landmark = newest
            events[i, WEIGHT] *= 2.0**rest * _power_of_two(whole - self._landmark)

    # -- one event --------------------------------------------------------------------------------------------

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: float | None = None) -> None:
        """Learn one event of weight `w` >= 0 at event time `t` (seconds; None: the latest learned)."""
        rows = self._single()
        rows.add(x, y, w, t, supervised=True)
        self.learn_rows(rows)

    def unlearn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        """Take back one learned event; raise ValueError if it cannot have been learned."""
        unlearning.unlearn(self, x, y, w)

    def predict_one(self, x: Any, **_: Any) -> Label | None:
        """Return the most probable label, None before any class is known."""
        _, _, best = self._read_one(x)
        column = int(best[0])
        return self._sorted[column] if column >= 0 else None

    def predict_proba_one(self, x: Any, **_: Any) -> dict[Label, float]:
        """Return the probability of every known label; they sum to 1. {} before any class is known."""
        _, probabilities, _ = self._read_one(x)
        return dict(zip(self._sorted, probabilities.tolist()[0], strict=True))

    def joint_log_likelihood_one(self, x: Any) -> dict[Label, float]:
        """Return log P(label) + log P(x | label) of every known label, in nats."""
        sums, _, _ = self._read_one(x)
        joint = sums.sums[0, :, JOINT].tolist()
        return {label: joint[slot] for label, slot in zip(self._sorted, self._order.tolist(), strict=True)}

    def _single(self) -> Rows:
        rows = self._one
        if rows is None:
            rows = self._one = Rows(self)
            self._one_sums = new_sums(1, len(self._sorted))
        elif rows.batch.n_rows:
            rows.clear()
        return rows

    def _read_one(self, x: Any) -> tuple[Sums, Floats, Ints]:
        rows = self._single()
        rows.add(x, None, 1.0, None, supervised=False)
        return self.run(rows, self._one_sums)

    # -- many events ------------------------------------------------------------------------------------------

    def learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> None:
        """Learn a data frame, a 2-d array or a CSR matrix of events with one label each; one bad row refuses them all."""
        self.learn_rows(frames.rows_of(self, X, _due(y), w, t))

    def predict_many(self, X: Any) -> Any:
        """Return the most probable label of each event: a Series for a frame, an array for an array."""
        _, _, best = self._read_many(X)
        return frames.labels_like(X, self._sorted, best)

    def predict_proba_many(self, X: Any) -> Any:
        """Return each event's probabilities: a frame with the labels as columns for a frame, an array for an array."""
        _, probabilities, _ = self._read_many(X)
        return frames.numbers_like(X, self._sorted, probabilities)

    def joint_log_likelihood_many(self, X: Any) -> Any:
        """Return each event's joint log-likelihoods, in the shape of `predict_proba_many`."""
        joint, _, _ = self._read_many(X)
        return frames.numbers_like(X, self._sorted, joint)

    def predict_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """Test-then-train: the label that each row gets from the model that has learned all rows before it."""
        scored = self.predict_learn_rows(frames.rows_of(self, X, _due(y), w, t))
        return frames.labels_like(X, scored.labels, scored.best)

    def predict_proba_learn_many(self, X: Any, y: Any, w: Any = None, t: Any = None) -> Any:
        """The same with probabilities; the columns are the classes known after the batch, 0 where not yet known."""
        scored = self.predict_learn_rows(frames.rows_of(self, X, _due(y), w, t))
        return frames.numbers_like(X, scored.labels, np.nan_to_num(scored.probabilities, nan=0.0))

    def _read_many(self, X: Any) -> tuple[Floats, Floats, Ints]:
        rows = frames.rows_of(self, X)
        sums, probabilities, best = self.run(rows)
        return sums.sums[:, self._order, JOINT], probabilities[: len(rows)], best

    # -- what is known ----------------------------------------------------------------------------------------

    @property
    def classes(self) -> list[Label]:
        """The known labels, sorted by type, then value."""
        return list(self._sorted)

    @property
    def features(self) -> list[Any]:
        """The known features, sorted; tokens of a text or token list as (feature, token)."""
        return sorted_by_type({name: None for block in self.blocks for name in block.features()})

    @property
    def n_features(self) -> int:
        """How many features (and tokens) are known."""
        return sum(block.n_features for block in self.blocks)

    @property
    def n_events(self) -> int:
        """How many events of a weight above 0 were learned and not taken back."""
        return int(self._classes[:, EVENTS].sum())

    @property
    def class_count(self) -> dict[Label, float]:
        """The summed weights of each label's events, at the latest event time learned."""
        read = self._read_factor() if self.forgets else 1.0
        return {
            label: float(self._classes[slot, N]) * read for label, slot in zip(self._sorted, self._order, strict=True)
        }

    def class_log_prior(self) -> dict[Label, float]:
        """Return log P(label) of every known label."""
        out = np.zeros(len(self._sorted))
        read = self._read_factor() if self.forgets else 1.0
        kernel.log_priors(self._classes, self._order, len(out), self._prior, self._alpha, read, out)
        return {label: float(out[slot]) for label, slot in zip(self._sorted, self._order, strict=True)}

    def likelihood_table(self) -> list[Likelihood]:
        """Return what every feature (and category or token) says, per label, in sorted order."""
        read = self._read_factor() if self.forgets else 1.0
        return [line for block in self.blocks for line in block.table(self._sorted, self._order, read)]

    # -- merging, copying, saving ------------------------------------------------------------------------------

    def merge(self, other: Self) -> None:
        """Learn everything that another model of the same options has learned; raise ValueError if the options differ."""
        if type(other) is not type(self):
            raise ValueError(f"cannot merge a {type(other).__name__} into a {type(self).__name__}")
        mine, its = json_options(self._options), json_options(other._options)
        for name in mine:
            if mine[name] != its[name]:
                raise ValueError(f"cannot merge models of different {name}: {mine[name]!r} and {its[name]!r}")
        fresh: dict[Label, int] = {}
        for label in other._sorted:
            if self.label_slot(label, fresh)[0] < 0:
                fresh[label] = len(self.labels) + len(fresh)
        other = other.copy()
        self._share_landmark(other)
        for label in fresh:
            self._add_label(label)
        self._sort_labels()
        slots = np.array([self.labels.slots[label] for label in other.labels.names], np.int64)
        for block, its_block in zip(self.blocks, other.blocks, strict=True):
            block.merge(its_block, slots, len(self._sorted))
        for c, slot in enumerate(slots):
            row = self._classes[slot]
            row[EVENTS] += other._classes[c, EVENTS]
            for field in (N, N_LOW):
                row[N], row[N_LOW] = kernel.add_pair(row[N], row[N_LOW], other._classes[c, field])
        self.rounded |= other.rounded
        self.version += 1

    def _share_landmark(self, other: Self) -> None:
        """Bring both models to the later landmark and the later of the latest event times."""
        if other._landmark is None or other._latest is None:
            return
        if self._landmark is None or self._latest is None:
            self._landmark, self._latest = other._landmark, other._latest
            return
        landmark = max(self._landmark, other._landmark)
        for model in (self, other):
            assert model._landmark is not None
            if model._landmark < landmark:
                factor = _power_of_two(model._landmark - landmark)
                model._classes[:, [N, N_LOW]] *= factor
                for block in model.blocks:
                    block.scale(factor, len(model._sorted))
        self._landmark = landmark
        self._latest = max(self._latest, other._latest)

    def __add__(self, other: Self) -> Self:
        """Return the model of both streams."""
        total = self.copy()
        total.merge(other)
        return total

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.labels = self.labels.copy()
        twin.blocks = [block.copy() for block in self.blocks]
        twin._classes = self._classes.copy()
        twin._one = None
        twin._bind()
        return twin

    def _bind(self) -> None:
        """Refer to the blocks by name, where a subclass does."""

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Return options and state as bytes: the same sequence of events gives the same bytes."""
        names, arrays = [], [self._classes[self._order][:, [EVENTS, N, N_LOW]]]
        for block in self.blocks:
            block_names, block_arrays = block.dump(self._order)
            names.append(codec.names_to_json(block_names))
            arrays += block_arrays
        header = {
            "model": type(self).__name__,
            "options": json_options(self._options),
            "classes": self._sorted,
            "landmark": self._landmark,
            "latest": self._latest,
            "rounded": self.rounded,
            "blocks": names,
        }
        return codec.encode(header, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the model that `to_bytes` was called on; raise ValueError if the bytes are damaged or of another model."""
        header, arrays = codec.decode(data)
        if header["model"] != cls.__name__:
            raise ValueError(f"these bytes hold a {header['model']}, not a {cls.__name__}")
        model = cls(**options.options_from_json(header["options"]))
        model._load(header, arrays)
        return model

    def restore(self, data: bytes) -> None:
        """Take over the state of a model of the same shape; keep the own reading options. ValueError names the difference."""
        header, arrays = codec.decode(data)
        if header["model"] != type(self).__name__:
            raise ValueError(f"the state belongs to a {header['model']}, this is a {type(self).__name__}")
        found = type(self)(**options.options_from_json(header["options"])).shape()
        mine = self.shape()
        for name in mine:
            if mine[name] != found[name]:
                raise ValueError(f"the state was made with {name} {found[name]!r}, now it is {mine[name]!r}")
        self._load(header, arrays)

    def shape(self) -> dict[str, Any]:
        """Return, as JSON values, the kind and the options that the state depends on: equal iff states are exchangeable."""
        given = json_options({k: v for k, v in self._options.items() if k not in options.READING})
        given["classes"] = self._declared if self._given is None else None
        given["half_life"] = self.half_life
        return {"kind": type(self).kind, **given, "priors": None if self._given is None else self._declared}

    kind: str

    def _load(self, header: Mapping[str, Any], arrays: list[Array]) -> None:
        version = self.version
        self._start()
        self.version = version + 1
        self.labels = Names()
        for label in header["classes"]:
            self._add_label(label)
        n_classes = len(self.labels)
        self._classes[:n_classes, [EVENTS, N, N_LOW]] = arrays[0]
        self._landmark, self._latest = header["landmark"], header["latest"]
        self.rounded = header["rounded"]
        at = 1
        for block, names in zip(self.blocks, header["blocks"], strict=True):
            block.load(codec.names_from_json(names), arrays[at : at + block.n_arrays], n_classes)
            at += block.n_arrays
        self._sort_labels()

    # -- river ------------------------------------------------------------------------------------------------

    def _get_params(self) -> dict[str, Any]:
        return dict(self._options)

    @property
    def _multiclass(self) -> bool:
        return True


def _due(y: Any) -> Any:
    if y is None:
        raise TypeError("labels: one per event is due, got None")
    return y


def _power_of_two(exponent: float) -> float:
    return math.ldexp(1.0, int(max(exponent, -2000.0)))



