"""Every offset of a log of transactions as the place where a run ends and the next begins."""

import os
import random
import threading
from pathlib import Path
from typing import Any

from streamnb.cli.wiring import Daemon
from streamnb.config import load
from tests.lives import BOTH_CLIENTS
from tests.oracle import Workload


def run_until_a_commit(config: Path) -> None:
    """The daemon in this process, stopped as soon as it has committed anything."""
    stop = threading.Event()
    daemon = Daemon(load(config, {}), stop)
    count = daemon.metrics.transaction

    def transaction(*arguments: Any) -> None:
        count(*arguments)
        stop.set()

    daemon.metrics.transaction = transaction  # type: ignore[method-assign]
    with daemon:
        daemon.run()


@BOTH_CLIENTS
def test_stopped_after_every_commit_on_a_log_of_transactions_it_loses_and_doubles_nothing(
    workload: Workload, fleet, monkeypatch
):
    pick = random.Random(2)
    workload.produce_in_transactions(12, aborted=6, each=2)
    daemon = fleet.daemon(workload, limits={"batch_events": 1}, kafka={"static_membership": True})
    monkeypatch.chdir(daemon.folder)
    for _ in range(60):
        run_until_a_commit(daemon.folder / "config.yaml")
        if not workload.unanswered():
            break
        if pick.random() < 0.3:  # learn again from an earlier offset
            os.unlink(daemon.snapshots[-1])
    assert daemon.start().ready().stop() == 0, daemon.tail()
    workload.check([daemon.snapshot()])
