"""What a failed publish is taken for: pure, so every wording can be tried."""

import pytest
from kafka import errors

from streamnb.errors import DutyLost, Fenced, IoError, OutputTooLarge, PublishUnknown
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


def kind(error: Exception, age: float = 1.0) -> type[Exception]:
    return type(outcome(failure(error), "app-a", age, TIMEOUT))


@pytest.mark.parametrize("error", REPLACED, ids=repr)
def test_an_epoch_error_is_another_process_only_while_the_transaction_was_young(error: Exception) -> None:
    assert kind(error, age=TIMEOUT - 1) is Fenced
    assert kind(error, age=TIMEOUT) is PublishUnknown


@pytest.mark.parametrize("error", REGROUPED, ids=repr)
def test_a_group_that_has_moved_on_is_never_a_reason_to_stop(error: Exception) -> None:
    assert kind(error) is DutyLost


@pytest.mark.parametrize("error", PASSING, ids=repr)
def test_whatever_may_pass_is_asked_about(error: Exception) -> None:
    assert kind(error) is PublishUnknown


@pytest.mark.parametrize("error", [errors.MessageSizeTooLargeError(), errors.RecordListTooLargeError()], ids=repr)
def test_a_record_that_is_too_large_is_named(error: Exception) -> None:
    found = outcome(failure(Undelivered(4, error)), "app-a", 1.0, TIMEOUT)
    assert isinstance(found, OutputTooLarge)
    assert found.index == 4


@pytest.mark.parametrize("error", [errors.InvalidRecordError(), errors.TopicAuthorizationFailedError({"t"})], ids=repr)
def test_what_the_broker_will_never_take_stops_the_daemon(error: Exception) -> None:
    assert kind(Undelivered(0, error)) is IoError
