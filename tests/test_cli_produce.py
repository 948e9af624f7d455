"""`streamnb produce`: a table as events, in files and on a real broker; and `verify` of what was learned from there."""

import io
import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from streamnb.cli.producing import Outgoing, Plan, events, number_or_text, rows
from streamnb.config import EventConfig
from streamnb.errors import ConfigError, InputFileError, SnapshotError
from streamnb.snapshots import find
from tests.broker import Cluster, wait_until
from tests.saved_models import call

CSV = 'Survived,Name,Age,Class\n0,"Braund, Mr",22,3\n1,Cumings,,1\n,Moran,1.5e1,007\n'
DEFAULT = EventConfig()


def sent(
    text: str,
    file: str = "t.csv",
    label: str | None = "Survived",
    identity: str | None = None,
    share: float = 0.0,
    event: EventConfig = DEFAULT,
) -> list[Outgoing]:
    plan = Plan(file, "labelled", "unlabelled", label, identity, share, event)
    return list(events(plan, rows(plan, io.StringIO(text, newline=""))))


def bodies(outgoing: list[Outgoing]) -> list[Any]:
    return [json.loads(one.value) for one in outgoing]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        *[("3", 3), ("-7.25", -7.25), (".5", 0.5), ("1e3", 1000.0), ("+4", 4), (" 8 ", 8), ("", None), ("  ", None)],
        *[("nan", None), ("007", "007"), ("1e999", "1e999"), ("inf", "inf"), ("0x10", "0x10"), ("1_000", "1_000")],
    ],
)
def test_a_cell_is_a_number_a_text_or_missing(cell: str, value: object) -> None:
    found = number_or_text(cell)
    assert (found, type(found)) == (value, type(value))


def test_rows_of_csv_become_events_with_their_label_beside_the_features() -> None:
    outgoing = sent(CSV)
    assert bodies(outgoing) == [
        {"features": {"Name": "Braund, Mr", "Age": 22, "Class": 3}, "label": "0"},
        {"features": {"Name": "Cumings", "Class": 1}, "label": "1"},
        {"features": {"Name": "Moran", "Age": 15.0, "Class": "007"}},
    ]
    assert [one.topic for one in outgoing] == ["labelled", "labelled", "unlabelled"]


def test_a_messy_table_is_read_as_it_was_meant() -> None:
    text = " Site ,Temp (C),Fault?\r\n A-1 , 61.5 ,yes \r\n007,N/A,-\r\n,ERR,no\r\n"
    plan = Plan("t.csv", "t", "t", "Fault?", None, 0.0, DEFAULT, frozenset({"N/A", "-", "ERR"}))
    assert bodies(list(events(plan, rows(plan, io.StringIO(text, newline=""))))) == [
        {"features": {"Site": "A-1", "Temp (C)": 61.5}, "label": "yes"},
        {"features": {"Site": "007"}},
        {"features": {}, "label": "no"},
    ]


def test_parts_go_where_the_configuration_has_them_and_the_id_is_the_key() -> None:
    event = EventConfig(features=".", label="meta.truth", id="meta.id")
    (first, *_) = sent(CSV, identity="Name", event=event)
    assert json.loads(first.value) == {"Age": 22, "Class": 3, "meta": {"truth": "0", "id": "Braund, Mr"}}
    assert first.key == b"Braund, Mr"


@pytest.mark.parametrize("share", [0.0, 0.25, 0.3, 1.0])
def test_the_share_without_a_label_is_kept_all_along(share: float) -> None:
    outgoing = sent("l,x\n" + "a,1\n" * 100, label="l", share=share)
    held_back = [not one.labelled for one in outgoing]
    assert all(abs(sum(held_back[:n]) - share * n) < 1 for n in range(101))


def test_json_lines_are_events_already_unless_a_label_is_named() -> None:
    line = '{"features": {"a": 1}, "label": "x", "id": 5}\n'
    (as_it_is,) = sent(line, "t.jsonl", label=None)
    (column,) = sent('{"a": 1, "b": null, "l": true}\n', "-", label="l")
    assert (json.loads(as_it_is.value), as_it_is.key) == (json.loads(line), b"5")
    assert json.loads(column.value) == {"features": {"a": 1}, "label": True}


