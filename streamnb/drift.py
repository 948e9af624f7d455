"""Notices that the error of a stream has changed: river's ADWIN (Bifet & Gavaldà 2007), saved without pickle."""

import base64
import binascii
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

LONGEST = 32_768
KEPT = 8_192
CLOCK = 32
"""ADWIN looks for a change whenever it has taken so many errors more, and not between."""


def _river_adwin() -> Any:
    """`river.drift.ADWIN` from its file: importing the package loads scikit-learn and pandas, for seconds."""
    package = find_spec("river.drift")
    assert package is not None
    assert package.submodule_search_locations is not None
    spec = spec_from_file_location("river_adwin", Path(package.submodule_search_locations[0]) / "adwin.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ADWIN


ADWIN = _river_adwin()


class Change(NamedTuple):
    """A change noticed at this error of a batch, and the share of errors before and after it began."""

    at: int
    before: float
    after: float


class DriftDetector:
    """ADWIN over the errors since the last change.

    What is saved are these errors, and a restored detector is fed them again: it is equal by construction. (The
    compiled class of river does give away its state, but as bytes that only its own version reads.) That wants a
    bound: at `LONGEST` errors the detector is made anew from the last `KEPT`, which takes a few milliseconds.
    """

    def __init__(self, errors: bytes | bytearray = b"") -> None:
        self._begin(errors)

    def _begin(self, errors: bytes | bytearray) -> None:
        self._errors = bytearray(errors)
        self._adwin = ADWIN(clock=CLOCK)
        self._feed = cast(Callable[[int], None], self._adwin.update)
        for error in self._errors:
            self._feed(error)

    def update(self, errors: Sequence[bool]) -> list[Change]:
        """Take further errors, in order; return the changes that they show."""
        changes, at = [], 0
        while at < len(errors):
            few = errors[at : at + CLOCK - len(self._errors) % CLOCK]
            self._errors.extend(few)
            deque(map(self._feed, few), 0)
            at += len(few)
            if self._adwin.drift_detected:
                changes.append(Change(at - 1, *_before_and_after(self._errors)))
                self._begin(b"")
            elif len(self._errors) == LONGEST:
                self._begin(self._errors[-KEPT:])
        return changes

    def to_dict(self) -> dict[str, object]:
        """The whole state as JSON values: the errors, eight to a byte."""
        bits = np.packbits(np.frombuffer(self._errors, np.uint8))
        return {"events": len(self._errors), "errors": base64.b64encode(bits.tobytes()).decode()}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """The detector that `to_dict` wrote; it goes on as that one would. ValueError for anything else."""
        try:
            events, packed = int(state["events"]), base64.b64decode(state["errors"], validate=True)
        except binascii.Error as exc:
            raise ValueError(f"errors: {exc}") from exc
        if not 0 <= events < LONGEST or len(packed) != (events + 7) // 8:
            raise ValueError(f"{events} errors in {len(packed)} bytes")
        return cls(np.unpackbits(np.frombuffer(packed, np.uint8), count=events).tobytes())


def _before_and_after(errors: bytearray) -> tuple[float, float]:
    """The shares of errors on both sides of where the change most probably began (the maximum of the CUSUM).

    ADWIN notices a change; the window that it keeps then still reaches back behind it.
    """
    wrong = np.cumsum(np.frombuffer(errors, np.uint8), dtype=np.int64)
    n, total = len(wrong), int(wrong[-1])
    begin = np.arange(1, n)
    apart = np.abs(wrong[:-1] / begin - (total - wrong[:-1]) / (n - begin))
    at = int(np.argmax(apart * np.sqrt(begin * (n - begin))))
    return float(wrong[at] / (at + 1)), float((total - wrong[at]) / (n - at - 1))
