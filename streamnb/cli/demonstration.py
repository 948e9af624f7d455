"""What the demo shows: a stream of text messages, how well it is predicted, and the answers beside the truth.

Every fourth message loses its label before it is sent, so the engine answers it; the others it predicts,
scores and then learns. The labels held back are looked at when all answers are there.
"""

import gzip
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import resources

from rich.console import Console
from rich.markup import escape

from streamnb.cli.progress import progress_bar
from streamnb.cli.stages import Answer, Stage
from streamnb.cli.wiring import Daemon
from streamnb.reports import ScoresView, Status

ANSWER_EVERY = 4
TICK_SECONDS = 0.05

TEXT_WIDTH = 70
HEADER = "   scored   accuracy   majority class   log loss (nats per message)"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the collection; `held_back` if it is sent without its label."""

    id: str
    text: str
    label: str
    held_back: bool

    def event(self) -> bytes:
        """The event as it is sent."""
        event: dict[str, object] = {"id": self.id, "features": {"text": self.text}}
        if not self.held_back:
            event["label"] = self.label
        return json.dumps(event).encode()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How well the messages were predicted: those with a label before they were learned, and those without."""

    sent: int
    scored: int
    accuracy: float
    majority_accuracy: float
    log_loss_nats: float
    """Per scored message."""
    asked: int
    answered: int
    right: int
    spam: int
    spam_found: int
    ham: int
    false_alarms: int


def show(stage: Stage, *, rate: int, hold: bool, quiet: bool, as_json: bool, stop: threading.Event) -> None:
    """Run the demo and print what happens, `quiet` only what came of it; end early when `stop` is set."""
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    along = Console(highlight=False, soft_wrap=console.soft_wrap, quiet=quiet or as_json)
    messages = collection()
    daemon = Daemon(stage.config, stop)
    introduce(along, messages, stage)
    with in_background(daemon):
        along.print(f"while this runs: {daemon.url}/ (status page), /metrics, /model, /healthz, /readyz")
        wait_for_start(along, daemon)
        sent = send(along, messages, stage, rate, daemon)
        if hold and not stop.is_set():
            report(console, messages[:sent], stage, daemon, as_json)
            along.print(f"\nstill up: {daemon.url}/ - stop with Ctrl-C")
            stop.wait()
    if not hold:
        report(console, messages[:sent], stage, daemon, as_json)


def collection() -> Sequence[Message]:
    """The messages in their published order."""
    packed = resources.files("streamnb.cli").joinpath("data/sms_spam.jsonl.gz").read_bytes()
    rows = map(json.loads, gzip.decompress(packed).splitlines())
    return [
        Message(row["id"], row["features"]["text"], row["label"], i % ANSWER_EVERY == ANSWER_EVERY - 1)
        for i, row in enumerate(rows)
    ]


def introduce(console: Console, messages: Sequence[Message], stage: Stage) -> None:
    """Say what will happen."""
    asked = sum(message.held_back for message in messages)
    console.print(
        f"{len(messages)} text messages (UCI SMS Spam Collection, CC BY 4.0) arrive one after another in "
        f"{escape(stage.where)}.\n"
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
    """Let the engine compile its kernels and take its duty before anything is sent."""
    console.print("starting; the first run on a machine compiles for it, which takes up to a minute\n")
    while not daemon.stop.wait(TICK_SECONDS):
        if (status := daemon.engine.status) and status.state == "running" and not daemon.engine.not_ready():
            return


def send(console: Console, messages: Sequence[Message], stage: Stage, rate: int, daemon: Daemon) -> int:
    """Have the messages arrive at this rate, and show how they are predicted; return how many were sent.

    Ends when the engine has handled all of them, or has stopped.
    """
    shown = ""
    console.print(HEADER)
    with progress_bar(console) as bar:
        task = bar.add_task("messages sent", total=len(messages))
        begun, sent = time.monotonic(), 0
        while not daemon.stop.wait(TICK_SECONDS):
            due = min(len(messages), int((time.monotonic() - begun) * rate))
            stage.send([message.event() for message in messages[sent:due]])
            sent = due
            bar.update(task, completed=sent)
            if (row := score_row(daemon.engine.status)) != shown:
                console.print(row)
                shown = row
            if sent == len(messages) and stage.handled(daemon.engine.status):
                break
    return sent


def score_row(status: Status | None) -> str:
    """How well the labelled messages were predicted so far, each before it was learned."""
    scores = status.scores if status else ScoresView()
    if not scores.evaluated:
        return ""
    accuracy, majority = scores.correct / scores.evaluated, scores.majority_correct / scores.evaluated
    log_loss = scores.log_loss_nats / scores.evaluated
    return f"{scores.evaluated:9} {accuracy:10.2%} {majority:16.2%} {log_loss:29.4f}"


def report(console: Console, messages: Sequence[Message], stage: Stage, daemon: Daemon, as_json: bool) -> None:
    """Compare the published answers with the labels held back, and say where everything is."""
    answers = stage.answers()
    held_back = {message.id: message for message in messages if message.held_back}
    found = outcome(daemon.engine.status, len(messages), answers, held_back)
    if as_json:
        print(json.dumps({**asdict(found), "places": stage.places()}), flush=True)
        return
    console.print(
        f"\n{found.answered} of {found.asked} messages sent without a label were answered, {found.right} "
        f"({found.right / max(1, found.answered):.2%}) rightly:\n{found.spam_found} of {found.spam} spam found, "
        f"{found.false_alarms} of {found.ham} ham called spam."
    )
    tell_examples(console, answers, held_back)
    console.print()
    for name, place in stage.places().items():
        console.print(f"{name:10} {escape(place)}")


def outcome(status: Status | None, sent: int, answers: Sequence[Answer], held_back: Mapping[str, Message]) -> Outcome:
    """Count how many answers are right."""
    scores = status.scores if status else ScoresView()
    n = max(1, scores.evaluated)
    pairs = [(held_back[answer["id"]].label, answer["label"]) for answer in answers]
    spam = [label for truth, label in pairs if truth == "spam"]
    ham = [label for truth, label in pairs if truth != "spam"]
    return Outcome(
        sent=sent,
        scored=scores.evaluated,
        accuracy=scores.correct / n,
        majority_accuracy=scores.majority_correct / n,
        log_loss_nats=scores.log_loss_nats / n,
        asked=len(held_back),
        answered=len(answers),
        right=sum(truth == label for truth, label in pairs),
        spam=len(spam),
        spam_found=spam.count("spam"),
        ham=len(ham),
        false_alarms=ham.count("spam"),
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
