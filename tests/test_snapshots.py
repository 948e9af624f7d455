"""Snapshots come back as they were saved, or an error says what is wrong; stores keep the last good ones."""

import fcntl
import hashlib
import itertools
import json
import os
import signal
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamnb.errors import IoError, SnapshotError, StateError
from streamnb.snapshots import DirectoryStore, Snapshot, TopicNote, decode, encode, load
from streamnb.transport import Partition
from tests.deaths import as_nobody, dies_at, killed_after
from tests.limits import files_of_at_most
from tests.stores import STORES, StoreWorld, snapshot

names = st.text(max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(names, json_values, max_size=3)
offsets = st.dictionaries(st.builds(Partition, names, st.integers(0, 99)), st.integers(0, 2**63), max_size=3)
snapshots = st.builds(
    Snapshot,
    app=names,
    instance=names,
    version=names,
    taken=st.floats(0, 1e12),
    shape=json_objects,
    settings=json_objects,
    learned=offsets,
    learn_from=offsets,
    noted=offsets,
    topics=st.dictionaries(names, st.builds(TopicNote, names, st.sampled_from(["labelled", "unlabelled"]), st.just(3))),
    classes=st.dictionaries(st.builds(Partition, names, st.integers(0, 9)), st.lists(names, max_size=3), max_size=2),
    lost=st.integers(0, 2**63),
    scores=json_objects,
    marks=json_objects,
    model=st.binary(max_size=100),
)

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# The bytes


@unhurried
@given(snapshots)
def test_a_snapshot_comes_back_as_it_was(taken: Snapshot) -> None:
    assert decode(encode(taken)) == taken


def test_any_single_flipped_bit_is_found() -> None:
    whole = encode(snapshot(model=b"some model"))
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SnapshotError):
            decode(bytes(damaged))


def test_a_snapshot_cut_anywhere_is_found() -> None:
    whole = encode(snapshot(model=b"some model"))
    for size in range(len(whole)):
        with pytest.raises(SnapshotError):
            decode(whole[:size])


@unhurried
@given(snapshots, st.data())
def test_damage_of_any_snapshot_is_found(taken: Snapshot, data: st.DataObject) -> None:
    whole = encode(taken)
    begin = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.binary(max_size=8).filter(lambda b: b != whole[begin : begin + len(b)]))
    with pytest.raises(SnapshotError):
        decode(whole[:begin] + other + whole[begin + len(other) :] if other else whole[:begin])


@unhurried
@given(st.binary())
def test_arbitrary_bytes_are_no_snapshot(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        decode(data)


def forged(version: int = 1, header: bytes = b"{}", size: int | None = None, body: bytes = b"") -> bytes:
    """Bytes whose header's checksum is right, whatever the header says."""
    magic = encode(snapshot())[:8]
    prefix = struct.pack(">8sIQ", magic, version, len(header) if size is None else size)
    return prefix + hashlib.sha256(prefix + header).digest() + header + body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"^s\.snapshot: not a snapshot"),
        (b'{"model": "json"}', r"not a snapshot: begins with b'{\"model\"', not"),
        (encode(snapshot())[:6], r"cut off after 6 bytes"),
        (encode(snapshot())[:100], r"cut off: 100 bytes, its header alone should have \d+"),
        (encode(snapshot(model=b"abc"))[:-1], r"cut off: the model has 2 bytes, the header says 3"),
        (encode(snapshot()) + b"x", r"too long: the model has \d+ bytes, the header says \d+"),
        (encode(snapshot(model=b"abc"))[:-1] + b"x", r"damaged: the model's checksum"),
        (forged(version=2), r"format version 2, this streamnb reads 1"),
        (forged(size=2**63), r"cut off: \d+ bytes, its header alone should have 9223372036854775808"),
        (forged(header=b"{}"), r"the header cannot be read: .*missing required field"),
        (forged(header=b"[" * 100_000), r"the header cannot be read"),
        (forged(header=b"\xff"), r"the header cannot be read: .*utf-8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "bytes",
)
def test_the_error_says_what_is_wrong_and_where(data: bytes, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        decode(data, "s.snapshot")


def test_a_snapshot_of_another_app_is_refused() -> None:
    with pytest.raises(SnapshotError, match="belongs to app 'app', not to 'other'"):
        decode(encode(snapshot(app="app")), app="other")


def test_a_header_with_a_field_too_many_is_refused() -> None:
    whole = encode(snapshot(model=b""))
    header = json.loads(whole[52:]) | {"surprise": 1}
    with pytest.raises(SnapshotError, match="surprise"):
        decode(forged(header=json.dumps(header).encode()))


def test_what_json_cannot_say_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode(replace(snapshot(), scores={"log_loss": float("nan")}))


def test_file_names_that_are_not_utf_8_come_back() -> None:
    taken = replace(snapshot(), learned={Partition("caf\udce9.jsonl", 0): 5})
    assert decode(encode(taken)) == taken


# Every store


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest) -> Iterator[StoreWorld]:
    world = STORES[request.param](request)
    yield world
    world.close()


