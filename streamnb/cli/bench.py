"""`streamnb bench`: how fast the learners and the daemon are, beside what else there is, measured here and now."""

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from streamnb.cli.endings import errors_become_exit_codes
from streamnb.errors import ConfigError

if TYPE_CHECKING:
    from streamnb.bench.goals import Result

bench = typer.Typer(help="Measure how fast it is.", no_args_is_help=True)


@bench.callback()
def _group() -> None:
    """Measure how fast it is."""


@bench.command("learners")
def learners_(
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repeats; where river takes seconds an event, scale it up instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    with_peers: Annotated[
        bool, typer.Option("--peers", help="Also run MOA and Vowpal Wabbit where they are installed.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not count the figures while they are measured.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Compare the learners with river's and scikit-learn's, time per event: lower is better.

    Takes some minutes, --quick one; the machine should have nothing else to do.

    \b
    Examples:
      streamnb bench learners --quick
      streamnb bench learners --json > figures.json
    """
    with errors_become_exit_codes(debug):
        try:
            from streamnb.bench import comparing
        except ImportError as missing:
            raise ConfigError(f"{missing}; the peers are needed: pip install streamnb[sklearn]") from missing

        results = []
        for result in comparing.everything(quick, with_peers):
            results.append(result)
            if not (as_json or quiet) and sys.stderr.isatty():
                print(f"\r{len(results)} figures measured", end="", file=sys.stderr, flush=True)
        missing_peers = comparing.missing_peers() if with_peers else []
        if as_json:
            document = {"quick": quick, "missing_peers": missing_peers, "results": [r.to_json() for r in results]}
            print(json.dumps(document))
        else:
            _print_tables(results)
            _print_reached(results)
            if missing_peers:
                print(f"not installed: {', '.join(missing_peers)}")


@bench.command("pipeline")
def pipeline_(
    brokers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A Kafka to measure with; without it, only what needs none."),
    ] = None,
    client: Annotated[
        Literal["kafka-python", "confluent", "both"], typer.Option(help="Which client carries the data.")
    ] = "both",
    quick: Annotated[bool, typer.Option("--quick", help="Few events of one kind, once.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not count the figures while they are measured.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Print where the daemon's loop spends its time.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Compare the daemon with bare loops on the same client: CPU per event, latency, replay, start and memory.

    \b
    Examples:
      streamnb bench pipeline --quick
      streamnb bench pipeline --brokers localhost:9092 --client confluent --json
    """
    with errors_become_exit_codes(debug):
        from streamnb.bench.pipeline import comparing
        from streamnb.bench.pipeline.loop import json_module
        from streamnb.bench.pipeline.streams import STREAMS

        # a start is measured with warm caches, as where it is installed
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        clients = [name for name in ("kafka-python", "confluent") if client in (name, "both")]
        daemon = [sys.executable, "-m", "streamnb", "run"]
        results = []
        for result in comparing.everything(brokers, clients, daemon, quick):
            results.append(result)
            if not (as_json or quiet) and sys.stderr.isatty():
                print(f"\r{len(results)} figures measured", end="", file=sys.stderr, flush=True)
        profiles = {}
        if profile and brokers is not None:
            n_events = 2_000 if quick else 200_000
            profiles = {name: comparing.profile(brokers, name, daemon, STREAMS[0], n_events) for name in clients}
        json_used = json_module().__name__
        if as_json:
            figures = [result.to_json() for result in results]
            print(json.dumps({"quick": quick, "json": json_used, "results": figures, "profiles": profiles}))
            return
        _print_figures(results)
        _print_reached(results)
        print(f"the user's loop on confluent decodes with {json_used}")
        for name, text in profiles.items():
            print(f"\n{name}: {text}")


def _print_figures(results: "list[Result]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "", "value (goal)", "quartiles", "streamnb", "peer", "")
    for result in results:
        middle = f"{_short(result.low)} to {_short(result.high)}"
        sides = ["" if side is None else _short(side) for side in (result.ours, result.peer)]
        table.add_row(result.row, result.column, _cell(result), middle, *sides, result.note)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _print_reached(results: "list[Result]") -> None:
    judged = [result for result in results if result.ok is not None]
    print(f"{sum(bool(result.ok) for result in judged)} of {len(judged)} goals reached")


def _print_tables(results: "list[Result]") -> None:
    from rich.console import Console
    from rich.table import Table

    from streamnb.bench.goals import COLUMNS, GOALS

    found = {(result.row, result.column): result for result in results}
    table = Table("streamnb / peer (goal)", *COLUMNS, title="time per event, lower is better")
    for row in GOALS:
        table.add_row(row, *(_cell(found.get((row, column))) for column in COLUMNS))
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    _print_figures([result for result in results if result.column not in COLUMNS])


def _cell(result: "Result | None") -> str:
    if result is None:
        return ""
    if result.goal is None:
        return _short(result.value)
    goal = f"{'>=' if result.at_least else '<='} {_short(result.goal)}"
    return f"{_short(result.value)} ({goal}) {'ok' if result.ok else 'missed'}"


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 100.0 else f"{value:,.0f}"
