"""A profile by sampling: which functions the main thread was in whenever the process had used another millisecond."""

import signal
from collections import Counter
from collections.abc import Sequence
from types import FrameType
from typing import Self

EVERY_SECONDS = 0.001
LINES = 30


class Sampler:
    """Counts frames between entering and leaving; must be used in the main thread.

    What a function in C does counts for the function that called it.
    """

    def __init__(self) -> None:
        self._own: Counter[str] = Counter()
        self._within: Counter[str] = Counter()
        self._samples = 0

    def __enter__(self) -> Self:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, EVERY_SECONDS, EVERY_SECONDS)
        return self

    def __exit__(self, *ending: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)

    def _sample(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the signature is the system's
        self._samples += 1
        place = frame
        if place is not None:
            self._own[_name(place)] += 1
        seen = set()
        while place is not None:
            seen.add(_name(place))
            place = place.f_back
        self._within.update(seen)

    def report(self) -> str:
        """Return two short tables: shares of the samples by function, itself and with what it calls."""
        parts = ("itself", self._own.most_common(LINES)), ("with what it calls", self._within.most_common(2 * LINES))
        return "\n\n".join(self._table(title, counts) for title, counts in parts) + "\n"

    def _table(self, title: str, counts: Sequence[tuple[str, int]]) -> str:
        lines = (f"{100 * n / max(1, self._samples):5.1f} %  {name}" for name, n in counts)
        return "\n".join([f"{title} ({self._samples} samples)", *lines])


def _name(frame: FrameType) -> str:
    path = frame.f_code.co_filename.replace("\\", "/").rsplit("/", 3)
    return f"{'/'.join(path[-2:])}:{frame.f_code.co_qualname}"