def test_a_new_store_has_no_snapshot(world: StoreWorld) -> None:
    store = world.opened("app", "a")
    assert (store.newest(), store.others()) == (None, [])


def test_the_newest_is_the_last_one_saved(world: StoreWorld) -> None:
    store = world.opened("app", "a")
    for n in range(5):
        taken = snapshot("app", "a", model=b"%d" % n, taken=100.0 - n)
        assert store.save(taken) > len(taken.model)
        assert store.newest() == taken


def test_the_next_process_finds_the_newest_and_goes_on_behind_it(world: StoreWorld) -> None:
    store = world.opened("app", "a")
    for n in range(3):
        store.save(snapshot("app", "a", model=b"%d" % n))
    store.close()
    store = world.opened("app", "a")
    assert store.newest() == snapshot("app", "a", model=b"2")
    store.save(snapshot("app", "a", model=b"3"))
    assert store.newest() == snapshot("app", "a", model=b"3")


def test_others_are_the_newest_of_every_other_instance_of_the_app(world: StoreWorld) -> None:
    mine = world.opened("app", "mine")
    mine.save(snapshot("app", "mine"))
    for app, instance in [("app", "b"), ("app", "c"), ("app2", "d")]:
        store = world.opened(app, instance)
        store.save(snapshot(app, instance, model=b"old"))
        store.save(snapshot(app, instance, model=b"new"))
    found = {other.instance: other for other in mine.others()}
    assert found == {name: snapshot("app", name, model=b"new") for name in ("b", "c")}


NAMES = ["a/b", "../a", "..", ".", "", "a b\n", "ü" * 200, "x" * 300, "x" * 299 + "y", "%2E", "A", "a"]


def test_any_name_has_a_place_of_its_own(world: StoreWorld) -> None:
    stores = {name: world.opened("app", name) for name in NAMES}
    for name, store in stores.items():
        store.save(snapshot("app", name))
    assert {name: store.newest() for name, store in stores.items()} == {n: snapshot("app", n) for n in NAMES}
    assert sorted(other.instance for other in stores["a"].others()) == sorted(set(NAMES) - {"a"})
    assert world.opened("a/app", "a").newest() is None


def test_a_large_model_comes_back(world: StoreWorld) -> None:
    store = world.opened("app", "a")
    taken = snapshot("app", "a", model=bytes(range(256)) * 20_000)
    store.save(taken)
    assert store.newest() == taken


def test_damaged_ones_are_passed_over_and_each_is_reported(world: StoreWorld) -> None:
    store = world.opened("app", "a")
    for n in range(3):
        store.save(snapshot("app", "a", model=b"model %d" % n))
        if n:
            world.damage_newest("app", "a")
    assert store.newest() == snapshot("app", "a", model=b"model 0")
    assert len(world.damaged) == 2
    assert all("damaged" in str(error) and name in str(error) for name, error in world.damaged)
    other = world.opened("app", "b")
    assert other.others() == [snapshot("app", "a", model=b"model 0")]


def test_a_damaged_one_is_replaced_by_the_next_save(world: StoreWorld) -> None:
    store = world.opened("app", "a")
    store.save(snapshot("app", "a", model=b"model"))
    world.damage_newest("app", "a")
    assert store.newest() is None
    store.save(snapshot("app", "a", model=b"next"))
    assert store.newest() == snapshot("app", "a", model=b"next")


# The directory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "app" / "a"


def directory(path: Path, keep: int = 3) -> DirectoryStore:
    return DirectoryStore(path, "app", "a", keep, lambda name, error: pytest.fail(f"{name}: {error}"))


@contextmanager
def opened(path: Path, keep: int = 3) -> Iterator[DirectoryStore]:
    store = directory(path, keep)
    store.open()
    try:
        yield store
    finally:
        store.close()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "lock")


def test_the_last_few_are_kept_under_rising_numbers(tmp_path: Path, folder: Path) -> None:
    for n in range(2):
        with opened(tmp_path, keep=2) as store:
            store.save(snapshot(model=b"%d" % n))
            store.save(snapshot(model=b"%d" % n))
    assert files(folder) == ["0000000003.snapshot", "0000000004.snapshot"]
    assert load(folder / "0000000004.snapshot") == snapshot(model=b"1")


def test_the_size_is_what_the_file_has(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path) as store:
        size = store.save(snapshot(model=b"x" * 1000))
    assert (folder / "0000000001.snapshot").stat().st_size == size


def test_a_folder_in_use_by_a_living_process_is_refused(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path), pytest.raises(StateError, match=rf"{folder}: in use by process {os.getpid()};"):
        directory(tmp_path).open()
    directory(tmp_path).open()


