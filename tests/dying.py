"""Runs `streamnb run` and kills the process at a named point of the loop: DIE_AT=point, the DIE_ON-th time it comes.

Run as a script in place of `-m streamnb run`. The points are reached by wrapping the clients' own calls from outside.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

POINTS = (
    "after_poll",
    "after_first_send",
    "before_offsets",
    "before_commit",
    "inside_commit",
    "after_commit",
    "before_snapshot",
    "inside_snapshot",
    "after_snapshot",
    "before_restore",
    "inside_restore",
    "before_join",
    "inside_join",
)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Countdown:
    """Dies when it has been called often enough."""

    def __init__(self, calls: int) -> None:
        self._left = calls

    def __call__(self, *_: object) -> None:
        self._left -= 1
        if self._left <= 0:
            die()


def around(
    owner: Any, name: str, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
) -> None:
    """Call `before` ahead of owner.name, and `after` with what it returned."""
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            before()
        result = original(*args, **kwargs)
        if after:
            after(result)
        return result

    setattr(owner, name, wrapped)


class Calls(NamedTuple):
    """A class whose calls are wrapped, and what it calls them."""

    owner: type
    names: Mapping[str, str]


def client_calls() -> tuple[list[Calls], list[Calls]]:
    """The consumers and producers of both clients; whose they are, the configuration says."""
    from kafka import KafkaConsumer, KafkaProducer

    from streamnb.transport.confluent import member, publisher, reader

    # Classes of C take no other methods; heirs of theirs do.
    consumer = type("Consumer", (reader.Consumer,), {})
    producer = type("Producer", (publisher.RdProducer,), {})
    reader.Consumer = member.Consumer = consumer  # type: ignore[misc]
    publisher.RdProducer = producer  # type: ignore[misc]
    return (
        [Calls(KafkaConsumer, {}), Calls(consumer, {"poll": "consume"})],
        [Calls(KafkaProducer, {}), Calls(producer, {"send": "produce"})],
    )


def around_all(clients: Sequence[Calls], name: str, **hooks: Callable[..., None]) -> None:
    """As `around`, for a call that every client has under one name or another."""
    for owner, names in clients:
        around(owner, names.get(name, name), **hooks)


def arm(point: str, calls: int) -> None:
    """Arrange for the death."""
    from streamnb.processing import Processor
    from streamnb.snapshots import DirectoryStore

    count = Countdown(calls)
    consumers, producers = client_calls()
    match point:
        case "after_poll":
            around_all(consumers, "poll", after=lambda records: count() if records else None)
        case "after_first_send":
            around_all(producers, "send", after=count)
        case "before_offsets":
            around_all(producers, "send_offsets_to_transaction", before=count)
        case "before_commit":
            around_all(producers, "commit_transaction", before=count)
        case "inside_commit":
            around_all(producers, "commit_transaction", before=lambda: _soon(count))
        case "after_commit":
            around_all(producers, "commit_transaction", after=count)
        case "before_snapshot":
            around(DirectoryStore, "save", before=count)
        case "inside_snapshot":
            around(os, "fsync", before=count)
        case "after_snapshot":
            around(DirectoryStore, "save", after=count)
        case "before_group_commit":  # delivery: at_least_once
            around_all(consumers, "commit", before=count)
        case "before_restore":
            around(DirectoryStore, "newest", before=die)
        case "inside_restore":
            around(Processor, "restore", after=die)
        case "before_join":
            around_all(consumers, "subscribe", before=die)
        case "inside_join":
            around_all(consumers, "subscribe", before=lambda: _soon(die, 0.05))
        case _:
            raise SystemExit(f"DIE_AT={point!r}: allowed are {', '.join(POINTS)}")


def _soon(act: Callable[[], None], seconds: float = 0.001) -> None:
    """Act a moment later in another thread, while the call is under way."""
    import threading

    threading.Timer(seconds, act).start()


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.environ.get("DIE_AT"):
        arm(os.environ["DIE_AT"], int(os.environ.get("DIE_ON", "1")))
    from streamnb.cli import main

    sys.argv = ["streamnb", "run", *sys.argv[1:]]
    main()
