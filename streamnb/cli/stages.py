"""Where the demo takes place: in a folder, or on a broker of which nothing is left behind."""

import json
import os
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import IO, Any, Protocol

from streamnb.config import Config, InputConfig, load
from streamnb.errors import InputFileError, StreamnbError
from streamnb.reports import Status
from streamnb.transport import Partition

CONFIG, EVENTS, PREDICTIONS, DEAD_LETTERS = "streamnb.yaml", "events.jsonl", "predictions.jsonl", "dead.jsonl"
SNAPSHOTS = "snapshots"
WORDS = 4
BROKER_VARIABLES = "STREAMNB_KAFKA__"

Answer = dict[str, Any]
"""A prediction, whose form the README describes."""


class Stage(Protocol):
    """What the demo needs of its place."""

    config: Config

    @property
    def where(self) -> str:
        """Where the messages arrive, in words."""

    def send(self, events: Sequence[bytes]) -> None:
        """Have these arrive, in this order."""

    def handled(self, status: Status | None) -> bool:
        """Whether the engine has learned and answered all that was sent."""

    def answers(self) -> list[Answer]:
        """What it has published, in order."""

    def places(self) -> Mapping[str, str]:
        """What stays when the demo has ended, and what can be done with it."""


@dataclass(slots=True)
class Folder:
    """Files in a folder: a growing input, and the answers beside it."""

    config: Config
    path: Path
    _events: IO[bytes]

    @property
    def where(self) -> str:
        return str(self.path / EVENTS)

    def send(self, events: Sequence[bytes]) -> None:
        self._events.writelines(event + b"\n" for event in events)
        self._events.flush()

    def handled(self, status: Status | None) -> bool:
        return _published(status) == self._events.tell()

    def answers(self) -> list[Answer]:
        answers = self.path / PREDICTIONS
        return [json.loads(line) for line in answers.read_text().splitlines()] if answers.exists() else []

    def places(self) -> Mapping[str, str]:
        return {
            "answers": str(self.path / PREDICTIONS),
            "snapshots": str(self.path / SNAPSHOTS),
            "go on": f"streamnb run {self.path / CONFIG}    (then append lines to {EVENTS})",
        }


@contextmanager
def in_folder(path: Path, overwrite: bool) -> Iterator[Folder]:
    """Make the folder. Raise InputFileError, nothing touched, if it holds anything but an earlier demo."""
    _refuse_foreign(path, overwrite)
    _prepare(path, _over_files(path.resolve()))
    with (path / EVENTS).open("ab") as events:
        yield Folder(load(path / CONFIG, {}), path, events)


@dataclass(slots=True)
class Broker:
    """Topics of names that nobody else uses."""

    config: Config
    folder: Path | None
    """Where the configuration stays; None: nothing stays."""
    _sender: Any
    _sent: int = 0

    @property
    def where(self) -> str:
        return f"topic {self.config.input.labelled[0]} at {self.config.kafka.bootstrap_servers}"

    def send(self, events: Sequence[bytes]) -> None:
        for event in events:
            self._sender.send(self.config.input.labelled[0], None, event)
        self._sender.flush()
        self._sent += len(events)

    def handled(self, status: Status | None) -> bool:
        return _published(status) >= self._sent

    def answers(self) -> list[Answer]:
        from streamnb.cli.wiring import client_of
        from streamnb.transport.kafka.looking import looking
        from streamnb.transport.kafka.span import records_between

        config, kafka = self.config, self.config.kafka
        with looking(kafka) as onlooker:
            extents = onlooker.extents(InputConfig(unlabelled=(config.output.predictions or "",)))
        begin: dict[Partition, int] = {p: e.start for p, e in extents.items()}
        # A transaction is committed a little before the committed end has passed it.
        end = {p: max(e.end, e.high_watermark or 0) for p, e in extents.items()}
        records = records_between(client_of(kafka.client), kafka, config.limits.event_bytes, begin, end)
        return [json.loads(record.value or b"null") for record in records]

    def places(self) -> Mapping[str, str]:
        if self.folder is None:
            return {"nothing": "stays: the topics and the group are deleted now; --keep keeps them"}
        return {
            "answers": f"topic {self.config.output.predictions}",
            "snapshots": str(self.folder / SNAPSHOTS),
            "go on": f"streamnb run {self.folder / CONFIG}    (then send events to {self.config.input.labelled[0]})",
        }


