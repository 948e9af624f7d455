"""What a failed publish means: who owns the offsets, whether anybody knows, whether trying again can help."""

import time
from collections.abc import Sequence
from contextlib import suppress

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.errors import KafkaError
from kafka.producer.future import FutureRecordMetadata

from streamnb.errors import DutyLost, Fenced, IoError, OutputTooLarge, PublishUnknown, StreamnbError

REGROUPED = (
    "IllegalGeneration",
    "UnknownMemberId",
    "RebalanceInProgress",
    "FencedInstanceId",
    "CommitFailed",
)
REPLACED = ("ProducerFenced", "InvalidProducerEpoch")
TOO_LARGE = (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError)
HOPELESS = (
    kafka_errors.AuthorizationError,
    kafka_errors.InvalidRecordError,
    kafka_errors.InvalidTimestampError,
    kafka_errors.InvalidTopicError,
    kafka_errors.PolicyViolationError,
    kafka_errors.UnsupportedForMessageFormatError,
)
FRAME_BYTES = 1024


class Undelivered(Exception):
    """One record was not acknowledged."""

    def __init__(self, index: int, cause: BaseException) -> None:
        super().__init__(index, cause)
        self.index, self.cause = index, cause


def required_size(largest_bytes: int) -> int:
    """The request that carries a record of this size, with its frame."""
    return largest_bytes + FRAME_BYTES


def require_delivered(producer: KafkaProducer, sent: Sequence[FutureRecordMetadata], seconds: float) -> None:
    """Wait until all is acknowledged; raise Undelivered for the record that tells most about what was not."""
    deadline = time.monotonic() + seconds
    with suppress(KafkaError):  # it also fails when a batch was only split: the records themselves know better
        producer.flush(timeout=seconds)
    failed = []
    for index, future in enumerate(sent):
        if not future.succeeded():
            try:
                future.get(timeout=max(0.0, deadline - time.monotonic()))
            except KafkaError as exc:
                failed.append((index, exc))
    if failed:
        telling = [f for f in failed if isinstance(f[1], TOO_LARGE + HOPELESS)]
        raise Undelivered(*(telling or failed)[0])


def outcome(exc: Exception, transactional_id: str | None, age: float, timeout: float) -> StreamnbError:
    """Translate what ended a publish of this age, seconds, whose transaction may last `timeout`.

    kafka-python wraps one error in another's text, so the words decide. A transaction that timed out at the
    broker and a second process with our id look the same: only the age tells them apart.
    """
    cause = exc.cause if isinstance(exc, Undelivered) else exc
    words = f"{cause!r} {cause}"
    if isinstance(cause, TOO_LARGE):
        index = exc.index if isinstance(exc, Undelivered) else 0
        return OutputTooLarge(f"the broker refuses output {index} as too large: {cause}", index)
    if isinstance(cause, HOPELESS):
        return IoError(f"kafka refuses what is published: {cause}")
    if any(word in words for word in REGROUPED):
        return DutyLost(f"the group has moved on: {cause}")
    if any(word in words for word in REPLACED) and age < timeout:
        who = f"another process uses transactional.id {transactional_id}"
        return Fenced(f"kafka: {who}; give each process its own kafka.instance")
    return PublishUnknown(f"nobody knows whether this transaction was committed: {cause}")
