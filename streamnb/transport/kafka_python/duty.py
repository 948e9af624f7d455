"""The duty thread: the only one to touch the consumer that holds this instance's membership in the group.

Joining happens only inside `poll`, so the thread polls back to back until the group is stable, and looks in ten times
a second after that. What the group says becomes a frozen `Duty`; its token is the group metadata captured at the
assignment. Metadata fetched later would be accepted by the broker even for partitions that were lost.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, NamedTuple, TypeVar

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import ConsumerGroupMetadata, MemberState, OffsetAndMetadata

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import ConfigError, DutyLost, Fenced, WatchdogError
from streamnb.transport import Committed, Duty, Partition
from streamnb.transport.kafka_python.clients import settings
from streamnb.transport.kafka_python.outcomes import outcome

log = logs.get("transport.kafka")

JOIN_POLL_MS = 500
LOOK_SECONDS = 0.1
BACK_OFF_SECONDS = 0.5
COMMITTED_SECONDS = 2.0

T = TypeVar("T")


class Assignment(NamedTuple):
    """What the listener was last told, and who we were in the group at that moment."""

    partitions: frozenset[Partition]
    metadata: ConsumerGroupMetadata


class DutyThread:
    """Holds the membership. `settled` says whether our own last transaction is decided: no duty before that.

    `refresh` brings the extents up to date, so that no duty's offsets are ever compared with an older end of the log.
    """

    def __init__(
        self,
        app: str,
        kafka: KafkaConfig,
        topics: Sequence[str],
        settled: Callable[[], bool],
        refresh: Callable[[Iterable[Partition]], bool],
    ) -> None:
        self._kafka, self._topics = kafka, list(topics)
        self._settings = _duty_settings(app, kafka)
        self._settled, self._refresh = settled, refresh
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._calls: deque[tuple[Callable[[KafkaConsumer], Any], Future[Any]]] = deque()
        self._assignment: Assignment | None = None
        self._duty: Duty | None = None
        self._questions = 0  # grows with every `drop`: an answer to an older question is not believed
        self._joining = self._closing = False
        self._close_seconds = 0.0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="streamnb-duty", daemon=True)

    # For the engine's thread

    def start(self, consumer: KafkaConsumer) -> None:
        """Take over this consumer; no other thread may touch it from now on."""
        self._consumer = consumer
        self._thread.start()

    def make_consumer(self) -> KafkaConsumer:
        return KafkaConsumer(**self._settings)

    def join(self) -> None:
        self._joining = True
        self._wake.set()

    def duty(self) -> Duty | None:
        self.raise_failure()
        return self._duty

    def drop(self) -> None:
        """Let go of the duty, and bring a new one with the same token once `settled` says so."""
        with self._lock:
            self._duty = None
            self._questions += 1
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def committed(self, partitions: Iterable[Partition], seconds: float) -> dict[Partition, Committed]:
        """What the group has committed on these; KafkaTimeoutError or TimeoutError if it has not said in time."""
        wanted = list(partitions)
        return self._ask(lambda consumer: _committed(consumer, wanted, seconds), seconds)

    def commit(self, duty: Duty, offsets: Mapping[Partition, Committed], seconds: float) -> None:
        """Commit without a transaction, as long as this duty's assignment is the last one."""

        def commit(consumer: KafkaConsumer) -> None:
            assignment = self._assignment
            if assignment is None or assignment.metadata is not duty.token or not self._stable(assignment):
                raise DutyLost("the group has a new generation; these offsets belong to another owner")
            consumer.commit(offsets_of(offsets), timeout_ms=int(seconds * 1000))

        try:
            self._ask(commit, seconds)
        except (KafkaError, TimeoutError) as exc:
            raise outcome(exc, None, 0.0, seconds) from exc

    def close(self, seconds: float) -> None:
        """Leave the group (a static member stays) and end the thread, within this time."""
        self._close_seconds = seconds
        self._closing = True
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def raise_failure(self) -> None:
        """Raise what ended the thread, if it has ended."""
        match self._failure:
            case None:
                return
            case Fenced() | ConfigError():
                raise self._failure
            case _:
                raise WatchdogError(f"the thread that holds the duty died: {self._failure!r}") from self._failure

    # The thread

    def _run(self) -> None:
        try:
            while not self._closing:
                self._answer_calls()
                self._turn()
        except Exception as exc:
            self._failure = exc
        finally:
            self._end()

    def _turn(self) -> None:
        assigned = self._assignment is not None
        if assigned or not self._joining:
            self._wake.wait(LOOK_SECONDS)
        self._wake.clear()
        if not self._joining:
            return
        if self._consumer.subscription() is None:
            self._consumer.subscribe(self._topics, listener=_Listener(self, self._consumer))
        try:
            self._consumer.poll(timeout_ms=0 if assigned else JOIN_POLL_MS)
            self._look()
        except kafka_errors.FencedInstanceIdError as exc:
            who = f"group.instance.id {self._kafka.instance}"
            raise Fenced(f"kafka: another process has joined as {who}; give each its own kafka.instance") from exc
        except _REFUSALS as exc:
            raise ConfigError(f"kafka: the group refuses this instance: {exc}") from exc
        except KafkaError as exc:
            log.warning("duty.retry", error=exc)
            self._wake.wait(BACK_OFF_SECONDS)

    def _look(self) -> None:
        """Publish a duty if there is an assignment without one, and everything it needs has been answered."""
        assignment, questions = self._assignment, self._questions
        if self._duty is not None or assignment is None or not self._settled():
            return
        if not self._stable(assignment):
            return
        published = _committed(self._consumer, assignment.partitions, COMMITTED_SECONDS)
        if not self._refresh(assignment.partitions):
            return
        with self._lock:
            same = self._assignment is assignment and self._questions == questions
            if same and self._stable(assignment):
                self._duty = Duty(assignment.partitions, published, assignment.metadata)

    def _stable(self, assignment: Assignment) -> bool:
        """Whether the group still is what it was at this assignment."""
        now, then = self._consumer.group_metadata(), assignment.metadata
        same = (now.generation_id, now.member_id) == (then.generation_id, then.member_id)
        return then.generation_id >= 0 and same and now.state == MemberState.STABLE

    def assigned(self, assignment: Assignment | None) -> None:
        """Called by the listener, on the client's own thread."""
        with self._lock:
            self._assignment = assignment
            self._duty = None

    # Questions from the engine's thread

    def _ask(self, call: Callable[[KafkaConsumer], T], seconds: float) -> T:
        """Have the thread make this call, which takes at most so long, and wait for its answer."""
        self.raise_failure()
        answer: Future[T] = Future()
        self._calls.append((call, answer))
        self._wake.set()
        try:
            return answer.result(seconds + JOIN_POLL_MS / 1000 + COMMITTED_SECONDS)
        except CancelledError:
            self.raise_failure()
            raise TimeoutError("the transport is being closed") from None

    def _answer_calls(self) -> None:
        while self._calls:
            call, answer = self._calls.popleft()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(call(self._consumer))
            except Exception as exc:
                answer.set_exception(exc)

    def _end(self) -> None:
        self._duty = self._assignment = None
        while self._calls:
            self._calls.popleft()[1].cancel()
        try:
            self._consumer.close(timeout_ms=int(self._close_seconds * 1000))
        except KafkaError as exc:
            log.debug("duty.close", error=exc)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Hears what is given and taken. It runs on the client's own thread, where nothing may be asked of the broker."""

    def __init__(self, thread: DutyThread, consumer: KafkaConsumer) -> None:
        self._thread, self._consumer = thread, consumer

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        given = list(assigned)
        if given:
            self._consumer.pause(*given)
        for partition in given:
            self._consumer.seek(partition, 0)  # never read; without a position every poll would ask for one
        metadata = self._consumer.group_metadata()
        self._thread.assigned(Assignment(frozenset(Partition(*tp) for tp in given), metadata))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002  # all are, always
        self._thread.assigned(None)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:  # noqa: ARG002
        self._thread.assigned(None)


