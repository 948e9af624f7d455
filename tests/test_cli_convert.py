"""`streamnb convert`: the same answers in scikit-learn, and a stream that goes on from what scikit-learn has fitted."""

import json
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from streamnb.snapshots import find
from tests.broker import wait_until
from tests.lives import SLOW, Fleet, answered
from tests.oracle import Workload
from tests.saved_models import call, learned, lines_of

CHANCE = np.random.default_rng(8)
TABLE = pd.DataFrame(CHANCE.normal(size=(60, 3)), columns=["heat", "load", "noise"])
LABELS = np.where(TABLE["heat"] + 0.3 * CHANCE.normal(size=60) > 0, "hot", "cold")
NAMES = TABLE.astype("object").apply(lambda column: np.where(column.astype(float) > 0.3, "high", "low"))


def events(table: pd.DataFrame, labels: Any) -> str:
    return lines_of(zip(table.to_dict("records"), labels, strict=True))


def saved(folder: Path, estimator: Any) -> Path:
    skops.io.dump(estimator, folder / "fitted.skops")
    return folder / "fitted.skops"


def configured(folder: Path, model: str, name: str = "stream") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(
        f"{{app: {name}, transport: files, files: {{input: {folder}/events.jsonl}}, http: {{port: 0}},"
        f" output: {{predictions: {folder}/answers.jsonl}}, snapshots: {{path: {folder}/snapshots}}, model: {model}}}"
    )
    return path


