"""The tables the tests learn from, as arrays and events. Sources and shapes are in each docstring."""

from __future__ import annotations

import csv
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris

DATA = Path(__file__).parent / "data"
CASES = Path(__file__).parent / "cases" / "learners.json"


@cache
def iris() -> tuple[np.ndarray[Any, Any], list[str]]:
    """Fisher's 150 flowers: X (150, 4) and species."""
    table = load_iris()
    return table.data, [str(table.target_names[i]) for i in table.target]


@cache
def htru2() -> tuple[np.ndarray[Any, Any], list[int]]:
    """17 898 pulsar candidates (Lyon et al. 2016): X (17898, 8) and 1 where it is a pulsar."""
    with gzip.open(DATA / "htru2.csv.gz", "rt", encoding="utf-8") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return table[:, :-1], [int(label) for label in table[:, -1]]


@cache
def titanic() -> tuple[list[dict[str, float | None]], list[int]]:
    """891 passengers: class, sex (1 female), age (None where unknown), and whether they survived."""
    with (DATA / "titanic.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    events = [
        {
            "pclass": float(row["Pclass"]),
            "female": float(row["Sex"] == "female"),
            "age": float(row["Age"]) if row["Age"] else None,
        }
        for row in rows
    ]
    return events, [int(row["Survived"]) for row in rows]


@cache
def news(split: str) -> tuple[csr_matrix, list[int]]:
    """Postings to 20 news groups, as word counts over one vocabulary: ``train`` (1200) and ``test`` (800)."""
    with gzip.open(DATA / "mini20news.vocabulary.txt.gz", "rt", encoding="utf-8") as file:
        n_words = sum(1 for _ in file)
    with gzip.open(DATA / f"mini20news.{split}.data.gz", "rt", encoding="utf-8") as file:
        document, word, count = np.loadtxt(file, dtype=np.int64).T
    with gzip.open(DATA / f"mini20news.{split}.label.gz", "rt", encoding="utf-8") as file:
        groups = [int(line) for line in file]
    return csr_matrix((count.astype(float), (document - 1, word - 1)), (len(groups), n_words)), groups


@cache
def taught(case_id: str) -> tuple[list[dict[str, str]], list[str]]:
    """The rows that a case of cases/learners.json learns: x and y."""
    (case,) = (case for case in json.loads(CASES.read_text("utf-8"))["cases"] if case["id"] == case_id)
    learned = [step for step in case["steps"] if step[0] == "learn"]
    return [step[1] for step in learned], [step[2] for step in learned]
