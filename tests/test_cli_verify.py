"""`streamnb verify`: equal ends with 0, different with 1."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.saved_models import PASSENGERS, call, learned, lines_of

POISON = '{oops\n{"features": {"age": [1, {}]}, "label": "died"}\n\n{"features": {"age": 2.0}}\n'

PLAIN: dict[str, list[tuple[Mapping[str, Any], str]]] = {
    "gaussian": [({"a": i * 1.5, "b": i % 4}, "xy"[i % 2]) for i in range(12)],
    "multinomial": [({"a": i % 3, "b": i % 4}, "xy"[i % 2]) for i in range(12)],
    "complement": [({"a": i % 3, "b": i % 4}, "xyz"[i % 3]) for i in range(12)],
    "bernoulli": [({"a": i % 2, "b": i % 3 > 1}, "xy"[i % 4 > 1]) for i in range(12)],
    "categorical": [({"a": "uvw"[i % 3], "b": i % 4}, "xy"[i % 2]) for i in range(12)],
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learned(tmp_path_factory.mktemp("verify"), POISON + lines_of(PASSENGERS), "{features: {name: text}}")


def test_a_daemons_model_is_equal_and_what_it_refused_is_left_out(config: Path) -> None:
    done = call("verify", config)
    assert done.exit_code == 0
    assert "7 of 10 learned, left out: 1 bad_feature, 1 not_json, 1 unlabelled" in done.stdout
    assert done.stdout.splitlines()[-1] == "equal: the model is the batch fit of these events"
    assert "scikit-learn is not compared: it has no model of features of several kinds" in done.stdout


def test_of_a_snapshot_that_has_learned_nothing_it_says_so(tmp_path: Path) -> None:
    done = call("verify", learned(tmp_path, "", "{}"), "--quiet")
    assert (done.exit_code, "no event was learned yet" in done.stdout) == (0, True)


def test_a_snapshot_alone_knows_how_its_events_are_read(config: Path) -> None:
    done = call("verify", config.parent / "snapshots", "--input", config.parent / "events.jsonl", "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["equal"], found["learned"]) == (0, True, 7)
    assert {row["what"] for row in found["exact"]} >= {"names", "counts", "means", "variances", "epsilon", "priors"}


def test_events_may_come_from_a_pipe(config: Path) -> None:
    # of the real standard input, which a runner in this process has not
    command = [sys.executable, "-m", "streamnb", "verify", str(config), "--input", "-"]
    text = (config.parent / "events.jsonl").read_text()
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout


def test_lines_after_what_was_learned_are_not_read(config: Path, tmp_path: Path) -> None:
    longer = tmp_path / "longer.jsonl"
    longer.write_text((config.parent / "events.jsonl").read_text() + lines_of([({"age": 1.0}, "died")]))
    done = call("verify", config, "--input", longer)
    assert done.exit_code == 0
    assert "which is how far it was learned" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        ('"label": "died"', '"label": "lost"', "names"),
        ('"male"', '"mole"', "names"),
        ("22.0", "23.0", "means"),
        ('"survived"', '"died"    ', "counts"),
    ],
)
def test_one_changed_event_ends_with_1_and_says_what_differs(
    config: Path, tmp_path: Path, old: str, new: str, differs: str
) -> None:
    changed = tmp_path / "changed.jsonl"
    changed.write_text(new.join((config.parent / "events.jsonl").read_text().rsplit(old, 1)))
    done = call("verify", config, "--input", changed, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["equal"]) == (1, False)
    assert differs in {row["what"] for row in found["exact"] if not row["equal"]}


@pytest.mark.parametrize("kind", PLAIN)
def test_scikit_learn_is_compared_where_it_has_such_a_model(kind: str, tmp_path: Path) -> None:
    config = learned(tmp_path, lines_of(PLAIN[kind]), f"{{kind: {kind}}}")
    found = json.loads(call("verify", config, "--json").stdout)
    assert found["equal"]
    assert found["why_no_scikit_learn"] is None
    assert {row["what"] for row in found["scikit_learn"]} >= {"joint log-likelihoods", "posteriors"}
    assert [row for row in found["scikit_learn"] if not row["equal"]] == []


def test_weights_and_a_half_life_are_verified_too(tmp_path: Path) -> None:
    lines = "".join(
        json.dumps({"features": {"a": i * 0.3}, "label": "xy"[i % 2], "weight": 1 + i / 8, "timestamp": 1000 + 77 * i})
        + "\n"
        for i in range(20)
    )
    config = learned(tmp_path, lines, "{kind: gaussian, half_life: 100s}")
    done = call("verify", config)
    assert done.exit_code == 0
    assert "its models never forget" in done.stdout


def test_a_missing_input_ends_with_65_and_a_snapshot_without_one_with_64(config: Path, tmp_path: Path) -> None:
    missing = call("verify", config, "--input", tmp_path / "none.jsonl")
    not_said = call("verify", config.parent / "snapshots")
    assert (missing.exit_code, not_said.exit_code) == (65, 64)
    assert "none.jsonl" in missing.stderr
    assert "--input is missing" in not_said.stderr
