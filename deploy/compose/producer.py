"""Sends text messages for ever: three of four with their label to one topic, the fourth without it to the other."""

import argparse
import gzip
import itertools
import json
import signal
import sys
import time
from collections.abc import Iterator
from importlib import resources

from kafka import KafkaProducer

ASK_EVERY = 4


def messages() -> list[dict[str, object]]:
    packed = resources.files("streamnb.cli").joinpath("data/sms_spam.jsonl.gz").read_bytes()
    return [json.loads(line) for line in gzip.decompress(packed).splitlines()]


def events(collection: list[dict[str, object]]) -> Iterator[tuple[bool, str, bytes]]:
    """Whether it is labelled, its key, its bytes; round and round, each with an id of its own."""
    for number, message in enumerate(itertools.cycle(collection)):
        labelled = number % ASK_EVERY != ASK_EVERY - 1
        event = {"id": number, "features": message["features"], "timestamp": time.time()}
        if labelled:
            event["label"] = message["label"]
        yield labelled, str(message["id"]), json.dumps(event).encode()


def send(bootstrap: str, labelled: str, unlabelled: str, rate: float, count: int | None) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20)
    begun = time.monotonic()
    for sent, (has_label, key, value) in enumerate(itertools.islice(events(messages()), count)):
        time.sleep(max(0.0, begun + sent / rate - time.monotonic()))
        producer.send(labelled if has_label else unlabelled, key=key.encode(), value=value)
    producer.flush()
    producer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--labelled", default="messages.labelled")
    parser.add_argument("--unlabelled", default="messages")
    parser.add_argument("--rate", type=float, default=50.0, help="messages a second")
    parser.add_argument("--count", type=int, help="stop after this many")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    send(options.bootstrap, options.labelled, options.unlabelled, options.rate, options.count)


if __name__ == "__main__":
    main()
