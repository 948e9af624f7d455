"""What a running daemon tells of its answers: the same after a crash as without one, and when they get worse."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker import wait_until
from tests.daemon import Daemon


def events(n: int, swapped: bool, seed: int) -> str:
    """Events of two classes that differ in two features; `swapped` labels are those of the other class."""
    chance, lines = random.Random(seed), []
    for i in range(n):
        kind = chance.random() < 0.4
        x = {"amount": chance.gauss(30 if kind else 10, 6), "country": chance.choice("NX" if kind else "NS")}
        label = {} if i % 5 == 0 else {"label": "fraud" if kind != swapped else "fine"}
        lines.append(json.dumps({"features": x, **label}))
    return "\n".join(lines) + "\n"


@pytest.fixture
def input_file(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text(events(3000, False, 1))
    return path


@pytest.fixture
def pair(tmp_path: Path, input_file: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """Two daemons that follow the same file, each with outputs and snapshots of its own."""
    config = {
        "app": "quality",
        "transport": "files",
        "files": {"input": str(input_file), "follow": True},
        "output": {"predictions": "predictions.jsonl"},
    }
    made = [Daemon(tmp_path / name, config) for name in ("whole", "killed")]
    yield made[0], made[1]
    for daemon in made:
        daemon.close()


def told(daemon: Daemon) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(daemon.get("/model")[1])
    return answer


def learned(daemon: Daemon, n: int) -> dict[str, Any]:
    wait_until(lambda: told(daemon)["n_events"] == n, 60, lambda: f"{n} events to be learned; {daemon.tail()}")
    return told(daemon)


def test_quality_survives_a_crash_and_a_drift_is_told_everywhere(pair: tuple[Daemon, Daemon], input_file: Path) -> None:
    whole, killed = (daemon.start().ready() for daemon in pair)
    learned(killed, 2400)
    killed.kill()
    with input_file.open("a") as file:
        file.write(events(1000, True, 2))
    learned(killed.start().ready(), 3200)
    expected = learned(whole, 3200)
    found = learned(killed, 3200)
    assert (found["scores"], found["confusion"]) == (expected["scores"], expected["confusion"])
    assert sum(map(sum, found["confusion"]["counts"])) == 3199  # the first event met no class
    (drift,) = [drift for drift in found["scores"]["drifts"]["last"] if drift["direction"] == "worse"]
    assert 2400 < drift["event"] < 2500
    assert drift["after"] - drift["before"] > 0.3
    assert whole.metric("drift_detections_total", direction="worse") == 1
    assert whole.metric("drift_error_after_ratio") == drift["after"]
    (line,) = [line for line in (whole.folder / "log").read_text().splitlines() if '"worse"' in line]
    assert json.loads(line)["event"] == "drift.detected"


def test_features_answers_and_what_speaks_for_a_class_are_told(pair: tuple[Daemon, Daemon]) -> None:
    daemon = pair[0].start().ready()
    learned(daemon, 2400)
    wait_until(lambda: daemon.metric("predictions_total") == 600, 30, "600 answers")
    assert daemon.metric("features_total") == 6000
    assert 2 <= daemon.metric("unseen_features_total") < 20  # until each class has had each category
    published = [daemon.metric("class_published_total", **{"class": label}) for label in ("fine", "fraud")]
    assert sum(published) == 599  # the first was answered before any class was known
    assert published[1] == pytest.approx(240, abs=60)
    wait_until(lambda: told(daemon)["top_features"]["n_events"] == 2400, 30, "the features to be read")
    top = {label: features[0]["name"] for label, features in told(daemon)["top_features"]["classes"].items()}
    assert top == {"fine": "amount", "fraud": "amount"}
