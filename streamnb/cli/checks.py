"""The checks of `streamnb check`, in the order in which `streamnb run` would meet what they look at."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

import typer

from streamnb.cli.wiring import Daemon, topic_problems
from streamnb.config import Config
from streamnb.errors import ConfigError, StreamnbError
from streamnb.transport.files import FilesTransport

CLOSE_SECONDS = 3.0
NAME_WIDTH, VERDICT_WIDTH = 15, 8
Check = Callable[[Daemon, Config], str]
"""Says what it found, or raises StreamnbError."""


def check_everything(config: Config) -> int:
    """Print what was found, one row a check; return the exit code of the first that failed, or 0."""
    daemon = Daemon(config, threading.Event())
    checks: dict[str, Check] = {
        "configuration": configuration,
        **({"topics": topics} if config.transport == "kafka" else {"files": files}),
        "snapshots": snapshots,
        "http": port,
    }
    code = 0
    for name, look in checks.items():
        try:
            tell(name, "ok", look(daemon, config))
        except StreamnbError as error:
            tell(name, "failed", str(error))
            code = code or error.exit_code
    return code


def tell(name: str, verdict: str, found: str) -> None:
    """Print one row; further lines of what was found stand below the first."""
    colour = "green" if verdict == "ok" else "red"
    lines = found.replace("\n", f"\n{'':{NAME_WIDTH + VERDICT_WIDTH}}")
    typer.echo(f"{name:{NAME_WIDTH}}{typer.style(f'{verdict:{VERDICT_WIDTH}}', fg=colour)}{lines}")


def configuration(daemon: Daemon, config: Config) -> str:  # noqa: ARG001  # a Check
    """Has been loaded, and the model built from it."""
    return f"app {config.app}, instance {config.kafka.instance}, {config.transport}, {config.model.kind} model"


def topics(daemon: Daemon, config: Config) -> str:  # noqa: ARG001
    """Ask the brokers about every topic, and for the codecs that reading them takes."""
    problems = topic_problems(config)
    if problems:
        raise ConfigError("\n".join(problems))
    named = {"labelled": config.input.labelled, "unlabelled": config.input.unlabelled}
    found = [f"{topic} ({role})" for role, names in named.items() for topic in names]
    return f"{', '.join(found)} at {config.kafka.bootstrap_servers}"


def files(daemon: Daemon, config: Config) -> str:
    """Open the input, and see whether it and the outputs fit the newest snapshot."""
    transport, newest = daemon.transport, daemon.store.newest()
    assert isinstance(transport, FilesTransport)
    try:
        transport.open()
        transport.check_marks(newest.marks if newest else None)
        size = sum(extent.end for extent in transport.extents().values())
    finally:
        transport.close(CLOSE_SECONDS)
    return f"{config.files.input}, {size} bytes"


def snapshots(daemon: Daemon, config: Config) -> str:
    """Take and leave the store."""
    daemon.store.open()
    try:
        newest = daemon.store.newest()
    finally:
        daemon.store.close()
    place = config.snapshots.place
    if newest is None:
        return f"none yet in {place}"
    taken = datetime.fromtimestamp(newest.taken, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"newest taken {taken} in {place}"


def port(daemon: Daemon, config: Config) -> str:  # noqa: ARG001
    """Take and leave the port."""
    with daemon:
        return f"{daemon.url} is free"
