"""What the daemon leaves behind in a folder, and the commands that look at it, called in this process."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from click.testing import Result
from typer.testing import CliRunner

from streamnb.cli import app

Features = Mapping[str, Any]

PASSENGERS: list[tuple[Features, str]] = [
    ({"age": 22.0, "sex": "male", "name": "Mr Braund"}, "died"),
    ({"age": 38.0, "sex": "female", "name": "Mrs Cumings"}, "survived"),
    ({"age": 26.0, "sex": "female", "name": "Miss Heikkinen"}, "survived"),
    ({"age": 35.0, "sex": "male", "name": "Mr Allen"}, "died"),
    ({"age": None, "sex": "male", "name": "Mr Moran"}, "died"),
    ({"age": 54.0, "sex": "male", "name": "Mr McCarthy"}, "died"),
    ({"age": 27.0, "sex": "female", "name": "Mrs Johnson"}, "survived"),
]


def lines_of(events: Iterable[tuple[Features, str | None]]) -> str:
    return "".join(json.dumps({"features": x, "label": y}) + "\n" for x, y in events)


def learned(folder: Path, lines: str, model: str) -> Path:
    """Have the daemon learn these lines; return the configuration, which has its snapshots beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.jsonl").write_text(lines)
    config = folder / "streamnb.yaml"
    config.write_text(
        "app: saved\n"
        "transport: files\n"
        f"files: {{input: {folder / 'events.jsonl'}}}\n"
        f"output: {{predictions: {folder / 'answers.jsonl'}}}\n"
        f"model: {model}\n"
        f"snapshots: {{path: {folder / 'snapshots'}}}\n"
        "http: {port: 0}\n"
    )
    subprocess.run([sys.executable, "-m", "streamnb", "run", str(config)], check=True, capture_output=True, timeout=250)
    return config


def call(*arguments: str | Path, stdin: str | None = None) -> Result:
    """Call a command; what it prints on standard error is in `stderr`."""
    return CliRunner().invoke(app, [*map(str, arguments)], input=stdin)
