"""Records that nobody ordered: poison, giants, tombstones, floods; each harms only itself."""

import hashlib
import json
from typing import Any

import pytest
from kafka import KafkaProducer

from tests.broker import wait_until
from tests.daemon import Daemon
from tests.lives import BOTH_CLIENTS, SLOW, answered, caught_up, finish, only
from tests.oracle import Workload

POISON = b"{"


def event(uid: str, **more: Any) -> bytes:
    return json.dumps({"id": uid, "features": {"x": 1.0, "colour": "r"}, **more}).encode()


def send(workload: Workload, *values: bytes | None, topic: str = "", partition: int = 0, **settings: Any) -> None:
    with KafkaProducer(bootstrap_servers=workload.cluster.bootstrap, **settings) as producer:
        for value in values:
            producer.send(topic or workload.unlabelled, value, key=b"k", partition=partition)


def reasons(workload: Workload) -> list[str]:
    return [dict(letter.headers)["streamnb.error.reason"].decode() for letter in workload.committed(workload.dead)]


def expect(workload: Workload, daemon: Daemon, answers: int, letters: int) -> None:
    """Everything is handled, and so much came of it."""
    caught_up(workload, daemon)
    assert (len(workload.answers()), len(workload.committed(workload.dead))) == (answers, letters), daemon.tail()


def test_poison_first_in_the_middle_last_and_alone_is_one_dead_letter_each(workload, fleet):
    good = [event(f"g{n}") for n in range(3)]
    daemon = fleet.daemon(workload).start().ready(SLOW)
    for n, batch in enumerate([[POISON, *good], [good[0], POISON, *good[1:]], [*good, POISON], [POISON]]):
        send(workload, *batch, linger_ms=500)
        expect(workload, daemon, answers=3 * min(n + 1, 3), letters=n + 1)
    assert set(workload.answered().values()) == {3}


def test_five_thousand_poison_records_in_a_row_are_five_thousand_dead_letters(workload, fleet):
    daemon = fleet.daemon(workload).start()
    send(workload, event("before"), *[POISON] * 5000, event("after"), linger_ms=50)
    expect(workload, daemon, answers=2, letters=5000)
    assert daemon.metric("dead_letters_total", reason="not_json") == 5000
    assert daemon.is_ready()


@BOTH_CLIENTS
def test_a_record_of_ten_mebibytes_is_a_dead_letter_that_says_what_it_was(workload, fleet):
    workload.cluster.configure(workload.unlabelled, {"max.message.bytes": "12000000"})
    giant = event("giant", text="x" * 10_485_760)
    daemon = fleet.daemon(workload).start()
    send(workload, event("before"), giant, event("after"), max_request_size=12_000_000)
    expect(workload, daemon, answers=2, letters=1)
    (letter,) = workload.committed(workload.dead)
    headers = {name: value.decode() for name, value in letter.headers}
    assert letter.value is None
    assert headers["streamnb.error.reason"] == "too_large"
    assert str(len(giant)) in headers.values()
    assert hashlib.sha256(giant).hexdigest() in headers.values()


def test_tombstones_and_headers_without_a_value_are_borne(workload, fleet):
    daemon = fleet.daemon(workload).start().ready(SLOW)
    with KafkaProducer(bootstrap_servers=workload.cluster.bootstrap) as producer:
        for topic in (workload.labelled, workload.unlabelled):
            for value in (None, POISON, event("e")):
                producer.send(topic, value, key=b"k", partition=0, headers=[("empty", b""), ("trace", b"1")])
    expect(workload, daemon, answers=2, letters=2)
    assert {dict(letter.headers)["trace"] for letter in workload.committed(workload.dead)} == {b"1"}
    assert daemon.metric("events_total", role="labelled", outcome="skipped") == 1
    assert daemon.metric("events_total", role="unlabelled", outcome="skipped") == 1


def test_a_flood_of_labels_is_stopped_at_the_limit_by_every_instance_alike(workload, fleet):
    limit = {"limits": {"classes": 5}}
    one, other = (fleet.daemon(workload, name, **limit).start().ready(SLOW) for name in "ab")
    for partition in (0, 1):
        flood = [event(f"p{partition}-{n}", label=f"label-{n % 40}") for n in range(80)]
        send(workload, *flood, topic=workload.labelled, partition=partition)
    wait_until(lambda: len(workload.committed(workload.dead)) >= 2 * 70, SLOW, lambda: one.tail() + other.tail())
    assert [daemon.stop() for daemon in (one, other)] == [0, 0]
    assert len(workload.committed(workload.dead)) == 2 * 70
    assert set(reasons(workload)) == {"too_many_classes"}
    assert one.snapshot().model == other.snapshot().model
    send(workload, event("known", label="label-0"), event("new", label="label-9"), topic=workload.labelled)
    one.start()  # the labels that are known are in the snapshot
    wait_until(lambda: len(workload.committed(workload.dead)) == 2 * 70 + 1, SLOW, one.tail)
    wait_until(lambda: one.metric("model_events") == 2 * 10 + 1, SLOW, one.tail)


def test_a_flood_of_feature_names_stops_it_at_the_limit(workload, fleet):
    daemon = fleet.daemon(workload, limits={"model_features": 100}).start()
    flood = [json.dumps({"features": {f"f{n}": 1.0}, "label": "ok"}).encode() for n in range(200)]
    send(workload, *flood, topic=workload.labelled)
    assert daemon.wait(SLOW) == 75, daemon.tail()
    assert "limits.model_features allows 100" in daemon.log().splitlines()[-1]


@only("kafka-python")
def test_a_codec_whose_library_is_missing_is_named_with_what_to_install(workload, fleet):
    daemon = fleet.daemon(workload, script="ailing.py").start(AIL="no_lz4").ready(SLOW)
    packed = [event(f"packed-{n}") for n in range(50)]
    send(workload, *packed, compression_type="lz4", linger_ms=200)
    assert daemon.wait(SLOW) == 64, daemon.tail()
    last = daemon.log().splitlines()[-1]
    assert "lz4" in last
    assert "pip install 'streamnb[codecs]'" in last
    assert f"{workload.unlabelled}:0 at offset 0" in last
    expect(workload, fleet.daemon(workload).start(), answers=50, letters=0)


def test_transactions_of_producers_are_read_when_they_are_committed_and_never_when_aborted(workload, fleet):
    daemon = fleet.daemon(workload).start()
    workload.produce_in_transactions(60, aborted=60)
    answered(workload, daemon)
    producer = workload.open_transaction()
    workload.produce(60)
    open_seconds = "open_upstream_transaction_seconds"
    wait_until(lambda: daemon.metric(open_seconds, topic=workload.labelled, partition="0") > 2, SLOW, daemon.tail)
    assert daemon.is_ready()
    assert workload.unanswered()
    second = fleet.daemon(workload, "b").start().ready(SLOW)  # an open transaction does not keep a start from its end
    producer.abort_transaction()
    producer.close()
    finish(workload, daemon, second)


@pytest.mark.parametrize("kind", ["labelled", "unlabelled"])
def test_an_answer_too_large_for_its_topic_is_a_dead_letter(workload, fleet, kind):
    workload.cluster.configure(workload.predictions, {"max.message.bytes": "2000"})
    daemon = fleet.daemon(workload).start()
    topic = workload.labelled if kind == "labelled" else workload.unlabelled
    send(workload, event("small"), event("i" * 3000), event("small too"), topic=topic)
    expect(workload, daemon, answers=2, letters=1)
    assert reasons(workload) == ["too_large"]
