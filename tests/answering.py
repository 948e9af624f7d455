"""One instance as a process of its own: takes duty, then publishes one answer for each line it is given.

Its arguments are the client, the bootstrap server, the app, the input topic and the output topic. It writes one line
when it is on duty, and one for each answer: "published", or the name of the error.
"""

import sys
import time

from streamnb.cli.wiring import client_of
from streamnb.config import InputConfig, KafkaConfig, OutputConfig
from streamnb.errors import StreamnbError
from streamnb.transport import Committed, Output, Partition
from streamnb.transport.kafka import KafkaTransport


def main(client: str, bootstrap: str, app: str, labelled: str, predictions: str) -> None:
    kafka = KafkaConfig(bootstrap_servers=bootstrap, instance="child", session_timeout=2, transaction_timeout=5)
    outputs = OutputConfig(predictions=predictions)
    transport = KafkaTransport(app, kafka, InputConfig(labelled=[labelled]), outputs, client_of(client))
    transport.open()
    transport.join()
    while (duty := transport.duty()) is None:
        time.sleep(0.02)
    print("on duty", flush=True)
    for line in sys.stdin.buffer:
        try:
            answer = Output("predictions", None, line.strip())
            transport.publish(duty, [answer], {Partition(labelled, 0): Committed(1)})
            print("published", flush=True)
        except StreamnbError as error:
            print(type(error).__name__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
