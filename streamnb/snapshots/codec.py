"""Snapshot <-> bytes.

    magic 8 | format version 4 | header length 8 | sha256 of these three and the header 32 | header | body

Numbers are big-endian. The header is JSON and the manifest: everything but the model, with size and sha256
of the body, which is the model's bytes. So every bit is under one of the two checksums, and nothing in a
snapshot is ever executed.
"""

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict

import msgspec

from streamnb.errors import SnapshotError
from streamnb.snapshots.snapshot import Snapshot, TopicNote
from streamnb.transport import Partition

FORMAT_VERSION = 1
# The high bit, the line ends and the ctrl-Z show a transfer that took the file for text.
MAGIC = b"\x89SNB\r\n\x1a\n"
_PREFIX = struct.Struct(">8sIQ")
_DIGEST_BYTES = hashlib.sha256().digest_size
_HEADER_AT = _PREFIX.size + _DIGEST_BYTES

_Offsets = list[tuple[str, int, int]]


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    app: str
    instance: str
    version: str
    taken: float
    shape: dict[str, object]
    settings: dict[str, object]
    learned: _Offsets
    learn_from: _Offsets
    noted: _Offsets
    topics: dict[str, TopicNote]
    classes: list[tuple[str, int, list[str]]]
    lost: int
    scores: dict[str, object]
    marks: dict[str, object]
    body_bytes: int
    body_sha256: str
    seed: str = ""


def encode(snapshot: Snapshot) -> bytes:
    """Return the snapshot as bytes. Raise ValueError for a NaN or an infinity among its JSON values."""
    return b"".join(parts(snapshot))


def parts(snapshot: Snapshot) -> tuple[bytes, bytes]:
    """The two parts whose concatenation is `encode`: a large model need not be copied to be written."""
    header = _header(snapshot)
    prefix = _PREFIX.pack(MAGIC, FORMAT_VERSION, len(header))
    return prefix + hashlib.sha256(prefix + header).digest() + header, snapshot.model


def decode(data: bytes, name: str = "snapshot", app: str | None = None) -> Snapshot:
    """Read a snapshot back. Raise SnapshotError, about `name`, if it is not whole or is another app's."""
    manifest, body_at = _read_header(data, name)
    if app is not None and manifest.app != app:
        raise SnapshotError(f"{name}: belongs to app {manifest.app!r}, not to {app!r}")
    size = len(data) - body_at
    if size != manifest.body_bytes:
        raise SnapshotError(
            f"{name}: {'cut off' if size < manifest.body_bytes else 'too long'}: "
            f"the model has {size} bytes, the header says {manifest.body_bytes}"
        )
    body = data[body_at:]
    if hashlib.sha256(body).hexdigest() != manifest.body_sha256:
        raise SnapshotError(f"{name}: damaged: the model's checksum is not the one in the header")
    return _snapshot(manifest, body)


def _header(snapshot: Snapshot) -> bytes:
    values = {
        "app": snapshot.app,
        "instance": snapshot.instance,
        "version": snapshot.version,
        "taken": snapshot.taken,
        "shape": snapshot.shape,
        "settings": snapshot.settings,
        "learned": _listed(snapshot.learned),
        "learn_from": _listed(snapshot.learn_from),
        "noted": _listed(snapshot.noted),
        "topics": {topic: asdict(note) for topic, note in snapshot.topics.items()},
        "classes": [(p.topic, p.number, labels) for p, labels in snapshot.classes.items()],
        "lost": snapshot.lost,
        "scores": snapshot.scores,
        "marks": snapshot.marks,
        "body_bytes": len(snapshot.model),
        "body_sha256": hashlib.sha256(snapshot.model).hexdigest(),
        "seed": snapshot.seed,
    }
    # Not msgspec: it writes NaN as null without a word, and refuses file names that are not UTF-8.
    return json.dumps(values, allow_nan=False, separators=(",", ":")).encode()


def _read_header(data: bytes, name: str) -> tuple[_Manifest, int]:
    """Return the manifest, and where the body begins."""
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise SnapshotError(f"{name}: not a snapshot: begins with {data[: len(MAGIC)]!r}, not {MAGIC!r}")
    if len(data) < _HEADER_AT:
        raise SnapshotError(f"{name}: cut off after {len(data)} bytes, before its header")
    _, version, size = _PREFIX.unpack_from(data)
    if version != FORMAT_VERSION:
        raise SnapshotError(
            f"{name}: format version {version}, this streamnb reads {FORMAT_VERSION}: "
            "use the version that wrote it, or one that is newer"
        )
    if size > len(data) - _HEADER_AT:
        raise SnapshotError(f"{name}: cut off: {len(data)} bytes, its header alone should have {size}")
    header = data[_HEADER_AT : _HEADER_AT + size]
    if hashlib.sha256(data[: _PREFIX.size] + header).digest() != data[_PREFIX.size : _HEADER_AT]:
        raise SnapshotError(f"{name}: damaged: the header's checksum is wrong")
    try:
        return msgspec.convert(json.loads(header), _Manifest), _HEADER_AT + size
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"{name}: the header cannot be read: {error}") from error


def _snapshot(manifest: _Manifest, body: bytes) -> Snapshot:
    return Snapshot(
        app=manifest.app,
        instance=manifest.instance,
        version=manifest.version,
        taken=manifest.taken,
        shape=manifest.shape,
        settings=manifest.settings,
        learned=_keyed(manifest.learned),
        learn_from=_keyed(manifest.learn_from),
        noted=_keyed(manifest.noted),
        topics=manifest.topics,
        classes={Partition(topic, number): labels for topic, number, labels in manifest.classes},
        lost=manifest.lost,
        scores=manifest.scores,
        marks=manifest.marks,
        model=body,
        seed=manifest.seed,
    )


def _listed(offsets: Mapping[Partition, int]) -> _Offsets:
    return [(partition.topic, partition.number, offset) for partition, offset in offsets.items()]


def _keyed(offsets: _Offsets) -> dict[Partition, int]:
    return {Partition(topic, number): offset for topic, number, offset in offsets}
