"""The checks of `streamnb check`, in the order in which `streamnb run` would meet what they look at."""

import functools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import typer

from streamnb.cli.sampling import sampled
from streamnb.cli.wiring import Daemon, client_of, topic_problems
from streamnb.config import Config
from streamnb.errors import BrokerUnreachable, ConfigError, IoError, StateError, StreamnbError
from streamnb.learners import build
from streamnb.starting import check_shape
from streamnb.transport.files import FilesTransport

if TYPE_CHECKING:
    from streamnb.transport.kafka.looking import Onlooker

ANSWER_SECONDS = CLOSE_SECONDS = 3.0
NAME_WIDTH, VERDICT_WIDTH = 15, 9
COLOURS = {"ok": "green", "look": "yellow", "failed": "red", "unknown": "yellow"}
CODECS = ("gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found; `look` stands in nobody's way, but someone should read it."""

    check: str
    verdict: Literal["ok", "look", "failed", "unknown"]
    found: str
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """Returned by a check in place of a text."""

    found: str


@dataclass(frozen=True, slots=True)
class Subject:
    """What the checks look at."""

    config: Config
    daemon: Daemon
    onlooker: Callable[[], "Onlooker"]
    """One connection to the brokers, for all questions; raises BrokerUnreachable, ConfigError."""
    sample: int


Check = Callable[[Subject], str | Look]
"""Says what it found, or raises StreamnbError."""
NEEDS_BROKER = ("topics", "permissions", "snapshots", "events")


def check_everything(config: Config, sample: int, as_json: bool) -> int:
    """Print what was found, one row a check; return the exit code of the first that failed, or 0."""
    findings = []
    for finding in findings_of(config, sample):
        findings.append(finding)
        if not as_json:
            tell(finding)
    code = next((finding.exit_code for finding in findings if finding.exit_code), 0)
    if as_json:
        rows = [{"check": one.check, "verdict": one.verdict, "found": one.found} for one in findings]
        typer.echo(json.dumps({"exit_code": code, "checks": rows}, ensure_ascii=False))
    return code


def findings_of(config: Config, sample: int) -> Iterator[Finding]:
    """Look at one thing after another."""
    with ExitStack() as stack:

        @functools.cache
        def onlooker() -> "Onlooker":
            from streamnb.transport.kafka.looking import looking

            return stack.enter_context(looking(config.kafka))

        yield from _findings(Subject(config, Daemon(config, threading.Event()), onlooker, sample))


def _findings(subject: Subject) -> Iterator[Finding]:
    config = subject.config
    first: dict[str, Check] = {"broker": broker, "topics": topics, "permissions": permissions, "codecs": codecs}
    checks: dict[str, Check] = {
        "configuration": configuration,
        **(first if config.transport == "kafka" else {"files": files}),
        "snapshots": snapshots,
        **({} if subject.sample == 0 else {"events": events}),
        "http": port,
    }
    unreachable = False
    for name, look in checks.items():
        kept_there = name != "snapshots" or config.snapshots.store == "topic"
        if unreachable and name in NEEDS_BROKER and kept_there:
            yield Finding(name, "unknown", "not looked at, without a broker")
            continue
        try:
            said = look(subject)
            yield Finding(name, "look", said.found) if isinstance(said, Look) else Finding(name, "ok", said)
        except StreamnbError as error:
            unreachable = unreachable or isinstance(error, BrokerUnreachable)
            yield Finding(name, "failed", str(error), error.exit_code)


def tell(finding: Finding) -> None:
    """Print one row; further lines of what was found stand below the first."""
    lines = finding.found.replace("\n", f"\n{'':{NAME_WIDTH + VERDICT_WIDTH}}")
    verdict = typer.style(f"{finding.verdict:{VERDICT_WIDTH}}", fg=COLOURS[finding.verdict])
    typer.echo(f"{finding.check:{NAME_WIDTH}}{verdict}{lines}")


def configuration(at: Subject) -> str:
    """Has been loaded, and the model built from it."""
    config = at.config
    return f"app {config.app}, instance {config.kafka.instance}, {config.transport}, {config.model.kind} model"


def broker(at: Subject) -> str:
    """Ask what the brokers are."""
    found = at.onlooker().brokers()
    if found.too_old:
        raise ConfigError(f"Kafka {found.version}: {found.too_old}")
    number = f"{found.n} broker{'s' if found.n > 1 else ''}"
    return f"Kafka {found.version} or newer, {number}, at {at.config.kafka.bootstrap_servers}"


def topics(at: Subject) -> str:
    """Ask about every topic: whether it is there, may be used, and keeps what it must."""
    problems = topic_problems(at.config)
    if problems:
        raise ConfigError("\n".join(problems))
    named = {"labelled": at.config.input.labelled, "unlabelled": at.config.input.unlabelled}
    read = [f"{topic} ({role})" for role, names in named.items() for topic in names]
    written = [topic for topic in (at.config.output.predictions, at.config.output.dead_letters) if topic]
    return f"reads {', '.join(read)}\nwrites {', '.join(written)}"


def permissions(at: Subject) -> str:
    """Ask about the group and the transactional id; those of the topics are among the topics' problems."""
    transactional = f"{at.config.app}-{at.config.instance}" if at.config.kafka.delivery == "exactly_once" else None
    problems = at.onlooker().refusals(at.config.app, transactional)
    if problems:
        raise ConfigError("\n".join(problems))
    return f"group {at.config.app}" + (f", transactional id {transactional}" if transactional else "")


def codecs(at: Subject) -> str | Look:
    """See which compressed records could be read, whatever producers send."""
    reads = client_of(at.config.kafka.client).reads
    missing = [codec for codec in CODECS if not reads(codec)]
    if missing:
        how = "pip install 'streamnb[codecs]'"
        return Look(f"records compressed with {', '.join(missing)} could not be read: {how}, should any come")
    return f"{', '.join(CODECS)} can be read"


def files(at: Subject) -> str:
    """Open the input, and see whether it and the outputs fit the newest snapshot."""
    transport, newest = at.daemon.transport, at.daemon.store.newest()
    assert isinstance(transport, FilesTransport)
    try:
        transport.open()
        transport.check_marks(newest.marks if newest and not newest.is_bare_seed else None)
        size = sum(extent.end for extent in transport.extents().values())
    finally:
        transport.close(CLOSE_SECONDS)
    return f"{at.config.files.input}, {size} bytes"


def snapshots(at: Subject) -> str:
    """Take and leave the store, unless our own daemon has it, and see whether the newest snapshot is of this model."""
    try:
        at.daemon.store.open()
    except StateError:
        if not runs_already(at):
            raise
    try:
        newest = at.daemon.store.newest()
    finally:
        at.daemon.store.close()
    place = at.config.snapshots.place
    if newest is None:
        return f"none yet in {place}"
    kind, options = at.config.model.options()
    check_shape(newest, build(kind, **options).shape())
    taken = datetime.fromtimestamp(newest.taken, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"newest taken {taken} in {place}; it fits the model"


def events(at: Subject) -> str | Look:
    """Decode some real events as the daemon would."""
    found = sampled(at.config, at.sample, lambda: at.onlooker().extents(at.config.input))
    return Look(found.told()) if found.deserves_a_look else found.told()


def port(at: Subject) -> str | Look:
    """Take and leave the port, unless our own daemon has it."""
    try:
        with at.daemon:
            return f"{at.daemon.url} is free"
    except IoError:
        if not runs_already(at):
            raise
    return Look(f"{at.daemon.url}: the daemon of this app and instance runs already, and answers here")


def runs_already(at: Subject) -> bool:
    """Ask at the configured address whether a daemon of this app and instance answers."""
    place = urlsplit(at.daemon.url)
    asking = HTTPConnection(place.hostname or "", place.port, timeout=ANSWER_SECONDS)
    try:
        asking.request("GET", "/model")
        told = json.loads(asking.getresponse().read())
    except (OSError, HTTPException, ValueError):
        return False
    finally:
        asking.close()
    return isinstance(told, dict) and (told.get("app"), told.get("instance")) == (at.config.app, at.config.instance)
