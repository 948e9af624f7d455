"""Tells the supervisor (systemd) that the daemon is ready, alive and stopping."""

import os
import threading
from collections.abc import Callable, Mapping

from streamnb.notify import notify, watchdog_interval
from streamnb.reports import Status

TICK_SECONDS = 0.5


class Supervision(threading.Thread):
    """Looks at the daemon until `done` is set; ends at once where no supervisor asks."""

    def __init__(
        self,
        environ: Mapping[str, str],
        latest_status: Callable[[], Status | None],
        stuck_seconds: Callable[[], float],
        done: threading.Event,
    ) -> None:
        super().__init__(name="streamnb-supervision", daemon=True)
        self._environ, self._latest_status, self._stuck_seconds = environ, latest_status, stuck_seconds
        self._done = done
        self._said = ""

    def run(self) -> None:
        if not self._environ.get("NOTIFY_SOCKET"):
            return
        allowed = watchdog_interval(self._environ, os.getpid())
        while not self._done.wait(TICK_SECONDS):
            self._say(message(self._latest_status()))
            if allowed and self._stuck_seconds() < allowed:
                notify("WATCHDOG=1", self._environ)
        self._say(message(self._latest_status()))

    def _say(self, text: str) -> None:
        if text and text != self._said:
            self._said = text
            notify(text, self._environ)


def message(status: Status | None) -> str:
    """What the supervisor is to know of this status: ready once learning has begun, stopping at its end."""
    if status is None:
        return ""
    said = f"STATUS={status.not_ready or status.state}"
    match status.state:
        case "restoring" | "running":
            return f"READY=1\n{said}"
        case "draining" | "stopped":
            return f"STOPPING=1\n{said}"
    return said
