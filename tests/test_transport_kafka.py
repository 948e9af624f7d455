"""What only Kafka can do to a transport: groups, generations, transactions, logs that shrink, brokers that die."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.producer.record_accumulator import RecordAccumulator

from streamnb.cli.wiring import client_of
from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.errors import (
    BrokerUnreachable,
    ConfigError,
    DutyLost,
    Fenced,
    IoError,
    LostEvents,
    OutputTooLarge,
    PublishUnknown,
)
from streamnb.transport import Committed, Duty, Output, Partition
from streamnb.transport.kafka import KafkaTransport, check
from streamnb.transport.kafka_python.member import Member
from tests.broker import Broker, Cluster, free_port, wait_until
from tests.lives import CLIENTS, only
from tests.raw_records import NotUtf8, batch_of, write
from tests.transports import committed_records, on_duty, read, values

ROOT = Path(__file__).parents[1]


class App:
    """The topics of one app, and the transports of its instances."""

    def __init__(self, cluster: Cluster, client: str, partitions: int = 1) -> None:
        self.cluster, self.client = cluster, client
        self.labelled = cluster.topic("labelled", partitions)
        self.unlabelled = cluster.topic("unlabelled", partitions)
        self.predictions = cluster.topic("predictions", 3)
        self.dead = cluster.topic("dead")
        self.first = Partition(self.labelled, 0)
        self.made: list[KafkaTransport] = []

    def sections(self, **kafka: Any) -> tuple[KafkaConfig, InputConfig, OutputConfig]:
        settings = {"instance": "a", "session_timeout": 6, "transaction_timeout": 5, **kafka}
        return (
            KafkaConfig(bootstrap_servers=self.cluster.bootstrap, **settings),
            InputConfig(labelled=[self.labelled], unlabelled=[self.unlabelled]),
            OutputConfig(predictions=self.predictions, dead_letters=self.dead),
        )

    def transport(self, instance: str = "a", **kafka: Any) -> KafkaTransport:
        sections = self.sections(instance=instance, **kafka)
        self.made.append(KafkaTransport(f"app-{self.labelled}", *sections, client_of(self.client)))
        return self.made[-1]

    def opened(self, instance: str = "a", **kafka: Any) -> KafkaTransport:
        transport = self.transport(instance, **kafka)
        transport.open()
        return transport

    def produce(self, *values: bytes | None, topic: str | None = None, partition: int = 0, **settings: Any) -> None:
        with KafkaProducer(bootstrap_servers=self.cluster.bootstrap, **settings) as producer:
            for value in values:
                producer.send(topic or self.labelled, value, key=b"k", partition=partition)

    def predicted(self) -> list[bytes]:
        return sorted(record.value for record in committed_records(self.cluster.bootstrap, self.predictions))

    def close(self) -> None:
        for transport in self.made:
            transport.close(5)
        self.cluster.close()


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def app(broker: Cluster, client: str) -> Iterator[App]:
    made = App(Cluster(broker.bootstrap), client)
    yield made
    made.close()


@pytest.fixture
def wide(broker: Cluster, client: str) -> Iterator[App]:
    """An app whose topics have two partitions each."""
    made = App(Cluster(broker.bootstrap), client, partitions=2)
    yield made
    made.close()


@pytest.fixture
def mortal(own_broker: Broker, client: str) -> Iterator[App]:
    """An app on a broker of its own."""
    made = App(own_broker, client)
    yield made
    made.close()


def prediction(value: bytes, key: bytes | None = b"k") -> Output:
    return Output("predictions", key, value)


def owns(transport: KafkaTransport, n_partitions: int) -> Duty:
    """The duty, once it covers this many partitions."""

    def duty() -> Duty | None:
        found = transport.duty()
        return found if found and len(found.partitions) == n_partitions else None

    return wait_until(duty, 60, f"a duty of {n_partitions} partitions")


# The group


def test_labelled_and_unlabelled_partitions_alike_have_an_owner(wide: App) -> None:
    duty = on_duty(wide.opened())
    assert duty.partitions == {Partition(t, n) for t in (wide.labelled, wide.unlabelled) for n in (0, 1)}


def test_two_instances_share_the_partitions_and_the_one_that_stays_inherits_them(wide: App) -> None:
    a, b = wide.opened("a"), wide.opened("b")
    alone = on_duty(a)
    b.join()
    mine, theirs = owns(a, 2), owns(b, 2)
    assert mine.partitions | theirs.partitions == alone.partitions
    b.close(5)
    assert owns(a, 4).partitions == alone.partitions


def test_an_instance_without_partitions_is_on_duty_all_the_same(app: App) -> None:
    transports = [app.opened(name) for name in "abc"]
    for transport in transports:
        transport.join()
    counts = wait_until(lambda: all_duties(transports, total=2), 60, "three duties")
    assert sorted(counts) == [0, 1, 1]


def all_duties(transports: list[KafkaTransport], total: int) -> list[int] | None:
    duties = [transport.duty() for transport in transports]
    counts = [len(duty.partitions) for duty in duties if duty]
    return counts if len(counts) == len(transports) and sum(counts) == total else None


def test_a_duty_of_an_earlier_generation_publishes_nothing(wide: App) -> None:
    a, b = wide.opened("a"), wide.opened("b")
    old = on_duty(a)
    b.join()
    owns(a, 2)
    with pytest.raises(DutyLost):
        a.publish(old, [prediction(b"stale")], {wide.first: Committed(1)})
    a.settle()
    new = owns(a, 2)
    assert new.published == {}
    a.publish(new, [prediction(b"fresh")], {next(iter(new.partitions)): Committed(1)})
    assert wide.predicted() == [b"fresh"]


def test_settling_keeps_the_token_of_the_assignment(app: App) -> None:
    transport = app.opened()
    before = on_duty(transport)
    transport.settle()
    after = on_duty(transport)
    assert after is not before
    assert after.token is before.token


def test_an_assignment_and_a_settling_both_end_the_duty_at_once(app: App) -> None:
    transport = app.opened()
    on_duty(transport)
    transport.settle()
    assert transport.duty() is None


def test_metadata_comes_back_with_the_offset(app: App) -> None:
    transport = app.opened()
    transport.publish(on_duty(transport), [], {app.first: Committed(7, "learn_from=3")})
    transport.settle()
    assert on_duty(transport).published == {app.first: Committed(7, "learn_from=3")}


def test_a_second_process_with_our_instance_name_fences_us(app: App) -> None:
    ours = app.opened("same")
    duty = on_duty(ours)
    ours.publish(duty, [prediction(b"1")], {app.first: Committed(1)})
    twin = app.opened("same")
    twin.committed()
    with pytest.raises(Fenced, match=r"kafka\.instance"):
        ours.publish(duty, [prediction(b"2")], {app.first: Committed(2)})
    assert app.predicted() == [b"1"]


def test_a_process_that_was_stopped_while_its_partitions_moved_answers_nothing_more(app: App) -> None:
    arguments = [app.client, app.cluster.bootstrap, f"app-{app.labelled}", app.labelled, app.predictions]
    command = [sys.executable, "-m", "tests.answering", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "on duty\n"
        child.send_signal(signal.SIGSTOP)
        heir = app.opened("heir")
        heir.join()
        heir.publish(owns(heir, 2), [prediction(b"heir")], {app.first: Committed(1)})
        child.send_signal(signal.SIGCONT)
        child.stdin.write("child\n")
        child.stdin.flush()
        assert child.stdout.readline() == "DutyLost\n"
        child.kill()
    assert app.predicted() == [b"heir"]


def test_a_static_member_is_back_without_a_rebalance(wide: App) -> None:
    a, b = (wide.opened(name, static_membership=True) for name in "ab")
    on_duty(a)
    b.join()
    owns(b, 2)
    undisturbed = owns(a, 2)
    b.close(5)
    again = wide.opened("b", static_membership=True)
    again.join()
    owns(again, 2)
    assert a.duty() is undisturbed


def test_a_second_static_member_of_our_name_fences_us_where_there_are_no_transactions(app: App) -> None:
    static = {"static_membership": True, "delivery": "at_least_once"}
    ours = app.opened("same", **static)
    duty = on_duty(ours)
    on_duty(app.opened("same", **static))
    with pytest.raises(Fenced, match=r"group\.instance\.id same"):
        ours.publish(duty, [prediction(b"1")], {app.first: Committed(1)})


def test_a_session_timeout_that_the_broker_refuses_is_a_configuration_error(app: App) -> None:
    transport = app.opened(session_timeout=0.5)
    with pytest.raises(ConfigError, match="group"):
        on_duty(transport)
    with pytest.raises(ConfigError, match="group"):
        transport.poll(0.1, 1)


def test_a_transaction_timeout_that_the_broker_refuses_is_a_configuration_error(app: App) -> None:
    transport = app.opened(transaction_timeout=100_000)
    with pytest.raises(ConfigError, match="transactions"):
        transport.committed()


def test_added_partitions_are_seen_and_given_an_owner(app: App) -> None:
    transport = app.opened()
    on_duty(transport)
    app.cluster.admin.create_partitions({app.labelled: 3})
    assert Partition(app.labelled, 2) in owns(transport, 4).partitions
    assert Partition(app.labelled, 2) in transport.extents()


@only("kafka-python")
def test_an_assignment_that_arrives_between_two_polls_is_heard(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client asks for it in one poll, and looks for it in the next only if it still wants to join."""
    poll = Member.poll

    def poll_and_be_slow(member: Member, seconds: float) -> None:
        poll(member, seconds)
        join = member._consumer._coordinator._join_task
        wait_until(lambda: join is None or join.is_done, what="the answer to the join")

    monkeypatch.setattr(Member, "poll", poll_and_be_slow)
    transport = app.opened()
    on_duty(transport)
    app.cluster.admin.create_partitions({app.labelled: 3})
    owns(transport, 4)


