"""What needs no broker: the work on an event itself, and the daemon over files."""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from streamnb.bench.goals import Result
from streamnb.bench.pipeline import goals
from streamnb.bench.pipeline.streams import Stream
from streamnb.bench.timing import Effort, Spread, Task, measure
from streamnb.config import Config, load
from streamnb.ledger import Watermarks
from streamnb.processing import Processor
from streamnb.transport import Partition, Record, Run, runs_of

LIMIT = 2_000
FULL = Effort(chunk_seconds=0.01, seconds=1.0, most_repeats=25)
QUICK = Effort(chunk_seconds=0.002, seconds=0.03, most_repeats=3)
LOG = Partition("events", 0)


def everything(streams: Sequence[Stream], quick: bool, daemon: Sequence[str]) -> Iterator[Result]:
    """Yield each figure."""
    for stream in streams:
        seconds = measure(_work(stream, 200 if quick else LIMIT), QUICK if quick else FULL).times(1e6)
        yield Result(stream.name, goals.ALONE, seconds.median, seconds.low, seconds.high, ours=seconds.median)
    yield _files(streams[0], 2_000 if quick else 100_000, 0 if quick else 20, daemon)


def processor(stream: Stream) -> Processor:
    """Return what the daemon would have made of its configuration."""
    return Processor(_config(stream), "bench")


def batch(values: Sequence[bytes]) -> list[Run]:
    """Return these events as a batch's records."""
    return runs_of(Record(LOG, i, i + 1, 1.7e9, b"%d" % i, value, ()) for i, value in enumerate(values))


def learning_rate(stream: Stream, values: Sequence[bytes]) -> float:
    """Return how many labelled events a second are decoded, predicted and learned."""
    work, marks = processor(stream), Watermarks({LOG: 0}, {}, {})
    batches = [batch(values[at : at + LIMIT]) for at in range(0, len(values), LIMIT)]
    work.process(batches[0], {"events": "labelled"}, marks)
    begun = time.thread_time()
    for events in batches:
        work.process(events, {"events": "labelled"}, marks)
    return len(values) / (time.thread_time() - begun)


def _config(stream: Stream) -> Config:
    given = {"app": "bench", "transport": "files", "files": {"input": "events"}, "output": {"predictions": "answers"}}
    return load(None, {}, {**given, "model": stream.model})


def _work(stream: Stream, n: int) -> Task:
    work = processor(stream)
    roles, marks = {"events": "labelled"}, Watermarks({LOG: 0}, {LOG: 0}, {})
    work.process(batch([value for _, value in stream.taught()]), roles, marks)  # type: ignore[arg-type]
    events = batch([value for _, value in stream.events(n, 3)])
    return Task(lambda _: work.process(events, roles, marks), n, whole=True)  # type: ignore[arg-type]


def _files(stream: Stream, n: int, few: int, daemon: Sequence[str]) -> Result:
    """Return the CPU time of the daemon over a file, beside that of reading it and writing as many bytes.

    What it takes for `few` events is taken off as the time to start; 0: it is left in.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, answers = Path(folder) / "events.jsonl", Path(folder) / "answers.jsonl"
        path.write_bytes(b"".join(value + b"\n" for _, value in stream.events(n, 4)))
        config = Path(folder) / "config.yaml"

        def cpu(events: Path) -> float:
            section = {"app": "bench", "transport": "files", "files": {"input": str(events)}, "http": {"port": 0}}
            output = {"predictions": str(answers)}
            snapshots = {"path": str(Path(folder) / events.stem)}
            config.write_text(json.dumps({**section, "output": output, "snapshots": snapshots, "model": stream.model}))
            answers.unlink(missing_ok=True)
            before = _children_seconds()
            subprocess.run([*daemon, str(config)], check=True, capture_output=True)
            return _children_seconds() - before

        (Path(folder) / "few.jsonl").write_bytes(b"".join(value + b"\n" for _, value in stream.events(few, 4)))
        start = cpu(Path(folder) / "few.jsonl") if few else 0.0
        ours = 1e6 * max(0.0, cpu(path) - start) / n
        bare = 1e6 * _bare_files(path, answers.stat().st_size, Path(folder) / "null.jsonl") / n
    ratio = Spread.of(ours / bare)
    note = "us; its start taken off" if few else "us; with its start"
    return Result(f"files: {stream.name}", goals.FILES, ratio.median, ratio.low, ratio.high, None, ours, bare, note)


def _children_seconds() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _bare_files(events: Path, answer_bytes: int, target: Path) -> float:
    begun = time.thread_time()
    with events.open("rb") as lines, target.open("wb") as out:
        found = list(lines)
        line = bytes(2 * answer_bytes // len(found))
        for number, _ in enumerate(found):
            if number % 2:
                out.write(line)
    return time.thread_time() - begun
