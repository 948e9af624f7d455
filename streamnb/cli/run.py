"""`streamnb run`: the daemon, or one pass over a file."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from streamnb import logs
from streamnb.cli.endings import errors_become_exit_codes
from streamnb.errors import ConfigError

if TYPE_CHECKING:
    from streamnb.cli.wiring import Daemon
    from streamnb.config import Config

FORCED = 1
UNWINDING_SECONDS = 5.0
"""How long a start that is told to stop may take to end by itself."""


def run(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="The configuration; or give --input and --predictions."),
    ] = None,
    input_: Annotated[
        str | None, typer.Option("--input", metavar="FILE", help="JSON lines to read; - is standard input.")
    ] = None,
    predictions: Annotated[
        str | None, typer.Option(metavar="FILE", help="Where the answers go; - is standard output.")
    ] = None,
    dead_letters: Annotated[str | None, typer.Option(metavar="FILE", help="Where unusable events go.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more at the end of the input.")] = False,
    log_level: Annotated[logs.Level, typer.Option(help="What is logged to standard error.")] = "info",
    quiet: Annotated[bool, typer.Option("--quiet", help="Log warnings and errors only.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Learn from labelled events and answer the others, until stopped or the input ends.

    The first SIGTERM or Ctrl-C finishes or drops the batch, saves a snapshot and leaves; a second one ends at once.
    Logs are one JSON object a line where standard error is no terminal.

    \b
    Examples:
      streamnb run payments.yaml
      STREAMNB_KAFKA__BOOTSTRAP_SERVERS=kafka:9092 streamnb run payments.yaml
      streamnb run --input events.jsonl --predictions answers.jsonl
      cat events.jsonl | streamnb run --input - --predictions - > answers.jsonl
    """
    with errors_become_exit_codes(debug):
        logs.configure("warning" if quiet and log_level in ("debug", "info") else log_level, sys.stderr)
        stop = threading.Event()
        working: list[Daemon] = []
        # before the slow imports: in a container nothing else would hear a signal
        stop_at_signals(stop, lambda: all(daemon.engine.starting for daemon in working))
        settings = configured(config, input_, predictions, dead_letters, follow)
        from streamnb.cli import wiring
        from streamnb.learners.kernels.jit import load_without_blas

        load_without_blas()
        with wiring.Daemon(settings, stop) as daemon:
            working.append(daemon)
            daemon.run()


def stop_at_signals(stop: threading.Event, nothing_to_finish: Callable[[], bool] = lambda: False) -> None:
    """The first SIGTERM or SIGINT sets the flag; the second ends the process at once.

    Where there is nothing to finish yet, as while it waits for a broker, the first one ends it cleanly then and there.
    """
    asked = False

    def give_up(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if nothing_to_finish():
            os._exit(0)

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature is the system's
        nonlocal asked
        if asked:
            os._exit(FORCED)
        asked = True
        stop.set()
        if nothing_to_finish():
            # The interpreter drops what is raised in a callback of its own, as an import has them.
            signal.setitimer(signal.ITIMER_REAL, UNWINDING_SECONDS)
            raise SystemExit(0)

    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def configured(
    path: Path | None, input_: str | None, predictions: str | None, dead_letters: str | None, follow: bool
) -> "Config":
    """The configuration from a file, or made of the options; the environment has its say in both."""
    from streamnb.config import load, quick_form

    if path is not None:
        if input_ or predictions or dead_letters or follow:
            raise ConfigError("give a configuration file, or --input and --predictions, not both")
        return load(path, os.environ)
    if input_ is None or predictions is None:
        raise ConfigError("nothing to run: give a configuration file, or --input FILE and --predictions FILE")
    form = quick_form(input_, predictions, dead_letters)
    return load(None, os.environ, {**form, "files": {"input": input_, "follow": follow}})