_REFUSALS = (
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.GroupMaxSizeReachedError,
    kafka_errors.InvalidGroupIdError,
)


def offsets_of(offsets: Mapping[Partition, Committed]) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets as kafka-python wants them."""
    return {TopicPartition(*p): OffsetAndMetadata(at.offset, at.metadata, -1) for p, at in offsets.items()}


def _duty_settings(app: str, kafka: KafkaConfig) -> dict[str, object]:
    session_ms = int(kafka.session_timeout * 1000)
    own: dict[str, object] = {
        "group_id": app,
        "group_instance_id": kafka.instance if kafka.static_membership else None,
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": min(1000, session_ms // 3),
        "max_poll_interval_ms": max(60_000, 3 * session_ms),
        "partition_assignment_strategy": (RoundRobinPartitionAssignor,),
        "isolation_level": "read_committed",  # what makes `committed` wait for a pending transaction
        "auto_offset_reset": "none",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
        "metadata_max_age_ms": 5000,  # how soon added partitions are shared out
    }
    return settings(kafka, "duty") | own


def _committed(consumer: KafkaConsumer, partitions: Iterable[Partition], seconds: float) -> dict[Partition, Committed]:
    deadline = time.monotonic() + seconds
    found = {}
    for partition in partitions:
        left = max(1, int((deadline - time.monotonic()) * 1000))
        at = consumer.committed(TopicPartition(*partition), metadata=True, timeout_ms=left)
        if at is not None:
            found[partition] = Committed(at.offset, at.metadata or "")
    return found
