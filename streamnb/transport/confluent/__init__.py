"""confluent-kafka (librdkafka) as the client that carries the data, which publishes in a fraction of the time."""

from collections.abc import Sequence

from streamnb.transport.confluent.member import Member
from streamnb.transport.confluent.publisher import producers
from streamnb.transport.confluent.reader import Reader
from streamnb.transport.kafka.client import Client
from streamnb.transport.kafka.router import ANY

__all__ = ["CLIENT"]


def reads(compression: str) -> bool:  # noqa: ARG001  # librdkafka brings every codec
    return True


def place(key: bytes, partitions: Sequence[int]) -> int:  # noqa: ARG001  # murmur2 in C costs a hundredth
    return ANY


CLIENT = Client(Reader, Member, producers, place, reads)
