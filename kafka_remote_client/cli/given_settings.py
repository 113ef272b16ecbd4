"""Settings given on a command line as ``KEY=VALUE``, with other ways for secrets: all users of a machine see arguments.

::

    KEY=VALUE        a setting; refused where KEY names a secret
    KEY=@FILE        a secret, read from a file; its last line end is left out
    KEY=env:NAME     a secret, read from an environment variable
    @FILE            settings from a file, secrets included: lines KEY=VALUE, with or without blanks around the equals sign;
                     blank lines and # lines are left out

``@FILE`` and ``env:NAME`` as values have this meaning only for secrets. Any other setting has its literal value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import typer

from kafka_remote_client.errors import ConfigurationError

__all__ = [
    "check_consumer_settings",
    "is_secret",
    "is_utf_8",
    "parse_line",
    "parse_settings",
    "read_secret",
    "read_text",
    "resolve_secret",
    "utf_8",
]

_Given = TypeVar("_Given", str, list[str], str | None, list[str] | None)
_SECRET = re.compile(
    r"(?:^|[._])(?:password|passphrase|secret)$"
    r"|jaas\.config$|oauthbearer\.config$"
    r"|(?:^|[._])key\.pem$|ssl_key$|keystore\.key$|private\.key$"
    r"|(?:access|account|session)[._](?:key|token)$"
    r"|auth\.(?:user\.info|token)$",
    re.IGNORECASE | re.ASCII,
)


def is_secret(name: str) -> bool:
    """Whether a setting of that name holds a password, a private key or what contains one."""
    return _SECRET.search(name) is not None


def parse_settings(given: Sequence[str], option: str = "--metadata-consumer") -> dict[str, str]:
    """The settings of a repeated option; later ones win.

    Raises ConfigurationError for an argument or line without ``=`` (and does not show it: it may be a secret), for a secret in
    an argument, for a file or variable that cannot be read, and for what is not UTF-8 (confluent_kafka raises SystemError).
    """
    settings: dict[str, str] = {}
    for argument in given:
        if argument.startswith("@"):
            settings.update(parse_line(line, f"{option}: {argument[1:]}") for line in _lines(argument[1:]))
        else:
            name, value = _pair(argument, option)
            settings[name] = _secret(name, value, option) if is_secret(name) else value
    for name, value in settings.items():
        if not (is_utf_8(name) and is_utf_8(value)):
            raise ConfigurationError(f"{option}: {name.encode(errors='replace').decode()} is not UTF-8")
    return settings


def utf_8(given: _Given) -> _Given:
    """The callback of an option or argument for brokers: Kafka's texts are UTF-8. Raises BadParameter."""
    if not all(map(is_utf_8, [given] if isinstance(given, str) else given or [])):
        raise typer.BadParameter("is not UTF-8")
    return given


def is_utf_8(text: str) -> bool:
    """Whether UTF-8 can hold it: it has no surrogates, which Python has for other bytes of a command line or variable."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_consumer_settings(settings: Mapping[str, object]) -> None:
    """Raises ConfigurationError for settings of a consumer that librdkafka rejects. Connects to nothing.

    Connections of this package use few of them, so a misspelled one would change nothing without a word.
    """
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415 - shells complete options without librdkafka

    local = {name: value for name, value in settings.items() if name not in ("bootstrap.servers", "group.id")}
    try:
        # confluent_kafka ends the process for an empty group id.
        Consumer({**local, "group.id": "kafka-remote"}).close()
    except KafkaException as error:
        raise ConfigurationError(f"librdkafka rejects the settings of the consumer: {error.args[0].str()}") from None


def read_text(path: str) -> str:
    """The text of a file, without a byte order mark.

    Raises ConfigurationError, which names the file and shows nothing of it, if it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigurationError(f"{path} cannot be read: {reason}") from None


def read_secret(path: str | None) -> str | None:
    """A secret's file, without the line end that editors add. Raises ConfigurationError."""
    return None if path is None else read_text(path).rstrip("\r\n")


def resolve_secret(name: str, value: str, where: str) -> str:
    """The value of a setting from a place that may hold secrets: a secret may also be ``@FILE`` or ``env:VARIABLE``.

    Raises ConfigurationError when the file or variable cannot be read.
    """
    if not is_secret(name):
        return value
    if value.startswith("@"):
        return read_text(value[1:]).rstrip("\r\n")
    if value.startswith("env:"):
        found = os.environ.get(value[4:])
        if found is None:
            raise ConfigurationError(f"{where}: {name}: the environment variable is not set")
        return found
    return value


def parse_line(line: str, where: str) -> tuple[str, str]:
    """Key and value of a line ``KEY=VALUE``; blanks around both do not count. Raises ConfigurationError without the line."""
    name, value = _pair(line, where)
    return name, value.strip()


def _secret(name: str, value: str, option: str) -> str:
    if value.startswith(("@", "env:")):
        return resolve_secret(name, value, option)
    raise ConfigurationError(
        f"{option}: {name} is a secret, and every user of this machine sees command lines; "
        f"give {name}=@FILE, {name}=env:VARIABLE, or {option} @FILE with lines KEY=VALUE"
    )


def _pair(text: str, where: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ConfigurationError(f"{where} must have the form KEY=VALUE")
    return name.strip(), value


def _lines(path: str) -> Iterator[str]:
    lines = (line.strip() for line in read_text(path).splitlines())
    return (line for line in lines if line and not line.startswith("#"))
