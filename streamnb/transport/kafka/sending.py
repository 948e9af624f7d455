"""Sends events to topics, for those who have them in a file: idempotent, acknowledged by all replicas."""

from types import TracebackType
from typing import Any, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError

from streamnb.config import KafkaConfig
from streamnb.errors import BrokerUnreachable, ConfigError, IoError
from streamnb.transport.kafka.clients import connected, quiet, settings

LINGER_MS = 20
OUTSTANDING = 5000
CLOSE_SECONDS = 30.0


class EventSender:
    """Sends what it is given; leaving it waits until everything is acknowledged, or raises IoError."""

    def __init__(self, kafka: KafkaConfig) -> None:
        quiet()
        made = settings(kafka, "producer") | {
            "acks": "all",
            "enable_idempotence": True,
            "linger_ms": LINGER_MS,
            "allow_auto_create_topics": False,
            "max_block_ms": int(kafka.start_timeout * 1000),
        }
        self._producer: Any = connected(lambda: KafkaProducer(**made), kafka.bootstrap_servers, kafka.start_timeout)
        self._servers = kafka.bootstrap_servers
        self._waiting: list[Any] = []

    def check(self, topic: str) -> None:
        """Raise ConfigError if there is no such topic."""
        try:
            found = self._producer.partitions_for(topic)
        except (KafkaError, ValueError) as error:  # a ValueError: of a name that no topic can have
            raise ConfigError(f"{topic}: no such topic at {self._servers}, or it cannot be written: {error}") from error
        if not found:
            raise ConfigError(f"{topic}: no such topic at {self._servers}; make it with 'streamnb topics create'")

    def send(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Hand one record over; waits for earlier ones when too many are under way."""
        try:
            self._waiting.append(self._producer.send(topic, key=key, value=value))
        except KafkaError as error:
            raise IoError(f"{topic}: an event was not sent: {error}") from error
        if len(self._waiting) >= OUTSTANDING:
            self.flush()

    def flush(self) -> None:
        """Wait until all is acknowledged. Raise BrokerUnreachable or IoError for what is not."""
        try:
            self._producer.flush(timeout=CLOSE_SECONDS)
            for future in self._waiting:
                future.get(timeout=CLOSE_SECONDS)
        except KafkaError as error:
            unreachable = getattr(error, "retriable", False)
            kind = BrokerUnreachable if unreachable else IoError
            raise kind(f"kafka: {self._servers}: not all events were acknowledged: {error}") from error
        self._waiting.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self._producer.close(timeout=1)
