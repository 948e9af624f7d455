"""Runs `streamnb run` on a machine that ails: AIL=name says how. What ails is wrapped from outside.

The ailment begins, or ends, when the file `ill` appears, or goes, in the working directory.
"""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.dying import around, around_all, client_calls  # run as a script


def ill() -> bool:
    return Path("ill").exists()


def clock_steps_back() -> None:
    """The wall clock goes back an hour and a half."""
    original = time.time
    time.time = lambda: original() - (5400 if ill() else 0)


def loop_hangs() -> None:
    """A batch that is never done with."""
    from streamnb.processing import Processor

    def hang() -> None:
        while ill():
            time.sleep(0.05)

    around(Processor, "process", before=hang)


def learning_is_slow() -> None:
    """Every batch takes its time."""
    from streamnb.processing import Processor

    around(Processor, "process", before=lambda: time.sleep(0.3) if ill() else None)


def commits_wait() -> None:
    """Commits do not go out, and the file `committing` says that one is due."""

    def wait() -> None:
        while ill():
            Path("committing").touch()
            time.sleep(0.02)

    _, producers = client_calls()
    around_all(producers, "commit_transaction", before=wait)


def disk_is_full() -> None:
    from streamnb.snapshots import directory

    original = directory._write_all

    def write_all(descriptor: int, data: bytes) -> None:
        if ill():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor, data)

    directory._write_all = write_all


def disk_is_read_only() -> None:
    """The snapshots' folder is mounted read-only over itself, in mounts of this process's own."""
    if "AILS_INSIDE" not in os.environ:
        as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        os.environ["AILS_INSIDE"] = "yes"
        os.execvp("unshare", ["unshare", *as_root, "--mount", sys.executable, *sys.argv])
    from streamnb.snapshots import DirectoryStore

    folder = "snapshots"

    def mount() -> None:
        read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
        if ill() and not read_only:
            subprocess.run(["mount", "--bind", folder, folder], check=True)
            subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        elif read_only and not ill():
            subprocess.run(["umount", folder], check=True)

    around(DirectoryStore, "save", before=mount)


def offsets_are_forgotten() -> None:
    """The group answers that nothing is committed, twice for every partition."""
    from kafka import KafkaConsumer

    original = KafkaConsumer.committed
    asked: dict[Any, int] = {}

    def committed(consumer: Any, partition: Any, *arguments: Any, **options: Any) -> Any:
        asked[partition] = asked.get(partition, 0) + 1
        return None if asked[partition] <= 2 else original(consumer, partition, *arguments, **options)

    KafkaConsumer.committed = committed


def no_lz4() -> None:
    """The library that reads lz4 is not installed; which the client looks for when it is imported, so not in a fork."""
    if "kafka" in sys.modules:
        os.execv(sys.executable, [sys.executable, *sys.argv])
    for name in ("lz4", "lz4.frame", "lz4f", "lz4framed", "cramjam"):
        sys.modules[name] = None  # type: ignore[assignment]  # importing it raises ImportError


AILMENTS: dict[str, Callable[[], None]] = {
    ail.__name__: ail
    for ail in (
        *(clock_steps_back, loop_hangs, learning_is_slow, commits_wait),
        *(disk_is_full, disk_is_read_only, offsets_are_forgotten, no_lz4),
    )
}


if __name__ == "__main__":
    AILMENTS[os.environ["AIL"]]()
    from streamnb.cli import main

    sys.argv = ["streamnb", "run", *sys.argv[1:]]
    main()
