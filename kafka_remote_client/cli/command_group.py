"""The group of all verbs: what is the same for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import typer
from typer.core import TyperGroup

__all__ = ["OutputClosedError", "Verbs", "show_version"]


class OutputClosedError(Exception):
    """The reader of the output has gone. Typer would end the process with status 1 for a BrokenPipeError."""


class Verbs(TyperGroup):
    """Typer's group. Raises OutputClosedError where that raises BrokenPipeError."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        with _own_error():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        with _own_error():
            return super().invoke(ctx)


def show_version(asked: bool) -> None:
    """Prints the version and ends the command, if it was asked for."""
    if asked:
        print(f"kafka-remote {version('kafka-remote-client')}")
        raise typer.Exit


@contextmanager
def _own_error() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosedError from error
