"""`streamnb check`: would it run? Looks at everything and joins, writes and learns nothing."""

import os
from pathlib import Path
from typing import Annotated

import typer

from streamnb.cli.endings import errors_become_exit_codes


def check(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration.")],
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Try configuration, topics or files, codecs, snapshots and port, before anything is joined."""
    with errors_become_exit_codes(debug):
        from streamnb.config import load

        settings = load(config, os.environ)
        from streamnb.cli.checks import check_everything

        code = check_everything(settings)
    raise typer.Exit(code)
