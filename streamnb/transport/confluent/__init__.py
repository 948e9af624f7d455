"""confluent-kafka (librdkafka) as the client that carries the data, about ten times as fast as kafka-python."""

from streamnb.transport.confluent.member import Member
from streamnb.transport.confluent.publisher import producers
from streamnb.transport.confluent.reader import Reader
from streamnb.transport.kafka.client import Client

__all__ = ["CLIENT"]


def reads(compression: str) -> bool:  # noqa: ARG001  # librdkafka brings every codec
    return True


CLIENT = Client(Reader, Member, producers, reads)