# What is read


def test_aborted_records_are_never_read_and_positions_pass_them(app: App) -> None:
    producer = KafkaProducer(bootstrap_servers=app.cluster.bootstrap, transactional_id=f"up-{app.labelled}")
    producer.init_transactions()
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.send(app.labelled, end.__name__.encode())
        producer.flush()
        end()
    producer.close()
    transport = app.opened()
    transport.read({app.first: 0})
    assert values(read_to_the_end(transport, app.first)) == [b"commit_transaction"]


def read_to_the_end(transport: KafkaTransport, partition: Partition) -> list[Any]:
    """Everything up to the end; the position must get there too."""
    records: list[Any] = []
    position = 0

    def at_the_end() -> bool:
        nonlocal position
        batch = transport.poll(0.1, 100)
        records.extend(batch.records)
        position = batch.positions.get(partition, position)
        return position == transport.extents()[partition].end > 0

    wait_until(at_the_end, 30, "the end")
    return records


def test_reading_from_every_offset_of_a_log_of_transactions_loses_and_doubles_nothing(app: App) -> None:
    producer = KafkaProducer(bootstrap_servers=app.cluster.bootstrap, transactional_id=f"up-{app.labelled}")
    producer.init_transactions()
    for i in range(3):
        producer.begin_transaction()
        producer.send(app.labelled, b"%d" % i)
        producer.flush()
        producer.commit_transaction()
    producer.close()
    transport = app.opened()
    for start in range(transport.extents()[app.first].end):
        transport.read({app.first: start})
        assert values(read_to_the_end(transport, app.first)) == [b"0", b"1", b"2"][(start + 1) // 2 :]


def test_an_open_upstream_transaction_ends_the_log_before_its_high_watermark(wide: App) -> None:
    producer = KafkaProducer(bootstrap_servers=wide.cluster.bootstrap, transactional_id=f"up-{wide.labelled}")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(wide.labelled, b"open", partition=0)
    producer.flush()
    wide.produce(b"closed", partition=1)
    transport = wide.opened()
    extents = transport.extents()
    assert (extents[wide.first].end, extents[wide.first].high_watermark) == (0, 1)
    transport.read({wide.first: 0, Partition(wide.labelled, 1): 0})
    assert values(read(transport, 1)) == [b"closed"]
    producer.abort_transaction()
    producer.close()


def test_a_tombstone_and_a_header_without_value_are_read_as_they_are(app: App) -> None:
    headers = [("none", None), ("some", b"1")]
    write(app.cluster, app.labelled, batch_of((b"k", b"v", headers)))
    app.produce(None)
    transport = app.opened()
    transport.read({app.first: 0})
    with_header, tombstone = read(transport, 2)
    assert list(with_header.headers) == headers
    assert (tombstone.key, tombstone.value) == (b"k", None)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_header_name_that_is_not_utf8_harms_neither_its_record_nor_the_neighbours(app: App, place: int) -> None:
    records: list[Any] = [(None, b"%d" % i, [("h", b"\xff\xfe")]) for i in range(3)]
    records[place] = (None, b"\xff\xfe", [("ok", b"1"), (NotUtf8(), b"\xff\xfe")])
    write(app.cluster, app.labelled, batch_of(*records))
    transport = app.opened()
    transport.read({app.first: 0})
    found = read(transport, 3)
    assert values(found) == [value for _, value, _ in records]
    assert [list(r.headers) for r in found][place] == [("ok", b"1"), ("??", b"\xff\xfe")]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression_can_be_read(app: App, codec: str) -> None:
    app.produce(b"1" * 1000, b"2" * 1000, compression_type=codec, linger_ms=50)
    transport = app.opened()
    transport.read({app.first: 0})
    assert values(read(transport, 2)) == [b"1" * 1000, b"2" * 1000]


@only("kafka-python")
@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd"])
def test_a_missing_codec_is_one_clear_error_that_leaves_the_offset(
    wide: App, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide.produce(b"1" * 1000, compression_type=codec)
    transport = wide.opened()
    transport.read({wide.first: 0, Partition(wide.unlabelled, 1): 0})
    with monkeypatch.context() as without:
        without.setattr(f"kafka.codec.has_{codec}", lambda: False)
        with pytest.raises(ConfigError, match=rf"{wide.labelled}.*{codec}.*streamnb\[codecs\]"):
            wait_until(lambda: transport.poll(0.1, 10).positions)
    transport.read({wide.first: 0})
    assert values(read(transport, 1)) == [b"1" * 1000]


def test_records_deleted_before_they_were_read_are_named(app: App) -> None:
    app.produce(*[b"%d" % i for i in range(10)])
    app.cluster.cut(app.labelled, 0, before=6)
    transport = app.opened()
    transport.read({app.first: 2})
    with pytest.raises(LostEvents, match=rf"{app.labelled}:0: offsets 2 to 5 "):
        read(transport, 1)
    start = transport.extents()[app.first].start
    transport.read({app.first: start})
    assert (start, values(read(transport, 4))) == (6, [b"6", b"7", b"8", b"9"])


def test_a_partition_that_is_not_there_keeps_no_other_from_being_read(app: App) -> None:
    app.produce(b"1")
    transport = app.opened()
    transport.read({Partition(app.labelled, 7): 0, app.first: 0})
    assert values(read(transport, 1)) == [b"1"]


@only("kafka-python")
def test_a_partition_with_a_new_leader_is_read_beside_one_that_is_busy(
    wide: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has its position confirmed then, beside the fetches, which never cease."""
    transport = wide.opened()
    quiet, busy = Partition(wide.labelled, 0), Partition(wide.labelled, 1)
    transport.read({quiet: 0, busy: 0})
    wide.produce(b"0")
    read(transport, 1)
    consumer: Any = transport._reader._consumer  # type: ignore[attr-defined]
    fetched, led = consumer._fetcher.fetched_records, consumer._subscription.request_position_validation
    asked: list[bool] = []

    def fetched_records(*arguments: Any, **options: Any) -> Any:
        found = fetched(*arguments, **options)
        if found[0] and not asked:
            asked.append(led(TopicPartition(*quiet)))
        return found

    monkeypatch.setattr(consumer._fetcher, "fetched_records", fetched_records)
    with KafkaProducer(bootstrap_servers=wide.cluster.bootstrap) as producer:

        def polled(partition: Partition) -> bool:
            producer.send(busy.topic, b"busy", partition=busy.number).get()
            return any(run.partition == partition for run in transport.poll(0.5, 100).runs)

        wait_until(lambda: polled(busy) and asked, 10, "a question about the other")
        producer.send(quiet.topic, b"1", partition=quiet.number).get()
        wait_until(lambda: polled(quiet), 5, "the record of the quiet partition")
    assert asked == [True]


def test_a_topic_made_again_has_another_id(app: App) -> None:
    transport = app.opened()
    before = transport.extents()[app.first].topic_id
    app.cluster.delete(app.labelled)
    wait_until(lambda: app.first not in transport.extents(), what="the topic to be missed")
    app.cluster.create(app.labelled)
    wait_until(lambda: app.first in transport.extents(), what="the topic to be seen again")
    assert transport.extents()[app.first].topic_id != before


def test_the_offset_at_a_time_is_that_of_the_first_record_not_older(app: App) -> None:
    with KafkaProducer(bootstrap_servers=app.cluster.bootstrap) as producer:
        for second in (10, 20, 30):
            producer.send(app.labelled, b"{}", timestamp_ms=second * 1000)
    transport = app.opened()
    found = [transport.offset_at(app.first, seconds) for seconds in (0, 10, 10.5, 30, 31)]
    assert found == [0, 0, 1, 2, 3]


# What is published


def test_a_key_goes_where_every_other_client_puts_it(app: App) -> None:
    keys = [b"%d" % i for i in range(50)]
    transport = app.opened()
    transport.publish(on_duty(transport), [prediction(b"{}", key) for key in keys], {})
    with KafkaProducer(bootstrap_servers=app.cluster.bootstrap) as other:
        for key in keys:
            other.send(app.predictions, b"{}", key)
    placed: dict[bytes, set[int]] = {}
    for record in committed_records(app.cluster.bootstrap, app.predictions):
        placed.setdefault(record.key, set()).add(record.partition)
    assert {len(partitions) for partitions in placed.values()} == {1}
    assert set().union(*placed.values()) == {0, 1, 2}


def test_an_answer_too_large_for_its_topic_is_named_and_nothing_is_published(app: App) -> None:
    transport = app.opened()
    duty = on_duty(transport)
    large = transport.output_limit("dead_letters") + 1
    outputs = [prediction(b"{}"), Output("dead_letters", None, b"x" * large)]
    with pytest.raises(OutputTooLarge) as refused:
        transport.publish(duty, outputs, {app.first: Committed(1)})
    assert refused.value.index == 1
    transport.settle()
    outputs[1] = Output("dead_letters", None, b"x" * (large - 1))
    transport.publish(on_duty(transport), outputs, {app.first: Committed(1)})
    assert app.predicted() == [b"{}"]
    assert [len(r.value) for r in committed_records(app.cluster.bootstrap, app.dead)] == [large - 1]


def test_a_limit_that_was_lowered_meanwhile_is_noticed_by_the_answer_that_breaks_it(app: App) -> None:
    transport = app.opened()
    duty = on_duty(transport)
    app.cluster.configure(app.dead, {"max.message.bytes": "2000"})
    outputs = [Output("dead_letters", None, b"x" * n) for n in (10, 5000, 10)]
    with pytest.raises(OutputTooLarge) as refused:
        insist(transport, duty, outputs, {app.first: Committed(1)})
    assert refused.value.index == 1
    transport.settle()
    assert on_duty(transport).published == {}
    assert committed_records(app.cluster.bootstrap, app.dead) == []


def insist(transport: KafkaTransport, duty: Duty, outputs: list[Output], offsets: dict[Partition, Committed]) -> None:
    """Publish, again as long as there is hope."""
    while True:
        try:
            return transport.publish(duty, outputs, offsets)
        except OutputTooLarge:
            raise
        except PublishUnknown:
            transport.settle()
            duty = on_duty(transport)


def test_a_limit_lowered_below_a_whole_batch_only_makes_batches_smaller(app: App) -> None:
    transport = app.opened()
    duty = on_duty(transport)
    app.cluster.configure(app.dead, {"max.message.bytes": "3000"})
    outputs = [Output("dead_letters", None, b"%d" % n + b"x" * 1000) for n in range(20)]
    insist(transport, duty, outputs, {app.first: Committed(1)})
    assert [r.value for r in committed_records(app.cluster.bootstrap, app.dead)] == [o.value for o in outputs]


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_an_answer_that_cannot_be_delivered_commits_nothing(app: App, delivery: str) -> None:
    transport = app.opened(delivery=delivery, transaction_timeout=2)
    duty = on_duty(transport)
    app.cluster.delete(app.predictions)
    with pytest.raises(PublishUnknown):
        transport.publish(duty, [prediction(b"lost")] * 3, {app.first: Committed(1)})
    transport.settle()
    assert on_duty(transport).published == {}


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_an_answer_that_the_topic_refuses_for_ever_is_no_matter_of_trying_again(app: App, delivery: str) -> None:
    app.cluster.configure(app.predictions, {"cleanup.policy": "compact"})
    transport = app.opened(delivery=delivery)
    outputs = [prediction(b"{}", key) for key in (b"k", b"k", None, b"k")]
    with pytest.raises(IoError, match=r"(?i)invalid_?record"):
        transport.publish(on_duty(transport), outputs, {app.first: Committed(1)})
    transport.settle()
    assert on_duty(transport).published == {}


@only("kafka-python")
def test_a_release_that_appends_in_another_way_is_left_to_do_it(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, send, append = [], KafkaProducer.send, RecordAccumulator.append
    monkeypatch.setattr(RecordAccumulator, "append", lambda self, *given, **named: append(self, *given, **named))
    monkeypatch.setattr(KafkaProducer, "send", lambda *given: (sent.append(given), send(*given))[1])
    transport = app.opened()
    transport.publish(on_duty(transport), [prediction(b"%d" % i) for i in range(5)], {app.first: Committed(1)})
    assert (len(sent), app.predicted()) == (5, [b"%d" % i for i in range(5)])


def test_at_least_once_commits_what_was_delivered(app: App) -> None:
    transport = app.opened(delivery="at_least_once")
    transport.publish(on_duty(transport), [prediction(b"1")], {app.first: Committed(1, "m")})
    transport.settle()
    assert on_duty(transport).published == {app.first: Committed(1, "m")}
    assert app.predicted() == [b"1"]


def test_at_least_once_commits_nothing_under_an_earlier_generation(wide: App) -> None:
    a, b = (wide.opened(name, delivery="at_least_once") for name in "ab")
    old = on_duty(a)
    b.join()
    owns(a, 2)
    with pytest.raises(DutyLost):
        a.publish(old, [], {wide.first: Committed(1)})
    assert b.committed() == {}


# Starting and stopping


def test_missing_topics_are_named_before_anything_is_joined(app: App) -> None:
    app.cluster.delete(app.labelled)
    app.cluster.delete(app.dead)
    with pytest.raises(ConfigError, match=rf"{app.labelled}, {app.dead}.*streamnb topics create"):
        app.transport().open()


def test_a_compacted_labelled_topic_is_refused(app: App) -> None:
    app.cluster.configure(app.labelled, {"cleanup.policy": "compact"})
    with pytest.raises(ConfigError, match=rf"{app.labelled}: cleanup\.policy is compact"):
        app.transport().open()


def test_check_lists_every_problem_at_once(app: App) -> None:
    app.cluster.configure(app.labelled, {"cleanup.policy": "compact"})
    app.cluster.delete(app.predictions)
    problems = check(*app.sections(), client_of(app.client))
    assert [p for p in problems if app.labelled in p]
    assert [p for p in problems if app.predictions in p]


def test_check_finds_nothing_wrong_with_what_is_right(app: App) -> None:
    assert check(*app.sections(), client_of(app.client)) == []


def test_no_broker_is_named_after_the_time_for_starting(client: str) -> None:
    servers = f"127.0.0.1:{free_port()}"
    kafka = KafkaConfig(bootstrap_servers=servers, instance="a", start_timeout=1)
    begun = time.monotonic()
    with pytest.raises(BrokerUnreachable, match=servers):
        KafkaTransport("app", kafka, InputConfig(labelled=["t"]), OutputConfig(), client_of(client)).open()
    assert time.monotonic() - begun < 6


def test_closing_leaves_no_thread_behind(app: App) -> None:
    before = set(threading.enumerate())
    transport = app.opened()
    on_duty(transport)
    transport.close(10)
    wait_until(lambda: set(threading.enumerate()) <= before, 10, "its threads to end")


def test_more_than_eight_producers_that_hang_end_the_daemon(client: str) -> None:
    # In a process of its own: these producers look for a broker until it ends.
    script = f"""
from streamnb.cli.wiring import client_of
from streamnb.config import KafkaConfig
from streamnb.transport.kafka.publisher import Publisher
kafka = KafkaConfig(bootstrap_servers="127.0.0.1:{free_port()}", instance="a")
publisher = Publisher(client_of("{client}"), "app", kafka, 1000, print)
for _ in range(9):
    publisher.settle()
    publisher.abandon()
print("nine", flush=True)
publisher.settle()
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.stdout.startswith("nine")
    assert "WatchdogError: 9 abandoned producers" in ended.stderr


# A broker that dies


def test_a_batch_that_was_damaged_on_disk_is_an_error_that_names_its_offset(mortal: App) -> None:
    broker = mortal.cluster
    assert isinstance(broker, Broker)
    mortal.produce(b"whole")
    mortal.produce(b"damaged")
    broker.damage(mortal.labelled, b"damaged")
    transport = mortal.opened()
    transport.read({mortal.first: 0, Partition(mortal.unlabelled, 0): 0})
    assert values(read(transport, 1)) == [b"whole"]
    with pytest.raises(IoError, match=f"{mortal.labelled}:0 at offset 1"):
        read(transport, 1)


def test_a_killed_broker_makes_it_silent_and_its_return_brings_everything_back(mortal: App) -> None:
    broker = mortal.cluster
    assert isinstance(broker, Broker)
    mortal.produce(b"before")
    transport = mortal.opened(session_timeout=60)  # so that the broker is back before the member is forgotten
    transport.publish(on_duty(transport), [prediction(b"1")], {mortal.first: Committed(1)})
    transport.read({mortal.first: 0})
    assert values(read(transport, 1)) == [b"before"]
    broker.kill()
    wait_until(lambda: transport.silence() > 3, what="silence")
    assert not transport.poll(0.1, 10).records
    broker.start()
    mortal.produce(b"after")
    assert values(read(transport, 1)) == [b"after"]
    transport.settle()
    duty = on_duty(transport)
    assert duty.published == {mortal.first: Committed(1)}
    transport.publish(duty, [prediction(b"2")], {mortal.first: Committed(2)})
    assert transport.silence() < 3
    assert mortal.predicted() == [b"1", b"2"]


def test_whatever_moment_the_broker_dies_answers_and_offsets_agree(mortal: App) -> None:
    broker = mortal.cluster
    assert isinstance(broker, Broker)
    transport = mortal.opened(transaction_timeout=4)
    duty, at, failures = on_duty(transport), 0, 0

    def kill_twice() -> None:
        for _ in range(2):
            due = at + 20
            wait_until(lambda due=due: at >= due, 100, "progress")
            broker.kill()
            broker.start()

    killer = threading.Thread(target=kill_twice)
    killer.start()
    while killer.is_alive():
        try:
            transport.publish(duty, [prediction(b"%06d" % at)], {mortal.first: Committed(at + 1)})
            at += 1
        except (PublishUnknown, DutyLost):  # lost, if the broker took longer to come back than a session lasts
            failures += 1
            transport.settle()
            duty = wait_until(transport.duty, 100, "a duty after the broker's death")
            at = duty.published[mortal.first].offset
    assert failures
    assert mortal.predicted() == [b"%06d" % i for i in range(at)]


@pytest.mark.parametrize("end", ["kill", "freeze"])
def test_closing_keeps_its_time_when_the_broker_does_not_answer(mortal: App, end: str) -> None:
    transport = mortal.opened()
    on_duty(transport)
    transport.read({mortal.first: 0})
    getattr(mortal.cluster, end)()
    begun = time.monotonic()
    transport.close(3)
    assert time.monotonic() - begun < 4


def test_a_publish_to_a_frozen_broker_ends_in_time_and_is_settled_when_it_thaws(mortal: App) -> None:
    broker = mortal.cluster
    assert isinstance(broker, Broker)
    transport = mortal.opened(transaction_timeout=2)
    duty = on_duty(transport)
    broker.freeze()
    begun = time.monotonic()
    with pytest.raises(PublishUnknown):
        transport.publish(duty, [prediction(b"1")], {mortal.first: Committed(1)})
    assert time.monotonic() - begun < 3
    transport.settle()
    broker.thaw()
    duty = wait_until(transport.duty, 60, "a duty after the thaw")
    published = duty.published.get(mortal.first, Committed(0)).offset
    assert len(mortal.predicted()) == published
