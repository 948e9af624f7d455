"""Notices that the error of a stream has changed: river's ADWIN (Bifet & Gavaldà 2007), saved without pickle."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import compress, count
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np

LONGEST = 32_768
KEPT = 8_192


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
        self._feed = _fresh()
        at = self._next_change(errors)
        while at is not None:
            errors = errors[at:]
            self._feed = _fresh()
            at = self._next_change(errors)

    def _next_change(self, errors: Sequence[int]) -> int | None:
        """Feed errors up to the first that shows a change; return how many these are, None if there is none."""
        return next(compress(count(1), map(self._feed, errors)), None)

    def update(self, errors: Sequence[int]) -> list[Change]:
        """Take further errors, 0 or 1, in order; return the changes that they show."""
        changes, at = [], 0
        while at < len(errors):
            few = errors[at : at + LONGEST - len(self._errors)]
            found = self._next_change(few)
            self._errors += bytes(few[:found])
            at += len(few) if found is None else found
            if found is not None:
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


def _fresh() -> Callable[[int], bool]:
    """What feeds a new ADWIN, and says whether it shows a change: its compiled part, a third of what the whole costs.

    After a change, the whole would begin anew with the next error.
    """
    return cast(Callable[[int], bool], ADWIN()._helper.update)


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
