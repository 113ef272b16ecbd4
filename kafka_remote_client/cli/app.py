"""The command, and the options in front of its verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_remote_client.cli.command_group import ConfigFile, Verbs, show_version, use_configuration

__all__ = ["app"]

app = typer.Typer(
    cls=Verbs,
    help="Reads Kafka's tiered segments directly from the object store.",
    epilog="Exit status: 0 done, 1 failed or findings, 2 wrong use, 130 interrupted, 141 output closed (docs/cli.md).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _every_verb(
    context: typer.Context,
    config: ConfigFile = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Takes the options in front of the verb."""
    use_configuration(context, config)
