"""Snapshots that cannot be written, or read back."""

import pytest

from streamnb.transport import Partition
from tests.broker import wait_until
from tests.daemon import Daemon
from tests.lives import SLOW, answered, finish, learned


def truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def newer(data: bytes) -> bytes:
    return data[:11] + bytes([data[11] + 1]) + data[12:]


def empty(data: bytes) -> bytes:  # noqa: ARG001  # one damage of several
    return b""


DAMAGES = [truncate, flip, newer, empty]


def snapshots_taken(daemon: Daemon) -> float:
    return daemon.metric("snapshots_total", outcome="ok")


def test_a_damaged_snapshot_is_passed_over_for_the_one_before_and_counted(workload, fleet):
    daemon = fleet.daemon(workload)
    for n, damage in enumerate(DAMAGES):
        daemon.start()
        workload.produce(50)
        answered(workload, daemon)
        wait_until(lambda: snapshots_taken(daemon) >= 3, SLOW, daemon.tail)
        assert daemon.stop() == 0, daemon.tail()
        newest = daemon.snapshots[-1]
        newest.write_bytes(damage(newest.read_bytes()))
        daemon.start().ready(SLOW)
        assert daemon.metric("snapshots_total", outcome="damaged") == 1
        assert daemon.log().count("snapshot.damaged") == n + 1
        assert daemon.stop() == 0, daemon.tail()
    finish(workload, daemon.start())


def test_with_every_snapshot_damaged_or_gone_it_learns_again(workload, fleet):
    daemon = fleet.daemon(workload).start()
    workload.produce(100)
    answered(workload, daemon)
    for ruin in (lambda file: file.write_bytes(flip(file.read_bytes())), lambda file: file.unlink()):
        assert daemon.stop() == 0, daemon.tail()
        for file in daemon.snapshots:
            ruin(file)
        workload.produce(50)
        daemon.start().ready(SLOW)
    finish(workload, daemon)
    assert daemon.log().count('"event": "learning.begins"') == 3
    assert daemon.snapshot().learn_from[Partition(workload.labelled, 0)] == 0


def test_a_full_disk_is_counted_and_logged_and_harms_nothing_else(workload, fleet):
    daemon = fleet.daemon(workload, script="ailing.py").start(AIL="disk_is_full").ready(SLOW)
    (daemon.folder / "ill").touch()
    workload.produce(100)
    answered(workload, daemon)
    wait_until(lambda: daemon.metric("snapshots_total", outcome="failed") >= 2, SLOW, daemon.tail)
    assert daemon.is_ready()
    assert "no space left on device" in daemon.log()
    before = snapshots_taken(daemon)
    (daemon.folder / "ill").unlink()
    wait_until(lambda: snapshots_taken(daemon) > before, SLOW, daemon.tail)
    workload.produce(100)
    (daemon.folder / "ill").touch()
    answered(workload, daemon)
    daemon.kill()
    (daemon.folder / "ill").unlink()
    finish(workload, daemon.start(AIL="disk_is_full"))


def test_a_stop_with_a_full_disk_says_so_and_loses_nothing(workload, fleet):
    daemon = fleet.daemon(workload, script="ailing.py").start(AIL="disk_is_full")
    workload.produce(100)
    answered(workload, daemon)
    (daemon.folder / "ill").touch()
    assert daemon.stop(10) == 74, daemon.tail()
    (daemon.folder / "ill").unlink()
    finish(workload, daemon.start(AIL="disk_is_full"))


@pytest.mark.parametrize("place", ["a file", "nowhere"])
def test_a_place_that_cannot_be_written_is_an_error_before_anything_is_joined(workload, fleet, tmp_path, place):
    file = tmp_path / "file"
    file.touch()
    path = file if place == "a file" else "/proc/snapshots"
    daemon = fleet.daemon(workload, snapshots={"path": str(path)})
    assert daemon.start().wait(SLOW) == 74, daemon.tail()
    assert "snapshots cannot be written here" in daemon.log()
    assert workload.app not in str(workload.cluster.admin.list_groups())


def test_the_snapshot_of_another_instance_serves_when_the_own_is_lost(workload, fleet, tmp_path):
    shared = {"snapshots": {"path": str(tmp_path / "shared"), "every": "1s"}}
    first = fleet.daemon(workload, "a", **shared).start()
    workload.produce(100)
    answered(workload, first)
    learned(workload, first)
    assert first.stop() == 0, first.tail()
    for partition in range(2):
        workload.cluster.cut(workload.labelled, partition, workload.ends()[workload.labelled, partition])
    other = fleet.daemon(workload, "b", **shared).start().ready(SLOW)
    assert "snapshot.of_another_instance" in other.log()
    assert other.metric("model_events") == len(workload.learned)
