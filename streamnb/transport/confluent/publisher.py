"""A producer on confluent-kafka: every call has a deadline, every delivery is confirmed before the commit."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as RdProducer

from streamnb import logs
from streamnb.config import KafkaConfig
from streamnb.transport.confluent.clients import made, settings
from streamnb.transport.confluent.failures import REFUSED, TOO_LARGE, error_of, publishing
from streamnb.transport.confluent.member import generation, positions_of
from streamnb.transport.kafka.client import Commit, Failure
from streamnb.transport.kafka.outcomes import required_size
from streamnb.transport.kafka.router import Addressed, size_of

log = logs.get("transport.kafka")

INIT_SECONDS = 15.0
SLICE_SECONDS = 0.5
FLUSH_SECONDS = 0.1
FULL_SECONDS = 0.05
AGAIN_SECONDS = 0.01
BUFFER_KIB = 131_072
MOST_BYTES = 1_000_000_000


class Undelivered(Exception):
    """Records that were not acknowledged: the place of each among those sent, and why."""

    def __init__(self, failed: Sequence[tuple[int, KafkaError]]) -> None:
        super().__init__(failed)
        telling = [f for f in failed if f[1].code() in TOO_LARGE | REFUSED]
        self.failed = telling or failed

    @property
    def error(self) -> KafkaError:
        return self.failed[0][1]


class Batches:
    """How large a batch may be: librdkafka does not split one that its topic no longer takes, and fails all of it."""

    def __init__(self, largest_bytes: int) -> None:
        self.bytes = max(1, min(1_000_000, largest_bytes))  # no bytes at all where there are no sinks

    def refused(self, records: Sequence[Addressed], undelivered: Undelivered) -> Failure:
        """Name the one record that is too large, or have batches made smaller until there is only one in each."""
        sizes = {index: size_of(*records[index][2:]) for index, _ in undelivered.failed}
        largest = max(sizes, key=lambda index: sizes[index])
        if sizes[largest] >= self.bytes:
            return publishing(undelivered.error, undelivered.error, largest)
        found, self.bytes = self.bytes, max(1, self.bytes // 4)
        return Failure("passing", f"the broker refuses batches of up to {found} bytes; trying {self.bytes}")


class Sending:
    """The records of one publish: begins a transaction, if there is one, and queues what there is room for.

    What goes wrong is raised by `finish`. Hears of each record that was not delivered: the client is set to tell of no
    others.
    """

    def __init__(self, producer: RdProducer, records: Sequence[Addressed], transactional: bool) -> None:
        self.records = records
        self._producer = producer
        self._failed: list[tuple[KafkaError, Message]] = []
        self._queued = 0
        self._failure: Exception | None = None
        try:
            if transactional:
                producer.begin_transaction()
            self._queue()
        except Exception as exc:
            self._failure = exc

    def finish(self, deadline: float) -> None:
        """Send all records, and return when every one is acknowledged.

        A record counts in the queue's length until `told` was called for it or need not be: once the queue is empty,
        nothing can be told any more, and what did not fail was acknowledged.
        """
        producer, seconds = self._producer, deadline - time.monotonic()
        try:
            if self._failure is not None:
                raise self._failure
            while not self._queue():
                self._make_room(deadline)
            # Once one has failed, the transaction has, and librdkafka keeps all others for an abort that never comes.
            while len(producer) and not self._failed and (left := deadline - time.monotonic()) > 0:
                producer.flush(min(left, FLUSH_SECONDS))
        except (KafkaException, SystemError):
            producer.poll(0)
            self._require_none_failed()  # they know better why nothing more can be sent
            raise
        self._require_none_failed()
        if waiting := len(producer):
            n = len(self.records)
            raise Failure("passing", f"{n - waiting} of {n} records were acknowledged within {seconds:g} s")

    def _queue(self) -> bool:
        """Whether all records are queued now, or there is no room."""
        produce, told = cast(Any, self._producer).produce, self._told  # its types do not know our headers for theirs
        for topic, partition, key, value, headers in self.records[self._queued :]:
            try:
                produce(topic, value, key, partition, told, None, 0, headers)  # naming one would take a third longer
            except BufferError:
                return False
            self._queued += 1
        return True

    def _make_room(self, deadline: float) -> None:
        """Wait until the queue, which is full, is half empty: nobody else puts anything in it."""
        full = len(self._producer)
        while len(self._producer) > full // 2 and not self._failed:
            if time.monotonic() > deadline:
                raise Failure("passing", f"{full} records wait to be sent, and there is no room for more")
            self._producer.poll(FULL_SECONDS)

    def _told(self, error: KafkaError, message: Message) -> None:
        self._failed.append((error, message))

    def _require_none_failed(self) -> None:
        if self._failed:
            raise Undelivered([(_index(self.records, message), error) for error, message in self._failed])


def _index(records: Sequence[Addressed], message: Message) -> int:
    """The first record that is this one; librdkafka hands back no mark of ours."""
    sent = message.topic(), message.key(), message.value()
    found = ((topic, key, value) for topic, _, key, value, _ in records)
    return next((i for i, record in enumerate(found) if record == sent), 0)


class Producer:
    """See `streamnb.transport.kafka.client.Producer`."""

    def __init__(self, producer: RdProducer, transactional: bool, batches: Batches) -> None:
        self._producer: RdProducer | None = producer
        self._transactional, self._batches = transactional, batches
        self._sending: Sending | None = None

    def prepare(self) -> None:
        if not self._transactional:
            return
        deadline = time.monotonic() + INIT_SECONDS
        while True:  # in slices, so that closing is heard
            try:
                self._open().init_transactions(SLICE_SECONDS)
                return
            except KafkaException as exc:
                error = error_of(exc)
                if error is None or not error.retriable() or time.monotonic() > deadline:
                    raise publishing(error, exc) from exc

    def begin(self, records: Sequence[Addressed]) -> None:
        if self._producer is not None:
            self._sending = Sending(self._producer, records, self._transactional)

    def transact(self, commit: Commit, seconds: float) -> None:
        assert generation(commit.token) >= 0, "a commit under generation -1 is accepted from anyone"
        producer, deadline = self._open(), time.monotonic() + seconds
        with self._translated(commit.records, producer):
            self._begun(producer, commit.records).finish(deadline)
            if commit.offsets:
                positions = positions_of(commit.offsets)
                _insist(lambda left: producer.send_offsets_to_transaction(positions, commit.token, left), deadline)
            _insist(producer.commit_transaction, deadline)

    def deliver(self, records: Sequence[Addressed], seconds: float) -> None:
        producer = self._open()
        with self._translated(records, producer):
            self._begun(producer, records).finish(time.monotonic() + seconds)

    def close(self, seconds: float) -> bool:  # noqa: ARG002  # there is nothing to wait for
        """Drop what is queued. Not the client's own `close`, which aborts, after we no longer know what to abort.

        The last thread to use the producer ends it.
        """
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge(in_queue=True, in_flight=True, blocking=False)
        return True

    def _begun(self, producer: RdProducer, records: Sequence[Addressed]) -> Sending:
        sending, self._sending = self._sending, None
        if sending is None or sending.records is not records:
            return Sending(producer, records, self._transactional)
        return sending

    def _open(self) -> RdProducer:
        if self._producer is None:
            raise Failure("passing", "the producer was given up")
        return self._producer

    @contextmanager
    def _translated(self, records: Sequence[Addressed], producer: RdProducer) -> Iterator[None]:
        try:
            yield
        except Failure:
            raise
        except Undelivered as exc:
            if exc.error.code() in TOO_LARGE:
                raise self._batches.refused(records, exc) from exc
            error = exc.error if exc.error.code() in REFUSED else self._state(producer) or exc.error
            raise publishing(error, exc) from exc
        except Exception as exc:  # SystemError too: what a callback makes of a fatal error
            raise publishing(self._state(producer) or error_of(exc), exc) from exc

    def _state(self, producer: RdProducer) -> KafkaError | None:
        """What is wrong with the transaction, which librdkafka says when asked to begin another; None if nothing is.

        A record that was purged, or a call that failed because an earlier one did, does not say so itself.
        """
        if not self._transactional:
            return None
        try:
            producer.begin_transaction()
        except KafkaException as exc:
            error = error_of(exc)
            return error if error is not None and error.code() != KafkaError._STATE else None
        return None


def _insist(call: Callable[[float], Any], deadline: float) -> None:
    """Make this call, again when the client says that it may be made again, until the deadline."""
    while True:
        try:
            call(max(0.001, deadline - time.monotonic()))
            return
        except KafkaException as exc:
            error = error_of(exc)
            if error is None or not error.retriable() or time.monotonic() > deadline:
                raise
            log.debug("publisher.again", error=error)
            time.sleep(AGAIN_SECONDS)


def producers(kafka: KafkaConfig, transactional_id: str | None, largest_bytes: int) -> Callable[[], Producer]:
    """See `streamnb.transport.kafka.client.Client`."""
    batches = Batches(largest_bytes)
    shared = _producer_settings(kafka, transactional_id, largest_bytes)

    def make() -> Producer:
        producer = made(RdProducer, shared | {"batch.size": batches.bytes})
        return Producer(producer, transactional_id is not None, batches)

    return make


def _producer_settings(kafka: KafkaConfig, transactional_id: str | None, largest_bytes: int) -> dict[str, Any]:
    timeout_ms = max(1000, int(kafka.transaction_timeout * 1000))  # librdkafka's own least
    own: dict[str, Any] = {
        "enable.idempotence": True,
        "delivery.report.only.error": True,
        "delivery.timeout.ms": timeout_ms,
        "request.timeout.ms": min(900_000, max(1000, timeout_ms // 2)),
        "retry.backoff.ms": 2,  # 100 by default, which every second transaction of a busy instance would wait
        "retry.backoff.max.ms": 100,
        "partitioner": "murmur2_random",  # CRC32 by default, which nobody else uses
        "linger.ms": 100,  # costs nothing: each publish ends in a flush
        "message.max.bytes": min(MOST_BYTES, max(1000, required_size(largest_bytes))),
        "queue.buffering.max.kbytes": BUFFER_KIB + largest_bytes // 1024,
    }
    if transactional_id is not None:
        own |= {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms}
    return settings(kafka, "publisher") | own
