"""What confluent-kafka alone can do wrong; everything else is in the suites that run over both clients."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from kafka import KafkaProducer

from streamnb.cli.wiring import client_of
from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.errors import ConfigError, LostEvents, PublishUnknown
from streamnb.transport import Committed, Output, Partition
from streamnb.transport.confluent.failures import REFUSED, REGROUPED, REPLACED, TOO_LARGE, grouping, publishing
from streamnb.transport.confluent.member import generation
from streamnb.transport.confluent.publisher import Batches, Undelivered, producers
from streamnb.transport.confluent.reader import Reader
from streamnb.transport.kafka import KafkaTransport
from streamnb.transport.kafka.client import Failure
from streamnb.transport.kafka.router import Addressed
from tests.broker import Cluster, free_port, wait_until
from tests.raw_records import NotUtf8, batch_of, write
from tests.transports import committed_records, on_duty, read

ROOT = Path(__file__).parents[1]


class App:
    """The topics of one app, of two input partitions, and the transports of its instances."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.labelled, self.predictions = cluster.topic("labelled", 2), cluster.topic("predictions")
        self.first = Partition(self.labelled, 0)
        self.made: list[KafkaTransport] = []

    def opened(self, client: str = "confluent", instance: str = "a", **kafka: Any) -> KafkaTransport:
        settings = {"instance": instance, "session_timeout": 6, "transaction_timeout": 5, **kafka}
        config = KafkaConfig(bootstrap_servers=self.cluster.bootstrap, **settings)
        outputs = OutputConfig(predictions=self.predictions)
        name = f"app-{self.labelled}"
        self.made.append(
            KafkaTransport(name, config, InputConfig(labelled=[self.labelled]), outputs, client_of(client))
        )
        self.made[-1].open()
        return self.made[-1]

    def produce(self, *values: bytes) -> None:
        with KafkaProducer(bootstrap_servers=self.cluster.bootstrap) as producer:
            for value in values:
                producer.send(self.labelled, value, partition=0)

    def predicted(self) -> list[bytes]:
        return sorted(record.value for record in committed_records(self.cluster.bootstrap, self.predictions))

    def close(self) -> None:
        for transport in self.made:
            transport.close(5)


@pytest.fixture
def app(broker: Cluster) -> Iterator[App]:
    made = App(broker)
    yield made
    made.close()


def prediction(value: bytes) -> Output:
    return Output("predictions", b"k", value)


# Reading


def test_after_any_jump_the_first_record_is_the_one_that_was_asked_for(app: App) -> None:
    """What the client has fetched already is of another time."""
    app.produce(*[b"%d" % i for i in range(300)])
    transport, jumps = app.opened(), random.Random(1)
    for _ in range(60):
        start, limit = jumps.randrange(300), jumps.choice([1, 2, 50, 500])
        transport.read({app.first: start})
        offsets = [record.offset for record in read(transport, 1, limit)]
        assert offsets == list(range(start, start + len(offsets)))


def test_records_that_are_there_are_not_waited_with_until_the_batch_is_full(app: App) -> None:
    app.produce(b"1")
    transport = app.opened()
    transport.read({app.first: 0})
    read(transport, 1)
    begun = time.monotonic()
    for i in range(5):
        app.produce(b"%d" % i)
        assert wait_until(lambda: transport.poll(0.5, 1000).records)
    assert time.monotonic() - begun < 5 * 0.5


def test_a_reader_that_was_idle_begins_at_once(app: App) -> None:
    """The client by itself asks who leads a topic once a second, and at times by chance."""
    app.produce(b"1")
    seconds = []
    for _ in range(8):
        reader = Reader("app", KafkaConfig(bootstrap_servers=app.cluster.bootstrap), 1000, dict)
        reader.start()
        reader.poll(0.3, 1)
        begun = time.monotonic()
        reader.read({app.first: 0})
        wait_until(lambda reader=reader: reader.poll(0.02, 1).runs)
        seconds.append(time.monotonic() - begun)
        reader.close(1)
    assert sorted(seconds)[6] < 0.4