@pytest.mark.parametrize(
    ("model", "table", "fitted"),
    [
        ("{kind: gaussian}", TABLE, GaussianNB()),
        ("{kind: categorical}", NAMES, make_pipeline(OrdinalEncoder(), CategoricalNB())),
    ],
)
def test_a_streamed_model_answers_as_scikit_learn_fitted_on_the_same_events(
    tmp_path: Path, model: str, table: pd.DataFrame, fitted: Any
) -> None:
    config = learned(tmp_path, events(table, LABELS), model)
    done = call("convert", config, tmp_path / "model.skops", "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    estimator = skops.io.load(told["file"])  # nothing in it needs more than skops' own trust
    assert (told["columns"], told["classes"], told["events"]) == (sorted(table), ["cold", "hot"], 60)
    expected = fitted.fit(table, LABELS).predict_proba(table)
    np.testing.assert_allclose(estimator.predict_proba(table[told["columns"]]), expected, rtol=1e-9)
    again = call("convert", config, tmp_path / "model.skops")
    assert (again.exit_code, "--overwrite" in again.stderr) == (64, True)


def test_a_stream_goes_on_from_a_fitted_model_and_ends_as_a_fit_of_everything(tmp_path: Path) -> None:
    """Numbers as labels and no names, as scikit-learn's users have them."""
    numbers = np.where(LABELS == "hot", 1, 0)
    file = saved(tmp_path, GaussianNB().fit(TABLE.to_numpy()[:40], numbers[:40]))
    (tmp_path / "events.jsonl").write_text(events(TABLE[40:], numbers[40:].tolist()))
    config = configured(tmp_path, "{kind: gaussian}")
    begun = call("convert", file, config, "--columns", "heat,load,noise")
    assert begun.exit_code == 0, begun.stderr
    assert "first snapshot of stream/" in begun.stdout
    assert call("run", config).exit_code == 0
    assert call("convert", config, tmp_path / "model.skops").exit_code == 0
    estimator = skops.io.load(tmp_path / "model.skops")
    whole = GaussianNB().fit(TABLE, numbers.astype(str))
    assert (estimator.classes_.tolist(), estimator.class_count_.sum()) == (["0", "1"], 60)
    np.testing.assert_allclose(estimator.predict_proba(TABLE), whole.predict_proba(TABLE), rtol=1e-6)
    snapshot = find(tmp_path / "snapshots", lambda *_: None)[1]
    assert snapshot.seed
    assert sum(snapshot.learned.values()) > 0
    verified, twice = call("verify", config), call("convert", file, config, "--columns", "heat,load,noise")
    assert (verified.exit_code, "began with a converted" in verified.stderr) == (65, True)
    assert (twice.exit_code, "has begun to learn" in twice.stderr) == (64, True)


GAUSSIAN = GaussianNB().fit(TABLE, LABELS)


@pytest.mark.parametrize(
    ("estimator", "options", "model", "code", "message"),
    [
        (GaussianNB().fit(TABLE.to_numpy(), LABELS), [], "{kind: gaussian}", 65, "name them with --columns"),
        (GaussianNB().fit(TABLE.to_numpy(), LABELS), ["--columns", "a,b"], "{kind: gaussian}", 65, "due are 3 differ"),
        (GAUSSIAN, ["--columns", "a,b,c"], "{kind: gaussian}", 65, "have names already: heat, load, noise"),
        (GaussianNB().fit(TABLE, [1.0, 2.0] * 30), [], "{kind: gaussian}", 65, "1.0 is not a label"),
        (GAUSSIAN, [], "{kind: mixed}", 64, '{"kind": "gaussian", "priors": "empirical", "var_smoothing": 1e-09}'),
        (GAUSSIAN, [], "{kind: gaussian, half_life: 1h}", 64, "half_life is None of the estimator, and 3600.0"),
        (LogisticRegression().fit(TABLE, LABELS), [], "{kind: gaussian}", 65, "LogisticRegression is no fitted naive"),
        (GaussianNB(), [], "{kind: gaussian}", 65, "is no fitted naive Bayes"),
        (make_pipeline(CountVectorizer(), MultinomialNB()).fit(["ab c", "de"], ["x", "y"]), [], "{kind: mixed}", 65,
         "CountVectorizer reads text, which the daemon does by itself"),
    ],
)  # fmt: skip
def test_what_cannot_start_a_stream_is_said_and_nothing_is_written(
    tmp_path: Path, estimator: Any, options: list[str], model: str, code: int, message: str
) -> None:
    done = call("convert", saved(tmp_path, estimator), configured(tmp_path, model), *options)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr
    assert not list(tmp_path.rglob("*.snapshot"))


def test_options_that_may_differ_are_named_since_the_configuration_decides(tmp_path: Path) -> None:
    file = saved(tmp_path, MultinomialNB(alpha=0.5).fit(TABLE.abs(), LABELS))
    done = call("convert", file, configured(tmp_path, "{kind: multinomial}"))
    assert done.exit_code == 0
    assert "alpha: 0.5 in the estimator, 1.0 in the configuration, which decides" in done.stdout


class Stranger(GaussianNB):  # type: ignore[misc]  # scikit-learn has no types
    """Of a module that nobody has said to trust."""


def test_a_file_that_could_run_code_or_is_none_is_refused(tmp_path: Path) -> None:
    config = configured(tmp_path, "{kind: gaussian}")
    stranger = call("convert", saved(tmp_path, Stranger().fit(TABLE, LABELS)), config)
    assert (stranger.exit_code, "Stranger" in stranger.stderr, "could run code" in stranger.stderr) == (65, True, True)
    for junk in (b"junk", b"", (tmp_path / "fitted.skops").read_bytes()[:-200]):
        (tmp_path / "junk.skops").write_bytes(junk)
        done = call("convert", tmp_path / "junk.skops", config)
        assert (done.exit_code, "is not a whole skops file" in done.stderr) == (65, True)
    assert not list(tmp_path.rglob("*.snapshot"))


def test_a_model_that_scikit_learn_has_nothing_for_is_refused(tmp_path: Path) -> None:
    config = learned(tmp_path, events(TABLE, LABELS), "{kind: mixed}")
    done = call("convert", config, tmp_path / "model.skops")
    assert (done.exit_code, (tmp_path / "model.skops").exists()) == (65, False)
    assert "MixedNB has no counterpart in scikit-learn" in done.stderr


def test_on_kafka_no_instance_goes_on_without_the_model_that_learning_began_with(
    workload: Workload, fleet: Fleet, tmp_path: Path
) -> None:
    file = saved(tmp_path, make_pipeline(OrdinalEncoder(), CategoricalNB()).fit(NAMES, LABELS))
    daemon = fleet.daemon(workload, model={"kind": "categorical"})
    config = daemon.folder / "config.yaml"
    assert call("convert", file, config).exit_code == 0
    workload.produce(50, poison=0)
    due = 60 + len(workload.learned)
    daemon.start().ready(SLOW)
    wait_until(lambda: daemon.metric("model_events") == due, SLOW, daemon.tail)
    answered(workload, daemon)
    assert daemon.stop() == 0
    rmtree(daemon.folder / "snapshots")
    assert daemon.start().wait(SLOW) == 75
    assert "learning began with the converted model" in daemon.log()
    assert call("convert", file, config).exit_code == 0
    daemon.start().ready(SLOW)
    wait_until(lambda: daemon.metric("model_events") == due, SLOW, daemon.tail)
