"""What librdkafka's errors mean."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from streamnb.transport.kafka.client import Failure, Kind

TOO_LARGE = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
NOT_ALLOWED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
REFUSED = NOT_ALLOWED | {
    KafkaError.INVALID_RECORD,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
}
REGROUPED = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.FENCED_INSTANCE_ID,
}
# A transaction that timed out at the broker, and a second process with our id, are both `_FENCED`, and fatal.
REPLACED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
PUBLISHING: dict[Kind, set[int]] = {
    "too_large": TOO_LARGE,
    "refused": REFUSED,
    "regrouped": REGROUPED,
    "replaced": REPLACED,
}
PASSING: Kind = "passing"
# Being fenced is the one fatal thing that can happen to a consumer, and only to a static member.
FENCED = {KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL}
NO_MEMBER = NOT_ALLOWED | {
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError.GROUP_MAX_SIZE_REACHED,
    KafkaError.INVALID_GROUP_ID,
}


def error_of(exc: BaseException) -> KafkaError | None:
    """The client's own error in an exception."""
    found = next((part for part in (*exc.args, exc.__cause__) if isinstance(part, KafkaError)), None)
    return found if found is not None or exc.__cause__ is None else error_of(exc.__cause__)


def publishing(error: KafkaError | None, said: object, index: int = 0) -> Failure:
    """What ended a publish."""
    code = error.code() if error is not None else None
    kind = next((kind for kind, codes in PUBLISHING.items() if code in codes), PASSING)
    return Failure(kind, _words(error, said), index)


def grouping(error: KafkaError | None, said: object) -> Failure:
    """What the group did not do for a member."""
    code = error.code() if error is not None else None
    kind: Kind = "replaced" if code in FENCED else "refused" if code in NO_MEMBER else "passing"
    return Failure(kind, _words(error, said))


@contextmanager
def grouping_errors() -> Iterator[None]:
    """Raise what the client raises for a member as Failure."""
    try:
        yield
    except KafkaException as exc:
        raise grouping(error_of(exc), exc) from exc


def _words(error: KafkaError | None, said: object) -> str:
    return f"{error.name()}: {error.str()}" if error is not None else repr(said)
