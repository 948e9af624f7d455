"""`check` and `topics create` on a real broker."""

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    ResourcePattern,
    ResourceType,
)

from tests.broker import Broker, Cluster, free_port


@pytest.fixture
def names() -> dict[str, str]:
    """Topics that nobody else uses; none of them is there yet."""
    unique = uuid.uuid4().hex[:8]
    return {part: f"{part}.{unique}" for part in ("labelled", "unlabelled", "predictions", "dead")}


@pytest.fixture
def config(broker: Cluster, names: dict[str, str], tmp_path: Path) -> Path:
    path = tmp_path / "streamnb.yaml"
    path.write_text(
        "app: shop\n"
        f"kafka: {{bootstrap_servers: '{broker.bootstrap}', start_timeout: 5s}}\n"
        f"input: {{labelled: [{names['labelled']}], unlabelled: [{names['unlabelled']}]}}\n"
        f"output: {{predictions: {names['predictions']}, dead_letters: {names['dead']}}}\n"
        "http: {port: 0}\n"
    )
    return path


def streamnb(*arguments: str, config: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamnb", *arguments[:-1], str(config), *arguments[-1:]]
    return subprocess.run(command, cwd=config.parent, capture_output=True, text=True, timeout=200, check=False)


def test_topics_create_makes_what_is_missing_and_only_that(
    broker: Cluster, config: Path, names: dict[str, str]
) -> None:
    broker.create(names["dead"])
    first = streamnb("topics", "create", "--partitions=3", config=config)
    again = streamnb("topics", "create", "--partitions=5", config=config)
    assert (first.returncode, again.returncode) == (0, 0)
    assert set(names.values()) <= set(broker.admin.list_topics())
    rows = {line.split()[0]: line.split()[1:] for line in first.stdout.splitlines()[1:]}
    assert rows[names["labelled"]] == ["made", "3", "1", "1", "for", "ever"]
    assert rows[names["predictions"]] == ["made", "3", "1", "1", "for", "168", "h"]
    assert rows[names["dead"]] == ["was", "there", "1", "1", "1", "for", "168", "h"]
    assert again.stdout.startswith("nothing to do: all topics are there\n")
    assert all(" was there" in line for line in again.stdout.splitlines()[2:])


def test_topics_create_keeps_labelled_records_for_ever(broker: Cluster, config: Path, names: dict[str, str]) -> None:
    refused = streamnb("topics", "create", "--replicas=1", "--min-isr=2", config=config)
    assert (refused.returncode, "nothing could be written" in refused.stderr) == (64, True)
    streamnb("topics", "create", "--partitions=3", "--replicas=1", "--min-isr=1", config=config)
    resource = ConfigResource(ConfigResourceType.TOPIC, names["labelled"])
    settings = broker.admin.describe_configs([resource], config_filter="all")["topic"][names["labelled"]]
    described = broker.admin.describe_topics([names["labelled"]])
    assert (settings["retention.ms"]["value"], settings["min.insync.replicas"]["value"]) == ("-1", "1")
    assert len(described[0]["partitions"]) == 3


def test_check_names_missing_topics_and_the_command_that_makes_them(config: Path, names: dict[str, str]) -> None:
    done = streamnb("check", "--debug", config=config)
    assert done.returncode == 64
    assert all(name in done.stdout for name in names.values())
    assert "streamnb topics create" in done.stdout


def test_check_decodes_what_is_there_once_the_topics_are_made_and_joins_nothing(
    broker: Cluster, config: Path, names: dict[str, str]
) -> None:
    streamnb("topics", "create", "--partitions=1", config=config)
    empty = json.loads(streamnb("check", "--json", config=config).stdout)
    assert [(row["check"], row["verdict"]) for row in empty["checks"]] == [
        *((name, "ok") for name in ("configuration", "broker", "topics", "permissions", "codecs", "snapshots")),
        *((name, "ok") for name in ("events", "http")),
    ]
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for topic, value in (
        ("labelled", b'{"features": {"note": "call me at once or else", "n": 1}, "label": "a"}'),
        ("labelled", b"\0\0\0\0\1avro"),
        ("labelled", b'{"features": {"n": {"deep": [1]}}, "label": "a"}'),
        ("labelled", None),
        ("unlabelled", b'{"features": {"n": 2}, "label": "b"}'),
    ):
        producer.send(names[topic], key=b"k", value=value)
    producer.close()
    done = streamnb("check", "--debug", config=config)
    assert (done.returncode, done.stderr) == (0, "")
    for said in (
        "5 read, 1 labelled, 1 without a label, 2 would be dead letters",
        f"1 not_json, the first at {names['labelled']}:0:1: ",
        f"1 bad_feature, the first at {names['labelled']}:0:2: ",
        "1 without a value, which are skipped",
        "1 labels in unlabelled topics, which are ignored",
        "features: n (number), note (string)",
        "note looks like running text",
        "Kafka 4.1 or newer, 1 broker",
    ):
        assert said in done.stdout
    assert "shop" not in str(broker.admin.list_groups())


def test_check_names_every_permission_that_is_missing(tmp_path: Path, config: Path, names: dict[str, str]) -> None:
    port, login = free_port(), "org.apache.kafka.common.security.plain.PlainLoginModule required user_ann='pw';"
    guarded = Broker(
        tmp_path / "guarded",
        {"SASL_PLAINTEXT": port},
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
        },
    )
    try:
        guarded.start()
        for name in names.values():
            guarded.create(name)
        patterns = [ResourcePattern(ResourceType.TOPIC, name) for name in names.values()]
        see, allow = ACLOperation.DESCRIBE, ACLPermissionType.ALLOW
        guarded.admin.create_acls([ACL("User:ann", "*", see, allow, pattern) for pattern in patterns])
        security = "{protocol: sasl_plaintext, sasl_mechanism: PLAIN, username: ann, password: pw}"
        lines = config.read_text().splitlines()
        lines[1] = f"kafka: {{bootstrap_servers: '127.0.0.1:{port}', instance: me, security: {security}}}"
        config.write_text("\n".join(lines))
        done = streamnb("check", "--debug", config=config)
    finally:
        guarded.close()
    assert done.returncode == 64
    for said in (
        *(f"{names[topic]}: not allowed to read" for topic in ("labelled", "unlabelled")),
        *(f"{names[topic]}: not allowed to write" for topic in ("predictions", "dead")),
        "group shop: not allowed to join it",
        "transactional id shop-me: not allowed to use it",
    ):
        assert said in done.stdout, done.stdout


@pytest.mark.parametrize("command", [("check", "--debug"), ("topics", "create", "--debug"), ("run", "--debug")])
def test_without_a_broker_every_command_ends_with_69(config: Path, command: tuple[str, ...]) -> None:
    address = f"127.0.0.1:{free_port()}"
    lines = config.read_text().splitlines()
    lines[1] = f"kafka: {{bootstrap_servers: '{address}', start_timeout: 1s}}"
    config.write_text("\n".join(lines))
    done = streamnb(*command, config=config)
    assert done.returncode == 69
    assert address in done.stdout + done.stderr
