"""Publishes answers: producers that live in threads of their own, each call under a deadline.

kafka-python's transactional calls may never return once a coordinator has died, and neither closing nor aborting
frees them. So a producer that failed or overran its deadline is abandoned. A new one with the same transactional
id decides, in `init_transactions`, what became of the transaction; only then is the group asked what was committed.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.serializer import Serializer

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import ConfigError, PublishUnknown, StreamnbError, WatchdogError
from streamnb.transport import Committed, Duty, Partition
from streamnb.transport.kafka_python.clients import settings
from streamnb.transport.kafka_python.duty import offsets_of
from streamnb.transport.kafka_python.outcomes import outcome, require_delivered, required_size
from streamnb.transport.kafka_python.router import Addressed

log = logs.get("transport.kafka")

ABANDONED_ALIVE = 8
INIT_SECONDS = 15.0
FOREVER_MS = 86_400_000
REFUSED = ("TransactionalIdAuthorizationFailed", "InvalidTransactionTimeout", "ClusterAuthorizationFailed")
BACK_OFF_SECONDS = 0.5


NOTHING = object()


class _Values(Serializer):  # type: ignore[misc]  # kafka-python has no types
    """Sends values as they are, and `NOTHING` as null: kafka-python refuses None where there is no key either."""

    def serialize(self, topic: str, headers: object, data: object) -> object:  # noqa: ARG002
        return None if data is NOTHING else data


class Commit(NamedTuple):
    """What one publish moves: records, and offsets under the group metadata of a duty."""

    records: Sequence[Addressed]
    offsets: Mapping[Partition, Committed]
    token: Any


def transact(producer: KafkaProducer, commit: Commit, seconds: float) -> None:
    """Publish records and offsets in one transaction."""
    producer.begin_transaction()
    deliver(producer, commit, seconds)
    # Everything is acknowledged before the commit: a record that expires meanwhile would not fail it.
    if commit.offsets:
        producer.send_offsets_to_transaction(offsets_of(commit.offsets), commit.token)
    producer.commit_transaction()


def deliver(producer: KafkaProducer, commit: Commit, seconds: float) -> None:
    """Send all records, and return when every one is acknowledged."""
    sent = [
        producer.send(r.topic, NOTHING if r.value is None else r.value, r.key, r.headers, r.partition)
        for r in commit.records
    ]
    require_delivered(producer, sent, seconds)


class Publisher:
    """Holds the producer in use. `changed` is called whenever `settled` may have become true."""

    def __init__(self, app: str, kafka: KafkaConfig, largest_bytes: int, changed: Callable[[], None]) -> None:
        self.exactly_once = kafka.delivery == "exactly_once"
        self._id = f"{app}-{kafka.instance}" if self.exactly_once else None
        self._timeout = kafka.transaction_timeout
        self._settings = _producer_settings(kafka, self._id, largest_bytes)
        self._changed = changed
        self._worker: Worker | None = None
        self._abandoned: list[Worker] = []

    def settle(self) -> None:
        """Have a producer that can be used; if there is none, make one, which decides the last transaction."""
        if self._worker is None:
            self._require_few_abandoned()
            prepare = KafkaProducer.init_transactions if self.exactly_once else None
            self._worker = Worker(lambda: KafkaProducer(**self._settings), prepare, self._changed)

    def settled(self) -> bool:
        worker = self._worker
        return worker is not None and worker.ready.is_set()

    def wait_settled(self, seconds: float) -> bool:
        """Whether `settled` becomes true within this time."""
        return self._worker is not None and self._worker.ready.wait(seconds)

    def raise_failure(self) -> None:
        if self._worker is not None and self._worker.failure is not None:
            raise self._worker.failure

    def publish(
        self, duty: Duty, records: Sequence[Addressed], offsets: Mapping[Partition, Committed], seconds: float
    ) -> None:
        """Publish within this time; raise what `Transport.publish` raises, after which `settle` is due."""
        worker = self._worker
        if worker is None or not worker.ready.is_set():
            raise PublishUnknown("the last transaction is not settled yet")
        token: Any = duty.token
        if self.exactly_once:
            assert token.generation_id >= 0, "a commit under generation -1 is accepted from anyone"
        commit = Commit(records, offsets if self.exactly_once else {}, token)
        act, begun = transact if self.exactly_once else deliver, time.monotonic()
        answer = worker.ask(lambda producer: act(producer, commit, seconds))
        try:
            answer.result(seconds)
        except (TimeoutError, CancelledError):
            self.abandon()
            raise PublishUnknown(f"the broker did not finish a transaction within {seconds:g} s") from None
        except Exception as exc:
            self.abandon()
            raise outcome(exc, self._id, time.monotonic() - begun, self._timeout) from exc

    def abandon(self) -> None:
        """Never use this producer again, nor abort its transaction."""
        if self._worker is not None:
            self._worker.abandon()
            self._abandoned.append(self._worker)
            self._worker = None

    def close(self, seconds: float) -> None:
        if self._worker is not None:
            self._worker.close(seconds)
            self._worker = None

    def _require_few_abandoned(self) -> None:
        self._abandoned = [worker for worker in self._abandoned if worker.alive()]
        if len(self._abandoned) > ABANDONED_ALIVE:
            raise WatchdogError(f"{len(self._abandoned)} abandoned producers still hang in calls to the broker")


class Worker:
    """One producer and the daemon thread in which all its calls are made."""

    def __init__(
        self,
        make: Callable[[], KafkaProducer],
        prepare: Callable[[KafkaProducer], None] | None,
        changed: Callable[[], None],
    ) -> None:
        self.ready = threading.Event()
        self.failure: StreamnbError | None = None
        self._make, self._prepare, self._changed = make, prepare, changed
        self._producer: KafkaProducer | None = None
        self._jobs: SimpleQueue[tuple[Callable[[KafkaProducer], None], Future[None]] | None] = SimpleQueue()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamnb-publish", daemon=True)
        self._thread.start()

    def ask(self, job: Callable[[KafkaProducer], None]) -> "Future[None]":
        answer: Future[None] = Future()
        self._jobs.put((job, answer))
        return answer

    def abandon(self) -> None:
        """Take the producer's sender away, so that nothing is sent any more; the thread may hang on."""
        self._leave()
        if self._producer is not None:
            _try_close(self._producer, 0)

    def close(self, seconds: float) -> None:
        self._leave()
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.abandon()

    def alive(self) -> bool:
        return self._thread.is_alive()

    def _leave(self) -> None:
        self.ready.clear()
        self._leaving.set()
        self._jobs.put(None)

    def _run(self) -> None:
        try:
            producer = self._prepared()
            if producer is None:
                return
            while self._work(producer):
                pass
            while not _try_close(producer, 1.0):
                pass  # batches in it expire within the delivery timeout
        except Exception as exc:
            log.exception("publisher.died")
            self.failure = WatchdogError(f"a thread that publishes died: {exc!r}")
        finally:
            self._changed()

    def _prepared(self) -> KafkaProducer | None:
        """A producer whose predecessor's transaction is decided, tried for as long as it takes."""
        while not self._leaving.is_set():
            try:
                self._producer = producer = self._make()
                if self._prepare is not None:
                    self._prepare(producer)
                self.ready.set()
                self._changed()
                return producer
            except KafkaError as exc:
                if any(word in str(exc) for word in REFUSED):
                    self.failure = ConfigError(f"kafka: the broker refuses our transactions: {exc}")
                    return None
                log.warning("publisher.retry", error=exc)
                if self._producer is not None:
                    _try_close(self._producer, 0)
                self._leaving.wait(BACK_OFF_SECONDS)
        return None

    def _work(self, producer: KafkaProducer) -> bool:
        """Do one job; False when no more are wanted."""
        asked = self._jobs.get()
        if asked is None or self._leaving.is_set():
            return False
        job, answer = asked
        try:
            job(producer)
            answer.set_result(None)
        except Exception as exc:
            answer.set_exception(exc)
        return True


def _try_close(producer: KafkaProducer, seconds: float) -> bool:
    try:
        producer.close(timeout=seconds)
    except KafkaError:  # records still wait for their acknowledgement
        return False
    return True


def _producer_settings(kafka: KafkaConfig, transactional_id: str | None, largest_bytes: int) -> dict[str, object]:
    timeout_ms = int(kafka.transaction_timeout * 1000)
    own: dict[str, object] = {
        "bootstrap_timeout_ms": FOREVER_MS,
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout_ms,
        "delivery_timeout_ms": timeout_ms,
        "request_timeout_ms": max(1000, timeout_ms // 2),
        "max_block_ms": int(INIT_SECONDS * 1000),
        "retry_backoff_ms": 5,  # 100 by default, which every second transaction of a busy instance would wait
        "linger_ms": 100,  # costs nothing: each publish ends in a flush
        "batch_size": min(1_000_000, largest_bytes),
        "max_request_size": required_size(largest_bytes),
        "allow_auto_create_topics": False,
        "value_serializer": _Values(),
    }
    return settings(kafka, "publisher") | own
