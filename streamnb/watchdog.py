"""Is the loop alive? Ends the process with exit code 70 and all stacks on stderr when it is not."""

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable

from streamnb.errors import WatchdogError

BROKER_AWAY_SECONDS = 5.0
STOPPED_SECONDS = 1.0


class Pulse:
    """The loop's signs of life, written by the loop and read by other threads."""

    def __init__(self, monotonic: Callable[[], float], silence: Callable[[], float]) -> None:
        self._monotonic, self._silence = monotonic, silence
        self._beat = monotonic()
        self._broker_back = self._beat
        self._in_client = False

    def beat(self) -> None:
        """Say that the loop is alive, in code of our own."""
        self._beat, self._in_client = self._monotonic(), False

    def call_client(self) -> None:
        """Say that the loop is alive and now enters a call of the transport's client."""
        self._beat, self._in_client = self._monotonic(), True

    def stuck_seconds(self) -> float:
        """How long the loop has given no sign of life; waiting for a broker that does not answer is alive."""
        now = self._monotonic()
        if self._silence() > BROKER_AWAY_SECONDS:
            self._broker_back = now
        return now - (max(self._beat, self._broker_back) if self._in_client else self._beat)


class Watchdog(threading.Thread):
    """Checks the pulse until `done` is set, and ends the process when the loop is stuck for too long."""

    def __init__(self, pulse: Pulse, limit_seconds: float, done: threading.Event) -> None:
        super().__init__(name="streamnb-watchdog", daemon=True)
        self._pulse, self._limit, self._done = pulse, limit_seconds, done

    def run(self) -> None:
        tick = min(1.0, self._limit / 4)
        looked = patient_until = time.monotonic()
        while not self._done.wait(tick):
            now = time.monotonic()
            if now - looked > tick + STOPPED_SECONDS:  # the whole process was stopped, and the loop with it
                patient_until = now + self._limit
            looked = now
            if now > patient_until and self._pulse.stuck_seconds() > self._limit:
                print(f"watchdog: the loop has hung for {self._limit:g} s, exiting", file=sys.stderr, flush=True)
                faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
                os._exit(WatchdogError.exit_code)
