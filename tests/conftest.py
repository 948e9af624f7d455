"""Fixtures that several files of tests share."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import Broker, Cluster, given_cluster
from tests.lives import Fleet
from tests.oracle import Workload
from tests.place import Place

LONGEST = ("test_faults_kills", "test_faults_broker")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: item.path.stem not in LONGEST)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Kafka that all tests share, each with topics and an app of its own; it is never killed."""
    cluster = given_cluster() or Broker(tmp_path_factory.mktemp("broker")).start()
    yield cluster
    cluster.close()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A Kafka of the test's own, to kill, freeze and start again."""
    made = Broker(tmp_path / "broker")
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter and write to, for tests that give up their privileges."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name).resolve()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A folder with an input of ten lines, `0` to `9`, and no outputs yet."""
    made = Place(tmp_path)
    made.input.write_bytes(b"".join(b"%d\n" % i for i in range(10)))
    yield made
    made.close()


@pytest.fixture
def client(request: pytest.FixtureRequest) -> str:
    """The Kafka client of the daemons; `lives.BOTH_CLIENTS` gives a test both by turns, the environment all others."""
    name: str = getattr(request, "param", os.environ.get("STREAMNB_TEST_CLIENT", "kafka-python"))
    return name


@pytest.fixture
def workload(broker: Cluster, client: str) -> Iterator[Workload]:
    """Topics of two partitions on the shared broker, empty at first."""
    made = Workload(broker, client=client)
    yield made
    made.close()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Makes daemons, each in a folder of its own, and ends them all."""
    made = Fleet(tmp_path)
    yield made
    made.close()
