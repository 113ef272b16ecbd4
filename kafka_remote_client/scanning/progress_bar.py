"""A progress bar in a terminal or a notebook. If standard error is a file or a pipe, nothing is printed.

::

    scan     offsets that were read, of all in the plan; records that a predicate excludes count, too
    export   splits that were written, of all splits

Needs ``rich`` (the extra ``cli``). Without it there is no bar.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kafka_remote_client.scanning.export.run import ExportProgress

__all__ = ["PassedOffsets", "TaskBar", "export_bar", "terminal_bar"]


class TaskBar(Protocol):
    """A progress bar."""

    def update(self, done: int, total: int) -> None:
        """Shows that ``done`` of ``total`` are done."""

    def close(self) -> None:
        """Ends the bar and leaves it visible."""


class PassedOffsets:
    """Adds up the offsets that several threads have read. The caller sets ``total`` when it is known."""

    def __init__(self, bar: TaskBar) -> None:
        self.total = 0
        self._bar = bar
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, offsets: int) -> None:
        """Adds ``offsets`` to those that were read."""
        with self._lock:
            self._done += offsets
            self._bar.update(self._done, self.total)


@contextmanager
def export_bar(description: str) -> Iterator[Callable[[ExportProgress], None] | None]:
    """Shows a bar. Yields the callback for an export's progress; ``None`` if no bar can be shown."""
    bar = terminal_bar(description)
    if bar is None:
        yield None
        return
    try:
        yield lambda progress: bar.update(progress.splits, progress.all_splits)
    finally:
        bar.close()


def terminal_bar(description: str) -> TaskBar | None:
    """A bar on standard error; ``None`` if no bar can be shown."""
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra
        from rich.progress import (  # noqa: PLC0415 - an extra
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )
    except ImportError:
        return None
    console = Console(stderr=True)
    if not (sys.stderr.isatty() or console.is_jupyter):
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return _RichBar(Progress(*columns, console=console), description)


class _RichBar:
    def __init__(self, progress: Any, description: str) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=None)
        progress.start()

    def update(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total or None)

    def close(self) -> None:
        self._progress.stop()
