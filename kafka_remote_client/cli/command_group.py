"""The group of all verbs: what is the same for each of them.

The module of a verb is imported when the verb is used, because some take long: ``cluster`` has a whole cluster in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from kafka_remote_client.cli.configuration import VerbOption, given_options, read_options
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.version import __version__

__all__ = ["VERBS", "ConfigFile", "OutputClosedError", "Verb", "Verbs", "show_version", "use_configuration"]

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", envvar="KAFKA_REMOTE_CONFIG", metavar="FILE", help="TOML file with options of verbs (docs/cli.md)."
    ),
]


class Verb(NamedTuple):
    """What docs/cli.md says of a verb beside its help: what it ``needs``, and the ``page`` about it."""

    needs: str
    page: str = ""


VERBS: Mapping[str, Verb] = {
    "ls": Verb("the store"),
    "dump": Verb("the store"),
    "export": Verb("the store", "tables.md#export"),
    "verify": Verb("the store", "verify.md"),
    "restore": Verb("the store", "restore.md"),
    "offsets": Verb("brokers"),
    "locate": Verb("the shim or the store"),
    "lag": Verb("brokers"),
    "map": Verb("the store, and brokers if there are any"),
    "bench": Verb("the store, and brokers to compare"),
    "cost": Verb("the store"),
    "doctor": Verb("a configuration or the store"),
    "plan": Verb("brokers, and the shim or the store", "spark.md"),
    "shim": Verb("brokers and the store", "shim.md"),
    "cluster": Verb("nothing"),
    "demo": Verb("nothing"),
}
"""All verbs, in the order of ``--help``. The module of the same name has an ``add_verb``, which adds it to an application."""
_OWN_CONFIGURATION = frozenset({"shim"})
"""Verbs that read a file and variables of their own."""


class OutputClosedError(Exception):
    """The reader of the output has gone. Typer would end the process with status 1 for a BrokenPipeError."""


class _Commands(MutableMapping[str, Any]):
    """The commands by their verbs. A command is made when it is first used."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, verb: str) -> Any:
        if verb not in VERBS:
            raise KeyError(verb)
        if verb not in self._made:
            module = typer.Typer(rich_markup_mode=None)
            import_module(f"kafka_remote_client.cli.{verb}").add_verb(module)
            self._made.update(typer.main.get_group(module).commands)
        return self._made[verb]

    def __setitem__(self, verb: str, command: Any) -> None:
        self._made[verb] = command

    def __delitem__(self, verb: str) -> None:
        del self._made[verb]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class Verbs(TyperGroup):
    """Typer's group. Raises OutputClosedError where that raises BrokenPipeError."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the verbs. That of the base would make all commands."""
        return list(self.commands)

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
    """Makes options from a file and the environment the defaults of the verb. Raises ConfigurationError.

    All verbs are looked at only for a file: a key that no verb has is an error.
    """
    used = [context.invoked_subcommand] if config is None else VERBS
    verbs = {
        verb: [
            VerbOption(each.name, max(each.opts, key=len).removeprefix("--"), each.multiple)
            for each in context.command.commands[verb].params
            if each.param_type_name == "option" and not each.hidden and each.name != "help"
        ]
        for verb in used
        if verb not in _OWN_CONFIGURATION
    }
    file = {} if config is None else read_options(config)
    for verb in _OWN_CONFIGURATION & file.keys():
        raise ConfigurationError(f"--config: {config}: {verb} has a file of its own: kafka-remote {verb} --config FILE")
    context.default_map = given_options(verbs, config, file, os.environ)


@contextmanager
def _own_error() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosedError from error
