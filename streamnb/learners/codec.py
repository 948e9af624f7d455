"""A model's state as bytes: magic, version, a JSON header, the arrays, and a checksum over all of it."""

import hashlib
import json
import struct
from itertools import chain
from typing import Any

import numpy as np

from streamnb.learners.kernels.types import Array
from streamnb.learners.pieces import byte_pieces, in_pieces, json_pieces
from streamnb.learners.values import as_json, from_json

MAGIC = b"streamnb"
FORMAT = 1
_HEAD = struct.Struct("<8sIQ")
_CHECKSUM = 32


def encode(header: dict[str, Any], arrays: list[Array]) -> bytes:
    """Return a header and float64 arrays as bytes."""
    header = {**header, "shapes": [list(array.shape) for array in arrays]}
    text = "".join(json_pieces(header)).encode()
    pieces = [_HEAD.pack(MAGIC, FORMAT, len(text)), text, *chain.from_iterable(map(byte_pieces, arrays))]
    checksum = hashlib.sha256()
    for piece in pieces:
        checksum.update(piece)
    return b"".join([*pieces, checksum.digest()])


def decode(data: bytes) -> tuple[dict[str, Any], list[Array]]:
    """Return the header and the arrays; raise ValueError saying what is wrong with the bytes."""
    data = bytes(data)
    if len(data) < _HEAD.size + _CHECKSUM or data[:8] != MAGIC:
        raise ValueError(f"{len(data)} bytes that do not hold a streamnb model")
    _, version, length = _HEAD.unpack_from(data)
    if version != FORMAT:
        raise ValueError(f"a model in format {version}; this version reads format {FORMAT}")
    if hashlib.sha256(data[:-_CHECKSUM]).digest() != data[-_CHECKSUM:]:
        raise ValueError("the model's bytes are damaged: their checksum does not match")
    header = json.loads(data[_HEAD.size : _HEAD.size + length])
    arrays, offset = [], _HEAD.size + length
    for shape in header["shapes"]:
        size = int(np.prod(shape))
        arrays.append(np.frombuffer(data, "<f8", size, offset).reshape(shape).astype(np.float64))
        offset += 8 * size
    return header, arrays


def names_to_json(names: dict[str, Any]) -> dict[str, Any]:
    """Return a block's names as JSON values: lists of names, or lists of lists of them, tuples as {"tuple": [...]}."""
    return {key: _to_json(values) for key, values in names.items()}


def names_from_json(names: dict[str, Any]) -> dict[str, Any]:
    """Return what `names_to_json` was given."""
    return {key: [_from_json(value) for value in values] for key, values in names.items()}


def _to_json(value: Any) -> Any:
    if isinstance(value, list):
        strings = all(set(map(type, piece)) == {str} for piece in in_pieces(value))
        return value if strings else [_to_json(item) for item in value]
    return {"tuple": as_json(value)} if isinstance(value, tuple) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    return from_json(value["tuple"]) if isinstance(value, dict) else value
