"""Compiled peers, run on the same events where they are installed: MOA and Vowpal Wabbit."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from streamnb.bench.workloads import Workload

MOA_JAR = "MOA_JAR"
COPIES = 200
"""The events are written this many times over, so that starting up does not count; it is taken off as well."""


def moa_jar() -> Path | None:
    """Return the jar that $MOA_JAR names, if java can run it."""
    path = Path(os.environ.get(MOA_JAR, ""))
    return path if path.is_file() and shutil.which("java") else None


def vw_program() -> str | None:
    """Return the path of Vowpal Wabbit."""
    return shutil.which("vw")


def moa_seconds(jar: Path, workload: Workload) -> float:
    """Return MOA's seconds per event of test-then-train with NaiveBayes."""
    names = list(workload.events[0][0])
    labels = sorted({y for _, y in workload.events})
    head = ["@relation events", *(f"@attribute {name} numeric" for name in names)]
    head += ["@attribute class {" + ",".join(label.replace(" ", "_") for label in labels) + "}", "@data"]
    lines = [",".join([*map(str, x.values()), y.replace(" ", "_")]) for x, y in workload.events]

    def command(file: Path) -> list[str]:
        task = f"EvaluatePrequential -l bayes.NaiveBayes -s (ArffFileStream -f {file}) -f 1000000"
        return ["java", "-cp", str(jar), "moa.DoTask", task]

    return _seconds_per_line(command, head, lines)


def vw_seconds(program: str, workload: Workload) -> float:
    """Return Vowpal Wabbit's seconds per document of test-then-train with one model per class."""
    labels = sorted({y for _, y in workload.events})
    lines = [f"{labels.index(y) + 1} | " + " ".join(x) for x, y in workload.events]

    def command(file: Path) -> list[str]:
        return [program, "--quiet", "--oaa", str(len(labels)), "--bit_precision", "22", "--data", str(file)]

    return _seconds_per_line(command, [], lines)


def _seconds_per_line(command: Callable[[Path], list[str]], head: Sequence[str], lines: Sequence[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        seconds = []
        for copies in (1, COPIES + 1):
            file = Path(folder) / f"{copies}.txt"
            file.write_text("\n".join([*head, *(list(lines) * copies), ""]))
            start = time.perf_counter()
            subprocess.run(command(file), check=True, capture_output=True)
            seconds.append(time.perf_counter() - start)
    return (seconds[1] - seconds[0]) / (COPIES * len(lines))
