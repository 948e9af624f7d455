"""Every sort of value an event may bring, by what the learners take of it and what they refuse."""

from __future__ import annotations

import math
import uuid
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reference import Event
from streams import Config

KINDS = ["gaussian", "multinomial", "complement", "bernoulli", "categorical"]
DECLARED = {
    "mixed gaussian": "gaussian",
    "mixed categorical": "categorical",
    "mixed bernoulli": "bernoulli",
    "mixed counts": "counts",
    "mixed text": "text",
}
GOOD: dict[str, list[Any]] = {
    "gaussian": [1.0, 2.5, -4.0],
    "counts": [1, 2, 0],
    "bernoulli": [1, 0, True],
    "categorical": ["u", 3, True],
    "text": ["red apple", "green", "red"],
    "auto": [1.0, "u", ["red", "blue"]],
}
BLOCK = {"multinomial": "counts", "complement": "counts", **DECLARED, "mixed auto": "auto"}


def config_of(learner: str) -> Config:
    if not learner.startswith("mixed"):
        return Config(learner)
    return Config("mixed", {"features": {"amount": DECLARED[learner]} if learner in DECLARED else {}})


def block_of(learner: str) -> str:
    return BLOCK.get(learner, learner)


LEARNERS = [*KINDS, *DECLARED, "mixed auto"]
every_learner = pytest.mark.parametrize("learner", LEARNERS)

NUMBERS: dict[str, Any] = {
    "zero": 0,
    "minus zero": -0.0,
    "one": 1,
    "half": 0.5,
    "subnormal": 5e-324,
    "smallest normal": 2.2250738585072014e-308,
    "2**53+1": 2**53 + 1,
    "huge int": 10**119,
    "1e120": 1e120,
    **{
        f"numpy {kind}": getattr(np, kind)(3)
        for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
    },
    "numpy float16": np.float16(1.5),
    "numpy float32": np.float32(1.5),
    "numpy float64": np.float64(1.5),
}
NEGATIVE: dict[str, Any] = {"minus one": -1, "minus tiny": -5e-324, "numpy -2": np.int8(-2), "-1e120": -1e120}
NAN: dict[str, Any] = {"nan": math.nan, "numpy nan": np.float32("nan"), "numpy nan64": np.float64("nan")}
BOOLS: dict[str, Any] = {"true": True, "numpy false": np.bool_(False)}
TEXTS: dict[str, Any] = {"text": "red wine", "empty text": "", "digits": "12", "numpy text": np.str_("u")}
LISTS: dict[str, Any] = {"tokens": ["u", "v"], "no tokens": []}
NEVER: dict[str, Any] = {
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "numpy infinity": np.float32("inf"),
    "beyond 1e120": 1.0000001e120,
    "1e300": 1e300,
    "10**400": 10**400,
    "-10**400": -(10**400),
    "bytes": b"1",
    "bytearray": bytearray(b"1"),
    "complex": 1 + 0j,
    "numpy complex": np.complex128(1),
    "dict": {"a": 1},
    "set": {1},
    "nested": [[1]],
    "numbers": [1, 2],
    "tokens with none": ["u", None],
    "array": np.array([1.0, 2.0]),
    "array of one": np.array([1.0]),
    "0-d array": np.array(1.0),
    "object": object(),
    "function": len,
    "type": int,
    "date": datetime(2026, 1, 1),
    "numpy date": np.datetime64("2026-01-01"),
    "numpy duration": np.timedelta64(1, "s"),
    "not a time": pd.NaT,
    "uuid": uuid.UUID(int=1),
    "ellipsis": ...,
    "void": np.void(b"1"),
    "series": pd.Series([1.0]),
}


def taken(learner: str) -> dict[str, Any]:
    block = block_of(learner)
    return {
        "gaussian": {**NUMBERS, **NEGATIVE, **NAN},
        "counts": NUMBERS,
        "bernoulli": {**NUMBERS, **NEGATIVE, **BOOLS},
        "categorical": {**NUMBERS, **NEGATIVE, **NAN, **BOOLS, **TEXTS},
        "text": TEXTS,
        "auto": {**NUMBERS, **NEGATIVE, **NAN, **BOOLS, **TEXTS, **LISTS},
    }[block] | {"none": None}


def refused(learner: str) -> dict[str, Any]:
    all_values = {**NUMBERS, **NEGATIVE, **NAN, **BOOLS, **TEXTS, **LISTS, **NEVER}
    return {name: value for name, value in all_values.items() if name not in taken(learner)}


def three_good(learner: str) -> list[Event]:
    return [
        Event({"amount": value}, label) for value, label in zip(GOOD[block_of(learner)], ("a", "b", "a"), strict=True)
    ]
