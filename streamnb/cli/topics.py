"""`streamnb topics create`: makes the topics that a configuration names."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from streamnb import logs
from streamnb.cli.endings import errors_become_exit_codes
from streamnb.errors import ConfigError

topics = typer.Typer(help="Make the topics of a configuration.", no_args_is_help=True)


@topics.callback()
def _group() -> None:
    """Make the topics of a configuration."""


@topics.command()
def create(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The configuration.")],
    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of each; the broker's default if not given.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Replicas of each; the broker's default if not given.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Make those topics that are missing: labelled ones keep all their records, one for snapshots is compacted."""
    with errors_become_exit_codes(debug):
        logs.configure("warning", sys.stderr)
        from streamnb.config import load

        settings = load(config, os.environ)
        if settings.transport != "kafka":
            raise ConfigError(f"{config}: transport is {settings.transport}, which has no topics")
        from streamnb.transport.kafka.creation import create as create_missing

        own = settings.snapshots.topic if settings.snapshots.store == "topic" else None
        made = create_missing(settings.kafka, settings.input, settings.output, partitions, replicas, own)
        typer.echo(f"made {', '.join(made)}" if made else "nothing to do: all topics are there")
