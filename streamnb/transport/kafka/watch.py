"""A thread that asks the broker every few seconds what its logs look like, and so knows how long it has been silent."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code
from kafka.protocol.consumer import IsolationLevel

from streamnb import logs
from streamnb.errors import WatchdogError
from streamnb.transport import Extent, Partition, Role

log = logs.get("transport.kafka")

NO_ERROR, UNKNOWN_TOPIC = 0, 3
EVERY_SECONDS = 2.0  # each time costs some 10 ms; must be well below what counts as silence


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as the broker describes it."""

    id: str
    partitions: tuple[int, ...]


def topics(admin: KafkaAdminClient, names: list[str]) -> dict[str, Topic]:
    """Those of these topics that exist; KafkaError if the broker cannot say of one of them."""
    found = {}
    for topic in admin.describe_topics(names):
        if topic["error_code"] not in (NO_ERROR, UNKNOWN_TOPIC):
            raise for_code(topic["error_code"])(topic["name"])
        if topic["error_code"] == NO_ERROR:
            numbers = sorted(partition["partition_index"] for partition in topic["partitions"])
            found[topic["name"]] = Topic(str(topic["topic_id"]), tuple(numbers))
    return found


def extents(admin: KafkaAdminClient, roles: Mapping[str, Role]) -> dict[Partition, Extent]:
    """Ask for the extents of all partitions of these topics; a topic that is gone has none."""
    known = topics(admin, list(roles))
    asked = [TopicPartition(name, number) for name, topic in known.items() for number in topic.partitions]
    if not asked:
        return {}
    starts = admin.list_partition_offsets(dict.fromkeys(asked, OffsetSpec.EARLIEST))
    newest = dict.fromkeys(asked, OffsetSpec.LATEST)
    ends = admin.list_partition_offsets(newest, isolation_level=IsolationLevel.READ_COMMITTED)
    marks = admin.list_partition_offsets(newest)
    return {
        Partition(*tp): Extent(
            role=roles[tp.topic],
            start=starts[tp].offset,
            end=ends[tp].offset,
            topic_id=known[tp.topic].id,
            high_watermark=marks[tp].offset,
        )
        for tp in asked
    }


class Watch:
    """Keeps the extents fresh. `extents` and `silence` may be asked from any thread."""

    def __init__(self, roles: Mapping[str, Role]) -> None:
        self._roles = roles
        self._extents: Mapping[Partition, Extent] = {}
        self._answered = time.monotonic()
        self._failure: BaseException | None = None
        self._wake = threading.Event()
        self._round = threading.Condition()
        self._asked = self._heard = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="streamnb-watch", daemon=True)

    def start(self, admin: KafkaAdminClient) -> None:
        """Ask once, raising KafkaError, then go on in a thread that owns this client."""
        self._admin = admin
        self._extents = extents(admin, self._roles)
        self._answered = time.monotonic()
        self._thread.start()

    def extents(self) -> Mapping[Partition, Extent]:
        if self._failure is not None:
            raise WatchdogError(f"the thread that watches the broker died: {self._failure!r}") from self._failure
        return self._extents

    def silence(self) -> float:
        return time.monotonic() - self._answered

    def refresh(self, seconds: float) -> bool:
        """Ask again now; whether there was an answer within this time."""
        with self._round:
            self._asked += 1
            due = self._asked
            self._wake.set()
            return self._round.wait_for(lambda: self._heard >= due, seconds)

    def offset_at(self, partition: Partition, seconds: float) -> int:
        """The first offset that is not older than this time, the end if there is none; KafkaError without an answer."""
        tp = TopicPartition(*partition)
        found = self._admin.list_partition_offsets({tp: int(seconds * 1000)}, timeout_ms=5000)[tp].offset
        return found if found >= 0 else self._extents[partition].end

    def close(self, seconds: float) -> None:
        self._closing = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._closing:
                self._wake.wait(EVERY_SECONDS)
                self._wake.clear()
                self._ask()
            self._admin.close()
        except Exception as exc:
            self._failure = exc

    def _ask(self) -> None:
        asked = self._asked
        try:
            self._extents = extents(self._admin, self._roles)
            self._answered = time.monotonic()
        except UnknownTopicOrPartitionError:
            self._answered = time.monotonic()  # deleted between the two questions: the next round knows
            return
        except KafkaError as exc:
            log.debug("watch.unanswered", error=exc)
            return
        with self._round:
            self._heard = asked
            self._round.notify_all()
