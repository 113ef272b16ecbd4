"""The group of all verbs: what is the same for each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from kafka_remote_client.cli.configuration import VerbOption, given_options, read_options
from kafka_remote_client.version import __version__

__all__ = ["ConfigFile", "OutputClosedError", "Verbs", "show_version", "use_configuration"]

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", envvar="KAFKA_REMOTE_CONFIG", metavar="FILE", help="TOML file with options of verbs (docs/cli.md)."
    ),
]
_OWN_CONFIGURATION = frozenset({"shim"})
"""Verbs that read a file and variables of their own."""


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
        print(f"kafka-remote {__version__}")
        raise typer.Exit


def use_configuration(context: Any, config: str | None) -> None:
    """Makes options from a file and the environment the defaults of the verbs. Raises ConfigurationError."""
    verbs = {
        verb: [
            VerbOption(each.name, max(each.opts, key=len).removeprefix("--"), each.multiple)
            for each in command.params
            if each.param_type_name == "option" and not each.hidden and each.name != "help"
        ]
        for verb, command in context.command.commands.items()
        if verb not in _OWN_CONFIGURATION
    }
    file = {} if config is None else read_options(config)
    context.default_map = given_options(verbs, config, file, os.environ)


@contextmanager
def _own_error() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosedError from error