@pytest.mark.parametrize(
    ("text", "file", "label", "kind", "message"),
    [
        (CSV, "t.csv", None, ConfigError, "--label is missing"),
        (CSV, "t.csv", "Surv", ConfigError, "no column 'Surv'; it has Survived, Name, Age, Class"),
        ("a,b, b\n1,2,3\n", "t.csv", "a", InputFileError, "several columns are called 'b'"),
        ("a,b\n1,2,3\n", "t.csv", "a", InputFileError, "t.csv:2: more cells than the 2 columns"),
        ('{"a": 1}\n{oops\n', "t.jsonl", "a", InputFileError, "t.jsonl:2: not JSON"),
        ("[1]\n", "t.jsonl", "a", InputFileError, "t.jsonl:1: got list"),
    ],
)
def test_what_cannot_be_sent_is_named(text: str, file: str, label: str | None, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message.replace("[", r"\[")):
        sent(text, file, label)


def test_without_brokers_it_ends_with_64_and_says_how_to_name_them(tmp_path: Path) -> None:
    done = call("produce", tmp_path / "t.csv", "--topic", "t", "--label", "l")
    assert done.exit_code == 64
    assert "--bootstrap-servers" in done.stderr


def streamnb(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamnb", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=250, check=False)


def test_a_table_from_a_pipe_arrives_on_the_broker(broker: Cluster) -> None:
    topic = f"table.{uuid.uuid4().hex[:8]}"
    broker.create(topic)
    done = streamnb(
        "produce", "-", "--topic", topic, "--label", "Survived", "--bootstrap-servers", broker.bootstrap, stdin=CSV
    )
    assert done.returncode == 0, done.stderr
    assert "3 events sent" in done.stdout
    assert "2 labelled, 1 unlabelled" in done.stdout
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found = [json.loads(next(consumer).value) for _ in range(3)]
    consumer.close()
    assert found == bodies(sent(CSV))


def test_what_a_daemon_learned_from_topics_is_verified_against_them(broker: Cluster, tmp_path: Path) -> None:
    unique = uuid.uuid4().hex[:8]
    topic, answers = f"rows.{unique}", f"answers.{unique}"
    broker.create(topic)
    broker.create(answers)
    config = tmp_path / "streamnb.yaml"
    config.write_text(
        f"app: rows-{unique}\n"
        f"kafka: {{bootstrap_servers: '{broker.bootstrap}'}}\n"
        f"input: {{labelled: [{topic}]}}\n"
        f"output: {{predictions: {answers}}}\n"
        f"snapshots: {{path: {tmp_path / 'snapshots'}, every: 500ms}}\n"
        "http: {port: 0}\n"
    )
    table = "label,n,c\n" + "".join(f"{'xy'[i % 2]},{i / 3},{'uvw'[i % 3]}\n" for i in range(50))
    produced = streamnb("produce", "-", "--topic", topic, "--label", "label", "--config", config, stdin=table)
    assert produced.returncode == 0, produced.stderr
    command = [sys.executable, "-m", "streamnb", "run", str(config)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as daemon:
        try:
            wait_until(lambda: learned_offsets(tmp_path / "snapshots") == 50, 200)
        finally:
            daemon.terminate()
    done = streamnb("verify", config, "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["learned"], found["equal"]) == (0, 50, True)


def learned_offsets(folder: Path) -> int:
    try:
        return sum(find(folder, lambda *_: None)[1].learned.values())
    except SnapshotError:
        return 0


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (b"a,b\n1,2\n3,4\n5,\xff\n", 65, "is not UTF-8: invalid start byte"),
        (b"a,b\n1,2\n3,4\n5,6,7\n", 65, "t.csv:4: more cells than the 2 columns; the 2 events before it were sent"),
        (b"\n", 65, "has no first line that names the columns"),
    ],
)
def test_a_table_that_breaks_off_says_what_was_sent_before(
    broker: Cluster, tmp_path: Path, text: bytes, code: int, message: str
) -> None:
    topic = broker.topic("broken")
    (tmp_path / "t.csv").write_bytes(text)
    done = call(
        *("produce", tmp_path / "t.csv", "--topic", topic, "--label", "a", "--bootstrap-servers", broker.bootstrap)
    )
    assert (done.exit_code, message in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize("topic", ["not.there", "no topic!"])
def test_a_missing_topic_ends_with_64_and_is_named(broker: Cluster, topic: str) -> None:
    done = streamnb(
        "produce",
        "-",
        "--topic",
        topic,
        "--label",
        "Survived",
        "--bootstrap-servers",
        broker.bootstrap,
        stdin=CSV,
    )
    assert done.returncode == 64
    assert f"{topic}: no such topic" in done.stderr
