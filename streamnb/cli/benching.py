"""`streamnb run` as the bench watches it: how long its steps take, when its states change, where its time goes.

python -m streamnb.cli.benching CONFIG --steps FILE | --profile FILE
"""

import gc
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from streamnb import logs
from streamnb.cli import COLLECT_AFTER
from streamnb.cli.profiling import Sampler
from streamnb.cli.run import stop_at_signals
from streamnb.cli.wiring import Daemon
from streamnb.config import load
from streamnb.reports import Status
from streamnb.watchdog import Pulse

now = time.perf_counter


class WatchedPulse(Pulse):
    """Notes for how long the loop does not get back to its client."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self.steps: list[tuple[float, float]] = []
        """When each began, and how long it took, in seconds."""
        self._begun: float | None = None

    def beat(self) -> None:
        self._pulse.beat()
        if self._begun is None:
            self._begun = now()

    def call_client(self) -> None:
        self._pulse.call_client()
        if self._begun is not None:
            self.steps.append((self._begun, now() - self._begun))
            self._begun = None

    def stuck_seconds(self) -> float:
        return self._pulse.stuck_seconds()


class Watch:
    """What is noted of one run."""

    def __init__(self, daemon: Daemon) -> None:
        self.pulse = daemon.engine.pulse = WatchedPulse(daemon.engine.pulse)
        self.states: list[tuple[str, float]] = []
        self.snapshots: list[dict[str, float]] = []
        metrics: Any = daemon.metrics
        self._status, self._snapshot = metrics.status, metrics.snapshot
        metrics.status, metrics.snapshot = self.status, self.snapshot

    def status(self, status: Status) -> None:
        if not self.states or self.states[-1][0] != status.state:
            self.states.append((status.state, now()))
        self._status(status)

    def snapshot(self, outcome: Any, seconds: float, size: int) -> None:
        self.snapshots.append({"end": now(), "seconds": seconds, "bytes": size})
        self._snapshot(outcome, seconds, size)

    def to_json(self) -> str:
        return json.dumps({"steps": self.pulse.steps, "states": self.states, "snapshots": self.snapshots})


def main() -> None:
    """Run until SIGTERM, then write what was noted."""
    path, option, target = sys.argv[1:]
    logs.configure("info", sys.stderr)
    gc.set_threshold(COLLECT_AFTER)
    stop = threading.Event()
    stop_at_signals(stop)
    with Daemon(load(Path(path), os.environ), stop) as daemon:
        if option == "--profile":
            with Sampler() as sampler:
                daemon.run()
            Path(target).write_text(sampler.report())
        else:
            watch = Watch(daemon)
            daemon.run()
            Path(target).write_text(watch.to_json())


if __name__ == "__main__":
    main()
