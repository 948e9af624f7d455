"""kafka-python as the client that carries the data."""

from streamnb.transport.kafka import KafkaTransport, topics
from streamnb.transport.kafka.client import Client
from streamnb.transport.kafka.router import by_murmur2
from streamnb.transport.kafka_python.member import Member
from streamnb.transport.kafka_python.publisher import producers
from streamnb.transport.kafka_python.reader import Reader

__all__ = ["CLIENT", "KafkaTransport"]

CLIENT = Client(Reader, Member, producers, by_murmur2, topics.kafka_python_reads)
