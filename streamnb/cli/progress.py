"""How far long work has come: a bar on a terminal, and nothing elsewhere."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

T = TypeVar("T")
EVERY = 1000


def progress_bar(console: Console) -> Progress:
    """For work of a known length."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal or console.quiet)


@contextmanager
def counter(what: str, quiet: bool) -> Iterator[Progress]:
    """For work without a known end, on standard error; add a task and complete it."""
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn(f"{{task.completed:.0f}} {what}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        yield bar


def counted(things: Iterable[T], what: str, quiet: bool) -> Iterator[T]:
    """The same things, counted while they pass."""
    with counter(what, quiet) as bar:
        task = bar.add_task(what, total=None)
        for n, thing in enumerate(things):
            if n % EVERY == 0:
                bar.update(task, completed=n)
            yield thing
