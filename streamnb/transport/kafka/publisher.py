"""Publishes answers: producers that live in threads of their own, each call under a deadline.

A client's transactional calls may never return once a coordinator has died, and neither closing nor aborting
frees them. So a producer that failed or overran its deadline is abandoned. A new one with the same transactional
id decides, in `init_transactions`, what became of the transaction; only then is the group asked what was committed.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.errors import ConfigError, PublishUnknown, StreamnbError, WatchdogError
from streamnb.transport import Committed, Duty, Partition
from streamnb.transport.kafka.client import Client, Commit, Failure, Producer
from streamnb.transport.kafka.outcomes import outcome
from streamnb.transport.kafka.router import Addressed

log = logs.get("transport.kafka")

ABANDONED_ALIVE = 8
BACK_OFF_SECONDS = 0.5


class Publisher:
    """Holds the producer in use. `changed` is called whenever `settled` may have become true."""

    def __init__(
        self, client: Client, app: str, kafka: KafkaConfig, largest_bytes: int, changed: Callable[[], None]
    ) -> None:
        self.exactly_once = kafka.delivery == "exactly_once"
        self._id = f"{app}-{kafka.instance}" if self.exactly_once else None
        self._timeout = kafka.transaction_timeout
        self._make = client.producers(kafka, self._id, largest_bytes)
        self._changed = changed
        self._worker: Worker | None = None
        self._abandoned: list[Worker] = []

    def settle(self) -> None:
        """Have a producer that can be used; if there is none, make one, which decides the last transaction."""
        if self._worker is None:
            self._require_few_abandoned()
            self._worker = Worker(self._make, self._changed)

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
        commit, begun = Commit(records, offsets, duty.token), time.monotonic()
        worker.begin(records)
        if self.exactly_once:
            answer = worker.ask(lambda producer: producer.transact(commit, seconds))
        else:
            answer = worker.ask(lambda producer: producer.deliver(records, seconds))
        try:
            answer.result(seconds)
        except (TimeoutError, CancelledError):
            self.abandon()
            raise PublishUnknown(f"the broker did not finish a transaction within {seconds:g} s") from None
        except Failure as exc:
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

    def __init__(self, make: Callable[[], Producer], changed: Callable[[], None]) -> None:
        self.ready = threading.Event()
        self.failure: StreamnbError | None = None
        self._make, self._changed = make, changed
        self._producer: Producer | None = None
        self._jobs: SimpleQueue[tuple[Callable[[Producer], None], Future[None]] | None] = SimpleQueue()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamnb-publish", daemon=True)
        self._thread.start()

    def begin(self, records: Sequence[Addressed]) -> None:
        """See `Producer.begin`; for a worker that is ready."""
        if self._producer is not None:
            self._producer.begin(records)

    def ask(self, job: Callable[[Producer], None]) -> "Future[None]":
        answer: Future[None] = Future()
        self._jobs.put((job, answer))
        return answer

    def abandon(self) -> None:
        """Take the producer's sender away, so that nothing is sent any more; the thread may hang on."""
        self._leave()
        if self._producer is not None:
            self._producer.close(0)

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
            while not producer.close(1.0):
                pass  # batches in it expire within the delivery timeout
        except ConfigError as exc:
            self.failure = exc
        except Exception as exc:
            log.exception("publisher.died")
            self.failure = WatchdogError(f"a thread that publishes died: {exc!r}")
        finally:
            self._changed()

    def _prepared(self) -> Producer | None:
        """A producer whose predecessor's transaction is decided, tried for as long as it takes."""
        while not self._leaving.is_set():
            try:
                self._producer = producer = self._make()
                producer.prepare()
                self.ready.set()
                self._changed()
                return producer
            except Failure as exc:
                if exc.kind == "refused":
                    self.failure = ConfigError(f"kafka: the broker refuses our transactions: {exc}")
                    return None
                log.warning("publisher.retry", error=exc)
                if self._producer is not None:
                    self._producer.close(0)
                self._leaving.wait(BACK_OFF_SECONDS)
        return None

    def _work(self, producer: Producer) -> bool:
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
