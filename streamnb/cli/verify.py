"""`streamnb verify`: is the model what a batch fit of the same events gives?"""

from pathlib import Path
from typing import Annotated

import typer

from streamnb.cli.endings import errors_become_exit_codes


def verify(
    source: Annotated[
        Path, typer.Argument(metavar="CONFIG|SNAPSHOT", help="A configuration, a snapshot, or a folder of snapshots.")
    ],
    input_: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="The events, as JSON lines; - is standard input. Without it, what the configuration names: its file, "
            "or its labelled topics up to the offsets that were learned.",
        ),
    ] = None,
    sample: Annotated[int, typer.Option(min=0, help="How many events are also answered by both.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the verdict.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Fit the same events again, all at once and in exact arithmetic, and print how far the snapshot's model is off.

    Where scikit-learn is installed and has such a model, its fit is compared too. Ends with 0 if the model equals
    the exact fit to within the rounding of a float, else with 1.

    \b
    Examples:
      streamnb verify payments.yaml
      streamnb verify snapshots --input events.jsonl --json
      streamnb verify streamnb-demo/streamnb.yaml && echo equal
    """
    with errors_become_exit_codes(debug):
        from streamnb.cli.sources import source_of
        from streamnb.cli.verifying import told, told_as_json, verdict, verified

        found = verified(source_of(source), input_, sample, quiet or as_json)
        if as_json:
            typer.echo(told_as_json(found))
        elif quiet:
            typer.echo(verdict(found))
        else:
            for line in told(found):
                typer.echo(line)
        code = 0 if found.equal else 1
    raise typer.Exit(code)
