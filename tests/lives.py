"""What the tests of faults do with daemons while they live, and what must be true when they have ended."""

import json
import signal
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.broker import wait_until
from tests.daemon import Daemon
from tests.oracle import Workload

HERE = Path(__file__).parent
SLOW = 120.0
"""How long a machine with too much to do may take for anything."""
STOPPED_WITHIN = 10.0
CLIENTS = ("kafka-python", "confluent")
BOTH_CLIENTS = pytest.mark.parametrize("client", CLIENTS, indirect=True)


def only(client: str) -> pytest.MarkDecorator:
    """For what one client alone can do wrong, or is made to do wrong."""
    return pytest.mark.parametrize("client", [client], indirect=True)


class Fleet:
    """The daemons of one test, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.daemons: list[Daemon] = []

    def daemon(
        self,
        workload: Workload,
        instance: str = "a",
        script: str | None = None,
        options: Sequence[str] = (),
        **sections: Any,
    ) -> Daemon:
        """One that works on the workload; `script` is run in place of `streamnb run`."""
        config = workload.config(**{**sections, "kafka": {"session_timeout": "3s", **sections.get("kafka", {})}})
        path = str(HERE / script) if script else None
        self.daemons.append(Daemon(self._folder / instance, config, instance, path, options))
        return self.daemons[-1]

    def close(self) -> None:
        for daemon in self.daemons:
            daemon.close()


def stop_in_time(daemon: Daemon) -> None:
    """SIGTERM: clean, and the last word of its log not later than it may take; a slow machine may end it later."""
    begun = time.time()
    assert daemon.stop(SLOW) == 0, daemon.tail()
    last = json.loads(daemon.log().splitlines()[-1])
    assert last["event"] == "run.ended", daemon.tail()
    assert datetime.fromisoformat(last["time"]).timestamp() - begun < STOPPED_WITHIN, daemon.tail()


def answered(workload: Workload, *running: Daemon) -> None:
    """Let everything that was sent be answered, by daemons of which some live."""

    def done() -> bool:
        if all(daemon.ended for daemon in running):
            raise AssertionError(f"nobody is left to answer; {_tails(running)}")
        return not workload.unanswered()

    wait_until(done, SLOW, lambda: f"{workload.unanswered()} more answers; {_tails(running)}", pause=0.2)


def finish(workload: Workload, *running: Daemon) -> None:
    """Let everything be answered, stop the daemons, and hold all that was committed against what is due."""
    answered(workload, *running)
    for daemon in running:
        daemon.ready(SLOW)
        learned(workload, daemon)
    for daemon in running:
        assert daemon.stop() == 0, daemon.tail()
    complaints = workload.complaints([daemon.snapshot() for daemon in running])
    assert not complaints, "\n".join([*complaints[:20], _tails(running)])


def learned(workload: Workload, daemon: Daemon) -> None:
    """Let the daemon learn everything."""
    wait_until(
        lambda: daemon.metric("model_events") >= len(workload.learned),
        SLOW,
        lambda: f"{daemon.metric('model_events')} of {len(workload.learned)} events learned; {daemon.tail()}",
        pause=0.2,
    )


def caught_up(workload: Workload, daemon: Daemon) -> None:
    """Let the daemon, the only one, believe that it has answered everything."""
    ends = workload.ends()

    def done() -> bool:
        at = daemon.metrics()
        return all(
            at.get(("streamnb_published_offset", (("partition", str(n)), ("topic", topic))), -1) >= end
            for (topic, n), end in ends.items()
        )

    wait_until(done, SLOW, lambda: f"all of {ends} to be answered; {daemon.tail()}", pause=0.2)


def produce_until_dead(workload: Workload, daemon: Daemon) -> None:
    """Keep events coming until the daemon has reached the point where it kills itself."""

    def dead() -> bool:
        workload.produce(20)
        return daemon.ended

    wait_until(dead, SLOW, lambda: f"{daemon.instance} to die; {daemon.tail()}", pause=0.3)
    assert daemon.wait() == -signal.SIGKILL, daemon.tail()


class Sampler:
    """Watches the counters of daemons from beside, as Prometheus does."""

    def __init__(self, daemons: Iterable[Daemon]) -> None:
        self.complaints: list[str] = []
        self._daemons = list(daemons)
        self._seen: dict[tuple[str, int], dict[Any, float]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """How many samples of how many series were compared."""
        self._done.set()
        self._thread.join()
        return sum(map(len, self._seen.values()))

    def _run(self) -> None:
        while not self._done.wait(0.3):
            for daemon in self._daemons:
                self._look(daemon)

    def _look(self, daemon: Daemon) -> None:
        process = daemon.process
        found = daemon.metrics()
        if process is None or process is not daemon.process or not found:
            return  # started again meanwhile: a counter may begin anew
        counted = {at: value for at, value in found.items() if at[0].endswith(("_total", "_count", "_bucket"))}
        before = self._seen.get((daemon.instance, process.pid), {})
        self.complaints += [
            f"{daemon.instance}: {at} went from {value} to {counted.get(at)}"
            for at, value in before.items()
            if counted.get(at, -1) < value
        ]
        self._seen[daemon.instance, process.pid] = counted


def _tails(running: Iterable[Daemon]) -> str:
    return "\n".join(daemon.tail() for daemon in running)
