"""What goes through the pipeline: streams of events as bytes, labelled and unlabelled by turns, and models for them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Pair = tuple[bytes, bytes]
"""Key and value of one record."""
WORDS = 200_000
TOKENS = 50
TEXT_CLASSES = 20
TAUGHT_WORDS = 1_000


@dataclass(frozen=True, slots=True)
class Stream:
    """Events of one kind. Odd ones carry a label; the last of an even number of events therefore does not."""

    name: str
    model: dict[str, Any]
    """The daemon's `model` section."""
    user: Callable[[], Any]
    """What the user's loop learns with: river."""
    events: Callable[[int, int], list[Pair]]
    """So many events of a seed."""
    taught: Callable[[], list[Pair]]
    """What is learned first."""
    cost: int = 1
    """How many times as long as for the first stream river takes for an event, roughly."""


def numbers(n_features: int, n_classes: int, cost: int) -> Stream:
    """Normal features, shifted by class."""

    def events(n: int, seed: int) -> list[Pair]:
        random = np.random.default_rng(seed)
        classes = random.integers(0, n_classes, n)
        rows = np.round(random.normal(size=(n, n_features)) + classes[:, None], 3)
        named = ({f"f{j}": value for j, value in enumerate(row)} for row in rows.tolist())
        return _pairs(named, [f"c{c}" for c in classes.tolist()])

    name = f"{n_features} numbers, {n_classes} classes"
    model = {"kind": "mixed", "features": {f"f{j}": "gaussian" for j in range(n_features)}, "default": "ignore"}
    return Stream(name, model, _river_gaussian, events, lambda: events(20 * n_classes, 0), cost)


def text(n_words: int, cost: int) -> Stream:
    """Texts of 50 words, frequent and rare ones; every word has been learned first, with some class."""

    def events(n: int, seed: int) -> list[Pair]:
        random = np.random.default_rng(seed)
        ranks = (n_words ** random.random((n, TOKENS))).astype(np.int64) - 1
        classes = random.integers(0, TEXT_CLASSES, n)
        return _pairs(({"text": _words(row)} for row in ranks.tolist()), [f"c{c}" for c in classes.tolist()])

    def taught() -> list[Pair]:
        shuffled = np.random.default_rng(0).permutation(n_words)
        parts = np.array_split(shuffled, max(TEXT_CLASSES, n_words // TAUGHT_WORDS))
        texts = [{"text": _words(part.tolist())} for part in parts]
        return _pairs(texts, [f"c{i % TEXT_CLASSES}" for i in range(len(texts))], all_labelled=True)

    name = f"text, {TOKENS} tokens, {TEXT_CLASSES} classes, V = {n_words // 1000}k"
    model = {"kind": "mixed", "features": {"text": "text"}, "default": "ignore"}
    return Stream(name, model, _river_text, events, taught, cost)


def _words(ranks: Sequence[int]) -> str:
    return " ".join(f"word{rank}" for rank in ranks)


def _pairs(rows: Any, labels: list[str], all_labelled: bool = False) -> list[Pair]:
    pairs = []
    for i, (features, label) in enumerate(zip(rows, labels, strict=True)):
        event = {"id": i, "features": features}
        if all_labelled or i % 2 == 0:
            event["label"] = label
        pairs.append((b"%d" % i, json.dumps(event, separators=(",", ":")).encode()))
    return pairs


def _river_gaussian() -> Any:
    from river import naive_bayes

    hardly_typed: Any = naive_bayes
    return hardly_typed.GaussianNB()


def _river_text() -> Any:
    from river import feature_extraction, naive_bayes

    words: Any = feature_extraction.BagOfWords(on="text", lowercase=True)
    hardly_typed: Any = naive_bayes
    return words | hardly_typed.MultinomialNB()


STREAMS = (numbers(8, 2, 1), numbers(30, 10, 20), text(WORDS, 10))


def stream_named(name: str) -> Stream:
    """Return the stream of this name."""
    return next(stream for stream in (*STREAMS, text(20_000, 10)) if stream.name == name)
