"""The outputs of the files transport and the safety of the user's files: what a restart cuts, refuses, leaves alone."""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamnb.errors import (
    ConfigError,
    DutyLost,
    InputFileError,
    IoError,
    StateError,
)
from streamnb.snapshots import DirectoryStore
from streamnb.transport import Output, Partition, Record
from tests.deaths import as_nobody, dies_at
from tests.limits import files_of_at_most
from tests.place import Marks, Place, publish, read_all
from tests.stores import snapshot

# Outputs


def test_outputs_are_made_when_the_first_line_is_written(place: Place) -> None:
    transport = place.started()
    transport.marks()
    assert set(place.contents()) == {"in.jsonl"}
    publish(transport, [Output("predictions", None, b"{}")], 2)
    assert place.contents() == {"in.jsonl": place.input.read_bytes(), "out.jsonl": b"{}\n"}


def test_a_dead_letter_is_one_line_with_the_raw_bytes_in_base64(place: Place) -> None:
    headers = [
        ("streamnb.error.reason", b"not_json"),
        ("streamnb.error.message", "‼ \n".encode()),
        ("raw", b"\xff"),
    ]
    transport = place.started()
    publish(transport, [Output("dead_letters", None, b"{\xff", headers), Output("dead_letters", b"k", None)], 2)
    first, second = map(json.loads, place.dead.read_text().splitlines())
    texts = {"streamnb.error.reason": "not_json", "streamnb.error.message": "‼ \n", "raw": "\ufffd"}
    assert first == {"key": None, "value": "e/8=", "headers": texts}
    assert second == {"key": "aw==", "value": None, "headers": {}}


def test_outputs_that_are_not_configured_are_dropped(place: Place) -> None:
    transport = place.started(predictions=None, dead_letters=None)
    publish(transport, [Output("predictions", None, b"{}"), Output("dead_letters", None, b"x")], 2)
    assert transport.marks()["position"] == 2
    assert set(place.contents()) == {"in.jsonl"}


def test_the_null_device_is_an_output(place: Place) -> None:
    transport = place.started(predictions="/dev/null")
    publish(transport, [Output("predictions", None, b"{}")], 2)
    assert transport.marks()["predictions"] is None


def test_answers_under_a_settled_duty_are_not_written(place: Place) -> None:
    transport = place.started()
    old = transport.duty()
    assert old is not None
    transport.settle()
    with pytest.raises(DutyLost):
        transport.publish(old, [Output("predictions", None, b"{}")], {})
    assert set(place.contents()) == {"in.jsonl"}


def test_a_full_disk_takes_nothing_of_a_batch_and_the_next_one_all(place: Place) -> None:
    transport = place.started()
    publish(transport, [Output("predictions", None, b"1"), Output("dead_letters", None, b"1")], 2)
    before = place.contents()
    too_much = [Output("dead_letters", None, b"2"), Output("predictions", None, b"x" * 10_000)]
    with files_of_at_most(4096), pytest.raises(IoError, match=r"output\.predictions: .*: file too large"):
        publish(transport, too_much, 4)
    assert place.contents() == before
    assert transport.marks()["position"] == 2
    publish(transport, too_much, 4)
    assert place.out.stat().st_size == 10_003


def test_a_full_device_is_an_io_error(place: Place) -> None:
    transport = place.started(predictions="/dev/full")
    with pytest.raises(IoError, match="no space left on device"):
        publish(transport, [Output("predictions", None, b"{}")], 2)


def test_an_output_that_another_process_writes_is_refused(place: Place) -> None:
    first, second = place.started(), place.started()
    publish(first, [Output("predictions", None, b"{}")], 2)
    with pytest.raises(StateError, match=r"output\.predictions: .*: another process is writing to it"):
        publish(second, [Output("predictions", None, b"{}")], 2)
    assert place.out.read_bytes() == b"{}\n"


def test_lines_have_no_time_to_start_from(place: Place) -> None:
    with pytest.raises(ConfigError, match=r"input\.start"):
        place.started().offset_at(Partition(str(place.input), 0), 1.5)


# Resuming


def test_a_restart_goes_on_at_the_marks_and_cuts_what_was_written_after_them(place: Place) -> None:
    marks = place.marked(n_lines=2)
    at_marks = place.contents()
    for path in (place.out, place.dead):
        path.write_bytes(path.read_bytes() + b"written after the marks")
    transport = place.started(marks)
    assert place.contents() == at_marks
    assert [r.value for r in transport.poll(0, 1).records] == [b"2"]
    publish(transport, [Output("predictions", None, b"more")], 6)
    assert place.out.read_bytes() == b"0\n1\nmore\n"


def test_a_death_before_the_first_real_snapshot_begins_anew(place: Place) -> None:
    first = place.started()
    marks = first.marks()
    publish(first, [Output("predictions", None, b"{}")], 2)
    first.close(0)
    second = place.started(marks)
    assert (second.committed(), place.out.read_bytes()) == ({}, b"")


