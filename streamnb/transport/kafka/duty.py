"""The duty thread: the only one to touch the consumer that holds this instance's membership in the group.

A client joins, or says that it must join again, only inside `poll`: so the thread polls back to back until the group
is stable, and looks in four times a second after that. What the group says becomes a frozen `Duty`; its token is the
group metadata captured at the assignment. Metadata fetched later would be accepted by the broker even for partitions
that were lost.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, NamedTuple, TypeVar

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import ConfigError, DutyLost, Fenced, PublishUnknown, WatchdogError
from streamnb.transport import Committed, Duty, Partition
from streamnb.transport.kafka.client import Failure, Member
from streamnb.transport.kafka.outcomes import outcome

log = logs.get("transport.kafka")

JOIN_POLL_SECONDS = 0.5
LOOK_SECONDS = 0.25  # a wake-up costs more than the look; the group speaks to its members once a second
BACK_OFF_SECONDS = 0.5
COMMITTED_SECONDS = 2.0

T = TypeVar("T")


class Assignment(NamedTuple):
    """What the member was last told, and who we were in the group at that moment."""

    partitions: frozenset[Partition]
    token: Any


class DutyThread:
    """Holds the membership. `settled` says whether our own last transaction is decided: no duty before that.

    `refresh` brings the extents up to date, so that no duty's offsets are ever compared with an older end of the log.
    """

    def __init__(
        self,
        member: Member,
        kafka: KafkaConfig,
        topics: Sequence[str],
        settled: Callable[[], bool],
        refresh: Callable[[Iterable[Partition]], bool],
    ) -> None:
        self._member, self._kafka, self._topics = member, kafka, list(topics)
        self._settled, self._refresh = settled, refresh
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._calls: deque[tuple[Callable[[Member], Any], Future[Any]]] = deque()
        self._assignment: Assignment | None = None
        self._duty: Duty | None = None
        self._questions = 0  # grows with every `drop`: an answer to an older question is not believed
        self._joining = self._subscribed = self._closing = False
        self._close_seconds = 0.0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="streamnb-duty", daemon=True)

    # For the engine's thread

    def start(self) -> None:
        """Connect, raising BrokerUnreachable or ConfigError; no other thread may touch the member from then on."""
        self._member.start()
        self._thread.start()

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
        """What the group has committed on these; Failure or TimeoutError if it has not said in time."""
        wanted = list(partitions)
        return self._ask(lambda member: member.committed(wanted, seconds), seconds)

    def commit(self, duty: Duty, offsets: Mapping[Partition, Committed], seconds: float) -> None:
        """Commit without a transaction, as long as this duty's assignment is the last one."""

        def commit(member: Member) -> None:
            assignment = self._assignment
            if assignment is None or assignment.token is not duty.token or not member.holds(assignment.token):
                raise DutyLost("the group has a new generation; these offsets belong to another owner")
            member.commit(offsets, seconds)

        try:
            self._ask(commit, seconds)
        except Failure as exc:
            raise self._twin() if exc.kind == "replaced" else outcome(exc, None, 0.0, seconds) from exc
        except TimeoutError as exc:
            raise PublishUnknown(f"the group did not confirm offsets within {seconds:g} s") from exc

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
        try:
            if not self._subscribed:
                self._member.subscribe(self._topics, self._given, self._lost)
                self._subscribed = True
            self._member.poll(0 if assigned else JOIN_POLL_SECONDS)
            self._look()
        except Failure as exc:
            self._bear(exc)

    def _bear(self, failure: Failure) -> None:
        """Wait for what may pass; raise what will not."""
        match failure.kind:
            case "replaced":
                raise self._twin() from failure
            case "refused":
                raise ConfigError(f"kafka: the group refuses this instance: {failure}") from failure
            case _:
                log.warning("duty.retry", error=failure)
                self._wake.wait(BACK_OFF_SECONDS)

    def _twin(self) -> Fenced:
        who = f"group.instance.id {self._kafka.instance}"
        return Fenced(f"kafka: another process has joined as {who}; give each its own kafka.instance")

    def _look(self) -> None:
        """Publish a duty if there is an assignment without one, and everything it needs has been answered."""
        assignment, questions = self._assignment, self._questions
        if self._duty is not None or assignment is None or not self._settled():
            return
        if not self._member.holds(assignment.token):
            return
        published = self._member.committed(assignment.partitions, COMMITTED_SECONDS)
        if not self._refresh(assignment.partitions):
            return
        with self._lock:
            same = self._assignment is assignment and self._questions == questions
            if same and self._member.holds(assignment.token):
                self._duty = Duty(assignment.partitions, published, assignment.token)

    def _given(self, partitions: frozenset[Partition], token: Any) -> None:
        self._assigned(Assignment(partitions, token))

    def _lost(self) -> None:
        self._assigned(None)

    def _assigned(self, assignment: Assignment | None) -> None:
        """Called by the member, maybe on the client's own thread."""
        with self._lock:
            self._assignment = assignment
            self._duty = None

    # Questions from the engine's thread

    def _ask(self, call: Callable[[Member], T], seconds: float) -> T:
        """Have the thread make this call, which takes at most so long, and wait for its answer."""
        self.raise_failure()
        answer: Future[T] = Future()
        self._calls.append((call, answer))
        self._wake.set()
        try:
            return answer.result(seconds + JOIN_POLL_SECONDS + COMMITTED_SECONDS)
        except CancelledError:
            self.raise_failure()
            raise TimeoutError("the transport is being closed") from None

    def _answer_calls(self) -> None:
        while self._calls:
            call, answer = self._calls.popleft()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(call(self._member))
            except Exception as exc:
                answer.set_exception(exc)

    def _end(self) -> None:
        self._duty = self._assignment = None
        while self._calls:
            self._calls.popleft()[1].cancel()
        try:
            self._member.close(self._close_seconds)
        except Failure as exc:
            log.debug("duty.close", error=exc)
