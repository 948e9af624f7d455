"""The Kafka transport, but for the client that carries the data: exactly once from a group's offsets to the answers.

`client` says what is needed of one; `transport` joins its parts to a duty thread, a publisher and a watch.
"""

from streamnb.transport.kafka.client import Client, Failure
from streamnb.transport.kafka.transport import KafkaTransport, check

__all__ = ["Client", "Failure", "KafkaTransport", "check"]