def test_empty_outputs_that_were_there_before_are_used(place: Place) -> None:
    place.out.touch()
    publish(place.started(), [Output("predictions", None, b"{}")], 2)
    assert place.out.read_bytes() == b"{}\n"


def test_an_output_that_was_moved_and_named_anew_is_gone_on_with(place: Place) -> None:
    marks = place.marked()
    moved = place.out.rename(place.folder / "moved.jsonl")
    publish(place.started(marks, predictions=moved), [Output("predictions", None, b"more")], 6)
    assert moved.read_bytes() == b"0\n1\nmore\n"


def test_an_input_that_has_grown_since_is_the_same_input(place: Place) -> None:
    marks = place.marked()
    with place.input.open("ab") as file:
        file.write(b"grown\n" * 20_000)
    assert read_all(place.started(marks))[-1].value == b"grown"


@pytest.mark.parametrize("n_lines", [3, 30_000])
def test_a_difference_anywhere_in_the_head_of_the_input_is_seen(place: Place, n_lines: int) -> None:
    place.input.write_bytes(b"12345\n" * n_lines)
    marks = place.marked(n_lines)
    data = bytearray(place.input.read_bytes())
    head = min(len(data), 64 * 1024)
    for at in (0, head // 2, head - 1):
        changed = data.copy()
        changed[at] ^= 1
        place.input.write_bytes(changed)
        with pytest.raises(InputFileError, match="another input"):
            place.started(marks)


Change = Callable[[Place], dict[str, Any] | None]


def refused(place: Place, marks: Marks | None, change: Change) -> str:
    """Make the change, then start; return the message of the refusal, after which every file is as it was."""
    changed = change(place) or {}
    before = place.contents()
    with pytest.raises(InputFileError) as refusal:
        place.started(marks, **changed)
    assert place.contents() == before
    assert refusal.value.exit_code == 65
    return str(refusal.value)


NO_SNAPSHOT: dict[str, tuple[Change, str]] = {
    "predictions are there": (
        lambda p: p.out.write_bytes(b"x") and None,
        "out.jsonl: holds 1 bytes and no snapshot",
    ),
    "dead letters are there": (
        lambda p: p.dead.write_bytes(b"x") and None,
        "dead.jsonl: holds 1 bytes and no snap",
    ),
    "input missing": (lambda p: p.input.unlink(), "files.input: .*in.jsonl: cannot be read: no such file"),
    "input is a folder": (lambda p: {"input": p.folder}, "is a directory"),
    "input is a pipe": (
        lambda p: os.mkfifo(p.folder / "f") or {"input": p.folder / "f"},
        "a pipe is read with '-'",
    ),
    "folder missing": (lambda p: {"predictions": p.folder / "no" / "x"}, "there is no folder .*/no; make it"),
    "output is a folder": (lambda p: {"predictions": p.folder}, "output.predictions: .*: is a directory"),
    "output is a pipe": (
        lambda p: os.mkfifo(p.folder / "f") or {"predictions": p.folder / "f"},
        "is a pipe or a",
    ),
    "output below a file": (lambda p: {"predictions": p.input / "x"}, "cannot be written: not a directory"),
    "output is the input": (lambda p: {"predictions": p.input}, "is the same file as files.input"),
    "by another spelling": (
        lambda p: {"dead_letters": p.folder / "." / "in.jsonl"},
        "same file as files.input",
    ),
    "by a symbolic link": (
        lambda p: (p.folder / "l").symlink_to(p.input) or {"predictions": p.folder / "l"},
        "same file as files.input",
    ),
    "by a hard link": (
        lambda p: (p.folder / "l").hardlink_to(p.input) or {"predictions": p.folder / "l"},
        "same file as files.input",
    ),
    "both outputs in one": (lambda p: {"dead_letters": p.out}, "same file as output.predictions"),
    "both in one by a link": (
        lambda p: (p.folder / "l").symlink_to(p.out) or {"dead_letters": p.folder / "l"},
        "same file as output.predictions",
    ),
}


@pytest.mark.parametrize("case", NO_SNAPSHOT)
def test_without_a_snapshot_nothing_is_touched_when(place: Place, case: str) -> None:
    change, message = NO_SNAPSHOT[case]
    assert_matches(message, refused(place, None, change))


def append(path: Path, data: bytes = b"after the marks\n") -> None:
    path.write_bytes(path.read_bytes() + data)


def other_file(place: Place) -> dict[str, Any]:
    other = place.folder / "precious.txt"
    other.write_bytes(b"a file of the user's, longer than the mark")
    return {"predictions": other}


WITH_SNAPSHOT: dict[str, tuple[Change, str]] = {
    "predictions are cut": (
        lambda p: p.out.write_bytes(b"0\n") and None,
        "holds 2 bytes, but 4 had been written",
    ),
    "predictions are gone": (lambda p: p.out.unlink(), "holds 0 bytes, but 4 had been written"),
    "dead letters are cut, and predictions longer": (
        lambda p: (append(p.out), p.dead.write_bytes(b""))[0],
        r"dead.jsonl: holds 0 bytes, but \d+ had",
    ),
    "the input is another": (
        lambda p: (append(p.out), p.input.write_bytes(b"9\n" * 10))[0],
        "is another input",
    ),
    "the input is shorter": (
        lambda p: (append(p.out), p.input.write_bytes(b"0"))[0],
        "has 1 bytes, but 4 were read",
    ),
    "the input has another name": (
        lambda p: {"input": p.input.rename(p.folder / "in2")},
        "the snapshot was learned from .*in.jsonl",
    ),
    "predictions are another file": (other_file, "is not the file .*out.jsonl that was written to"),
    "predictions were written anew": (lambda p: p.out.write_bytes(b"9\n" * 10) and None, "is not the file"),
}


@pytest.mark.parametrize("case", WITH_SNAPSHOT)
def test_with_a_snapshot_nothing_is_touched_when(place: Place, case: str) -> None:
    change, message = WITH_SNAPSHOT[case]
    assert_matches(message, refused(place, place.marked(), change))


def test_a_file_that_never_had_a_mark_is_not_touched(place: Place) -> None:
    transport = place.started(predictions=None)
    publish(transport, [], 4)
    marks = transport.marks()
    transport.close(0)
    message = refused(place, marks, other_file)
    assert_matches("precious.txt: holds 42 bytes and the snapshot has no mark for it", message)


def test_with_an_empty_mark_only_the_same_path_is_cut(place: Place) -> None:
    transport = place.started()
    marks = transport.marks()
    transport.close(0)
    assert_matches("is not the file .*out.jsonl", refused(place, marks, other_file))


@pytest.mark.parametrize("marks", [{}, {"position": "4"}, {"kafka": 1}])
def test_marks_of_another_transport_are_refused(place: Place, marks: Marks) -> None:
    assert_matches("snapshot was not taken over files", refused(place, marks, lambda _: None))


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [
        ("in.jsonl", 0o000, "in.jsonl: cannot be read: permission denied"),
        ("out.jsonl", 0o444, "out.jsonl: no permission to read and write it"),
        ("dead.jsonl", 0o444, "dead.jsonl: no permission to read and write it"),
        (".", 0o555, "no permission to make files in"),
    ],
)
def test_without_permission_nothing_is_touched(open_folder: Path, name: str, mode: int, message: str) -> None:
    place = Place(open_folder)
    for path in (place.input, place.out, place.dead):
        if path.name in ("in.jsonl", name):
            path.touch()
            path.chmod(0o666)
    (open_folder / name).chmod(mode)
    assert_matches(message, as_nobody(place.started))


