"""A long log of labelled events and no snapshot: learned again at full speed, and no duty before."""

import json
import random
import statistics
import time

import pytest
from kafka import KafkaProducer

from streamnb import MixedNB
from tests.broker import Cluster, wait_until
from tests.daemon import Daemon
from tests.lives import SLOW
from tests.oracle import Workload

MODEL = {"kind": "mixed", "features": {"x": "gaussian", "colour": "categorical"}, "var_smoothing": 0.0}


@pytest.mark.parametrize(
    "events", [50_000, pytest.param(1_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_a_long_history_is_learned_before_anything_is_answered(workload: Workload, fleet, events: int):
    xs = fill(workload.cluster, workload.labelled, events)
    daemon = fleet.daemon(workload, model=MODEL, snapshots={"every": "1h"}).start()
    seen, seconds = watch_restoring(daemon, events)
    print(f"{events} events learned again at {events / seconds:.0f} a second")
    assert events / seconds > 2000
    assert any(remaining > 0 for remaining, _ in seen)
    assert not any(ready for remaining, ready in seen if remaining > 0)
    remains = [remaining for remaining, _ in seen]
    assert remains == sorted(remains, reverse=True)
    assert daemon.stop() == 0, daemon.tail()
    model = MixedNB.from_bytes(daemon.snapshot().model)
    assert model.n_events == events
    moments = next(row.numbers["ok"] for row in model.likelihood_table() if row.feature == "x")
    assert moments["mean"] == pytest.approx(statistics.fmean(xs), rel=1e-12)


def fill(cluster: Cluster, topic: str, events: int) -> list[float]:
    """Labelled events, and the numbers in those that are ok."""
    pick = random.Random(1)
    ok = []
    with KafkaProducer(bootstrap_servers=cluster.bootstrap, linger_ms=100, batch_size=1_000_000) as producer:
        for n in range(events):
            x, label = pick.gauss(1e6, 3.0), pick.choice(["ok", "fraud"])
            if label == "ok":
                ok.append(x)
            value = json.dumps({"features": {"x": x, "colour": pick.choice("rgb")}, "label": label})
            producer.send(topic, value.encode(), partition=n % 2)
    return ok


def watch_restoring(daemon: Daemon, events: int) -> tuple[list[tuple[float, bool]], float]:
    """What was seen of (remaining, ready) until it was ready, and how long learning took."""
    seen: list[tuple[float, bool]] = []
    begun = 0.0

    def ready() -> bool:
        nonlocal begun
        now_ready = daemon.is_ready()  # asked first: what remains may only have become less since
        metrics = daemon.metrics()
        if metrics.get(("streamnb_state", (("state", "restoring"),))):
            begun = begun or time.monotonic()
            seen.append((metrics[("streamnb_restore_remaining_events", ())], now_ready))
        return now_ready

    wait_until(ready, SLOW + events / 1000, daemon.tail)
    return seen, time.monotonic() - (begun or time.monotonic() - 1)
