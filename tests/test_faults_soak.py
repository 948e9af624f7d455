"""Minutes of steady work (STREAMNB_SOAK_MINUTES, 10): memory and latency stay where they were."""

import json
import os
import random
import statistics
import threading
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.daemon import Daemon
from tests.lives import SLOW
from tests.oracle import Workload

MINUTES = float(os.environ.get("STREAMNB_SOAK_MINUTES", "10"))
EVENTS_A_SECOND = 200
MODEL = {"kind": "mixed", "features": {"x": "gaussian", "colour": "categorical", "text": "text"}}


@pytest.mark.soak
@pytest.mark.timeout(60 * MINUTES + 600)
def test_memory_and_latency_stay_flat(workload: Workload, fleet):
    daemon = fleet.daemon(workload, model=MODEL, snapshots={"every": "10s"}).start().ready(SLOW)
    stop = threading.Event()
    producing = threading.Thread(target=produce, args=(workload, stop))
    producing.start()
    try:
        megabytes, milliseconds = measured(workload, daemon)
    finally:
        stop.set()
        producing.join()
    assert daemon.stop() == 0, daemon.tail()
    early, late = thirds(megabytes)
    quick, slow = thirds(milliseconds)
    print(
        f"{MINUTES:g} minutes at {EVENTS_A_SECOND} events a second: {len(milliseconds)} answers; resident memory "
        f"{early:.0f} MB early, {late:.0f} MB late; median latency {quick:.0f} ms early, {slow:.0f} ms late"
    )
    assert late < 1.05 * early + 5
    assert slow < 2 * quick + 20


def produce(workload: Workload, stop: threading.Event) -> None:
    pick = random.Random(1)
    words = [f"w{n}" for n in range(2000)]
    with KafkaProducer(bootstrap_servers=workload.cluster.bootstrap, linger_ms=5) as producer:
        while not stop.wait(0.1):
            for _ in range(EVENTS_A_SECOND // 10):
                features = {
                    "x": pick.gauss(0, 1),
                    "colour": pick.choice("rgb"),
                    "text": " ".join(pick.sample(words, 8)),
                }
                event = {"id": time.time(), "features": features}
                if pick.random() < 0.5:
                    producer.send(workload.unlabelled, json.dumps(event).encode(), partition=pick.randrange(2))
                else:
                    labelled = {**event, "label": pick.choice(["a", "b"])}
                    producer.send(workload.labelled, json.dumps(labelled).encode(), partition=pick.randrange(2))


def measured(workload: Workload, daemon: Daemon) -> tuple[list[float], list[float]]:
    """Megabytes of resident memory, once a second, and milliseconds from event to answer, of every answer."""
    megabytes, milliseconds = [], []
    answers = KafkaConsumer(
        workload.predictions,
        bootstrap_servers=workload.cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    until, next_look = time.monotonic() + 60 * MINUTES, 0.0
    while time.monotonic() < until:
        for records in answers.poll(500).values():
            now = time.time()
            milliseconds += [1000 * (now - json.loads(record.value)["id"]) for record in records]
        if time.monotonic() > next_look:
            next_look = time.monotonic() + 1
            megabytes.append(resident_megabytes(daemon))
    answers.close()
    return megabytes, milliseconds


def resident_megabytes(daemon: Daemon) -> float:
    assert daemon.process is not None
    pages = int(Path(f"/proc/{daemon.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def thirds(values: list[float]) -> tuple[float, float]:
    """The median of the second of six parts (the first warms up) and of the last."""
    part = max(1, len(values) // 6)
    return statistics.median(values[part : 2 * part]), statistics.median(values[-part:])
