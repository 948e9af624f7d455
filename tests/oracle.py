"""What must be true of everything committed, whatever happened to the daemons on the way.

`Workload` produces events of every sort with unique ids and remembers them; `Workload.check` reads all that is
committed and complains of every loss, double and difference. The learned `uid` feature is a category that each event
has for itself, so that a model shows of every single event how often it was learned.
"""

import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.broker import Cluster, wait_until

POISON = [b"{", b"\xff\xfe", b'{"features": {"x": NaN}}', b'{"features": {"x": [1]}}', b"[]", b'{"id": 1}']
LABELS = ("fraud", "ok")
MODEL = {
    "kind": "mixed",
    "features": {"uid": "categorical", "x": "gaussian", "colour": "categorical"},
    "var_smoothing": 0.0,
}


@dataclass
class Workload:
    """The topics of one test, and what has been put into them."""

    cluster: Cluster
    seed: int = 1
    partitions: int = 2
    client: str = "kafka-python"
    """Whose data path the daemons take."""
    learned: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Label and x of every labelled event, by id."""
    asked: set[str] = field(default_factory=set)
    bad: dict[str, bytes] = field(default_factory=dict)
    """Raw bytes of every bad record, by topic:partition:offset."""

    def __post_init__(self) -> None:
        self._readings: dict[str, Reading] = {}
        self._answers: list[dict[str, Any]] = []
        self._sent = 0
        self._random = random.Random(self.seed)
        self.labelled = self.cluster.topic("labelled", self.partitions)
        self.unlabelled = self.cluster.topic("unlabelled", self.partitions)
        self.predictions = self.cluster.topic("predictions", 2)
        self.dead = self.cluster.topic("dead", 1)
        self.app = f"app-{self.labelled.split('.')[-1]}"
        self._producer = self._connected()

    def config(self, **sections: Any) -> dict[str, Any]:
        """A configuration that reads and answers this workload."""
        return {
            "app": self.app,
            "transport": "kafka",
            "kafka": {
                "bootstrap_servers": self.cluster.bootstrap,
                "client": self.client,
                **sections.pop("kafka", {}),
            },
            "input": {
                "labelled": [self.labelled],
                "unlabelled": [self.unlabelled],
                **sections.pop("input", {}),
            },
            "output": {
                "predictions": self.predictions,
                "dead_letters": self.dead,
                **sections.pop("output", {}),
            },
            "model": sections.pop("model", MODEL),
            **sections,
        }

    def grow(self, partitions: int) -> None:
        """Add partitions to the input topics."""
        for topic in (self.labelled, self.unlabelled):
            self.cluster.add_partitions(topic, partitions)
        self.partitions = partitions
        self._producer.close()
        self._producer = self._connected()

    def _connected(self) -> KafkaProducer:
        return KafkaProducer(bootstrap_servers=self.cluster.bootstrap, linger_ms=5)

    def produce(self, events: int, poison: float = 0.02) -> None:
        """Append this many records at random: labelled, unlabelled in either topic, tombstones, poison."""
        sent = [self._one(poison) for _ in range(events)]
        self._producer.flush()
        for future, raw in sent:
            at = future.get(30)
            if raw is not None:
                self.bad[f"{at.topic}:{at.partition}:{at.offset}"] = raw

    def _one(self, poison: float, producer: KafkaProducer | None = None, prefix: str = "e") -> tuple[Any, bytes | None]:
        pick, producer = self._random, producer or self._producer
        partition = pick.randrange(self.partitions)
        topic = pick.choice([self.labelled, self.unlabelled])
        if pick.random() < poison:
            raw = pick.choice(POISON)
            headers = pick.choice([[], [("trace", b"1"), ("trace", b"2")]])
            return producer.send(topic, raw, key=b"k", partition=partition, headers=headers), raw
        if pick.random() < poison / 2:
            return producer.send(topic, None, key=b"k", partition=partition), None
        self._sent += 1
        uid = f"{prefix}{self._sent}"
        event: dict[str, Any] = {"id": uid, "features": {"uid": uid, **self._features()}}
        if topic == self.labelled and pick.random() < 0.7:
            event["label"] = pick.choice(LABELS)
            self.learned[uid] = (event["label"], event["features"]["x"])
        else:
            self.asked.add(uid)
        return producer.send(topic, json.dumps(event).encode(), key=uid.encode(), partition=partition), None

    def _features(self) -> dict[str, Any]:
        return {"x": self._random.gauss(1e6, 3.0), "colour": self._random.choice("rgb")}

    def produce_in_transactions(self, events: int, aborted: int, each: int = 3) -> None:
        """Append labelled and unlabelled events in transactions of a few; as many more as `aborted` come to nothing."""
        producer = self._transactional()
        kept = self.learned.copy(), self.asked.copy()
        for _ in range(0, aborted, each):
            producer.begin_transaction()
            for _ in range(each):
                self._one(0, producer, prefix="aborted-")
            producer.flush()
            producer.abort_transaction()
        self.learned, self.asked = kept
        for _ in range(0, events, each):
            producer.begin_transaction()
            for _ in range(each):
                self._one(0, producer)
            producer.commit_transaction()
        producer.close()

    def open_transaction(self) -> KafkaProducer:
        """A transaction on partition 0 of the labelled topic that its producer leaves open."""
        producer = self._transactional()
        producer.begin_transaction()
        producer.send(self.labelled, b"never committed", partition=0)
        producer.flush()
        return producer

    def _transactional(self) -> KafkaProducer:
        producer = KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap, transactional_id=f"{self.app}-upstream", retry_backoff_ms=5
        )
        producer.init_transactions()
        return producer

    def answered(self) -> Counter[str]:
        """How often each id was answered, as a read_committed reader sees it."""
        return Counter(answer["id"] for answer in self.answers())

    def answers(self) -> Sequence[dict[str, Any]]:
        records = self.committed(self.predictions)
        self._answers += [json.loads(record.value) for record in records[len(self._answers) :]]
        return self._answers

    def dead_letters(self) -> Counter[tuple[str, bytes]]:
        """How often each record was dead-lettered: its coordinates by the headers, and its bytes."""
        return Counter((_source(record), record.value) for record in self.committed(self.dead))

    def committed(self, topic: str) -> list[Any]:
        """All committed records of a topic."""
        if topic not in self._readings:
            self._readings[topic] = Reading(self.cluster.bootstrap, topic)
        return self._readings[topic].records()

    def ends(self) -> dict[tuple[str, int], int]:
        """The read_committed ends of the input topics, by topic and partition."""
        consumer = KafkaConsumer(bootstrap_servers=self.cluster.bootstrap, isolation_level="read_committed")
        parts = [TopicPartition(t, n) for t in (self.labelled, self.unlabelled) for n in range(self.partitions)]
        try:
            return {(tp.topic, tp.partition): end for tp, end in consumer.end_offsets(parts).items()}
        finally:
            consumer.close()

    def unanswered(self) -> int:
        """How many answers and dead letters are still due; doubles come out in `check`."""
        answers = max(0, len(self.asked) - len(self.answered()))
        return answers + max(0, len(self.bad) - len(self.dead_letters()))

    def complaints(self, snapshots: Iterable[Any] = (), doubles: bool = True) -> list[str]:
        """Everything that is wrong with what was committed, and with these final snapshots.

        Without `doubles`, answers and dead letters may have come more than once.
        """
        found = differences("answered", self.answered(), self.asked)
        found += differences("dead-lettered", self.dead_letters(), set(self.bad.items()))
        if not doubles:
            found = [complaint for complaint in found if not complaint.endswith(" times")]
        for snapshot in snapshots:
            found += [f"{snapshot.instance}: {complaint}" for complaint in self.model_complaints(snapshot)]
        return found

    def check(self, snapshots: Iterable[Any] = ()) -> None:
        complaints = self.complaints(snapshots)
        assert not complaints, "\n".join(complaints[:20])

    def model_complaints(self, snapshot: Any) -> list[str]:
        """Compare a snapshot's model with the batch statistics of the events that were sent."""
        from streamnb import MixedNB

        model = MixedNB.from_bytes(snapshot.model)
        uid_counts: dict[str, Counter[str]] = {label: Counter() for label in LABELS}
        for row in model.likelihood_table():
            if row.feature == "uid":
                for label in LABELS:
                    uid_counts[label][row.value] = int(row.numbers.get(label, {}).get("count", 0))
        moments = next((row.numbers for row in model.likelihood_table() if row.feature == "x"), {})
        found = []
        for label in LABELS:
            xs = [x for at, x in self.learned.values() if at == label]
            uids = {uid for uid, (at, _) in self.learned.items() if at == label}
            if model.class_count.get(label, 0) != len(xs):
                found.append(f"{label} was counted {model.class_count.get(label, 0)} times, due {len(xs)}")
            found += differences(f"learned as {label}", uid_counts[label], uids)
            found += moment_complaints(label, xs, moments.get(label, {}))
        return found

    def close(self) -> None:
        self._producer.close()
        for reading in self._readings.values():
            reading.close()


