"""Record batches that kafka-python's producer refuses to write, as other clients do write them."""

from collections.abc import Sequence

from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.broker import Cluster

RawRecord = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]


class NotUtf8(str):
    """A header name that is sent as these bytes; its text has as many characters."""

    sent = b"\xff\xfe"

    def __new__(cls) -> "NotUtf8":
        return super().__new__(cls, "zz")

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:  # noqa: ARG002
        return self.sent


def batch_of(*records: RawRecord) -> bytes:
    """One record batch, outside any transaction."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for i, (key, value, headers) in enumerate(records):
        builder.append(i, None, key, value, list(headers))
    return bytes(builder.build())


def write(cluster: Cluster, topic: str, batch: bytes, partition: int = 0) -> None:
    """Append this batch to the log as it is."""
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=5000,
        topic_data=[data(name=topic, partition_data=[part])],
        max_version=9,
    )
    manager = cluster.admin._manager  # no public way leads past the client's own checks
    (answer,) = manager.run(manager.send, request).responses
    assert answer.partition_responses[0].error_code == 0, answer
