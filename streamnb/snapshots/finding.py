"""Snapshots for a reader's eyes: from one file, or the newest whole one in a folder. Nothing is locked or written."""

from pathlib import Path

from streamnb.errors import SnapshotError
from streamnb.snapshots.codec import MAGIC
from streamnb.snapshots.directory import load
from streamnb.snapshots.snapshot import OnDamaged, Snapshot

SUFFIX = ".snapshot"


def is_snapshot_place(path: Path) -> bool:
    """Whether this is a folder or a file of snapshots, and so not a configuration."""
    if path.is_dir() or path.suffix == SUFFIX:
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def find(path: Path, on_damaged: OnDamaged) -> tuple[Path, Snapshot]:
    """Read the file, or in a folder and those below it the newest whole one, of whichever app and instance.

    Raise SnapshotError if there is none.
    """
    if not path.is_dir():
        return path, load(path)
    newest: tuple[Path, Snapshot] | None = None
    for folder in sorted({file.parent for file in path.rglob(f"*{SUFFIX}")}):
        found = _newest_in(folder, on_damaged)
        if found is not None and (newest is None or found[1].taken > newest[1].taken):
            newest = found
    if newest is None:
        raise SnapshotError(f"{path}: holds no whole snapshot")
    return newest


def _newest_in(folder: Path, on_damaged: OnDamaged) -> tuple[Path, Snapshot] | None:
    for file in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        try:
            return file, load(file)
        except SnapshotError as error:
            if file.exists():  # else its owner has removed it meanwhile, and written a newer one
                on_damaged(str(file), error)
    return None
