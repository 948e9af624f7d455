"""What is measured: streams of one kind, and the learners of streamnb, river and scikit-learn for them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from river import compose, naive_bayes, preprocessing
from scipy.sparse import csr_matrix
from sklearn import naive_bayes as sklearn_nb

from streamnb import learners

river_nb: Any = naive_bayes  # hardly typed
Array = npt.NDArray[Any]
Event = tuple[dict[str, Any], str]
TOKENS = 50
N_EVENTS = 400
N_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Workload:
    """Events to learn first, events to measure with, and the same as arrays where scikit-learn takes part."""

    name: str
    ours: Callable[[], Any]
    river: Callable[[], Any]
    sklearn: Callable[[], Any] | None
    taught: list[Event]
    events: list[Event]
    X: Any = None
    y: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def learned(self, build: Callable[[], Any]) -> Any:
        """Return a learner that has learned what is learned first."""
        model = build()
        for x, y in self.taught:
            model.learn_one(x, y)
        return model


def _events(rows: list[dict[str, Any]], classes: Array) -> list[Event]:
    return [(x, f"class {c}") for x, c in zip(rows, classes.tolist(), strict=True)]


def gaussian(n_features: int, n_classes: int) -> Workload:
    """Normal features, shifted by class."""
    random = np.random.default_rng(n_features)
    y = random.integers(0, n_classes, N_ROWS)
    X = random.normal(size=(N_ROWS, n_features)) + y[:, None]
    events = _events([{f"f{j}": value for j, value in enumerate(row)} for row in X.tolist()], y)
    return Workload(
        f"Gaussian, {n_features} features, {n_classes} classes",
        learners.GaussianNB,
        river_nb.GaussianNB,
        sklearn_nb.GaussianNB,
        events,
        events[:N_EVENTS],
        X,
        y,
    )


TEXT_LEARNERS: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]] = {
    "multinomial": (learners.MultinomialNB, river_nb.MultinomialNB, sklearn_nb.MultinomialNB),
    "complement": (learners.ComplementNB, river_nb.ComplementNB, sklearn_nb.ComplementNB),
    "Bernoulli": (learners.BernoulliNB, river_nb.BernoulliNB, sklearn_nb.BernoulliNB),
}


def text(learner: str, n_words: int, n_classes: int = 20) -> Workload:
    """Documents of 50 distinct words; every word of the vocabulary has been learned with some class."""
    random = np.random.default_rng(n_words)
    ours, river, sklearn = TEXT_LEARNERS[learner]
    names = [f"word{j}" for j in range(n_words)]
    parts = np.array_split(random.permutation(n_words), n_classes)
    taught = _events([{names[j]: 1 for j in part.tolist()} for part in parts], np.arange(n_classes))
    X, y = documents(random, N_ROWS, n_words), random.integers(0, n_classes, N_ROWS)
    rows = [{names[j]: 1 for j in X.indices[i * TOKENS : (i + 1) * TOKENS].tolist()} for i in range(N_EVENTS)]
    events = _events(rows, y[:N_EVENTS])
    name = f"{learner}, {TOKENS} tokens, {n_classes} classes, V = {n_words // 1000}k"
    return Workload(name, ours, river, sklearn, taught + events, events, X, y)


def documents(random: np.random.Generator, n_rows: int, n_words: int) -> csr_matrix:
    """Return word counts of documents with 50 distinct words each, frequent and rare ones."""
    ranks = (n_words ** random.random((n_rows, 2 * TOKENS))).astype(np.int64) - 1
    columns = np.empty((n_rows, TOKENS), np.int64)
    for i, row in enumerate(ranks):
        words = np.unique(row)
        short = TOKENS - len(words)
        if short > 0:  # the frequent ones came more than once: rare ones instead
            words = np.unique(np.concatenate([words, n_words // 2 + random.permutation(n_words // 2)[: 2 * short]]))
        columns[i] = np.sort(random.permutation(words)[:TOKENS])
    starts = np.arange(n_rows + 1) * TOKENS
    return csr_matrix((np.ones(columns.size), columns.reshape(-1), starts), (n_rows, n_words))


def categorical(n_features: int = 10, n_classes: int = 5) -> Workload:
    """Five values per feature, leaning by class."""
    random = np.random.default_rng(3)
    y = random.integers(0, n_classes, N_ROWS)
    codes = (random.integers(0, 4, (N_ROWS, n_features)) + y[:, None]) % 5
    codes[:5] = np.arange(5)[:, None]  # each batch has every code: scikit-learn takes the highest for their number
    events = _events([{f"f{j}": f"value {code}" for j, code in enumerate(row)} for row in codes.tolist()], y)
    return Workload(
        f"categorical, {n_features} features, {n_classes} classes",
        learners.CategoricalNB,
        lambda: preprocessing.OneHotEncoder() | river_nb.MultinomialNB(),
        sklearn_nb.CategoricalNB,
        events,
        events[:N_EVENTS],
        codes,
        y,
    )


def mixed(n_classes: int = 4) -> Workload:
    """Four numbers, three strings and a flag."""
    random = np.random.default_rng(4)
    y = random.integers(0, n_classes, N_ROWS)
    numbers = random.normal(size=(N_ROWS, 4)) + y[:, None]
    codes = (random.integers(0, 4, (N_ROWS, 3)) + y[:, None]) % 5
    flags = random.random(N_ROWS) < y / n_classes
    rows: list[dict[str, Any]] = [
        {f"n{j}": value for j, value in enumerate(some)}
        | {f"s{j}": f"value {code}" for j, code in enumerate(others)}
        | {"flag": flag}
        for some, others, flag in zip(numbers.tolist(), codes.tolist(), flags.tolist(), strict=True)
    ]
    events = _events(rows, y)
    return Workload(
        f"mixed 4 numbers + 3 strings + flag, {n_classes} classes",
        lambda: learners.MixedNB({"flag": "bernoulli"}),
        _mixed_pipeline,
        None,
        events,
        events[:N_EVENTS],
    )


def _mixed_pipeline() -> Any:
    strings: Any = compose.Select("s0", "s1", "s2") | preprocessing.OneHotEncoder()
    return (compose.Select("n0", "n1", "n2", "n3", "flag") + strings) | river_nb.GaussianNB()
