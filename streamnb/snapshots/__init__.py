"""Snapshot <-> bytes, and the stores that keep them.

`TopicStore` stays in `streamnb.snapshots.topic`: it brings a Kafka client.
"""

from streamnb.snapshots.codec import decode, encode
from streamnb.snapshots.directory import DirectoryStore, load, write_whole
from streamnb.snapshots.finding import find, is_snapshot_place
from streamnb.snapshots.snapshot import OnDamaged, Snapshot, SnapshotStore, TopicNote

__all__ = [
    "DirectoryStore",
    "OnDamaged",
    "Snapshot",
    "SnapshotStore",
    "TopicNote",
    "decode",
    "encode",
    "find",
    "is_snapshot_place",
    "load",
    "write_whole",
]
