"""Options of verbs from a file and from the environment: ``--config FILE``, ``KAFKA_REMOTE_CONFIG``, ``KAFKA_REMOTE_*``.

::

    --store URL on the command line      | wins over
    KAFKA_REMOTE_DUMP_STORE              | the verb's own variable, which wins over
    KAFKA_REMOTE_STORE                   | the variable for all verbs, which wins over
    [dump] store = "URL"                 | the verb's table of the file, which wins over
    store = "URL"                        | the file's line for all verbs

A line for all verbs counts for those that have the option. The verb ``shim`` has a file and variables of its own. Pure, but for
:func:`read_options`.

References: docs/cli.md, "Options in a file".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.parsing import parse_toml

__all__ = ["VerbOption", "given_options", "read_options"]

_PREFIX = "KAFKA_REMOTE"
Options: TypeAlias = Mapping[str, Any]
"""A verb's options by the names of its parameters."""


@attrs.frozen
class VerbOption:
    """``parameter``: its name in Python. ``name``: without the dashes in front. ``repeatable`` options take several values."""

    parameter: str
    name: str
    repeatable: bool


def read_options(path: str) -> dict[str, Any]:
    """The content of a file in TOML. Raises ConfigurationError for one that cannot be read or is not TOML."""
    try:
        return parse_toml(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(f"--config: {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigurationError(f"--config: {path} is not TOML: {error}") from None


def given_options(
    verbs: Mapping[str, Iterable[VerbOption]], path: str | None, file: Mapping[str, Any], variables: Mapping[str, str]
) -> dict[str, Options]:
    """The options of each verb, from the content of a file and from variables of the environment.

    Raises ConfigurationError, which names file and key, for a key that no verb has, and for a value of another kind.
    """
    known = {verb: {option.name: option for option in options} for verb, options in verbs.items()}
    shared = {key: value for key, value in file.items() if key not in known}
    names = {*known, *(name for options in known.values() for name in options)}
    for key in shared:
        _check_name(path, "option or verb", key, names)
    found: dict[str, Options] = {}
    for verb, options in known.items():
        own = _own(path, verb, file)
        for key in own:
            _check_name(path, f"option of {verb}", key, options)
        lines = {**{key: value for key, value in shared.items() if key in options}, **own}
        values = {options[key].parameter: _value(path, key, options[key], value) for key, value in lines.items()}
        found[verb] = values | _from_variables(verb, options.values(), variables)
    return found


def _own(path: str | None, verb: str, file: Mapping[str, Any]) -> Mapping[str, Any]:
    table = file.get(verb, {})
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"--config: {path}: {verb} must be a table [{verb}] with options of the verb")
    return table


def _check_name(path: str | None, what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        close = arguments.closest(name, known)
        raise ConfigurationError(f"--config: {path}: unknown {what}: {name}{f'; did you mean {close}?' if close else ''}")


def _value(path: str | None, key: str, option: VerbOption, value: object) -> Any:
    """As a command line gives it: a text, a number, a switch, or a list of them."""
    if option.repeatable and isinstance(value, Mapping):
        value = [f"{name}={_plain(path, key, each)}" for name, each in value.items()]
    if option.repeatable:
        return [_plain(path, key, each) for each in (value if isinstance(value, list) else [value])]
    return _plain(path, key, value)


def _plain(path: str | None, key: str, value: object) -> str | int | float | bool:
    if not isinstance(value, str | int | float | bool):
        raise ConfigurationError(f"--config: {path}: {key} must be a text, a number or true or false")
    return value


def _from_variables(verb: str, options: Iterable[VerbOption], variables: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in options:
        suffix = option.name.replace("-", "_").upper()
        for name in (f"{_PREFIX}_{suffix}", f"{_PREFIX}_{verb.replace('-', '_').upper()}_{suffix}"):
            if value := variables.get(name):
                found[option.parameter] = value.split() if option.repeatable else value
    return found
