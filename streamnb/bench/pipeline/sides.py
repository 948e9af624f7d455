"""The daemon and the loops that it is compared with: each a process, a topic of its own, and the answers to it.

A process's time is read from outside, from its CPU clock: all threads of it, those of the broker's client too.
"""

import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamnb.bench.pipeline.kafka_python import Answers, Feeder, Paced, Topics
from streamnb.bench.pipeline.plan import Plan
from streamnb.bench.pipeline.streams import Pair, Stream

ANSWER_SECONDS = 120.0
CLOCK_OF_A_PROCESS = 2


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that all threads of a process have had (Linux: clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | CLOCK_OF_A_PROCESS)


@dataclass(slots=True)
class Side:
    """One process at work. Made by `daemon` or `loop`."""

    process: "subprocess.Popen[bytes]"
    topic: str
    answers: Answers
    log: Path
    begun: float
    """When it was started, by `time.perf_counter`."""
    due: int = 0
    """How many answers there must be to all that was put into the topic."""
    seen: int = 0
    sizes: list[int] = field(default_factory=list)

    def measure(self, feeder: Feeder, pairs: Sequence[Pair]) -> tuple[float, float]:
        """Return microseconds of CPU per event, and events per second, from the events there to the last answer."""
        with feeder.ready(self.topic, pairs):
            cpu, wall = cpu_seconds(self.process.pid), time.perf_counter()
        self.expect(pairs)
        seconds, spent = time.perf_counter() - wall, cpu_seconds(self.process.pid) - cpu
        return 1e6 * spent / len(pairs), len(pairs) / seconds

    def expect(self, pairs: Sequence[Pair]) -> None:
        """Wait until all these have been answered."""
        self.due += sum(b'"label"' not in value for _, value in pairs)
        deadline = time.monotonic() + ANSWER_SECONDS
        while self.seen < self.due:
            for record in self.answers.poll(5):
                self.seen += 1
                self.sizes.append(len(record.value) + sum(len(k) + len(v) for k, v in record.headers or ()))
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = self.log.read_text()[-2000:]
                raise RuntimeError(f"{self.seen} of {self.due} answers, then no more; the process said:\n{said}")

    @property
    def answer_bytes(self) -> int:
        """How long its answers have been, headers included."""
        return round(statistics.fmean(self.sizes))

    @property
    def resident_mib(self) -> float:
        """Its memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * 4096 / 2**20

    def close(self) -> None:
        """End it, so that it leaves its group."""
        self.answers.close()
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Sides:
    """Starts them all against one broker."""

    def __init__(self, topics: Topics, folder: Path, daemon: Sequence[str]) -> None:
        self.folder = folder
        self._topics, self._daemon = topics, list(daemon)
        self._count = 0

    def config(self, client: str, stream: Stream, topic: str, answers: str, **sections: Any) -> Path:
        """Write the daemon's configuration."""
        self._count += 1
        folder = self.folder / f"daemon-{self._count}"
        folder.mkdir()
        config = {
            "app": self._topics.name("daemon"),
            "kafka": {"bootstrap_servers": self._topics.bootstrap, "client": client, "session_timeout": "6s"},
            "input": {"labelled": [topic]},
            "output": {"predictions": answers},
            "model": stream.model,
            "http": {"port": 0},
            **sections,
        }
        config["snapshots"] = {"path": str(folder / "snapshots"), "every": "1h", **config.get("snapshots", {})}
        path = folder / "config.yaml"
        path.write_text(json.dumps(config))  # JSON is YAML
        return path

    def daemon(self, client: str, stream: Stream, *options: str, topic: str | None = None, **sections: Any) -> Side:
        """Start the daemon; `options` are of `streamnb.cli.benching`, in place of a plain `run`."""
        topic, answers = topic or self._topics.topic("events"), self._topics.topic("answers")
        path = self.config(client, stream, topic, answers, **sections)
        command = [*self._daemon[:2], "streamnb.cli.benching", str(path), *options] if options else self._daemon
        return self._started(command if options else [*command, str(path)], topic, answers)

    def loop(self, client: str, answer_bytes: int = 0, stream: str | None = None) -> Side:
        """Start the null loop, or the user's loop for a stream."""
        topic, answers, name = self._topics.topic("events"), self._topics.topic("answers"), self._topics.name("loop")
        plan = Plan(client, self._topics.bootstrap, name, topic, answers, answer_bytes, stream)
        return self._started([sys.executable, "-m", "streamnb.bench.pipeline.loop", plan.to_json()], topic, answers)

    def _started(self, command: Sequence[str], topic: str, answers: str) -> Side:
        self._count += 1
        log = self.folder / f"log-{self._count}"
        begun = time.perf_counter()
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file, cwd=self.folder)
        return Side(process, topic, Answers(self._topics.bootstrap, answers), log, begun)


def latencies(side: Side, bootstrap: str, pairs: Sequence[Pair], per_second: float) -> list[float]:
    """Return the seconds from handing each unlabelled event to a producer until its committed answer is read."""
    sent: dict[bytes, float] = {}
    found: list[float] = []
    due = {b"at-" + key for key, value in pairs if b'"label"' not in value}
    left = len(due)

    def listen() -> None:
        nonlocal left
        deadline = time.monotonic() + ANSWER_SECONDS
        while left and time.monotonic() < deadline:
            for record in side.answers.poll(100):
                now = time.perf_counter()
                if record.key in due:
                    found.append(now - sent[record.key])
                    left -= 1

    listener = threading.Thread(target=listen)
    listener.start()
    producer = Paced(bootstrap, side.topic)
    begin = time.perf_counter()
    for i, (key, value) in enumerate(pairs):
        if (wait := begin + i / per_second - time.perf_counter()) > 0:
            time.sleep(wait)
        sent[b"at-" + key] = time.perf_counter()
        producer.send(b"at-" + key, value)
    producer.close()
    listener.join()
    side.due += len(due)
    side.seen += len(due)
    return sorted(found)
