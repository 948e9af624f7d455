"""What is saved beside the loop is of one moment, and the thread that saves gives way to the loop."""

import gc
import itertools
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from streamnb import MultinomialNB, saving
from streamnb.cli.wiring import store_of
from streamnb.config import load, quick_form
from streamnb.engine import Engine
from streamnb.learners import copying, pieces
from streamnb.metrics import Metrics
from streamnb.saving import PAUSE_SECONDS, WORK_SECONDS, GiveWay
from streamnb.snapshots import Snapshot
from streamnb.snapshots.directory import DirectoryStore
from streamnb.transport import Batch
from streamnb.transport.files import FilesTransport

EVENTS = [({f"w{i % 7}": 1, f"v{i:02}": 2}, "ab"[i % 2]) for i in range(60)]
LINES = [f'{{"features": {{"w{i % 7}": 1, "v{i:02}": 2}}, "label": "{y}"}}\n' for i, (_, y) in enumerate(EVENTS)]
CONFIG = """
snapshots: {{path: {folder}/snapshots, every: 5s}}
limits: {{batch_events: 2}}
model: {{kind: multinomial}}
"""


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()  # a daemon has its process to itself


class Polls(FilesTransport):
    """Remembers how long it might wait for each batch."""

    waits: list[float]

    def poll(self, seconds: float, limit: int) -> Batch:
        self.waits.append(seconds)
        return super().poll(seconds, limit)


class WaitsForEach(ThreadPoolExecutor):
    """Has the loop wait for what it gives away, so that a save takes as many of its passes each time."""

    def submit(self, *call: Any, **options: Any) -> Future[Any]:
        future = super().submit(*call, **options)
        future.exception()
        return future


def test_a_snapshot_that_is_copied_while_events_are_learned_holds_those_below_its_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PIECE", 1)
    monkeypatch.setattr(copying, "PIECE_BYTES", 1)
    monkeypatch.setattr(saving, "ThreadPoolExecutor", WaitsForEach)
    (tmp_path / "events.jsonl").write_text("".join(LINES))
    (tmp_path / "config.yaml").write_text(CONFIG.format(folder=tmp_path))
    config = load(tmp_path / "config.yaml", {}, quick_form(str(tmp_path / "events.jsonl"), str(tmp_path / "answers")))
    metrics, ticks = Metrics(config.app, "a", "1"), itertools.count()
    saved: list[Snapshot] = []
    save = DirectoryStore.save
    monkeypatch.setattr(DirectoryStore, "save", lambda self, snapshot: saved.append(snapshot) or save(self, snapshot))
    transport = Polls(config.files, config.output, event_bytes=1000)
    transport.waits = []
    # each look at this clock is a second later: a piece is copied in each pass
    Engine(config, transport, store_of(config, metrics), metrics, monotonic=lambda: float(next(ticks))).run()
    assert transport.waits.count(0.0) > len(EVENTS) // 4
    learned = [EVENTS[: offset // len(LINES[0])] for snapshot in saved for offset in snapshot.learned.values()]
    assert len({*map(len, learned)}) > 2
    for snapshot, events in zip(saved, learned, strict=True):
        model = MultinomialNB()
        for x, y in events:
            model.learn_one(x, y)
        assert MultinomialNB.from_bytes(snapshot.model).to_bytes() == model.to_bytes()


def test_a_thread_that_gives_way_pauses_after_each_so_much_work_and_not_before() -> None:
    now, pauses = [0.0], []

    def pause(seconds: float) -> None:
        pauses.append((round(now[0], 6), seconds))
        now[0] += seconds

    give_way = GiveWay(lambda: now[0], pause)
    for _ in range(7):
        now[0] += WORK_SECONDS / 2
        give_way()
    first, second, third = (WORK_SECONDS * n + PAUSE_SECONDS * (n - 1) for n in (1, 2, 3))
    assert pauses == [(round(at, 6), PAUSE_SECONDS) for at in (first, second, third)]


def test_saving_a_model_pauses_between_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE", 10)
    model = MultinomialNB()
    model.learn_one({f"w{i}": 1 for i in range(200)}, "a")
    pauses: list[None] = []
    token = pieces.PAUSE.set(lambda: pauses.append(None))
    model.to_bytes()
    pieces.PAUSE.reset(token)
    assert len(pauses) >= 2 * 200 // 10  # sorting the names, and writing them