@contextmanager
def on_broker(servers: str, folder: Path, keep: bool, overwrite: bool) -> Iterator[Broker]:
    """Make topics, and delete them with the group afterwards unless they are to be kept. Raise BrokerUnreachable.

    Credentials and the client may be set in the environment, as for any configuration.
    """
    app = f"streamnb-demo-{uuid.uuid4().hex[:8]}"
    if keep:
        _refuse_foreign(folder, overwrite)
    with TemporaryDirectory(prefix="streamnb-demo-") as temporary:
        place = folder if keep else Path(temporary)
        settings, draft = _over_kafka(app, servers, place.resolve()), Path(temporary) / CONFIG
        draft.write_text(settings)
        own = {name: value for name, value in os.environ.items() if name.startswith(BROKER_VARIABLES)}
        config = load(draft, own)
        with _topics(config, keep):
            if keep:
                _prepare(folder, settings)
            from streamnb.transport.kafka.sending import EventSender

            with EventSender(config.kafka) as sender:
                yield Broker(config, folder if keep else None, sender)


@contextmanager
def _topics(config: Config, keep: bool) -> Iterator[None]:
    from streamnb.transport.kafka.creation import create

    names = list(create(config.kafka, config.input, config.output, partitions=1).made)
    try:
        yield
    finally:
        if not keep:
            _remove(config, names)


def _remove(config: Config, names: Sequence[str]) -> None:
    """Delete topics and group; say what cannot be, which must not hide why the demo ended."""
    from streamnb.transport.kafka.looking import looking

    try:
        with looking(config.kafka) as onlooker:
            left = onlooker.remove(names, config.app)
    except StreamnbError as error:
        left = [f"{', '.join(names)}: {error}"]
    for what in left:
        print(f"streamnb: could not be deleted: {what}", file=sys.stderr)


def _published(status: Status | None) -> int:
    """How far the engine has learned and answered its one partition."""
    return max((view.published or 0 for view in status.partitions.values()), default=0) if status else 0


def _refuse_foreign(folder: Path, overwrite: bool) -> None:
    """Raise InputFileError unless the folder is new, empty, or an earlier demo's, known by its configuration."""
    if folder.exists() and not folder.is_dir():
        raise InputFileError(f"{folder}: is not a folder; name another with --folder")
    if not folder.exists() or not any(folder.iterdir()):
        return
    found = (folder / CONFIG).read_text(errors="replace") if (folder / CONFIG).is_file() else ""
    if not found.startswith(f"{MARK} {folder.resolve()}\n"):
        raise InputFileError(f"{folder}: is not empty, and holds no earlier demo; name another with --folder")
    if not overwrite:
        raise InputFileError(
            f"{folder}: holds an earlier demo; replace it with --overwrite, or name another with --folder"
        )


def _prepare(folder: Path, settings: str) -> None:
    """Make the folder with a configuration and an empty input, without what an earlier demo left."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (EVENTS, PREDICTIONS, DEAD_LETTERS, CONFIG):
        (folder / name).unlink(missing_ok=True)
    rmtree(folder / SNAPSHOTS, ignore_errors=True)
    (folder / EVENTS).touch()
    (folder / CONFIG).write_text(settings)


MARK = "# made by streamnb demo in"


def _over_files(folder: Path) -> str:
    """The configuration as a person would write it; JSON's quoting is also YAML's."""
    quoted = {name: json.dumps(str(folder / name)) for name in (EVENTS, PREDICTIONS, DEAD_LETTERS)}
    return f"""\
{MARK} {folder}
app: demo
transport: files
files: {{input: {quoted[EVENTS]}, follow: true}}
output: {{predictions: {quoted[PREDICTIONS]}, dead_letters: {quoted[DEAD_LETTERS]}, explain: {WORDS}}}
{_shared(folder)}"""


def _over_kafka(app: str, servers: str, folder: Path) -> str:
    return f"""\
{MARK} {folder}
app: {app}
kafka: {{bootstrap_servers: {json.dumps(servers)}, start_timeout: 10s}}
input: {{labelled: [{app}.messages]}}
output: {{predictions: {app}.predictions, dead_letters: {app}.dead, explain: {WORDS}}}
{_shared(folder)}"""


def _shared(folder: Path) -> str:
    return f"""\
model: {{kind: mixed, features: {{text: text}}}}
snapshots: {{path: {json.dumps(str(folder / SNAPSHOTS))}, every: 5s}}
http: {{port: 0}}
"""
