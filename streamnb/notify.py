"""Tells the supervisor how the daemon is doing: systemd's notification protocol, without its library."""

import os
import socket
from collections.abc import Mapping

SEND_SECONDS = 1.0


def notify(message: str, environ: Mapping[str, str]) -> bool:
    """Send lines such as `READY=1` or `STATUS=restoring`; False if nobody asked for them or takes them.

    Never raises: a daemon works on without its supervisor. Waits at most a second for a full socket.
    """
    place = environ.get("NOTIFY_SOCKET", "")
    if not place.startswith(("/", "@")):
        return False
    address = os.fsencode(place)
    if place.startswith("@"):  # a name of Linux's own, outside the file system
        address = b"\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(SEND_SECONDS)
            sender.sendto(message.encode("utf-8", "replace"), address)
    except (OSError, ValueError):  # ValueError: a zero byte in the path
        return False
    return True


def watchdog_interval(environ: Mapping[str, str], pid: int) -> float | None:
    """Seconds between two `WATCHDOG=1`, half of what the supervisor allows; None if it does not watch this process."""
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    try:
        allowed = int(environ.get("WATCHDOG_USEC", ""))
    except ValueError:
        return None
    return allowed / 2e6 if allowed > 0 else None
