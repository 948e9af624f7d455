"""A thread that asks the broker every few seconds what its logs look like, and so knows how long it has been silent."""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError, UnknownTopicOrPartitionError, for_code
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from streamnb import logs
from streamnb.errors import WatchdogError
from streamnb.transport import Extent, Partition, Role

log = logs.get("transport.kafka")

NO_ERROR, UNKNOWN_TOPIC = 0, 3
EVERY_SECONDS = 3.0  # each time costs some 4 ms, more beside a busy loop; must be well below what counts as silence
AGAIN_SECONDS = 0.5
"""How soon to ask again when there was no answer: brokers that elect a leader have one in a moment."""
EARLIEST = (OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED)
STABLE = (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)
LATEST = (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic as the broker describes it."""

    id: str
    leaders: Mapping[int, int]
    """The broker of each partition."""


def extents(admin: KafkaAdminClient, roles: Mapping[str, Role]) -> dict[Partition, Extent]:
    """Ask for the extents of all partitions of these topics; a topic that is gone has none. Raise KafkaError."""
    # The client's own questions about offsets each ask for the leaders again: seven requests instead of four, one
    # after another, for two and a half times the work.
    found: dict[Partition, Extent] = admin._manager.run(_extents, admin._manager, roles)
    return found


async def _extents(manager: Any, roles: Mapping[str, Role]) -> dict[Partition, Extent]:
    known = _topics(await manager.send(_description(roles)))
    asked = [
        (which, [manager.send(request, node_id=leader) for leader, request in _questions(known, *which)])
        for which in (EARLIEST, STABLE, LATEST)
    ]
    found = {which: _offsets([await answer for answer in answers]) for which, answers in asked}
    return {
        (partition := Partition(name, number)): Extent(
            role=roles[name],
            start=found[EARLIEST][partition],
            end=found[STABLE][partition],
            topic_id=topic.id,
            high_watermark=found[LATEST][partition],
        )
        for name, topic in known.items()
        for number in topic.leaders
    }


def _description(names: Iterable[str]) -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _topics(described: Any) -> dict[str, Topic]:
    """Those topics that exist; KafkaError if the broker cannot say of one of them."""
    found = {}
    for topic in described.topics:
        if topic.error_code not in (NO_ERROR, UNKNOWN_TOPIC):
            raise for_code(topic.error_code)(topic.name)
        if topic.error_code == NO_ERROR:
            leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}
            found[topic.name] = Topic(str(topic.topic_id), dict(sorted(leaders.items())))
    return found


def _questions(
    known: Mapping[str, Topic], spec: int, isolation: IsolationLevel
) -> list[tuple[int, ListOffsetsRequest]]:
    """What to ask of whom to hear these offsets of all partitions."""
    wanted = ListOffsetsRequest.ListOffsetsTopic
    partition = wanted.ListOffsetsPartition
    least = ListOffsetsRequest.min_version_for_isolation_level(isolation.value)
    return [
        (
            leader,
            ListOffsetsRequest(
                isolation_level=isolation.value,
                topics=[
                    wanted(
                        name=name,
                        partitions=[
                            partition(partition_index=number, timestamp=spec)
                            for number, held_by in topic.leaders.items()
                            if held_by == leader
                        ],
                    )
                    for name, topic in known.items()
                    if leader in topic.leaders.values()
                ],
                min_version=least,
            ),
        )
        for leader in sorted({leader for topic in known.values() for leader in topic.leaders.values()})
    ]


def _offsets(answers: Iterable[Any]) -> dict[Partition, int]:
    """The offsets in these answers; KafkaError if one is missing."""
    found = {}
    for topic in (topic for answer in answers for topic in answer.topics):
        for partition in topic.partitions:
            if partition.error_code != NO_ERROR:
                raise for_code(partition.error_code)(f"{topic.name}-{partition.partition_index}")
            found[Partition(topic.name, partition.partition_index)] = partition.offset
    return found


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
            answered = True
            while not self._closing:
                self._wake.wait(EVERY_SECONDS if answered else AGAIN_SECONDS)
                self._wake.clear()
                answered = self._ask()
            self._admin.close()
        except Exception as exc:
            self._failure = exc

    def _ask(self) -> bool:
        """Ask for everything; whether there was an answer that says it."""
        asked = self._asked
        try:
            self._extents = extents(self._admin, self._roles)
            self._answered = time.monotonic()
        except UnknownTopicOrPartitionError:
            self._answered = time.monotonic()  # deleted between the two questions: the next round knows
            return False
        except KafkaError as exc:
            log.debug("watch.unanswered", error=exc)
            return False
        with self._round:
            self._heard = asked
            self._round.notify_all()
        return True
