"""The learner for events whose features are of several kinds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from streamnb.learners import options
from streamnb.learners.bernoulli import BernoulliBlock
from streamnb.learners.block import Block, Entries
from streamnb.learners.categorical import CategoricalBlock
from streamnb.learners.counts import WEIGHTINGS, CountsBlock
from streamnb.learners.gaussian import GaussianBlock
from streamnb.learners.kernels import mixed as kernel
from streamnb.learners.kernels.layout import REFUSED
from streamnb.learners.model import Model
from streamnb.learners.nb import UNSEEN, Priors
from streamnb.learners.tables import MOST_SHAPES, Buffer, Shape
from streamnb.learners.text import Tokenizer
from streamnb.learners.values import (
    LARGEST_WEIGHT,
    NUMBERS,
    Label,
    as_items,
    as_json,
    finite_number,
    plain_name,
    refusal,
    sort_key,
)

KINDS = ("gaussian", "categorical", "bernoulli", "counts", "text")
ALLOWED = "numbers, strings, booleans and lists of strings (missing: absent or None)"
IGNORED = "ignore"
KIND_OF_TYPE: dict[type, str] = {
    float: "gaussian",
    int: "gaussian",
    str: "categorical",
    bool: "categorical",
    list: "tokens",
    tuple: "tokens",
}
"""The usual types; the others are looked at in `_kind_of`."""


class Part(NamedTuple):
    """What one block takes of an event, the same for all events of the same names and types."""

    place: int
    block: Block
    shape: Shape
    pick: Callable[[list[Any]], Collection[Any]]


class Plan(NamedTuple):
    """The parts of such an event, and where its texts are among its values, and their names."""

    parts: list[Part]
    texts: list[tuple[int, str]]


class MixedNB(Model):
    """Naive Bayes for events that mix numbers, categories, flags, counts and text.

    `features` maps names to kinds: gaussian, categorical, bernoulli, counts, text, or `{kind: text, stop_words:
    [...], ngrams: [1, 2], hash_buckets: n}`. All counts share one multinomial; every text has its own. A name that
    is not declared goes by its value's own type with `default="auto"` (number: gaussian, string or boolean:
    categorical, list of strings: token counts; a name that comes with two types is two features), or is skipped
    with `default="ignore"`. The other options are those of the learners for each kind.
    """

    kind = "mixed"

    def __init__(
        self,
        features: Mapping[Any, Any] | None = None,
        default: str = "auto",
        alpha: float = 1.0,
        priors: Priors = "empirical",
        smooth_priors: bool = False,
        unseen: str = "ignore",
        weighting: str = "tf",
        binarize: float = 0.0,
        var_smoothing: float = 1e-9,
        ddof: float = 0,
        classes: Sequence[Label] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.default, self.alpha, self.priors, self.smooth_priors = default, alpha, priors, smooth_priors
        self.unseen, self.weighting, self.binarize = unseen, weighting, binarize
        self.var_smoothing, self.ddof = var_smoothing, ddof
        self._kinds, self._tokenizers = _declared_kinds(features)
        self._auto = options.choice("default", default, ("auto", IGNORED)) == "auto"
        smooth = options.choice("unseen", unseen, UNSEEN) == "smooth"
        smoothing = options.smoothing(alpha)
        self._gaussian = GaussianBlock(
            options.number("var_smoothing", var_smoothing, allowed="numbers from 0 to 1e120"),
            options.number("ddof", ddof, allowed="numbers from 0 to 1e120"),
        )
        self._categorical = CategoricalBlock(smoothing, smooth)
        self._bernoulli = BernoulliBlock(smoothing, options.threshold(binarize))
        self._counts = CountsBlock(smoothing, smooth, options.choice("weighting", weighting, WEIGHTINGS))
        given = {
            "features": features,
            "default": default,
            "alpha": alpha,
            "priors": priors,
            "smooth_priors": smooth_priors,
            "unseen": unseen,
            "weighting": weighting,
            "binarize": binarize,
            "var_smoothing": var_smoothing,
            "ddof": ddof,
            "classes": classes,
            "half_life": half_life,
        }
        kinds = set(self._kinds.values())
        blocks: list[Block] = []
        if self._auto or "gaussian" in kinds:
            blocks.append(self._gaussian)
        if self._auto or "categorical" in kinds:
            blocks.append(self._categorical)
        if "bernoulli" in kinds:
            blocks.append(self._bernoulli)
        if self._auto or kinds & {"counts", "text"}:
            blocks.append(self._counts)
        super().__init__(given, blocks)

    def _bind(self) -> None:
        for block in self.blocks:
            self.__dict__["_" + block.kind] = block
        four: tuple[Block, ...] = (self._gaussian, self._categorical, self._bernoulli, self._counts)
        self._block_of = {block.kind: block for block in self.blocks}
        self._none = [0 if block in self.blocks else -1 for block in four]
        self._places = {block.kind: place for place, block in enumerate(four)}
        self._buffers = [Buffer() for _ in four]
        self._plans: dict[tuple[Any, ...], Plan] = {}

    def names_moved(self) -> None:
        self._plans.clear()

    # -- events whose features are known and of the usual types -----------------------------------------------

    def write(self, buffers: Sequence[Buffer], x: Any) -> Sequence[int] | None:
        if type(x) is not dict:
            return None
        used = iter(buffers)
        four = [self._buffers[place] if n < 0 else next(used) for place, n in enumerate(self._none)]
        written = self._write(four, x)
        if written is None or not self._gaussian.are_small([v for v in x.values() if type(v) in NUMBERS]):
            return None
        return [n for n in written if n >= 0]

    def _write(self, buffers: Sequence[Buffer], x: dict[Any, Any]) -> list[int] | None:
        """Write an event to the buffers of the four blocks; return their entries, -1 where the model has no block."""
        key = (*x, *map(type, x.values()))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plan(x)
            if plan is None:
                return None
            if len(self._plans) < MOST_SHAPES:
                self._plans[key] = plan
        values = [*x.values()]
        written = self._none.copy()
        for place, block, shape, pick in plan.parts:
            n = written[place] = block.write(buffers[place], shape, pick(values))
            if n < 0:
                return None
        for position, name in plan.texts:
            place = self._places["counts"]
            n = written[place] = self._counts.write_text(buffers[place], written[place], name, values[position])
            if n < 0:
                return None
        return written

    def _plan(self, x: dict[Any, Any]) -> Plan | None:
        """Return which block takes which values of events like this one; None if they need `encode`."""
        positions: dict[str, list[int]] = {}
        texts: list[tuple[int, str]] = []
        names = list(x)
        for position, (name, value) in enumerate(x.items()):
            if type(name) is not str:
                return None
            kind = self._kinds.get(name)
            if kind is None:
                if not self._auto:
                    continue
                kind = KIND_OF_TYPE.get(type(value))
            if kind == "text" and type(value) is str and self._tokenizers[name].takes_words:
                texts.append((position, name))
                continue
            if kind is None or kind not in self._block_of or type(value) not in self._block_of[kind].usual:
                return None
            positions.setdefault(kind, []).append(position)
        parts = []
        for kind, some in positions.items():
            block = self._block_of[kind]
            shape = block.shape(tuple(names[position] for position in some))
            if shape is None:
                return None
            pick = itemgetter(*some) if len(some) > 1 else itemgetter(slice(some[0], some[0] + 1))
            parts.append(Part(self._places[kind], block, shape, pick))
        return Plan(parts, texts)

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: float | None = None) -> None:
        """Learn one event of weight `w` >= 0 at event time `t` (seconds; None: the latest learned).

        Raise ValueError or TypeError for what cannot be used; the model is then as it was.
        """
        written = None if self.forgets or type(x) is not dict else self._write(self._buffers, x)
        label = -1 if written is None else self.known_label(y)
        usual = label >= 0 and t is None and type(w) is float and 0.0 < w <= LARGEST_WEIGHT
        if written is not None and usual and self._learn_written(written, label, w):
            self.version += 1
        else:
            super().learn_one(x, y, w, t)

    def _learn_written(self, written: list[int], label: int, w: float) -> bool:
        """Learn the event at the start of the four buffers. False, and nothing is learned, if it does not fit."""
        numbers, categories, flags, tokens = self._gaussian, self._categorical, self._bernoulli, self._counts
        for_numbers, for_categories, for_flags, for_tokens = self._buffers
        n_numbers, n_categories, n_flags, n_tokens = written
        return kernel.learn_one(
            numbers.cells, numbers.cache, len(numbers.names.names), n_numbers, for_numbers.slots, for_numbers.values,
            categories.cells, categories.values, n_categories, for_categories.slots, for_categories.extras,
            flags.counts, flags.features_, flags.totals, flags.scalars, flags.bins, flags.listed, flags.cache,
            len(flags.names.names), n_flags, for_flags.slots, for_flags.values,
            tokens.counts, tokens.features_, tokens.groups, tokens.scalars, len(tokens.tokens), n_tokens,
            for_tokens.slots, for_tokens.values,
            self.class_table, len(self.order), label, w,
        )  # fmt: skip

    def _read_one(self, x: Any) -> int:
        written = self._write(self._buffers, x) if type(x) is dict else None
        if written is not None:
            best = self._read_written(written)
            if best != REFUSED:
                return best
        written = self._none.copy()
        for block, entries in zip(self.blocks, self.encode(x), strict=True):
            place = self._places[block.kind]
            buffer = self._buffers[place]
            block.push(buffer, 0, entries, learn=False)
            written[place] = buffer.used
            buffer.clear()
        return self._read_written(written)

    def _read_written(self, written: list[int]) -> int:
        """Read the event at the start of the four buffers."""
        numbers, categories, flags, tokens = self._gaussian, self._categorical, self._bernoulli, self._counts
        for_numbers, for_categories, for_flags, for_tokens = self._buffers
        n_numbers, n_categories, n_flags, n_tokens = written
        sums = self._one_sums
        return kernel.predict_one(
            numbers.cells, numbers.cache, numbers.var_smoothing, numbers.ddof, n_numbers,
            for_numbers.slots, for_numbers.values,
            categories.cells, categories.values, n_categories, for_categories.slots, for_categories.extras,
            flags.counts, flags.features_, flags.totals, flags.scalars, flags.bins, flags.listed, flags.cache, n_flags,
            for_flags.slots, for_flags.values,
            tokens.counts, tokens.features_, tokens.groups, tokens.scalars, tokens.weighting, n_tokens,
            for_tokens.slots, for_tokens.extras, for_tokens.values,
            tokens.alpha, tokens.smooth, self.class_table, self.order, self._prior,
            self.forgetting.read_factor() if self.forgets else 1.0, sums.sums, sums.unseen, sums.probabilities,
        )  # fmt: skip

    def encode(self, x: Any) -> list[Entries]:
        pairs: dict[str, list[tuple[Any, Any]]] = {"gaussian": [], "categorical": [], "bernoulli": [], "counts": []}
        texts: list[tuple[Any, str | dict[str, int]]] = []
        kinds = self._kinds
        for name, value in as_items(x):
            if type(name) is not str:
                name = plain_name(name)
            kind = kinds.get(name)
            if kind is None:
                if not self._auto or value is None:
                    continue
                kind = KIND_OF_TYPE.get(type(value)) or _kind_of(name, value)
                if kind == "tokens":
                    texts.append((name, _token_counts(name, value)))
                    continue
            if kind == "text":
                if value is None:
                    continue
                if not isinstance(value, str):
                    raise refusal("text", name, value, "strings (missing: absent or None)")
                texts.append((name, value))
            else:
                pairs[kind].append((name, value))
        parts: list[Entries] = []
        for block in self.blocks:
            part = block.encode(pairs[block.kind])
            if block is self._counts:
                for name, text in texts:
                    if isinstance(text, str):
                        self._counts.add_text(
                            part, name, self._tokenizers[name], text, self._buffers[self._places["counts"]]
                        )
                    else:
                        self._counts.add_tokens(part, name, text)
            parts.append(part)
        return parts

    def shape(self) -> dict[str, Any]:
        shape = super().shape()
        shape["features"] = [
            [as_json(name), self._tokenizers[name].to_options() if kind == "text" else kind]
            for name, kind in sorted(self._kinds.items(), key=lambda item: sort_key(item[0]))
        ]
        if "bernoulli" not in self._kinds.values():
            shape["binarize"] = None
        return shape


def _declared_kinds(features: object) -> tuple[dict[Any, str], dict[Any, Tokenizer]]:
    """Read the `features` option: each name's kind, and how each text is cut up."""
    kinds: dict[Any, str] = {}
    tokenizers: dict[Any, Tokenizer] = {}
    if features is None:
        return kinds, tokenizers
    if not isinstance(features, Mapping):
        raise TypeError(f"features={features!r}: a mapping of names to kinds is due")
    for key, spec in features.items():
        name = plain_name(key)
        kind = spec.get("kind") if isinstance(spec, Mapping) else spec
        if not isinstance(kind, str) or kind not in KINDS:
            raise ValueError(f"feature {name!r}: kind {kind!r}; allowed are {', '.join(KINDS)}")
        if kind == "text":
            tokenizers[name] = Tokenizer.from_options(name, spec if isinstance(spec, Mapping) else {})
        elif isinstance(spec, Mapping) and set(spec) != {"kind"}:
            raise ValueError(
                f"feature {name!r}: kind {kind!r} takes no further keys, got {sorted(set(spec) - {'kind'})}"
            )
        kinds[name] = kind
    return kinds, tokenizers


def _kind_of(name: Any, value: Any) -> str:
    """Return the kind that a value's own type stands for."""
    if isinstance(value, str | bool | np.bool_):
        return "categorical"
    if isinstance(value, list | tuple):
        return "tokens"
    if finite_number(value) is not None:
        return "gaussian"
    raise refusal("mixed", name, value, ALLOWED)


def _token_counts(name: Any, tokens: Sequence[Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for token in tokens:
        if not isinstance(token, str):
            raise refusal("token list", name, token, "lists of strings")
        counts[token] = counts.get(token, 0) + 1
    return counts
