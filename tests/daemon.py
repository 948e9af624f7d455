"""`streamnb run` as a process of its own, on a configuration written for the test."""

import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.broker import free_port, wait_until
from tests.forking import Forked, started


class Daemon:
    """Starts, stops and questions one instance; its snapshots and log stay in `folder` between starts."""

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        instance: str = "a",
        script: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """`script` is run in place of `streamnb run`."""
        self.folder, self.instance = folder, instance
        self.port = free_port()
        self.process: Forked | None = None
        program = [script] if script else ["-m", "streamnb", "run"]
        self._arguments = [*program, "config.yaml", *options]
        folder.mkdir(parents=True, exist_ok=True)
        tree = {
            "http": {"port": self.port},
            "snapshots": {"path": str(folder / "snapshots"), "every": "1s"},
            **config,
        }
        if tree.get("transport", "kafka") == "kafka":
            tree["kafka"] = {
                "instance": instance,
                "session_timeout": "6s",
                "transaction_timeout": "5s",
                **tree.get("kafka", {}),
            }
        (folder / "config.yaml").write_text(yaml.safe_dump(tree))

    def start(self, **environ: str) -> "Daemon":
        self.process = started(self._arguments, self.folder, self.folder / "log", {**os.environ, **environ})
        return self

    def ready(self, seconds: float = 60) -> "Daemon":
        wait_until(
            lambda: self.is_ready() or self._check_alive(),
            seconds,
            lambda: f"{self.instance} to be ready; {self.tail()}",
        )
        return self

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def kill(self) -> None:
        """SIGKILL, in whatever it is doing."""
        self.signal(signal.SIGKILL)
        self._process.wait(30)

    def stop(self, seconds: float = 60) -> int:
        """SIGTERM; return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def wait(self, seconds: float = 30) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.instance} did not end within {seconds} s; {self.tail()}") from None

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        """End it however it stands."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def get(self, path: str) -> tuple[int, str]:
        """Status code and body; 0 when nobody answers, or dies while it does."""
        try:
            return self._answer(path)
        except (OSError, HTTPException):
            return 0, ""

    def _answer(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every sample, by name and labels; empty when nobody answers."""
        status, text = self.get("/metrics")
        if status != 200:
            return {}
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics().get((f"streamnb_{name}", tuple(sorted(labels.items()))), 0.0)

    def snapshot(self) -> Any:
        """The newest snapshot file, decoded."""
        from streamnb.snapshots import load

        return load(self.snapshots[-1])

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def tail(self) -> str:
        return f"the log of {self.instance} ends:\n{self.log()[-4000:]}"

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def snapshots(self) -> list[Path]:
        """Its snapshot files, oldest first."""
        return sorted((self.folder / "snapshots").rglob("*.snapshot"))

    def says(self, words: str, times: int = 1, seconds: float = 60) -> None:
        """Wait until these words stand in its log so many times."""
        wait_until(lambda: self.log().count(words) >= times, seconds, lambda: f"{words!r} in the log; {self.tail()}")

    @property
    def _process(self) -> Forked:
        assert self.process is not None
        return self.process

    def _check_alive(self) -> bool:
        code = self._process.poll()
        if code is not None:
            raise AssertionError(f"{self.instance} ended with {code}; {self.tail()}")
        return False
