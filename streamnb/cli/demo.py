"""`streamnb demo`: real messages through the real engine, between two files or over Kafka."""

import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from streamnb import logs
from streamnb.cli.endings import errors_become_exit_codes
from streamnb.errors import ConfigError


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where the demo writes; must be new, empty, or come with --overwrite.")
    ] = Path("streamnb-demo"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove what an earlier demo left in the folder.")
    ] = False,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Over a broker instead of files, in topics of its own.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="With --kafka: delete nothing at the end, and leave a configuration.")
    ] = False,
    rate: Annotated[int, typer.Option(min=1, help="Messages that arrive each second.")] = 1000,
    hold: Annotated[
        bool, typer.Option("--hold", help="Keep the engine and its pages up afterwards, until stopped.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only what came of it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with what came of it.")] = False,
    log_level: Annotated[logs.Level, typer.Option(help="What is logged to standard error.")] = "warning",
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Stream 5574 text messages through the engine: learn ham from spam, and answer every fourth.

    With --kafka it makes three topics of names that nobody else uses, and deletes them and its group at the end.
    Credentials and the client come from the environment, as in STREAMNB_KAFKA__SECURITY__USERNAME.

    \b
    Examples:
      streamnb demo
      streamnb demo --hold --rate 200
      streamnb demo --kafka localhost:9092
      streamnb demo --kafka localhost:9092 --keep --folder over-kafka
    """
    with errors_become_exit_codes(debug):
        from streamnb.cli import demonstration
        from streamnb.cli.run import stop_at_signals
        from streamnb.cli.stages import in_folder, on_broker

        if keep and kafka is None:
            raise ConfigError("--keep is for --kafka; files are always kept")
        logs.configure(log_level, sys.stderr)
        stop = threading.Event()
        stop_at_signals(stop)
        place = in_folder(folder, overwrite) if kafka is None else on_broker(kafka, folder, keep, overwrite)
        with place as stage:
            demonstration.show(stage, rate=rate, hold=hold, quiet=quiet, as_json=as_json, stop=stop)
