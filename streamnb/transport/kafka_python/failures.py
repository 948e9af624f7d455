"""What kafka-python's errors mean. It wraps one error in another's text, so the words decide."""

import time
from collections.abc import Sequence
from contextlib import suppress

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.errors import KafkaError
from kafka.producer.future import FutureRecordMetadata

from streamnb.transport.kafka.client import Failure

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


class Undelivered(Exception):
    """One record was not acknowledged."""

    def __init__(self, index: int, cause: BaseException) -> None:
        super().__init__(index, cause)
        self.index, self.cause = index, cause


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


def failure(exc: Exception) -> Failure:
    """Translate what ended a publish."""
    cause = exc.cause if isinstance(exc, Undelivered) else exc
    index = exc.index if isinstance(exc, Undelivered) else 0
    words = f"{cause!r} {cause}"
    if isinstance(cause, TOO_LARGE):
        return Failure("too_large", cause, index)
    if isinstance(cause, HOPELESS):
        return Failure("refused", cause)
    if any(word in words for word in REGROUPED):
        return Failure("regrouped", cause)
    return Failure("replaced" if any(word in words for word in REPLACED) else "passing", cause)
