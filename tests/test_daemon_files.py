"""The daemon over plain files: the same answers however it is cut into batches, runs and crashes."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.broker import wait_until
from tests.daemon import Daemon
from tests.lives import HERE

SMS = Path(__file__).parent / "data" / "sms_spam.jsonl.gz"
MODEL = {"kind": "mixed", "features": {"text": "text"}}


def messages(every: int = 3) -> list[bytes]:
    """Lines of the SMS collection; each `every`-th without its label."""
    lines = []
    for n, line in enumerate(gzip.decompress(SMS.read_bytes()).splitlines()):
        event = json.loads(line)
        if n % every == 0:
            del event["label"]
        lines.append(json.dumps(event).encode() + b"\n")
    return lines


@pytest.fixture
def daemon(tmp_path):
    made = []

    def make(name: str, script: str | None = None, **sections) -> Daemon:
        folder = tmp_path / name
        config = {
            "app": "files",
            "transport": "files",
            "files": {"input": str(tmp_path / "events.jsonl"), **sections.pop("files", {})},
            "output": {"predictions": "predictions.jsonl", "dead_letters": "dead.jsonl"},
            "model": MODEL,
            "snapshots": {"path": str(folder / "snapshots"), "every": "100ms"},
            **sections,
        }
        made.append(Daemon(folder, config, script=script))
        return made[-1]

    yield make
    for one in made:
        one.close()


def answers(daemon: Daemon) -> bytes:
    return (daemon.folder / "predictions.jsonl").read_bytes()


def test_a_batch_of_many_answers_bit_for_bit_like_batches_of_one(tmp_path, daemon):
    (tmp_path / "events.jsonl").write_bytes(b"".join(messages()[:1500]))
    many, single = daemon("many"), daemon("single", limits={"batch_events": 1})
    assert [many.start().wait(120), single.start().wait(120)] == [0, 0]
    assert answers(many) == answers(single)
    assert many.snapshot().model == single.snapshot().model


def test_every_unlabelled_message_is_answered_once_and_the_end_of_the_file_ends_the_run(tmp_path, daemon):
    lines = messages()
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines))
    one = daemon("one")
    assert one.start().wait(60) == 0
    due = [event["id"] for event in map(json.loads, lines) if "label" not in event]
    assert [json.loads(line)["id"] for line in answers(one).splitlines()] == due


def test_killed_at_ten_random_moments_the_files_are_those_of_one_run(tmp_path, daemon):
    source, lines, moments = tmp_path / "events.jsonl", messages(), random.Random(3)
    source.write_bytes(b"")
    killed = daemon("killed", files={"follow": True}, limits={"batch_events": 20})
    step = len(lines) // 10
    for n in range(10):
        killed.start()
        with source.open("ab") as file:
            file.write(b"".join(lines[n * step : (n + 1) * step]))
        enough = moments.randrange(n * step, (n + 1) * step) // 3
        wait_until(lambda enough=enough: _lines(killed) >= enough, what=killed.tail())
        killed.kill()
    with source.open("ab") as file:
        file.write(b"".join(lines[10 * step :]))
    killed.start().ready()
    wait_until(lambda: _lines(killed) >= len(lines) // 3, what=killed.tail())
    assert killed.stop() == 0
    whole = daemon("whole")
    assert whole.start().wait(60) == 0
    assert answers(killed) == answers(whole)
    assert killed.snapshot().model == whole.snapshot().model


def test_terminated_and_started_again_it_goes_on_where_it_was(tmp_path, daemon):
    source, lines = tmp_path / "events.jsonl", messages()
    source.write_bytes(b"".join(lines[:900]))
    one = daemon("one", files={"follow": True})
    one.start()
    wait_until(lambda: _lines(one) >= 300, what=one.tail())
    assert one.stop() == 0
    with source.open("ab") as file:
        file.write(b"".join(lines[900:1800]))
    one.start()
    wait_until(lambda: _lines(one) >= 600, what=one.tail())
    assert one.stop() == 0
    ids = Counter(json.loads(line)["id"] for line in answers(one).splitlines())
    assert len(ids) == 600
    assert set(ids.values()) == {1}


def test_while_the_snapshots_disk_is_read_only_it_answers_and_says_so_and_then_saves_again(tmp_path, daemon):
    events = tmp_path / "events.jsonl"
    events.write_bytes(b"".join(messages()[:300]))
    one = daemon("one", str(HERE / "ailing.py"), files={"follow": True}).start(AIL="disk_is_read_only").ready()
    (one.folder / "ill").touch()
    wait_until(lambda: one.metric("snapshots_total", outcome="failed") >= 2, 60, one.tail)
    before = one.metric("snapshots_total", outcome="ok")
    with events.open("ab") as file:
        file.write(b"".join(messages()[300:600]))
    wait_until(lambda: _lines(one) == 200, 60, one.tail)
    assert (one.is_ready(), one.metric("snapshots_total", outcome="ok")) == (True, before)
    assert "the snapshot was not written: read-only file system" in one.log()
    (one.folder / "ill").unlink()
    wait_until(lambda: one.metric("snapshots_total", outcome="ok") > before, 60, one.tail)
    assert one.stop() == 0
    assert sum(one.snapshot().learned.values()) == events.stat().st_size


def _lines(daemon: Daemon) -> int:
    path = daemon.folder / "predictions.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0
