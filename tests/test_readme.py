"""What the README says is so: its programs run, its configuration loads, its commands and names exist."""

import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest
import yaml
from typer.testing import CliRunner

from streamnb import errors
from streamnb.cli import app
from streamnb.config import Config, EventConfig, LimitsConfig, load
from streamnb.config.tree import Section
from streamnb.events import Decoder
from streamnb.metric_families import FAMILIES
from streamnb.transport import Partition, Record

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    section = README.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("program", blocks("python"))
def test_a_python_block_runs(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "<README>", "exec"), {"__name__": "readme"})


@pytest.mark.parametrize("script", blocks("bash"))
def test_a_shell_block_parses(script: str) -> None:
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def commands() -> list[list[str]]:
    """The words of every call of streamnb in a shell block."""
    parts = re.split(r"[|>\n]", "".join(blocks("bash")).replace("\\\n", " "))
    return [shlex.split(part, comments=True)[1:] for part in parts if part.strip().startswith("streamnb ")]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_exists_with_the_options_it_is_given(words: list[str]) -> None:
    done = CliRunner().invoke(app, [*(words[:2] if words[0] == "topics" else words[:1]), "--help"])
    assert done.exit_code == 0
    assert {word for word in words if word.startswith("--")} <= set(re.findall(r"--[a-z-]+", done.stdout))


def test_the_example_for_kafka_loads(tmp_path: Path) -> None:
    example = blocks("yaml")[0]
    (tmp_path / "payments.yaml").write_text(example)
    assert load(tmp_path / "payments.yaml", {}).app == "payments"


def test_the_reference_shows_every_key_with_its_default(tmp_path: Path) -> None:
    reference = yaml.safe_load(blocks("yaml")[1])
    needed = {"input": {"labelled": ["t"]}, "output": {"predictions": "p"}}
    (tmp_path / "reference.yaml").write_text(blocks("yaml")[1])
    (tmp_path / "least.yaml").write_text("app: payments\n")
    loaded = load(tmp_path / "reference.yaml", {}, needed)
    assert loaded.model_dump() == load(tmp_path / "least.yaml", {}, needed).model_dump()
    assert names(reference) == fields(Config) - {"model.norm"}


def names(tree: Mapping[str, object], prefix: str = "") -> set[str]:
    below = [names(value, f"{prefix}{key}.") for key, value in tree.items() if isinstance(value, dict) and value]
    return {f"{prefix}{key}" for key in tree}.union(*below)


def fields(section: type[Section], prefix: str = "") -> set[str]:
    kinds = {f"{prefix}{name}": info.annotation for name, info in section.model_fields.items()}
    below = [
        fields(kind, f"{name}.") for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, Section)
    ]
    return set(kinds).union(*below)


def test_the_example_event_can_be_used() -> None:
    record = Record(Partition("payments", 0), 0, 1, 2e9, None, blocks("json")[0].encode())
    decoder = Decoder(EventConfig(), LimitsConfig(), None, True, dict)
    event = decoder.decode(record, "labelled")
    assert (event.id, event.y, event.x) == (17, "fine", {"amount": 12.5, "device.os": "linux"})


def test_the_example_answer_is_json() -> None:
    assert set(json.loads(blocks("json")[1])) == {"id", "label", "probabilities", "model", "explanation"}


def test_every_exit_code_is_explained() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    known = {kind.exit_code for kind in kinds if issubclass(kind, errors.StreamnbError)}
    assert {int(code) for code, _ in rows("Exit codes")} == known | {0, 1}


def test_every_reason_for_a_dead_letter_is_named() -> None:
    section = README.partition("Reasons: ")[2].partition("\n\n")[0].partition(". JSON")[0]
    assert set(re.findall(r"`(\w+)`", section)) == set(get_args(errors.Reason))


def test_every_metric_it_names_exists() -> None:
    section = README.partition("the prefix `streamnb_`: ")[2].partition(". Every instance")[0]
    named = set(re.findall(r"`(\w+)`", section))
    assert named
    assert named <= set(FAMILIES)
