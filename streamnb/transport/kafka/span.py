"""A span of the log, read once from its begin to its end: in no group, committed records only."""

import time
from collections.abc import Iterator, Mapping

from streamnb.config import KafkaConfig
from streamnb.errors import BrokerUnreachable
from streamnb.transport import Partition, Record
from streamnb.transport.kafka.client import Client
from streamnb.transport.kafka.clients import quiet

POLL_SECONDS = 0.5
POLL_RECORDS = 2000


def records_between(
    client: Client,
    kafka: KafkaConfig,
    event_bytes: int,
    begin: Mapping[Partition, int],
    end: Mapping[Partition, int],
) -> Iterator[Record]:
    """The records of each partition from its begin to before its end, each partition's in order.

    Raise LostEvents if the first of them are gone, BrokerUnreachable if nothing more comes.
    """
    quiet()
    positions = {partition: begin.get(partition, 0) for partition in end if begin.get(partition, 0) < end[partition]}
    if not positions:
        return
    reader = client.reader("verify", kafka, event_bytes, dict)
    reader.start()
    try:
        reader.read(positions)
        deadline = time.monotonic() + kafka.start_timeout
        while any(positions[partition] < end[partition] for partition in positions):
            batch = reader.poll(POLL_SECONDS, POLL_RECORDS)
            if batch.runs or batch.positions:
                deadline = time.monotonic() + kafka.start_timeout
            elif time.monotonic() > deadline:
                left = ", ".join(f"{p} at {at} of {end[p]}" for p, at in positions.items() if at < end[p])
                raise BrokerUnreachable(f"kafka: no records within {kafka.start_timeout:g} s: {left}")
            positions.update(batch.positions)
            yield from (record for record in batch.records if record.offset < end[record.partition])
    finally:
        reader.close(1.0)
