"""What a failed publish is taken for: pure, so every wording can be tried."""

import pytest
from kafka import errors

from streamnb.errors import DutyLost, Fenced, IoError, OutputTooLarge, PublishUnknown
from streamnb.transport.kafka.client import Failure, Kind
from streamnb.transport.kafka.outcomes import outcome
from streamnb.transport.kafka_python.failures import Undelivered, failure

TIMEOUT = 15.0

REPLACED = [
    errors.ProducerFencedError(),
    errors.InvalidProducerEpochError(),
    errors.KafkaError("Cannot perform send because ...", errors.ProducerFencedError()),
    errors.KafkaError(f"we are in an error state: {errors.ProducerFencedError()}"),
    Undelivered(0, errors.InvalidProducerEpochError()),
]
REGROUPED = [
    errors.CommitFailedError("consumer group metadata mismatch: IllegalGenerationError"),
    errors.CommitFailedError("consumer group metadata mismatch: UnknownMemberIdError"),
    errors.FencedInstanceIdError(),
    errors.RebalanceInProgressError(),
    errors.KafkaError(f"Unexpected error in TxnOffsetCommitResponse: {errors.RebalanceInProgressError()}"),
]
PASSING = [
    errors.KafkaTimeoutError(),
    errors.KafkaConnectionError(),
    errors.IllegalStateError("Cannot call send in state READY"),
    errors.KafkaError("Invalid transition attempted from state BUMPING_PRODUCER_EPOCH"),
    errors.OutOfOrderSequenceNumberError(),
    Undelivered(3, errors.NotEnoughReplicasError()),
    ValueError("Unrecognized partition 7"),
]
TOO_LARGE = [
    Undelivered(4, errors.MessageSizeTooLargeError()),
    Undelivered(4, errors.RecordListTooLargeError()),
]
REFUSED = [
    Undelivered(0, errors.InvalidRecordError()),
    Undelivered(0, errors.TopicAuthorizationFailedError({"t"})),
]


# Whatever the client


def kind(name: Kind, age: float = 1.0) -> type[Exception]:
    return type(outcome(Failure(name, "why"), "app-a", age, TIMEOUT))


def test_an_epoch_error_is_another_process_only_while_the_transaction_was_young() -> None:
    assert kind("replaced", age=TIMEOUT - 1) is Fenced
    assert kind("replaced", age=TIMEOUT) is PublishUnknown


def test_a_group_that_has_moved_on_is_never_a_reason_to_stop() -> None:
    assert kind("regrouped") is DutyLost


def test_whatever_may_pass_is_asked_about() -> None:
    assert kind("passing") is PublishUnknown


def test_what_the_broker_will_never_take_stops_the_daemon() -> None:
    assert kind("refused") is IoError


def test_a_record_that_is_too_large_is_named() -> None:
    found = outcome(Failure("too_large", "why", 4), "app-a", 1.0, TIMEOUT)
    assert isinstance(found, OutputTooLarge)
    assert found.index == 4


# On kafka-python; confluent-kafka's errors have codes, see tests/test_transport_confluent.py


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((error, "replaced") for error in REPLACED),
        *((error, "regrouped") for error in REGROUPED),
        *((error, "passing") for error in PASSING),
        *((error, "too_large") for error in TOO_LARGE),
        *((error, "refused") for error in REFUSED),
    ],
    ids=repr,
)
def test_errors_of_kafka_python_are_told_apart_by_their_words(error: Exception, kind: Kind) -> None:
    found = failure(error)
    assert (found.kind, found.index) == (kind, 4 if kind == "too_large" else 0)
