"""Durations and times of day as people write them."""

import math
import re
from datetime import UTC, datetime
from decimal import Decimal

DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|(60))(\.[0-9]+)?"
    r"(?:[Zz]|([+-](?:[01][0-9]|2[0-3]):[0-5][0-9]))"
)
FIRST_SECOND, LAST_SECOND = -62_135_596_800.0, 253_402_300_800.0
"""The years 1 to 9999, all that an RFC 3339 time can say (10000 itself left out)."""


def duration_seconds(value: object) -> float:
    """Seconds of `500ms`, `10s`, `30m`, `2h`, `1d` or a number of seconds. ValueError: what is allowed."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return float(value)
    found = DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("allowed is a duration like 500ms, 10s, 30m, 2h or 1d, or a number of seconds")
    number, unit = float(found[1]), found[2]
    return duration_seconds(number / 1000 if unit == "ms" else number * SECONDS[unit])


def time_seconds(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time like `2026-01-31T12:00:00.5Z`; ValueError if it is not one.

    A leap second (23:59:60 UTC) is the second after it, as in POSIX.
    """
    found = RFC_3339.fullmatch(text)
    if found is None:
        raise ValueError("not an RFC 3339 time like 2026-01-31T12:00:00Z")
    leap, fraction, offset = found.groups()
    second = "59" if leap else text[17:19]
    seconds = datetime.fromisoformat(f"{text[:17]}{second}{offset or '+00:00'}").timestamp()
    if leap:
        seconds += 1
        if seconds % 86400:
            raise ValueError("no leap second at this time of day")
    return seconds + float(fraction) if fraction else seconds


def duration_text(seconds: float) -> str:
    """A duration that `duration_seconds` reads back to the same float."""
    return f"{int(seconds)}s" if seconds.is_integer() else f"{Decimal(repr(seconds)):f}s"


def time_text(seconds: float) -> str:
    """The RFC 3339 time, to the microsecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
