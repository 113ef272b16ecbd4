"""The progress of a verb, on standard error. Only a terminal shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

__all__ = ["bytes_bar", "spinner", "steps_bar"]


def spinner(what: str = "listing the store") -> AbstractContextManager[object]:
    """Shows what a verb waits for, as long as the context lasts, where the amount of work is unknown."""
    return Console(stderr=True).status(what)


@contextmanager
def bytes_bar(verb: str) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Gives two functions: one takes the total in bytes, the other each number of bytes that is done."""
    with _bar(verb, DownloadColumn()) as bar:
        task = bar.add_task(verb, total=None)
        yield lambda total: bar.update(task, total=total), lambda count: bar.advance(task, count)


@contextmanager
def steps_bar(verb: str, steps: int) -> Iterator[Callable[[], None]]:
    """Gives a function to call after each of ``steps`` steps."""
    with _bar(verb, MofNCompleteColumn()) as bar:
        task = bar.add_task(verb, total=steps)
        yield lambda: bar.advance(task)


def _bar(verb: str, done: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn(verb), BarColumn(), done, TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
