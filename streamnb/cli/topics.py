"""`streamnb topics create`: makes the topics that a configuration names."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamnb import logs
from streamnb.cli.endings import errors_become_exit_codes
from streamnb.errors import ConfigError

if TYPE_CHECKING:
    from streamnb.transport.kafka.creation import Created

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
    min_isr: Annotated[
        int | None,
        typer.Option(
            "--min-isr", min=1, help="How many replicas must have a record (min.insync.replicas); the broker's default."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Make those topics that are missing, and say what is there already; what is there is left as it is.

    Labelled topics keep all their records, since a model is rebuilt from them when its snapshots are lost. A topic
    for snapshots (snapshots.store: topic) is compacted.

    \b
    Examples:
      streamnb topics create payments.yaml
      streamnb topics create payments.yaml --partitions 4 --replicas 3 --min-isr 2
    """
    with errors_become_exit_codes(debug):
        logs.configure("warning", sys.stderr)
        from streamnb.config import load

        settings = load(config, os.environ)
        if settings.transport != "kafka":
            raise ConfigError(f"{config}: transport is {settings.transport}, which has no topics")
        from streamnb.transport.kafka.creation import create as create_missing

        own = settings.snapshots.topic if settings.snapshots.store == "topic" else None
        if replicas is not None and min_isr is not None and min_isr > replicas:
            raise ConfigError(f"--min-isr {min_isr}: more than the --replicas {replicas}, so nothing could be written")
        done = create_missing(
            settings.kafka, settings.input, settings.output, partitions, replicas, min_isr, snapshots=own
        )
        typer.echo(_told_as_json(done) if as_json else _told(done))


def _told(done: "Created") -> str:
    from streamnb.cli.tabulating import table

    rows = [
        (name, said, str(one.partitions), str(one.replicas), str(one.min_isr or "?"), one.kept or "?")
        for said, those in (("made", done.made), ("was there", done.found))
        for name, one in those.items()
    ]
    lines = table(("topic", "", "partitions", "replicas", "min ISR", "keeps its records"), rows, right=(2, 3, 4))
    return "\n".join(lines if done.made else ["nothing to do: all topics are there", *lines])


def _told_as_json(done: "Created") -> str:
    from dataclasses import asdict

    parts = {"made": done.made, "found": done.found}
    return json.dumps({part: {name: asdict(one) for name, one in those.items()} for part, those in parts.items()})
