"""The command line: one file per command, wiring only.

A command's file imports little; what a command needs is imported when it runs, so that --help is quick.
"""

import gc
from typing import Annotated

import typer

from streamnb import __version__
from streamnb.cli.bench import bench
from streamnb.cli.check import check
from streamnb.cli.convert import convert
from streamnb.cli.demo import demo
from streamnb.cli.explain import explain
from streamnb.cli.inspect import inspect
from streamnb.cli.produce import produce
from streamnb.cli.run import run
from streamnb.cli.topics import topics
from streamnb.cli.verify import verify
from streamnb.errors import ConfigError

USAGE_ERROR = 2
COLLECT_AFTER = 100_000
"""Imports, and every batch, make many thousands of objects, hardly any of them in a cycle."""

app = typer.Typer(
    name="streamnb",
    help="Streaming naive Bayes: learns from labelled events, answers the others, counts each exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(short_help="Learn from a stream and answer it.")(run)
app.command(short_help="Say whether a configuration would run.")(check)
app.command(short_help="Watch it at work on 5574 text messages.")(demo)
app.command(short_help="Show what a snapshot holds.")(inspect)
app.command(short_help="Compare a model with the batch fit of its events.")(verify)
app.command(short_help="Say why an event is answered as it is.")(explain)
app.command(short_help="A snapshot to scikit-learn, or the other way.")(convert)
app.command(short_help="Send a data set to a topic, as events.")(produce)
app.add_typer(topics, name="topics")
app.add_typer(bench, name="bench")


def main() -> None:
    """Run the command line and exit with one of the codes of `streamnb.errors`."""
    gc.set_threshold(COLLECT_AFTER)
    try:
        app()
    except SystemExit as ending:
        raise SystemExit(ConfigError.exit_code if ending.code == USAGE_ERROR else ending.code) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamnb {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