def test_a_position_that_is_lost_is_complained_of_until_another_is_read(app: App) -> None:
    app.produce(b"1")
    transport = app.opened()
    transport.read({app.first: 1000, Partition(app.labelled, 1): 0})
    for _ in range(3):
        with pytest.raises(LostEvents, match="1000"):
            wait_until(lambda: transport.poll(0.1, 10).records)
    transport.read({app.first: 0})
    assert len(read(transport, 1)) == 1


def test_header_names_that_are_not_utf8_are_borne_however_many_there_are(app: App) -> None:
    records = [(None, b"%d" % i, [(NotUtf8() if i % 3 else "name", b"v")]) for i in range(30)]
    for partition in (0, 1):
        write(app.cluster, app.labelled, batch_of(*records), partition)
    transport = app.opened()
    transport.read({Partition(app.labelled, n): 0 for n in (0, 1)})
    found = sorted(read(transport, 60))
    assert [record.value for record in found] == 2 * [value for _, value, _ in records]
    assert {tuple(record.headers) for record in found} == {(("name", b"v"),), (("??", b"v"),)}


# The group


def test_instances_on_either_client_share_one_group(app: App) -> None:
    ours, theirs = app.opened(), app.opened("kafka-python", "b")
    for transport in (ours, theirs):
        transport.join()
    duties = wait_until(lambda: shared(ours, theirs), 60, "a partition for each")
    for transport, duty in zip((ours, theirs), duties, strict=True):
        (partition,) = duty.partitions
        transport.publish(duty, [prediction(b"%d" % partition.number)], {partition: Committed(1)})
    assert app.predicted() == [b"0", b"1"]


def shared(*transports: KafkaTransport) -> list[Any]:
    duties = [transport.duty() for transport in transports]
    return duties if all(duty and len(duty.partitions) == 1 for duty in duties) else []


def test_the_generation_is_read_out_of_the_metadata_that_the_client_calls_opaque(app: App) -> None:
    duty = on_duty(app.opened())
    assert isinstance(duty.token, bytes)
    assert generation(duty.token) >= 1
    assert generation(b"CGMDv2:\xff\xff\xff\xffgroup\0\0\1") == -1
    with pytest.raises(ConfigError, match="CGMDv3"):
        generation(b"CGMDv3:\1\0\0\0")


def test_metadata_of_no_member_is_never_committed_under(app: App) -> None:
    transport = app.opened()
    duty = on_duty(transport)
    unfenced = type(duty)(duty.partitions, duty.published, b"CGMDv2:\xff\xff\xff\xffgroup\0\0\1")
    with pytest.raises(AssertionError, match="accepted from anyone"):
        transport.publish(unfenced, [prediction(b"1")], {app.first: Committed(1)})


# Publishing


