"""`streamnb explain`: the sum behind an answer."""

import json
import math
from pathlib import Path

import pytest

from tests.saved_models import PASSENGERS, call, learned, lines_of

EVENT = json.dumps({"id": 7, "features": {"age": 30.0, "sex": "female", "name": "Mrs Allen"}})


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return learned(tmp_path_factory.mktemp("explain"), lines_of(PASSENGERS), "{features: {name: text}}")


def test_the_contributions_add_up_to_the_log_odds_of_the_answer(config: Path) -> None:
    found = json.loads(call("explain", config, EVENT, "--json").stdout)
    terms = [found["prior"], found["absent"], found["rest"], *(f["contribution"] for f in found["features"])]
    odds = found["probabilities"][found["label"]] / found["probabilities"][found["against"]]
    assert (found["label"], found["against"], found["id"]) == ("survived", "died", 7)
    assert math.isclose(math.fsum(terms), found["log_odds"], rel_tol=1e-12)
    assert math.isclose(math.log(odds), found["log_odds"], rel_tol=1e-9)


def test_features_beyond_top_are_in_the_rest(config: Path) -> None:
    whole, short = (json.loads(call("explain", config, EVENT, "--json", "--top", n).stdout) for n in ("9", "1"))
    assert short["features"] == whole["features"][:1]
    assert short["features_in_rest"] == len(whole["features"]) - 1
    left_out = math.fsum(f["contribution"] for f in whole["features"][1:])
    assert math.isclose(short["rest"], left_out + whole["rest"], rel_tol=1e-9)


def test_the_table_says_what_adds_up_and_is_plain_in_a_pipe(config: Path) -> None:
    done = call("explain", config, "-", stdin=EVENT)
    assert done.exit_code == 0
    assert "sex = female" in done.stdout
    assert "prior + features + rest = log(P(survived) / P(died))" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_snapshot_alone_gives_the_same_answer_as_its_configuration(config: Path) -> None:
    by_config = json.loads(call("explain", config, EVENT, "--json").stdout)
    by_folder = json.loads(call("explain", config.parent / "snapshots", EVENT, "--json").stdout)
    assert by_config.pop("model") != by_folder.pop("model")
    assert by_config == by_folder


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("{oops", "not_json"),
        ('{"age": 3}', "no_features"),
        ('{"features": {"age": [1]}}', "bad_feature"),
    ],
)
def test_an_event_that_cannot_be_used_ends_with_64_or_from_a_pipe_65(config: Path, event: str, message: str) -> None:
    given, piped = call("explain", config, event), call("explain", config, "-", stdin=event)
    assert (given.exit_code, piped.exit_code) == (64, 65)
    assert message in given.stderr
    assert message in piped.stderr


def test_a_configuration_that_has_not_run_yet_ends_with_65(config: Path, tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(config.read_text().replace("app: saved", "app: other"))
    done = call("explain", tmp_path / "new.yaml", EVENT)
    assert done.exit_code == 65
    assert "no snapshot of app other yet" in done.stderr


def test_a_configuration_of_another_model_ends_with_75(config: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(config.read_text().replace("name: text", "name: categorical"))
    done = call("explain", tmp_path / "other.yaml", EVENT)
    assert done.exit_code == 75
    assert "features" in done.stderr
