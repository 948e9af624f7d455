"""`streamnb convert`: a snapshot as a scikit-learn model, and a scikit-learn model as the start of a stream."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from streamnb.cli.endings import errors_become_exit_codes


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A configuration, a snapshot or a folder of snapshots; or a scikit-learn model saved with skops.",
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", help="The .skops file to write; or the configuration whose stream is to start."
        ),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Names of the columns, in order, of a scikit-learn model that was fitted on an array.",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a .skops file that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of sentences.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Turn a streamed model into a scikit-learn model, or let a scikit-learn model start a stream.

    The first needs a model of kind gaussian, multinomial, complement, bernoulli or categorical: scikit-learn has
    nothing for mixed and text models, half_life, tfidf weighting and unseen: smooth. The file is skops', never a
    pickle; read it with skops.io.load.

    The second writes the first snapshot of the configuration's app, without offsets: 'streamnb run' goes on learning
    from there, at the beginning of the labelled topics. A file that holds anything but scikit-learn's and numpy's own
    types is refused.

    \b
    Examples:
      streamnb convert payments.yaml payments.skops
      streamnb convert snapshots/payments payments.skops --overwrite
      streamnb convert fitted.skops payments.yaml
      streamnb convert fitted.skops payments.yaml --columns amount,age
    """
    with errors_become_exit_codes(debug):
        from streamnb.cli.converting import exported, is_skops, seeded

        names = None if columns is None else [name.strip() for name in columns.split(",")]
        found = seeded(source, target, names) if is_skops(source) else exported(source, target, names, overwrite)
        typer.echo(json.dumps(asdict(found), ensure_ascii=False) if as_json else found.told())
