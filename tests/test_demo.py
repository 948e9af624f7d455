"""The demo, run as a newcomer would: what it prints is what it wrote."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from streamnb.config import load
from tests.broker import Cluster, free_port
from tests.saved_models import call

Answer = dict[str, Any]


def demo(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamnb", "demo", "--rate", "100000", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)


def held_back() -> dict[str, str]:
    """The labels of the messages that are sent without: every fourth of the collection."""
    packed = resources.files("streamnb.cli").joinpath("data/sms_spam.jsonl.gz").read_bytes()
    messages = [json.loads(line) for line in gzip.decompress(packed).splitlines()]
    return {message["id"]: message["label"] for message in messages[3::4]}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which the demo has run, and what it printed."""
    cwd = tmp_path_factory.mktemp("newcomer")
    done = demo(cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return cwd, done.stdout


def answers(cwd: Path) -> list[Answer]:
    return [json.loads(line) for line in (cwd / "streamnb-demo" / "predictions.jsonl").read_text().splitlines()]


def test_every_message_without_a_label_is_answered_once_and_in_order(shown: tuple[Path, str]) -> None:
    cwd, _ = shown
    assert [answer["id"] for answer in answers(cwd)] == list(held_back())


def test_the_accuracy_it_prints_is_that_of_the_answers_it_wrote(shown: tuple[Path, str]) -> None:
    cwd, text = shown
    truth = held_back()
    pairs = [(answer["label"], truth[answer["id"]]) for answer in answers(cwd)]
    right = sum(label == true for label, true in pairs)
    spam, found = sum(true == "spam" for _, true in pairs), pairs.count(("spam", "spam"))
    alarms = pairs.count(("spam", "ham"))
    assert f"{len(pairs)} of {len(truth)} messages sent without a label were answered" in text
    assert f"{right} ({right / len(pairs):.2%}) rightly:\n" in text
    assert f"{found} of {spam} spam found, {alarms} of {len(pairs) - spam} ham called spam" in text
    assert right / len(pairs) > 0.97


def test_the_scores_it_prints_last_cover_every_labelled_message(shown: tuple[Path, str]) -> None:
    _, text = shown
    last = re.findall(r"^ +(\d+) +([\d.]+)% +([\d.]+)% +([\d.]+)$", text, re.MULTILINE)[-1]
    scored, accuracy, majority, log_loss = (float(number) for number in last)
    assert scored == 5574 - len(held_back())
    assert accuracy > 97
    assert 80 < majority < 90
    assert 0 < log_loss < 0.3


def test_the_files_it_names_are_there(shown: tuple[Path, str]) -> None:
    cwd, text = shown
    named = dict(re.findall(r"^(answers|snapshots|go on) +(?:streamnb run )?(\S+)", text, re.MULTILINE))
    assert (cwd / named["answers"]).stat().st_size
    assert list((cwd / named["snapshots"]).rglob("*.snapshot"))
    assert load(cwd / named["go on"], {}).app == "demo"


def test_an_example_shows_the_words_that_weighed_most(shown: tuple[Path, str]) -> None:
    cwd, text = shown
    spam = next(
        answer for answer in reversed(answers(cwd)) if (answer["label"], held_back()[answer["id"]]) == ("spam", "spam")
    )
    words = [share["feature"].removeprefix("text=") for share in spam["explanation"]]
    section = text.partition("  spam (p = ")[2].partition("  ham (p = ")[0]
    assert len(words) == 4
    assert all(f"{word} " in section for word in words)


def test_in_a_pipe_there_are_no_colours_and_no_bar(shown: tuple[Path, str]) -> None:
    _, text = shown
    assert "\x1b" not in text
    assert "messages sent " not in text.partition("of 1393")[0]


def test_over_a_broker_it_answers_as_over_files_and_leaves_nothing_behind(
    broker: Cluster, shown: tuple[Path, str], tmp_path: Path
) -> None:
    done = demo("--kafka", broker.bootstrap, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr, list(tmp_path.iterdir())) == (0, "", [])
    found = json.loads(done.stdout)
    right = re.findall(r"answered, (\d+) ", shown[1])
    assert (found["scored"], found["answered"], [str(found["right"])]) == (5574 - len(held_back()), 1393, right)
    assert "streamnb-demo" not in str(broker.admin.list_topics()) + str(broker.admin.list_groups())


def test_kept_topics_hold_the_answers_and_the_configuration_goes_on_from_there(broker: Cluster, tmp_path: Path) -> None:
    done = demo("--kafka", broker.bootstrap, "--keep", "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout.startswith("\n1393 of 1393 messages")) == (0, True)
    config = load(tmp_path / "streamnb-demo" / "streamnb.yaml", {})
    topics = [*config.input.labelled, config.output.predictions, config.output.dead_letters]
    assert set(topics) <= set(broker.admin.list_topics())
    verified = call("verify", tmp_path / "streamnb-demo" / "streamnb.yaml", "--quiet")
    assert verified.stdout == "equal: the model is the batch fit of these events\n"
    for topic in topics:
        broker.delete(str(topic))
    broker.forget(config.app)


def test_without_a_broker_it_ends_with_69_and_makes_no_folder(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "streamnb", "demo", "--kafka", address, "--keep"]
    environ = {**os.environ, "STREAMNB_KAFKA__START_TIMEOUT": "1s"}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (69, "", [])
    assert f"kafka: {address}: no broker answered" in done.stderr


def test_ctrl_c_ends_it_with_what_has_come_so_far_and_deletes_its_topics(broker: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streamnb", "demo", "--kafka", broker.bootstrap, "--rate", "20"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        while "scored " not in running.stdout.readline():
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        assert "messages sent without a label were answered" in running.stdout.read()
        assert (running.wait(60), running.stderr.read(), list(tmp_path.iterdir())) == (0, "", [])
    assert "streamnb-demo" not in str(broker.admin.list_topics())


def test_it_does_not_touch_a_folder_that_is_not_its_own(tmp_path: Path) -> None:
    mine = tmp_path / "streamnb-demo" / "predictions.jsonl"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = demo("--overwrite", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (65, "")
    assert "is not empty, and holds no earlier demo" in done.stderr
    assert (mine.read_text(), len(list(mine.parent.iterdir()))) == ("mine", 1)


def test_it_replaces_an_earlier_demo_only_when_told_to(shown: tuple[Path, str]) -> None:
    cwd, _ = shown
    before = answers(cwd)
    refused = demo(cwd=cwd)
    assert (refused.returncode, answers(cwd)) == (65, before)
    assert "--overwrite" in refused.stderr
    assert demo("--overwrite", cwd=cwd).returncode == 0
    assert answers(cwd) == before
