"""`check` and `topics create` on a real broker."""

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from tests.broker import Cluster, free_port


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
    assert names["labelled"] in first.stdout
    assert names["dead"] not in first.stdout
    assert again.stdout == "nothing to do: all topics are there\n"


def test_topics_create_keeps_labelled_records_for_ever(broker: Cluster, config: Path, names: dict[str, str]) -> None:
    streamnb("topics", "create", "--partitions=3", config=config)
    resource = ConfigResource(ConfigResourceType.TOPIC, names["labelled"])
    settings = broker.admin.describe_configs([resource], config_filter="all")["topic"][names["labelled"]]
    described = broker.admin.describe_topics([names["labelled"]])
    assert settings["retention.ms"]["value"] == "-1"
    assert len(described[0]["partitions"]) == 3


def test_check_names_missing_topics_and_the_command_that_makes_them(config: Path, names: dict[str, str]) -> None:
    done = streamnb("check", "--debug", config=config)
    assert done.returncode == 64
    assert all(name in done.stdout for name in names.values())
    assert "streamnb topics create" in done.stdout


def test_check_is_content_once_the_topics_are_there_and_joins_nothing(broker: Cluster, config: Path) -> None:
    streamnb("topics", "create", "--partitions=1", config=config)
    done = streamnb("check", "--debug", config=config)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["ok"] * 4
    assert "shop" not in str(broker.admin.list_groups())


@pytest.mark.parametrize("command", [("check", "--debug"), ("topics", "create", "--debug"), ("run", "--debug")])
def test_without_a_broker_every_command_ends_with_69(config: Path, command: tuple[str, ...]) -> None:
    address = f"127.0.0.1:{free_port()}"
    lines = config.read_text().splitlines()
    lines[1] = f"kafka: {{bootstrap_servers: '{address}', start_timeout: 1s}}"
    config.write_text("\n".join(lines))
    done = streamnb(*command, config=config)
    assert done.returncode == 69
    assert address in done.stdout + done.stderr
