"""`streamnb explain`: why an event is answered as it is."""

from pathlib import Path
from typing import Annotated

import typer

from streamnb.cli.endings import errors_become_exit_codes


def explain(
    source: Annotated[
        Path, typer.Argument(metavar="CONFIG|SNAPSHOT", help="A configuration, a snapshot, or a folder of snapshots.")
    ],
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The event as JSON; - reads it from standard input.")],
    top: Annotated[int, typer.Option(min=0, help="How many features are listed; the others are one row.")] = 12,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Say what the newest snapshot's model answers to an event, and which features decide it.

    The contributions are log odds, in nats, of the answer against the runner-up. They add up.

    \b
    Examples:
      streamnb explain payments.yaml '{"features": {"amount": 850.0, "country": "XX"}}'
      tail -n 1 events.jsonl | streamnb explain snapshots - --top 5 --json
    """
    with errors_become_exit_codes(debug):
        from streamnb.cli.explaining import explained, told, told_as_json
        from streamnb.cli.sources import source_of

        found = explained(source_of(source), event, top)
        typer.echo(told_as_json(found) if as_json else told(found))
