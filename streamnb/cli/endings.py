"""How a command ends: an error is one message on stderr and an exit code."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from streamnb.errors import IoError, OutputClosed, StreamnbError, why


@contextmanager
def errors_become_exit_codes(debug: bool) -> Iterator[None]:
    """Say what went wrong in one message, the traceback only if `debug`, and exit with the error's code."""
    try:
        yield
    except OutputClosed:
        raise typer.Exit(OutputClosed.exit_code) from None
    except StreamnbError as error:
        _say(str(error), debug)
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        _say(f"{error.filename}: {why(error)}" if error.filename else why(error), debug)
        raise typer.Exit(IoError.exit_code) from None
    except Exception as error:
        hint = "" if debug else " (--debug shows where)"
        _say(f"internal error: {type(error).__name__}: {error}{hint}", debug)
        raise typer.Exit(StreamnbError.exit_code) from None


def _say(message: str, debug: bool) -> None:
    if debug:
        traceback.print_exc(file=sys.stderr)
    print(f"streamnb: {message}", file=sys.stderr)
