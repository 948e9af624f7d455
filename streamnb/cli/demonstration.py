"""What the demo shows: a stream of text messages, how well it is predicted, and the answers beside the truth.

Every fourth message loses its label before it is sent, so the engine answers it; the others it predicts,
scores and then learns. The labels held back are looked at when all answers are in the file.
"""

import gzip
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from shutil import rmtree
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from streamnb.cli.wiring import Daemon
from streamnb.config import load
from streamnb.errors import InputFileError
from streamnb.reports import ScoresView, Status

ANSWER_EVERY = 4
TICK_SECONDS = 0.05
WORDS = 4

TEXT_WIDTH = 70
HEADER = "   scored   accuracy   majority class   log loss (nats per message)"

CONFIG, EVENTS, PREDICTIONS, DEAD_LETTERS = "streamnb.yaml", "events.jsonl", "predictions.jsonl", "dead.jsonl"
SNAPSHOTS = "snapshots"

Answer = dict[str, Any]
"""A line of the predictions, whose form the README describes."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the collection; `held_back` if it is sent without its label."""

    id: str
    text: str
    label: str
    held_back: bool

    def line(self) -> bytes:
        """The event as it is sent."""
        event: dict[str, object] = {"id": self.id, "features": {"text": self.text}}
        if not self.held_back:
            event["label"] = self.label
        return json.dumps(event).encode() + b"\n"


def show(folder: Path, *, overwrite: bool, rate: int, hold: bool, stop: threading.Event) -> None:
    """Run the demo in the folder and print what happens; end early when `stop` is set."""
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    messages = collection()
    prepare(folder, overwrite)
    daemon = Daemon(load(folder / CONFIG, {}), stop)
    introduce(console, messages, folder)
    with in_background(daemon):
        console.print(f"while this runs: {daemon.url}/ (status page), /metrics, /model, /healthz, /readyz")
        wait_for_start(console, daemon)
        sent = send(console, messages, folder / EVENTS, rate, daemon)
        if hold and not stop.is_set():
            report(console, messages[:sent], folder)
            console.print(f"\nstill up: {daemon.url}/ - stop with Ctrl-C")
            stop.wait()
    if not hold:
        report(console, messages[:sent], folder)


def collection() -> Sequence[Message]:
    """The messages in their published order."""
    packed = resources.files("streamnb.cli").joinpath("data/sms_spam.jsonl.gz").read_bytes()
    rows = map(json.loads, gzip.decompress(packed).splitlines())
    return [
        Message(row["id"], row["features"]["text"], row["label"], i % ANSWER_EVERY == ANSWER_EVERY - 1)
        for i, row in enumerate(rows)
    ]


def prepare(folder: Path, overwrite: bool) -> None:
    """Make the folder with a configuration and an empty input; touch nothing that is not the demo's own."""
    if folder.exists() and not folder.is_dir():
        raise InputFileError(f"{folder}: is not a folder; name another with --folder")
    settings = configuration(folder.resolve())
    if folder.exists() and any(folder.iterdir()):
        clear(folder, settings, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / EVENTS).touch()
    (folder / CONFIG).write_text(settings)


def clear(folder: Path, settings: str, overwrite: bool) -> None:
    """Remove an earlier demo's files, known by its configuration. Raise InputFileError, nothing touched."""
    found = (folder / CONFIG).read_text() if (folder / CONFIG).exists() else None
    if found != settings:
        raise InputFileError(f"{folder}: is not empty, and holds no earlier demo; name another with --folder")
    if not overwrite:
        raise InputFileError(
            f"{folder}: holds an earlier demo; replace it with --overwrite, or name another with --folder"
        )
    for name in (EVENTS, PREDICTIONS, DEAD_LETTERS, CONFIG):
        (folder / name).unlink(missing_ok=True)
    rmtree(folder / SNAPSHOTS, ignore_errors=True)


def configuration(folder: Path) -> str:
    """The configuration as a person would write it; JSON's quoting is also YAML's."""
    quoted = {name: json.dumps(str(folder / name)) for name in (EVENTS, PREDICTIONS, DEAD_LETTERS, SNAPSHOTS)}
    return f"""\
app: demo
transport: files
files: {{input: {quoted[EVENTS]}, follow: true}}
output: {{predictions: {quoted[PREDICTIONS]}, dead_letters: {quoted[DEAD_LETTERS]}, explain: {WORDS}}}
model: {{kind: mixed, features: {{text: text}}}}
snapshots: {{path: {quoted[SNAPSHOTS]}, every: 5s}}
http: {{port: 0}}
"""


def introduce(console: Console, messages: Sequence[Message], folder: Path) -> None:
    asked = sum(message.held_back for message in messages)
    console.print(
        f"{len(messages)} text messages (UCI SMS Spam Collection, CC BY 4.0) arrive one after another in "
        f"{escape(str(folder / EVENTS))}.\n"
        f"{len(messages) - asked} carry their label, ham or spam: predicted first, scored, then learned.\n"
        f"{asked}, every {ANSWER_EVERY}th, are sent without it: answered by what was learned before them."
    )


