"""`streamnb check`: would it run? Looks at everything and joins, writes and learns nothing."""

import os
from pathlib import Path
from typing import Annotated

import typer

from streamnb.cli.endings import errors_become_exit_codes


def check(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration.")],
    sample: Annotated[
        int, typer.Option(min=0, help="How many real events are decoded, to see what would be rejected; 0: none.")
    ] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of rows.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Try everything that 'streamnb run' needs, and join, write and learn nothing.

    Looked at are the configuration, the brokers' version, the topics and what we may do with them, the codecs, or the
    files; whether the newest snapshot fits the model; the port; and a sample of the events that are there now: what
    would be rejected and why. Ends with the exit code that 'streamnb run' would end with, or 0.

    \b
    Examples:
      streamnb check payments.yaml
      streamnb check payments.yaml --sample 5000 --json
    """
    with errors_become_exit_codes(debug):
        from streamnb.config import load

        settings = load(config, os.environ)
        from streamnb.cli.checks import check_everything

        code = check_everything(settings, sample, as_json)
    raise typer.Exit(code)
