"""The loop's own decisions, over files."""

import gc
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamnb.cli.wiring import store_of
from streamnb.config import Config, load, quick_form
from streamnb.engine import IDLE_POLL_SECONDS, POLL_SECONDS, STEP_SECONDS, Engine
from streamnb.metrics import Metrics
from streamnb.reports import Status, Step
from streamnb.transport import Batch, Duty, Partition
from streamnb.transport.files import FilesTransport


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()  # a daemon has its process to itself


def config_of(folder: Path, events: int) -> Config:
    (folder / "events.jsonl").write_text('{"features": {"a": 1}, "label": "x"}\n' * events)
    (folder / "config.yaml").write_text(f"snapshots: {{path: {folder}/snapshots}}")
    form = quick_form(str(folder / "events.jsonl"), str(folder / "answers.jsonl"))
    return load(folder / "config.yaml", {}, form)


class Sizes(Metrics):
    """Remembers how large the batches were."""

    def __init__(self, app: str) -> None:
        super().__init__(app, "a", "1")
        self.found: list[int] = []

    def stepped(self, step: Step) -> None:
        self.found.append(step.records)
        super().stepped(step)


class Waits(FilesTransport):
    """Remembers how long it was given for each batch, and whether there was a duty: from the fourth on."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.found: list[tuple[float, bool]] = []

    def duty(self) -> Duty | None:
        return super().duty() if len(self.found) > 2 else None

    def poll(self, seconds: float, limit: int) -> Batch:
        self.found.append((seconds, self.duty() is not None))
        return super().poll(seconds, limit)


def test_who_has_no_duty_yet_looks_for_one_more_often(tmp_path: Path) -> None:
    config = config_of(tmp_path, 2000)
    metrics = Metrics(config.app, "a", "1")
    transport = Waits(config.files, config.output, event_bytes=1000)
    Engine(config, transport, store_of(config, metrics), metrics).run()
    assert set(transport.found) == {(IDLE_POLL_SECONDS, False), (POLL_SECONDS, True)}
    assert IDLE_POLL_SECONDS < POLL_SECONDS


class Restores(FilesTransport):
    """Has the model reach the end of the file before there is duty, as a labelled topic has."""

    def restore_ends(self) -> dict[Partition, int]:
        return {partition: extent.end for partition, extent in self.extents().items()}


class Remains(Metrics):
    """Remembers what was said to remain each time that the state was said to be `restoring`."""

    def __init__(self, app: str) -> None:
        super().__init__(app, "a", "1")
        self.found: list[int] = []

    def status(self, status: Status) -> None:
        if status.state == "restoring":
            self.found.append(status.restore_remaining)
        super().status(status)


def test_who_is_restoring_says_from_the_first_what_remains(tmp_path: Path) -> None:
    config = config_of(tmp_path, 2000)
    remains = Remains(config.app)
    transport = Restores(config.files, config.output, event_bytes=1000)
    Engine(config, transport, store_of(config, remains), remains).run()
    assert remains.found[0] == (tmp_path / "events.jsonl").stat().st_size
    assert remains.found == sorted(remains.found, reverse=True)


def sizes_of_batches(folder: Path, events: int, working: Callable[[], float]) -> list[int]:
    config = config_of(folder, events)
    sizes = Sizes(config.app)
    transport = FilesTransport(config.files, config.output, event_bytes=1000)
    Engine(config, transport, store_of(config, sizes), sizes, working=working).run()
    return [size for size in sizes.found if size]


def test_batches_grow_while_they_take_no_time(tmp_path: Path) -> None:
    assert sizes_of_batches(tmp_path, 5100, lambda: 0.0) == [100, 200, 400, 800, 1600, 2000]


def test_batches_that_take_long_are_followed_by_smaller_ones_down_to_a_single_event(tmp_path: Path) -> None:
    ticks = itertools.count()
    sizes = sizes_of_batches(tmp_path, 200, lambda: float(next(ticks)))
    assert sizes == [100, round(100 * STEP_SECONDS), *[1] * (len(sizes) - 2)]


def test_every_labelled_event_that_is_counted_is_counted_as_scored_by_the_end(tmp_path: Path) -> None:
    config = config_of(tmp_path, 2300)
    metrics = Metrics(config.app, "a", "1")
    transport = FilesTransport(config.files, config.output, event_bytes=1000)
    Engine(config, transport, store_of(config, metrics), metrics).run()
    lines = metrics.exposition()[0].decode().splitlines()
    assert {
        'streamnb_events_total{outcome="ok",role="labelled"} 2300.0',
        "streamnb_evaluated_total 2300.0",
        'streamnb_class_evaluated_total{class="x"} 2300.0',
    } <= set(lines)