@contextmanager
def in_background(daemon: Daemon) -> Iterator[None]:
    """Run the daemon in a thread of its own; stop it at the end, and raise what it has raised."""
    with daemon, ThreadPoolExecutor(1, thread_name_prefix="streamnb-engine") as thread:
        ending = thread.submit(daemon.run)
        ending.add_done_callback(lambda _: daemon.stop.set())
        try:
            yield
        finally:
            daemon.stop.set()
        ending.result()


def wait_for_start(console: Console, daemon: Daemon) -> None:
    """Let the engine compile its kernels before anything is sent."""
    console.print("starting; the first run on a machine compiles for it, which takes up to a minute\n")
    while not daemon.stop.wait(TICK_SECONDS):
        if (status := daemon.engine.status) and status.state == "running":
            return


def send(console: Console, messages: Sequence[Message], path: Path, rate: int, daemon: Daemon) -> int:
    """Append the messages at this rate, and show how they are predicted; return how many were sent.

    Ends when the engine has handled all of them, or has stopped.
    """
    shown = ""
    console.print(HEADER)
    with path.open("ab") as file, progress_bar(console) as bar:
        task = bar.add_task("messages sent", total=len(messages))
        begun, sent = time.monotonic(), 0
        while not daemon.stop.wait(TICK_SECONDS):
            due = min(len(messages), int((time.monotonic() - begun) * rate))
            file.writelines(message.line() for message in messages[sent:due])
            file.flush()
            sent = due
            bar.update(task, completed=sent)
            if (row := score_row(daemon.engine.status)) != shown:
                bar.console.print(row)
                shown = row
            if sent == len(messages) and handled(daemon.engine.status) == file.tell():
                break
    return sent


def progress_bar(console: Console) -> Progress:
    """A bar on a terminal, nothing elsewhere."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def score_row(status: Status | None) -> str:
    """How well the labelled messages were predicted so far, each before it was learned."""
    scores = status.scores if status else ScoresView()
    if not scores.evaluated:
        return ""
    accuracy, majority = scores.correct / scores.evaluated, scores.majority_correct / scores.evaluated
    log_loss = scores.log_loss_nats / scores.evaluated
    return f"{scores.evaluated:9} {accuracy:10.2%} {majority:16.2%} {log_loss:29.4f}"


def handled(status: Status | None) -> int:
    """How many bytes of the input the engine has learned and answered."""
    return max((view.published or 0 for view in status.partitions.values()), default=0) if status else 0


def report(console: Console, messages: Sequence[Message], folder: Path) -> None:
    """Compare the published answers with the labels held back, and say where everything is."""
    answers = [json.loads(line) for line in (folder / PREDICTIONS).read_text().splitlines()]
    held_back = {message.id: message for message in messages if message.held_back}
    tell_accuracy(console, answers, held_back)
    tell_examples(console, answers, held_back)
    tell_places(console, folder)


def tell_accuracy(console: Console, answers: Sequence[Answer], held_back: Mapping[str, Message]) -> None:
    """Count how many answers are right."""
    truths = [held_back[answer["id"]].label for answer in answers]
    right = sum(answer["label"] == truth for answer, truth in zip(answers, truths, strict=True))
    spam = [answer["label"] for answer, truth in zip(answers, truths, strict=True) if truth == "spam"]
    alarms = sum(answer["label"] == "spam" for answer in answers) - spam.count("spam")
    console.print(
        f"\n{len(answers)} of {len(held_back)} messages sent without a label were answered, {right} "
        f"({right / max(1, len(answers)):.2%}) rightly:\n{spam.count('spam')} of {len(spam)} spam found, "
        f"{alarms} of {len(answers) - len(spam)} ham called spam."
    )


def tell_examples(console: Console, answers: Sequence[Answer], held_back: Mapping[str, Message]) -> None:
    """Show the last answer of each kind, right and wrong, with its strongest words."""
    console.print("\nthe last answer of each kind, and the words that spoke most for (+) or against (-) it:")
    for truth, label in (("spam", "spam"), ("ham", "ham"), ("spam", "ham"), ("ham", "spam")):
        for answer in reversed(answers):
            message = held_back[answer["id"]]
            if (message.label, answer["label"]) == (truth, label):
                console.print(escape(example(answer, message)))
                break


def example(answer: Answer, message: Message) -> str:
    """One answer beside the truth; a word's weight is the log odds, in nats, that it adds to the answer."""
    words = ", ".join(
        f"{share['feature'].removeprefix('text=')} {share['contribution']:+.1f}" for share in answer["explanation"]
    )
    text = message.text if len(message.text) <= TEXT_WIDTH else f"{message.text[:TEXT_WIDTH]}..."
    probability = answer["probabilities"][answer["label"]]
    verdict = "right" if answer["label"] == message.label else f"wrong, it is {message.label}"
    return f"  {answer['label']} (p = {probability:.4f}; {verdict})  {text}\n      {words}"


def tell_places(console: Console, folder: Path) -> None:
    """Say where the answers and the snapshots are, and how to go on."""
    console.print(f"\nanswers    {escape(str(folder / PREDICTIONS))}")
    console.print(f"snapshots  {escape(str(folder / SNAPSHOTS))}")
    console.print(f"go on      streamnb run {escape(str(folder / CONFIG))}    (then append lines to {EVENTS})")
