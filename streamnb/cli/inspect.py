"""`streamnb inspect`: what a snapshot holds."""

from pathlib import Path
from typing import Annotated

import typer

from streamnb.cli.endings import errors_become_exit_codes


def inspect(
    snapshot: Annotated[
        Path,
        typer.Argument(metavar="SNAPSHOT", help="A snapshot, a folder (the newest whole one), or a configuration."),
    ],
    top: Annotated[int, typer.Option(min=1, help="How many features are listed.")] = 10,
    label: Annotated[str | None, typer.Option("--class", metavar="CLASS", help="Only this class.")] = None,
    feature: Annotated[str | None, typer.Option(metavar="NAME", help="The whole table of this feature.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with all tables.")] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the likelihood tables as CSV, a row for each feature and class.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it, as the ending says: .png, .svg or .pdf.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Show a snapshot's model: classes, priors, the strongest features, likelihood tables, scores.

    \b
    Examples:
      streamnb inspect snapshots
      streamnb inspect payments.yaml --feature amount --class fraud
      streamnb inspect payments.yaml --plot model.png
      streamnb inspect snapshots --csv > likelihoods.csv
    """
    with errors_become_exit_codes(debug):
        from streamnb.cli import inspecting

        found = inspecting.inspected(snapshot, top, label, feature)
        if plot is not None:
            from streamnb.cli import plotting

            plotting.draw(found, plot)
        if as_json:
            typer.echo(inspecting.told_as_json(found))
        elif as_csv:
            inspecting.write_csv(found)
        else:
            typer.echo("\n".join(inspecting.told(found)))
            if plot is not None:
                typer.echo(f"\ndrawn in {plot}")
