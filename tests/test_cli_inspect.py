"""`streamnb inspect`: what a snapshot holds, in tables and pictures."""

import csv
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.saved_models import PASSENGERS, call, learned, lines_of

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learned(tmp_path_factory.mktemp("inspect"), lines_of(PASSENGERS), "{features: {name: text}}")


@pytest.fixture
def snapshots(config: Path) -> Path:
    return config.parent / "snapshots"


def test_the_tables_hold_counts_shares_and_moments(snapshots: Path) -> None:
    rows = list(csv.DictReader(call("inspect", snapshots, "--csv").stdout.splitlines()))
    found = {(row["feature"], row["value"], row["class"]): row for row in rows}
    ages = [x["age"] for x, y in PASSENGERS if y == "died" and x["age"] is not None]
    age = found["age", "", "died"]
    assert (float(age["n"]), float(age["mean"])) == (3.0, statistics.fmean(ages))
    assert math.isclose(float(age["std"]), statistics.pstdev(ages), rel_tol=1e-6)
    assert (found["sex", "male", "died"]["count"], found["sex", "male", "died"]["n"]) == ("4.0", "4.0")
    assert math.isclose(float(found["sex", "male", "died"]["p"]), 5 / 6)
    assert (found["name", "mr", "died"]["count"], found["name", "mr", "died"]["total"]) == ("4.0", "8.0")


def test_the_object_names_model_classes_priors_and_the_strongest_features(snapshots: Path) -> None:
    found = json.loads(call("inspect", snapshots, "--json", "--top", "2").stdout)
    assert (found["model"]["kind"], found["model"]["events"]) == ("mixed", 7)
    assert math.isclose(found["classes"]["died"]["prior"], 4 / 7)
    assert [len(features) for features in found["strongest"].values()] == [2, 2]
    (male,) = [f for f in found["strongest"]["died"] if f["name"] == "sex=male"]
    assert math.isclose(male["log_ratio"], math.log((5 / 6) / (1 / 5)))
    assert found["scores"]["evaluated"] == 7


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    words = " ".join(f"word{i}" for i in range(20_000))
    config = learned(tmp_path, lines_of([({"text": words}, "a"), ({"text": words}, "b")]), "{features: {text: text}}")
    command = [sys.executable, "-m", "streamnb", "inspect", str(config), "--csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


def test_a_class_and_a_feature_can_be_chosen(snapshots: Path) -> None:
    done = call("inspect", snapshots, "--class", "died", "--feature", "sex", "--json")
    found = json.loads(done.stdout)
    assert list(found["classes"]) == ["died"]
    assert [(line["feature"], line["value"]) for line in found["likelihoods"]] == [("sex", "female"), ("sex", "male")]
    assert all(set(line["classes"]) == {"died"} for line in found["likelihoods"])


@pytest.mark.parametrize("choice", [("--class", "sunk"), ("--feature", "six")])
def test_what_is_not_known_ends_with_64_and_says_what_is(snapshots: Path, choice: tuple[str, str]) -> None:
    done = call("inspect", snapshots, *choice)
    assert done.exit_code == 64
    assert "known are" in done.stderr


def test_the_newest_whole_snapshot_of_a_folder_is_taken(snapshots: Path, tmp_path: Path) -> None:
    whole = max(snapshots.rglob("*.snapshot"))
    (tmp_path / "0000000007.snapshot").write_bytes(whole.read_bytes())
    (tmp_path / "0000000008.snapshot").write_bytes(whole.read_bytes()[:-1])
    done = call("inspect", tmp_path)
    assert done.exit_code == 0
    assert done.stdout.startswith(str(tmp_path / "0000000007.snapshot"))
    assert "0000000008.snapshot: cut off" in done.stderr


@pytest.mark.parametrize("content", [None, b"", b"not a snapshot"])
def test_what_is_no_snapshot_ends_with_65(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "some.snapshot"
    if content is not None:
        path.write_bytes(content)
    done = call("inspect", path)
    assert (done.exit_code, done.stdout) == (65, "")
    assert str(path) in done.stderr


@pytest.mark.parametrize("n_classes", [2, 50])
def test_a_model_of_few_or_many_classes_is_told_and_drawn(n_classes: int, tmp_path: Path) -> None:
    events = [
        (
            {"amount": float(i % n_classes + i % 7), "sort": "ab"[i % 2], "text": f"word{i % n_classes} and"},
            str(i % n_classes),
        )
        for i in range(4 * n_classes)
    ]
    config = learned(tmp_path, lines_of(events), "{features: {text: text}}")
    done = call("inspect", config, "--plot", tmp_path / "model.png")
    assert done.exit_code == 0
    assert max(map(len, done.stdout.splitlines())) < 200
    assert (tmp_path / "model.png").read_bytes().startswith(PNG)


def test_a_model_that_has_learned_nothing_is_told_and_drawn(tmp_path: Path) -> None:
    config = learned(tmp_path, "", "{kind: gaussian}")
    done = call("inspect", config, "--plot", tmp_path / "model.svg")
    assert done.exit_code == 0
    assert "0 events" in done.stdout


def test_a_picture_of_an_unknown_kind_ends_with_64(snapshots: Path, tmp_path: Path) -> None:
    done = call("inspect", snapshots, "--plot", tmp_path / "model.bmp")
    assert done.exit_code == 64
    assert ".png, .svg, .pdf" in done.stderr
