"""`streamnb bench learners`: how fast the learners are beside river and scikit-learn, measured here and now."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

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
            if missing_peers:
                print(f"not installed: {', '.join(missing_peers)}")


def _print_tables(results: "list[Result]") -> None:
    from rich.console import Console
    from rich.table import Table

    from streamnb.bench.goals import COLUMNS, GOALS

    console = Console(width=None if sys.stdout.isatty() else 200)
    found = {(result.row, result.column): result for result in results}
    table = Table("streamnb / peer (goal)", *COLUMNS, title="time per event, lower is better")
    for row in GOALS:
        table.add_row(row, *(_cell(found.get((row, column))) for column in COLUMNS))
    console.print(table)
    others = Table("", "", "", "quartiles", "ours", "peer", "")
    for result in results:
        if result.column not in COLUMNS:
            middle = f"{_short(result.low)} to {_short(result.high)}"
            sides = ["" if side is None else _short(side) for side in (result.ours, result.peer)]
            others.add_row(result.row, result.column, _cell(result), middle, *sides, result.note)
    console.print(others)
    judged = [result for result in results if result.ok is not None]
    console.print(f"{sum(bool(result.ok) for result in judged)} of {len(judged)} goals reached")


def _cell(result: "Result | None") -> str:
    if result is None:
        return ""
    if result.goal is None:
        return _short(result.value)
    return f"{_short(result.value)} ({_short(result.goal)}) {'ok' if result.ok else 'missed'}"


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 100.0 else f"{value:,.0f}"
