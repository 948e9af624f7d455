"""Snapshots in a compacted topic: chunks, made whole by a manifest that is written last.

A record's key is the JSON list [app, instance, sequence, part]: part is the number of a chunk, or "manifest". The
chunks together are the bytes of `codec.encode`; the manifest tells how many there are. What is no longer kept is
deleted by records without a value, its manifest first.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from streamnb.errors import IoError, SnapshotError, StateError
from streamnb.snapshots.codec import decode, parts
from streamnb.snapshots.snapshot import OnDamaged, Snapshot

FORMAT_VERSION = 1
MANIFEST: Literal["manifest"] = "manifest"


Part = int | Literal["manifest"]
Place = tuple[int, int]
"""Partition and offset of a record."""


class CompactedLog(Protocol):
    """A compacted topic, as the store needs it. One thread at a time calls it."""

    name: str
    chunk_bytes: int
    """The largest value that it takes; known once it is open."""

    def open(self) -> None:
        """Connect. Raise BrokerUnreachable, or ConfigError if it is missing or would not keep what is written."""

    def changes(self) -> Iterable[tuple[bytes, Place | None]]:
        """Every key written since the last call, up to the present end, in order; None where it was deleted."""

    def values(self, places: Iterable[Place]) -> Mapping[Place, bytes]:
        """The values at these places, of those that have not been compacted away."""

    def append(self, records: Iterable[tuple[bytes, bytes | None]], beside: str) -> Sequence[Place]:
        """Write in order; return when all are safe. What has the same `beside` keeps its order. Raise IoError."""

    def close(self) -> None:
        """Let go of the clients."""


class _Key(NamedTuple):
    app: str
    instance: str
    sequence: int
    part: Part


class _Manifest(msgspec.Struct, frozen=True):
    format: int
    chunks: int
    bytes: int


class TopicStore:
    """Keeps the last `keep` snapshots of an instance in a topic that all instances and apps may share.

    Two living processes of one name are kept apart by the broker (their transactional id), not by a lock.
    """

    def __init__(self, log: CompactedLog, app: str, instance: str, keep: int, on_damaged: OnDamaged) -> None:
        self._log, self._app, self._instance, self._keep = log, app, instance, keep
        self._on_damaged = on_damaged
        self._places: dict[str, dict[int, dict[Part, Place]]] = {instance: {}}
        """Of every instance of the app: sequence -> part -> place."""
        self._sequence: int | None = None

    def open(self) -> None:
        """Connect, and see what is there. Raise what `CompactedLog.open` raises."""
        self._log.open()
        self._refresh()
        self._sequence = max(self._places[self._instance], default=0)

    def save(self, snapshot: Snapshot) -> int:
        """Write chunks and manifest under the next number, then delete all but the last `keep`."""
        if self._sequence is None:
            raise StateError(f"{self._log.name}: must be opened before a snapshot is saved")
        self._sequence += 1  # not used again if this fails: its chunks must not mix with those of the next
        sequence, mine = self._sequence, self._places[self._instance]
        chunks = [chunk for part in parts(snapshot) for chunk in _slices(part, self._log.chunk_bytes)]
        size = sum(map(len, chunks))
        self._append(sequence, dict(enumerate(chunks)))
        manifest = msgspec.json.encode(_Manifest(FORMAT_VERSION, len(chunks), size))
        self._append(sequence, {MANIFEST: manifest})
        whole = sorted(s for s, found in mine.items() if MANIFEST in found)
        for old in [s for s in mine if s < whole[-self._keep :][0]]:
            self._delete(old)
        return size

    def newest(self) -> Snapshot | None:
        """Look from the newest manifest backwards. Raise BrokerUnreachable if the topic cannot be read."""
        self._refresh()
        return self._newest_of(self._instance)

    def others(self) -> list[Snapshot]:
        """Read those of every other instance that has ever saved one. Raise as `newest` does."""
        self._refresh()
        instances = sorted(instance for instance in self._places if instance != self._instance)
        return [found for instance in instances if (found := self._newest_of(instance))]

    def close(self) -> None:
        """Let go of the topic."""
        self._sequence = None
        self._log.close()

    def _newest_of(self, instance: str) -> Snapshot | None:
        tried: set[int] = set()
        while left := {s for s, found in self._places[instance].items() if MANIFEST in found} - tried:
            sequence = max(left)
            tried.add(sequence)
            try:
                return self._load(instance, sequence)
            except SnapshotError as error:
                self._refresh()
                # Its owner may have deleted it since, and has then written newer ones.
                if MANIFEST in self._places[instance].get(sequence, {}):
                    self._on_damaged(self._name(instance, sequence), error)
        return None

    def _load(self, instance: str, sequence: int) -> Snapshot:
        name, places = self._name(instance, sequence), self._places[instance][sequence]
        found = self._log.values(places.values())
        try:
            manifest = msgspec.json.decode(found.get(places[MANIFEST], b""), type=_Manifest)
        except msgspec.MsgspecError as error:
            raise SnapshotError(f"{name}: damaged: the manifest cannot be read: {error}") from error
        if manifest.format != FORMAT_VERSION:
            raise SnapshotError(f"{name}: format {manifest.format}, this streamnb reads {FORMAT_VERSION}")
        chunks = [found[places[n]] for n in range(len(places)) if n in places and places[n] in found]
        size = sum(map(len, chunks))
        if (len(chunks), size) != (manifest.chunks, manifest.bytes):
            raise SnapshotError(
                f"{name}: cut off: {len(chunks)} chunks of {size} bytes, "
                f"the manifest says {manifest.chunks} of {manifest.bytes}"
            )
        return decode(b"".join(chunks), name, self._app)

    def _refresh(self) -> None:
        """Take note of what has been written and deleted since."""
        for raw, place in self._log.changes():
            key = _parsed(raw)
            if key is not None and key.app == self._app:
                self._note(key, place)

    def _note(self, key: _Key, place: Place | None) -> None:
        sequences = self._places.setdefault(key.instance, {})
        if place is not None:
            sequences.setdefault(key.sequence, {})[key.part] = place
        elif key.sequence in sequences:
            sequences[key.sequence].pop(key.part, None)
            if not sequences[key.sequence]:
                del sequences[key.sequence]

    def _append(self, sequence: int, values: Mapping[Part, bytes]) -> None:
        keys = [_Key(self._app, self._instance, sequence, part) for part in values]
        records = [(_bytes(key), value) for key, value in zip(keys, values.values(), strict=True)]
        for key, place in zip(keys, self._log.append(records, self._beside()), strict=True):
            self._note(key, place)

    def _delete(self, sequence: int) -> None:
        """Leave it to the next save if the topic refuses: the snapshot that takes its place is safe."""
        found = self._places[self._instance][sequence]
        keys = [_Key(self._app, self._instance, sequence, part) for part in sorted(found, key=_manifest_first)]
        try:
            self._log.append([(_bytes(key), None) for key in keys], self._beside())
        except IoError:
            return
        for key in keys:
            self._note(key, None)

    def _beside(self) -> str:
        return json.dumps([self._app, self._instance])

    def _name(self, instance: str, sequence: int) -> str:
        return f"{self._log.name}: snapshot {sequence} of {self._app}/{instance}"


def _manifest_first(part: Part) -> tuple[bool, int]:
    return (part != MANIFEST, part if isinstance(part, int) else 0)


def _slices(data: bytes, size: int) -> Sequence[bytes]:
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


def _bytes(key: _Key) -> bytes:
    return json.dumps(key, separators=(",", ":")).encode()


def _parsed(raw: bytes) -> _Key | None:
    """None for a key that no store has written."""
    try:
        return msgspec.json.decode(raw, type=_Key)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
