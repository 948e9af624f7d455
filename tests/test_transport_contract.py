"""What the engine may rely on, of every transport."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from streamnb.errors import LostEvents
from streamnb.transport import Committed, Output, Transport
from tests.transports import WORLDS, World, on_duty, opened, read, values

CLOSE_SECONDS = 5.0


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> World:
    return WORLDS[request.param](request)


@contextmanager
def started(world: World, marks: dict[str, object] | None = None) -> Iterator[Transport]:
    transport = opened(world, marks)
    try:
        yield transport
    finally:
        transport.close(CLOSE_SECONDS)


def prediction(value: bytes | None) -> Output:
    return Output("predictions", None, value)


def test_an_empty_log_has_one_labelled_partition_that_ends_where_it_starts(world: World) -> None:
    with started(world) as transport:
        extent = transport.extents()[world.partition]
        assert (extent.role, extent.start) == ("labelled", extent.end)


def test_every_record_comes_once_in_order_and_unchanged(world: World) -> None:
    sent = [b"{}", b'{"a": 1}', b"\x00\xff not utf-8 \r", b"x" * 5000]
    world.append(*sent)
    with started(world) as transport:
        transport.read({world.partition: transport.extents()[world.partition].start})
        assert values(read(transport, 4)) == sent
        assert not transport.poll(0.1, 10).records


def test_offsets_rise_and_the_next_one_is_never_beyond_the_following_record(world: World) -> None:
    world.append(*[b"{}"] * 10)
    with started(world) as transport:
        transport.read({world.partition: 0})
        records = read(transport, 10)
    assert all(a.offset < a.next_offset <= b.offset for a, b in pairwise(records))
    assert {record.partition for record in records} == {world.partition}


def test_positions_reach_the_end_of_the_log(world: World) -> None:
    world.append(*[b"{}"] * 10)
    with started(world) as transport:
        transport.read({world.partition: 0})
        position = 0
        while position < transport.extents()[world.partition].end:
            position = transport.poll(0.1, 3).positions.get(world.partition, position)
        assert position == transport.extents()[world.partition].end


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_a_batch_is_within_its_limit_and_ends_at_its_position(world: World, limit: int) -> None:
    world.append(*[b"%d" % i for i in range(10)])
    with started(world) as transport:
        transport.read({world.partition: 0})
        seen: list[bytes | None] = []
        while len(seen) < 10:
            batch = transport.poll(0.1, limit)
            assert len(batch.records) <= limit
            if batch.records:
                assert batch.positions[world.partition] >= batch.records[-1].next_offset
            seen += values(batch.records)
    assert seen == [b"%d" % i for i in range(10)]


def test_reading_from_the_next_offset_of_any_record_goes_on_behind_it(world: World) -> None:
    world.append(*[b"%d" % i for i in range(5)])
    with started(world) as transport:
        transport.read({world.partition: 0})
        records = read(transport, 5)
        for i, record in enumerate(records[:-1]):
            transport.read({world.partition: record.next_offset})
            assert read(transport, 4 - i) == records[i + 1 :]


def test_a_partition_that_is_not_named_is_not_read(world: World) -> None:
    world.append(b"{}")
    with started(world) as transport:
        transport.read({})
        assert not transport.poll(0.1, 10).records
        transport.read({world.partition: 0})
        assert values(read(transport, 1)) == [b"{}"]


def test_records_appended_later_come_too(world: World) -> None:
    world.append(b"1")
    with started(world) as transport:
        transport.read({world.partition: 0})
        assert values(read(transport, 1)) == [b"1"]
        world.append(b"2")
        assert values(read(transport, 1)) == [b"2"]


def test_a_position_beyond_the_end_is_refused(world: World) -> None:
    world.append(b"{}")
    with started(world) as transport, pytest.raises(LostEvents, match=r"1000"):  # noqa: PT012
        transport.read({world.partition: 1000})
        read(transport, 1)


def test_there_is_no_duty_before_joining_and_nothing_committed_on_a_new_log(world: World) -> None:
    with started(world) as transport:
        assert transport.duty() is None
        assert transport.committed() == {}
        duty = on_duty(transport)
        assert (duty.partitions, dict(duty.published)) == ({world.partition}, {})
        assert transport.duty() is duty


def test_outputs_arrive_in_order_in_their_sinks(world: World) -> None:
    letter = Output("dead_letters", None, b"\x00raw\xff", [("streamnb.error.reason", b"not_json"), ("x", b"")])
    with started(world) as transport:
        outputs = [prediction(b'{"n":1}'), letter, prediction(b'{"n":2}')]
        transport.publish(on_duty(transport), outputs, {world.partition: Committed(0)})
        assert [value for value, _ in world.published("predictions")] == [b'{"n":1}', b'{"n":2}']
        assert world.published("dead_letters") == [(b"\x00raw\xff", dict(letter.headers))]


def test_a_dead_letter_may_have_no_value(world: World) -> None:
    with started(world) as transport:
        letter = Output("dead_letters", None, None, [("size", b"123")])
        transport.publish(on_duty(transport), [letter], {world.partition: Committed(0)})
        assert world.published("dead_letters") == [(None, {"size": b"123"})]


def test_the_next_process_finds_what_was_committed(world: World) -> None:
    world.append(*[b"{}"] * 3)
    with started(world) as transport:
        transport.read({world.partition: 0})
        offset = read(transport, 3)[1].next_offset
        transport.publish(on_duty(transport), [], {world.partition: Committed(offset, "learn_from=0")})
        marks = transport.marks()
    with started(world, marks) as transport:
        assert transport.committed() == {world.partition: Committed(offset, "learn_from=0")}
        assert on_duty(transport).published == {world.partition: Committed(offset, "learn_from=0")}


def test_marks_are_json_values(world: World) -> None:
    with started(world) as transport:
        before = transport.marks()
        transport.publish(on_duty(transport), [prediction(b"{}")], {world.partition: Committed(0)})
        for marks in (before, transport.marks()):
            assert json.loads(json.dumps(marks)) == marks


def test_settling_brings_a_new_duty_from_what_was_committed(world: World) -> None:
    world.append(*[b"{}"] * 3)
    with started(world) as transport:
        old = on_duty(transport)
        transport.read({world.partition: 0})
        offset = read(transport, 3)[0].next_offset
        transport.publish(old, [prediction(b"{}")], {world.partition: Committed(offset)})
        transport.settle()
        new = on_duty(transport)
        assert new is not old
        assert new.partitions == old.partitions
        assert new.published[world.partition].offset == offset
        transport.publish(new, [prediction(b"{}")], {world.partition: Committed(offset)})
        assert len(world.published("predictions")) == 2


def test_an_end_after_the_last_marks_leaves_every_record_to_be_answered_once(world: World) -> None:
    world.append(*[b"%d" % i for i in range(6)])
    first = opened(world)
    first.read({world.partition: 0})
    records, duty = read(first, 6), on_duty(first)
    first.publish(
        duty, [prediction(r.value) for r in records[:2]], {world.partition: Committed(records[1].next_offset)}
    )
    marks = first.marks()
    first.publish(
        duty,
        [prediction(r.value) for r in records[2:4]],
        {world.partition: Committed(records[3].next_offset)},
    )
    first.close(CLOSE_SECONDS)

    with started(world, marks) as second:
        duty = on_duty(second)
        position = duty.published[world.partition].offset
        left = [r for r in records if r.offset >= position]
        second.read({world.partition: position})
        assert values(read(second, len(left))) == values(left)
        second.publish(duty, [prediction(r.value) for r in left], {world.partition: Committed(left[-1].next_offset)})
    assert [value for value, _ in world.published("predictions")] == [b"%d" % i for i in range(6)]


def test_closing_twice_is_closing(world: World) -> None:
    transport = opened(world)
    transport.close(CLOSE_SECONDS)
    transport.close(CLOSE_SECONDS)


def test_a_transport_that_was_just_answered_is_not_silent(world: World) -> None:
    with started(world) as transport:
        transport.read({world.partition: 0})
        transport.poll(0.1, 1)
        assert transport.silence() < 5
