"""`streamnb demo`: real messages through the real engine, from a file that grows to a file of answers."""

import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from streamnb import logs
from streamnb.cli.endings import errors_become_exit_codes


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where the demo writes; must be new, empty, or come with --overwrite.")
    ] = Path("streamnb-demo"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove what an earlier demo left in the folder.")
    ] = False,
    rate: Annotated[int, typer.Option(min=1, help="Messages that arrive each second.")] = 1000,
    hold: Annotated[
        bool, typer.Option("--hold", help="Keep the engine and its pages up afterwards, until stopped.")
    ] = False,
    log_level: Annotated[logs.Level, typer.Option(help="What is logged to standard error.")] = "warning",
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Stream 5574 text messages through the engine: learn ham from spam, and answer every fourth."""
    with errors_become_exit_codes(debug):
        from streamnb.cli import demonstration
        from streamnb.cli.run import stop_at_signals

        logs.configure(log_level, sys.stderr)
        stop = threading.Event()
        stop_at_signals(stop)
        demonstration.show(folder, overwrite=overwrite, rate=rate, hold=hold, stop=stop)