def assert_matches(pattern: str, message: str) -> None:
    with pytest.raises(RuntimeError, match=pattern):
        raise RuntimeError(message)


# Exactly once


def answer_all(place: Place) -> None:
    """A small daemon: answers each line with itself, every third as a dead letter, and takes snapshots."""
    store = DirectoryStore(
        place.folder / "snapshots", "app", "a", 3, lambda name, error: pytest.fail(f"{name}: {error}")
    )
    store.open()
    newest = store.newest()
    transport = place.transport()
    transport.open()
    transport.resume(newest.marks if newest else None)
    if newest is None:
        store.save(snapshot(marks=transport.marks()))
    transport.join()
    partition = Partition(str(place.input), 0)
    learned = newest.learned.get(partition, 0) if newest else 0
    transport.read({partition: learned})
    for n in itertools.count():
        batch = transport.poll(0, 3)
        outputs = [answer(record) for record in batch.records]
        learned = batch.positions.get(partition, learned)
        publish(transport, outputs, learned)
        if n % 2 or batch.finished:
            store.save(snapshot(learned={partition: learned}, marks=transport.marks()))
        if batch.finished:
            break
    transport.close(0)
    store.close()


def answer(record: Record) -> Output:
    number = int(record.value or b"")
    return Output("dead_letters" if number % 3 == 2 else "predictions", None, record.value)


def assert_answered_once(place: Place) -> None:
    n_lines = len(place.input.read_bytes().splitlines())
    assert place.out.read_bytes() == b"".join(b"%d\n" % i for i in range(n_lines) if i % 3 != 2)
    letters = [json.loads(line)["value"] for line in place.dead.read_text().splitlines()]
    assert len(letters) == n_lines // 3 == len(set(letters))


def test_killed_at_any_change_to_a_file_every_line_is_answered_once(tmp_path: Path) -> None:
    for call in itertools.count(1):
        place = Place(tmp_path / str(call))
        place.folder.mkdir()
        place.input.write_bytes(b"".join(b"%d\n" % i for i in range(7)))
        died = dies_at(call, lambda place=place: answer_all(place))
        answer_all(place)
        assert_answered_once(place)
        if not died:
            break
    assert call > 30


def test_killed_again_and_again_every_line_is_answered_once(place: Place) -> None:
    for call in [60, 3, 25, 8, 17, 30, 12, 5, 40, 9, 33]:
        dies_at(call, lambda: answer_all(place))
    answer_all(place)
    assert_answered_once(place)