class Reading:
    """Follows one topic as a read_committed reader does, from its start."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            reconnect_backoff_max_ms=500,
            metadata_max_age_ms=2000,  # the only time at which `end_offsets` hears of a new leader
        )
        numbers = wait_until(lambda: self._consumer.partitions_for_topic(topic), 60, f"the partitions of {topic}")
        self._parts = [TopicPartition(topic, number) for number in numbers]
        self._consumer.assign(self._parts)
        self._records: list[Any] = []

    def records(self) -> list[Any]:
        """Everything up to the present end."""
        ends = self._consumer.end_offsets(self._parts)

        def all_read() -> bool:
            return all(self._consumer.position(tp) >= end for tp, end in ends.items())

        deadline = time.monotonic() + 60
        while not all_read():
            for some in self._consumer.poll(200).values():
                self._records += some
            assert time.monotonic() < deadline, f"not all of {self._parts} could be read"
        return self._records

    def close(self) -> None:
        self._consumer.close()


def differences(what: str, counts: "Counter[Any]", due: set[Any]) -> list[str]:
    """Say what was missed, doubled or never due."""
    found = [f"{item} was never {what}" for item in due if not counts[item]]
    found += [f"{item} was {what} {n} times" for item, n in counts.items() if n > 1]
    return found + [f"{item} was {what} but never due" for item in counts if item not in due and counts[item]]


def moment_complaints(label: str, xs: Sequence[float], cell: Mapping[str, float]) -> list[str]:
    if not xs:
        return []
    mean, variance = cell.get("mean", 0.0), cell.get("variance", 0.0)
    due_mean, due_variance = statistics.fmean(xs), float(statistics.pvariance([x - 1e6 for x in xs]))
    found = []
    if abs(mean - due_mean) > 1e-12 * abs(due_mean):
        found.append(f"mean of {label} is {mean!r}, due {due_mean!r}")
    if abs(variance - due_variance) > 1e-9 * due_variance:
        found.append(f"variance of {label} is {variance!r}, due {due_variance!r}")
    return found


def _source(record: Any) -> str:
    headers = {name: value.decode() for name, value in record.headers if name.startswith("streamnb.error.")}
    prefix = "streamnb.error."
    return f"{headers[prefix + 'topic']}:{headers[prefix + 'partition']}:{headers[prefix + 'offset']}"
