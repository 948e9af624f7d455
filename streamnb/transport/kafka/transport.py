"""The Kafka transport: exactly once from a group's offsets to the answers.

Its pieces, each with one thread that touches its client: the reader (the engine's own thread), the duty thread, the
watch, the publisher's workers. This class joins them; the client brings the reader, the member and the producers.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streamnb import logs
from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.errors import BrokerUnreachable, ConfigError, PublishUnknown
from streamnb.transport import Batch, Committed, Duty, Extent, Output, Partition, Sink
from streamnb.transport.kafka import topics
from streamnb.transport.kafka.client import Client, Failure
from streamnb.transport.kafka.clients import answered, connected, quiet, settings
from streamnb.transport.kafka.duty import DutyThread
from streamnb.transport.kafka.publisher import Publisher
from streamnb.transport.kafka.router import RECORD_BYTES, Router, Target
from streamnb.transport.kafka.watch import Watch

log = logs.get("transport.kafka")

T = TypeVar("T")

DRAINING_SECONDS = 3.0
REFRESH_SECONDS = 2.0
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.2


class KafkaTransport:
    """Reads and answers through one Kafka; see `Transport` for what each method promises."""

    def __init__(
        self,
        app: str,
        kafka: KafkaConfig,
        input: InputConfig,  # noqa: A002  # the section's name
        output: OutputConfig,
        client: Client,
        *,
        event_bytes: int = 1_048_576,
    ) -> None:
        self._app, self._kafka, self._client = app, kafka, client
        self._roles, self._sinks = topics.roles(input), topics.sinks(output)
        self._watch = Watch(self._roles)
        self._reader = client.reader(app, kafka, event_bytes, self._fresh_extents)
        self._duty = DutyThread(client.member(app, kafka), kafka, list(self._roles), self._settled, self._refreshed)
        self._publisher: Publisher | None = None
        self._targets: dict[Sink, Target] = {}
        self._router = Router({}, client.place)
        self._restore_ends: dict[Partition, int] = {}
        self._seconds = kafka.transaction_timeout

    def open(self) -> None:
        quiet()
        admin = _admin(self._kafka)
        described = self._answered(lambda: topics.Described(admin, [*self._roles, *self._sinks.values()]))
        problems = described.problems(self._roles, self._sinks.values(), self._client.reads)
        problems += self._answered(lambda: topics.too_old(admin, self._kafka))
        if problems:
            admin.close()
            raise ConfigError("; ".join(problems))
        self._answered(lambda: self._watch.start(admin))
        extents = self._watch.extents()
        self._restore_ends = {p: e.end for p, e in extents.items() if e.role == "labelled"}
        self._reader.start()
        self._targets = {sink: described.target(topic) for sink, topic in self._sinks.items()}
        self._router = Router(self._targets, self._client.place)
        largest = max((target.largest_bytes for target in self._targets.values()), default=0)
        self._publisher = Publisher(self._client, self._app, self._kafka, largest, self._duty.wake)
        self._publisher.settle()
        self._duty.start()

    def resume(self, marks: Mapping[str, object] | None) -> None:
        """Nothing to take up: everything is in the group and the logs."""

    def marks(self) -> dict[str, object]:
        return {}

    def extents(self) -> Mapping[Partition, Extent]:
        return self._watch.extents()

    def restore_ends(self) -> Mapping[Partition, int]:
        return self._restore_ends

    def offset_at(self, partition: Partition, seconds: float) -> int:
        """As promised; PublishUnknown if the broker does not say: `settle`, and ask under the next duty."""
        try:
            return self._watch.offset_at(partition, seconds)
        except KafkaError as exc:
            raise PublishUnknown(f"{partition}: the broker did not say what its offset was at a time: {exc}") from exc

    def committed(self) -> Mapping[Partition, Committed]:
        """As promised; waits until the last transaction of this instance is decided."""
        deadline = time.monotonic() + self._kafka.start_timeout
        while True:
            self._raise_failures()
            try:
                if self._opened().wait_settled(LOOK_SECONDS):
                    found = self._duty.committed(self.extents(), ANSWER_SECONDS)
                    self._watch.refresh(REFRESH_SECONDS)
                    return found
            except (Failure, TimeoutError) as exc:
                log.warning("committed.retry", error=exc)
            if time.monotonic() > deadline:
                seconds = self._kafka.start_timeout
                why = f"group {self._app} did not say what it has committed within {seconds:g} s"
                raise BrokerUnreachable(f"kafka: {self._kafka.bootstrap_servers}: {why}")

    def join(self) -> None:
        self._duty.join()

    def duty(self) -> Duty | None:
        self._raise_failures()
        return self._duty.duty()

    def read(self, positions: Mapping[Partition, int]) -> None:
        self._reader.read(positions)

    def poll(self, seconds: float, limit: int) -> Batch:
        self._raise_failures()
        return self._reader.poll(seconds, limit)

    def publish(self, duty: Duty, outputs: Sequence[Output], offsets: Mapping[Partition, Committed]) -> None:
        """As promised; also OutputTooLarge: `settle`, then publish with that output made smaller."""
        publisher = self._opened()
        publisher.publish(duty, self._router.addressed(outputs), offsets, self._seconds)
        if not publisher.exactly_once and offsets:
            self._duty.commit(duty, offsets, self._seconds)

    def settle(self) -> None:
        self._duty.drop()
        self._opened().settle()

    def output_limit(self, sink: Sink) -> int:
        """Bytes of key, value and headers (16 more for each header) that the sink's topic takes in one record."""
        return self._targets[sink].largest_bytes - RECORD_BYTES

    def drain(self) -> None:
        """Give every publish from now on only as long as a daemon may take to stop."""
        self._seconds = min(self._seconds, DRAINING_SECONDS)

    def silence(self) -> float:
        return self._watch.silence()

    def close(self, seconds: float) -> None:
        publisher = [self._publisher.close] if self._publisher else []
        closings: list[Callable[[float], None]] = [
            self._duty.close,
            *publisher,
            self._reader.close,
            self._watch.close,
        ]
        threads = [threading.Thread(target=close, args=(seconds,), daemon=True) for close in closings]
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _answered(self, ask: Callable[[], T]) -> T:
        return answered(ask, self._kafka.bootstrap_servers, self._kafka.start_timeout)

    def _opened(self) -> Publisher:
        assert self._publisher is not None, "open() comes first"
        return self._publisher

    def _settled(self) -> bool:
        return self._publisher is not None and self._publisher.settled()

    def _raise_failures(self) -> None:
        self._opened().raise_failure()
        self._duty.raise_failure()

    def _fresh_extents(self) -> Mapping[Partition, Extent]:
        self._watch.refresh(REFRESH_SECONDS)
        return self._watch.extents()

    def _refreshed(self, partitions: Iterable[Partition]) -> bool:
        """Whether the extents are now newer than this call, and know these partitions."""
        if not self._watch.refresh(REFRESH_SECONDS):
            return False
        known = self._watch.extents()
        return all(partition in known for partition in partitions)


def check(
    kafka: KafkaConfig,
    input: InputConfig,  # noqa: A002  # the section's name
    output: OutputConfig,
    client: Client,
) -> list[str]:
    """List everything that would keep a daemon from working; raise BrokerUnreachable if no broker answers."""
    quiet()
    roles, sinks = topics.roles(input), topics.sinks(output).values()
    admin = _admin(kafka)

    def ask() -> list[str]:
        described = topics.Described(admin, [*roles, *sinks])
        return described.problems(roles, sinks, client.reads) + topics.too_old(admin, kafka)

    try:
        return answered(ask, kafka.bootstrap_servers, kafka.start_timeout)
    finally:
        admin.close()


def _admin(kafka: KafkaConfig) -> KafkaAdminClient:
    made = settings(kafka, "watch")
    return connected(lambda: KafkaAdminClient(**made), kafka.bootstrap_servers, kafka.start_timeout)