def test_more_answers_than_the_clients_queue_holds_wait_for_room(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamnb.transport.confluent.publisher.BUFFER_KIB", 0)
    transport = app.opened()
    outputs = [prediction(b"%d" % i + b"x" * 100_000) for i in range(50)]  # about a megabyte is room for ten
    transport.publish(on_duty(transport), outputs, {app.first: Committed(1)})
    assert len(app.predicted()) == len(outputs)


def test_a_refusal_is_known_at_once_though_more_waits_to_be_sent(app: App) -> None:
    app.cluster.configure(app.predictions, {"max.message.bytes": "6000"})
    transport = app.opened(transaction_timeout=60)
    duty = on_duty(transport)
    app.cluster.configure(app.predictions, {"max.message.bytes": "3000"})
    outputs = [prediction(b"x" * size) for size in (2000, 5000, 2000)]  # a batch each
    begun = time.monotonic()
    with pytest.raises(PublishUnknown, match="the broker refuses"):
        transport.publish(duty, outputs, {app.first: Committed(1)})
    assert time.monotonic() - begun < 30


def test_an_empty_publish_commits_offsets_alone(app: App) -> None:
    transport = app.opened()
    transport.publish(on_duty(transport), [], {app.first: Committed(5)})
    transport.settle()
    assert on_duty(transport).published == {app.first: Committed(5)}


def test_a_hundred_transactions_back_to_back_do_not_wait_for_the_retry_back_off(app: App) -> None:
    transport = app.opened()
    duty, seconds = on_duty(transport), []
    for i in range(100):
        begun = time.monotonic()
        transport.publish(duty, [prediction(b"1")], {app.first: Committed(i + 1)})
        seconds.append(time.monotonic() - begun)
    assert sorted(seconds)[len(seconds) // 4] < 0.09  # 0.1 s by librdkafka's defaults


def test_a_producer_that_is_given_up_sends_nothing_more() -> None:
    kafka = KafkaConfig(bootstrap_servers=f"127.0.0.1:{free_port()}", instance="a")
    producer = producers(kafka, None, 1000)()
    record: Addressed = ("t", 0, None, b"1", [])
    with pytest.raises(Failure, match="0 of 1 records"):
        producer.deliver([record], 0.1)
    assert producer.close(0)
    with pytest.raises(Failure, match="given up"):
        producer.deliver([record], 0.1)


def test_records_that_expire_while_no_broker_answers_are_told_of() -> None:
    kafka = KafkaConfig(bootstrap_servers=f"127.0.0.1:{free_port()}", instance="a", transaction_timeout=1)
    producer = producers(kafka, None, 1000)()
    begun = time.monotonic()
    with pytest.raises(Failure, match="_MSG_TIMED_OUT") as told:
        producer.deliver(addressed(1, 2, 3), 60)
    assert told.value.kind == "passing"
    assert time.monotonic() - begun < 30
    producer.close(0)


def addressed(*sizes: int) -> list[Addressed]:
    return [("t", 0, None, b"x" * size, []) for size in sizes]


def too_large(*indexes: int) -> Undelivered:
    return Undelivered([(index, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)) for index in indexes])


def test_a_refused_batch_is_made_smaller_until_the_record_that_is_too_large_is_alone() -> None:
    batches, records = Batches(1_000_000), addressed(10, 5000, 10)
    found = [batches.refused(records, too_large(0, 1, 2)) for _ in range(5)]
    assert [failure.kind for failure in found] == ["passing"] * 4 + ["too_large"]
    assert found[-1].index == 1
    assert batches.bytes < 5000


# What its errors mean


@pytest.mark.parametrize(
    ("codes", "kind"),
    [(TOO_LARGE, "too_large"), (REFUSED, "refused"), (REGROUPED, "regrouped"), (REPLACED, "replaced")],
)
def test_errors_are_told_apart_by_their_codes(codes: set[int], kind: str) -> None:
    assert {publishing(KafkaError(code), "").kind for code in codes} == {kind}


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._STATE, KafkaError._PURGE_QUEUE])
def test_whatever_may_pass_is_asked_about(code: int) -> None:
    assert publishing(KafkaError(code), "").kind == "passing"
    assert publishing(None, SystemError("no error of the client's")).kind == "passing"


def test_a_fenced_member_and_a_refused_one_are_not_tried_again() -> None:
    kinds = [
        grouping(KafkaError(code), "").kind
        for code in (KafkaError.FENCED_INSTANCE_ID, KafkaError.INVALID_SESSION_TIMEOUT, KafkaError._TRANSPORT)
    ]
    assert kinds == ["replaced", "refused", "passing"]


# Settings


def test_settings_that_librdkafka_refuses_are_a_configuration_error(app: App) -> None:
    with pytest.raises(ConfigError, match="librdkafka refuses"):
        app.opened(session_timeout=7200)


def test_without_its_package_it_says_what_to_install() -> None:
    script = """
import sys
sys.modules["confluent_kafka"] = None
from streamnb.cli.wiring import client_of
client_of("confluent")
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "ConfigError" in ended.stderr
    assert "pip install 'streamnb[confluent]'" in ended.stderr
