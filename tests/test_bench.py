"""The bench prints every figure of its table; what the figures are is the machine's affair."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

COLUMNS = [
    "predict_proba_one / river",
    "learn_one / river",
    "test-then-train / river",
    "learn_many / sklearn",
    "predict_proba_many / sklearn",
]
TEXTS = [
    f"{learner}, 50 tokens, 20 classes, V = {size}"
    for learner in ("multinomial", "complement", "Bernoulli")
    for size in ("20k", "200k")
]
GAUSSIANS = ["Gaussian, 8 features, 2 classes", "Gaussian, 30 features, 10 classes"]
ROWS = [*GAUSSIANS, *TEXTS, "categorical, 10 features, 5 classes"]
MIXED = "mixed 4 numbers + 3 strings + flag, 4 classes"
BATCHES = [
    "predict_proba_learn_many / river event by event",
    "predict_proba_learn_many / sklearn row by row",
    "predict_proba_learn_many, array",
    "rows of mappings, as the engine",
]
FIGURES = {
    *((row, column) for row in ROWS for column in COLUMNS),
    *((MIXED, column) for column in COLUMNS[:3]),
    *((row, column) for row in (*GAUSSIANS, TEXTS[0]) for column in BATCHES),
    (TEXTS[1], "memory / river"),
    (TEXTS[1], "memory / sklearn and its vocabulary"),
    *(
        (f"{learner}, 50 tokens, 20 classes", "test-then-train, V = 2000k / V = 20k")
        for learner in ("multinomial", "complement", "Bernoulli")
    ),
}
SHOWN_ONLY = {"predict_proba_learn_many, array", "rows of mappings, as the engine"}


def run(*options: str) -> str:
    command = [sys.executable, "-m", "streamnb", "bench", "learners", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@cache
def quick() -> dict[str, Any]:
    return json.loads(run("--quick", "--json", "--peers"))


def test_every_figure_is_there_once() -> None:
    results = quick()["results"]
    assert {(result["row"], result["column"]) for result in results} == FIGURES
    assert len(results) == len(FIGURES)


@pytest.mark.parametrize("figure", sorted(FIGURES), ids=" ".join)
def test_a_figure_is_a_positive_number_between_its_quartiles_and_judged_by_its_goal(figure: tuple[str, str]) -> None:
    (result,) = (result for result in quick()["results"] if (result["row"], result["column"]) == figure)
    assert 0 < result["low"] <= result["value"] <= result["high"] < math.inf
    if figure[1] in SHOWN_ONLY:
        assert (result["goal"], result["ok"]) == (None, None)
    else:
        assert result["ok"] is (result["value"] <= result["goal"])
        assert result["ours"] > 0
        assert result["peer"] > 0


def test_peers_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamnb.bench.comparing import missing_peers

    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("MOA_JAR", raising=False)
    assert [name.split()[0] for name in missing_peers()] == ["MOA", "Vowpal"]


def test_both_sides_take_turns_of_the_same_length(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamnb.bench import timing

    now = 0.0
    turns: list[str] = []

    def work(name: str, seconds: float) -> timing.Task:
        def run(_: int) -> None:
            nonlocal now
            now += seconds
            turns.append(name)

        return timing.Task(run, 10, whole=True)

    monkeypatch.setattr(timing.time, "thread_time", lambda: now)
    effort = timing.Effort(chunk_seconds=8.0, seconds=0.0, most_repeats=9)
    comparison = timing.compare(work("ours", 2.0), work("peer", 8.0), effort)
    calibration, repeat = ["ours", "ours", "peer", "peer"], ["ours"] * 4 + ["peer"]
    assert turns == calibration + 3 * repeat
    assert comparison.ours.median == 0.2
    assert comparison.ratio.low == comparison.ratio.median == comparison.ratio.high == 0.25
