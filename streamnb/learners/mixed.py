"""The learner for events whose features are of several kinds."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamnb.learners import options
from streamnb.learners.bernoulli import BernoulliBlock
from streamnb.learners.block import Block, Entries
from streamnb.learners.categorical import CategoricalBlock
from streamnb.learners.counts import WEIGHTINGS, CountsBlock
from streamnb.learners.gaussian import GaussianBlock
from streamnb.learners.model import Model
from streamnb.learners.nb import UNSEEN, Priors
from streamnb.learners.text import Tokenizer
from streamnb.learners.values import Label, as_items, as_json, finite_number, plain_name, refusal, sort_key

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

    def encode(self, x: Any) -> list[Entries]:
        pairs: dict[str, list[tuple[Any, Any]]] = {"gaussian": [], "categorical": [], "bernoulli": [], "counts": []}
        texts: list[tuple[Any, Mapping[Any, int]]] = []
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
                texts.append((name, self._tokenizers[name].counts(value)))
            else:
                pairs[kind].append((name, value))
        parts: list[Entries] = []
        for block in self.blocks:
            part = block.encode(pairs[block.kind])
            if block is self._counts:
                for name, tokens in texts:
                    self._counts.add_tokens(part, name, tokens)
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
