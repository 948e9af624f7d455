"""`streamnb produce`: sends a data set to a topic, as events, at a rate."""

import json
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from streamnb.cli.endings import errors_become_exit_codes


def produce(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .csv or .jsonl file (also .gz); - is standard input.")],
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="Where the events go.")],
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The column that is the label; without it JSON lines are sent as they are."
        ),
    ] = None,
    id_: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="The column that is the event's id and key.")
    ] = None,
    bootstrap_servers: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The brokers; or take them from --config.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A configuration: its brokers and credentials, and where its events have their parts."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Events a second; as fast as it goes if not given.")
    ] = None,
    unlabelled_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="The share of events that are sent without their label, evenly.")
    ] = 0.0,
    unlabelled_topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Where events without a label go, if elsewhere.")
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            metavar="TEXT,...", help="What cells of a CSV file say where they have no value, besides nothing."
        ),
    ] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with what was sent.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Send each row as an event: the label, the id, and every other column as a feature.

    In CSV, what reads as a number becomes one, and an empty cell is missing. The first line names the columns.

    \b
    Examples:
      streamnb produce titanic.csv --topic passengers --label Survived \\
        --id PassengerId --bootstrap-servers localhost:9092
      streamnb produce data.jsonl --topic payments.labelled --label fraud \\
        --config payments.yaml --rate 100
      streamnb produce data.csv --topic payments.labelled --label fraud \\
        --config payments.yaml --unlabelled-share 0.25 --unlabelled-topic payments
      streamnb produce sensors.csv --topic sensors --label fault --missing N/A,-,ERR \\
        --config sensors.yaml
      zcat events.jsonl.gz | streamnb produce - --topic payments.labelled --config payments.yaml
    """
    with errors_become_exit_codes(debug):
        from streamnb.cli.producing import Plan, brokers, produce_all
        from streamnb.cli.run import stop_at_signals

        stop = threading.Event()
        stop_at_signals(stop)
        kafka, event = brokers(bootstrap_servers, config)
        words = frozenset(word.strip() for word in missing.split(",") if word.strip())
        plan = Plan(file, topic, unlabelled_topic or topic, label, id_, unlabelled_share, event, words)
        sent = produce_all(plan, kafka, rate, stop, quiet or as_json)
        if as_json:
            typer.echo(json.dumps(asdict(sent), ensure_ascii=False))
        elif not quiet:
            typer.echo(sent.told())