def test_a_dead_process_leaves_no_lock(tmp_path: Path, folder: Path) -> None:
    def lock(tell: Callable[[int], object]) -> None:
        with opened(tmp_path):
            tell(os.getpid())
            signal.pause()

    told = killed_after(1, lock)
    assert (folder / "lock").read_text() == f"{told[0]}\n"
    with opened(tmp_path) as store:
        assert store.newest() is None


def test_a_lock_is_not_inherited_by_programs_that_are_started(tmp_path: Path) -> None:
    with opened(tmp_path):
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    with opened(tmp_path):
        child.communicate()


def test_what_an_interrupted_save_left_is_removed(tmp_path: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "0000000007.tmp").write_bytes(b"half")
    with opened(tmp_path) as store:
        assert files(folder) == []
        assert store.newest() is None


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    (folder / "old.snapshot").write_text("mine")
    with opened(tmp_path, keep=1) as store:
        store.save(snapshot())
        assert files(folder) == ["0000000001.snapshot", "notes.txt", "old.snapshot"]


def test_a_full_disk_is_an_io_error_and_what_was_saved_stays(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path) as store:
        store.save(snapshot(model=b"small"))
        with (
            files_of_at_most(4096),
            pytest.raises(IoError, match=r"0000000002\.snapshot: the snapshot was not written: file too"),
        ):
            store.save(snapshot(model=b"x" * 100_000))
        assert files(folder) == ["0000000001.snapshot"]
        assert store.newest() == snapshot(model=b"small")
        store.save(snapshot(model=b"x" * 100_000))
        assert store.newest() == snapshot(model=b"x" * 100_000)


def test_a_folder_that_cannot_be_written_is_refused_at_once(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    error = as_nobody(directory(open_folder / "inner").open)
    assert error == f"IoError: {open_folder}/inner/app/a: snapshots cannot be written here: permission denied"


def test_a_folder_that_turns_read_only_is_an_io_error_and_what_was_saved_stays(open_folder: Path) -> None:
    def turned() -> None:
        with opened(open_folder) as store:
            store.save(snapshot(model=b"first"))
            (open_folder / "app" / "a").chmod(0o555)
            try:
                store.save(snapshot(model=b"second"))
            finally:
                assert store.newest() == snapshot(model=b"first")

    assert "IoError" in as_nobody(turned)


def test_a_path_through_a_file_is_an_io_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IoError, match="not a directory"):
        directory(tmp_path / "file").open()


def test_saving_needs_the_lock(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="must be opened"):
        directory(tmp_path).save(snapshot())


def test_others_are_read_while_they_are_in_use_and_being_replaced(tmp_path: Path) -> None:
    reader = DirectoryStore(tmp_path, "app", "reader", 3, lambda name, error: pytest.fail(f"{name}: {error}"))
    with opened(tmp_path, keep=1) as store:
        for n in range(20):
            store.save(snapshot(model=b"%d" % n))
            assert [other.model for other in reader.others()] == [b"%d" % n]
        with open(tmp_path / "app" / "a" / "lock") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_file_that_goes_away_between_listing_and_reading_is_no_damage(tmp_path: Path, folder: Path) -> None:
    with opened(tmp_path) as store:
        store.save(snapshot())
        (folder / "0000000002.snapshot").symlink_to("gone")  # listed, but not there when it is opened
        assert store.newest() == snapshot()


def test_killed_at_any_change_to_a_file_the_newest_loads(tmp_path: Path) -> None:
    with opened(tmp_path, keep=2) as store:
        store.save(snapshot(model=b"0"))

    def save_two() -> None:
        with opened(tmp_path, keep=2) as store:
            newest = store.newest()
            for n in range(2):
                store.save(snapshot(model=b"%d" % (int(newest.model if newest else 0) + n + 1)))

    call, last = 1, 0
    while dies_at(call, save_two):
        newest = directory(tmp_path).newest()
        assert newest is not None
        assert last <= int(newest.model) <= last + 2
        call, last = call + 1, int(newest.model)
    assert call > 10
    with opened(tmp_path):
        assert all(name.endswith(".snapshot") for name in files(tmp_path / "app" / "a"))


def test_killed_at_random_moments_the_newest_is_whole_and_not_older_than_acknowledged(tmp_path: Path) -> None:
    last = 0

    def save_on(tell: Callable[[int], object]) -> None:
        with opened(tmp_path) as store:
            for n in itertools.count(last + 1):
                store.save(snapshot(model=b"%d " % n * 50_000))
                tell(n)

    for n_saved in (1, 5, 2, 7, 3, 1, 4, 6):
        acknowledged = killed_after(n_saved, save_on)[-1]
        newest = directory(tmp_path).newest()
        assert newest is not None
        last = int(newest.model.split()[0])
        assert newest.model == b"%d " % last * 50_000
        assert acknowledged <= last <= acknowledged + 1
