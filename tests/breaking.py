"""Runs `streamnb run` with one guarantee broken on purpose, BREAK=name, to see that the oracle complains.

Each takes away one rule that the design calls not optional. Where the harm takes a crash, or a pause while another
instance takes over, it comes at the worst moment by itself: the process kills or stops itself there.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.dying import around, die  # run as a script


class Once:
    """Does something the `nth` time it is asked, unless an earlier process of this folder has done it."""

    def __init__(self, act: Callable[..., None], nth: int = 3) -> None:
        self._act, self._left = act, nth

    def __call__(self, *arguments: object) -> None:
        self._left -= 1
        if self._left == 0 and not Path("broken-once").exists():
            Path("broken-once").touch()
            self._act(*arguments)


def freeze() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def learn_twice() -> None:
    """Snapshots whose offsets are older than their model: those of the first one."""
    from streamnb.snapshots import DirectoryStore, Snapshot

    original = DirectoryStore.save
    first: list[Snapshot] = []

    def save(store: DirectoryStore, snapshot: Snapshot) -> int:
        first.append(snapshot)
        return original(store, replace(snapshot, learned=first[0].learned))

    DirectoryStore.save = save  # type: ignore[method-assign]


def _transact_in_two(offsets_first: bool) -> None:
    """Answers in one transaction, offsets in another, and death between them."""
    from streamnb.transport.kafka_python import publisher

    original = publisher.transact
    between = Once(die)

    def transact(producer: Any, commit: publisher.Commit, seconds: float) -> None:
        parts = [commit._replace(offsets={}), commit._replace(records=[])]
        first, second = reversed(parts) if offsets_first else parts
        original(producer, first, seconds)
        if commit.records:
            between()
        original(producer, second, seconds)

    publisher.transact = transact


def no_transaction() -> None:
    _transact_in_two(offsets_first=False)


def commit_before_sending() -> None:
    _transact_in_two(offsets_first=True)


def fresh_metadata() -> None:
    """The group metadata of this moment instead of the assignment's, after a pause beyond the session."""
    from kafka import KafkaConsumer, KafkaProducer

    members: list[Any] = []
    subscribe, send_offsets = KafkaConsumer.subscribe, KafkaProducer.send_offsets_to_transaction

    def subscribe_and_remember(consumer: Any, *arguments: Any, **options: Any) -> Any:
        members.append(consumer)
        return subscribe(consumer, *arguments, **options)

    def send_offsets_late(producer: Any, offsets: Any, captured: Any) -> Any:
        pause(captured.generation_id)
        return send_offsets(producer, offsets, members[-1].group_metadata())

    def freeze_until_regrouped(generation: int) -> None:
        freeze()
        for _ in range(600):  # until it is in the group again: the duty thread goes on beside this one
            if members[-1].group_metadata().generation_id > generation:
                break
            time.sleep(0.05)

    pause = Once(freeze_until_regrouped)
    KafkaConsumer.subscribe = subscribe_and_remember
    KafkaProducer.send_offsets_to_transaction = send_offsets_late


def captured_metadata() -> None:
    """Nothing broken: the same pause at the same place, for comparison."""
    from kafka import KafkaProducer

    around(KafkaProducer, "send_offsets_to_transaction", before=Once(freeze))


def drop_on_error() -> None:
    """A batch whose publishing failed is taken for done."""
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    from streamnb.errors import PublishUnknown
    from streamnb.transport.kafka_python import KafkaTransport

    def fail() -> None:
        raise KafkaError("on purpose")

    original = KafkaTransport.publish

    def publish(transport: KafkaTransport, *arguments: Any) -> None:
        try:
            original(transport, *arguments)
        except PublishUnknown:
            transport._opened().settle()
            assert transport._opened().wait_settled(60)

    around(KafkaProducer, "send_offsets_to_transaction", before=Once(fail))
    KafkaTransport.publish = publish  # type: ignore[method-assign]


def read_uncommitted() -> None:
    """Records of aborted transactions are read like any others."""
    from kafka import KafkaConsumer

    original = KafkaConsumer.__init__

    def init(consumer: Any, *arguments: Any, **options: Any) -> None:
        original(consumer, *arguments, **{**options, "isolation_level": "read_uncommitted"})

    KafkaConsumer.__init__ = init


BREAKS = {
    breaks.__name__: breaks
    for breaks in (
        learn_twice,
        no_transaction,
        commit_before_sending,
        fresh_metadata,
        captured_metadata,
        drop_on_error,
        read_uncommitted,
    )
}


if __name__ == "__main__":
    BREAKS[os.environ["BREAK"]]()
    from streamnb.cli import main

    sys.argv = ["streamnb", "run", *sys.argv[1:]]
    main()
