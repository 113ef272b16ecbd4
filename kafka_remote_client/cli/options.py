"""The options that several verbs have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.settings import default_of

__all__ = [
    "DEFAULT_LAYOUT",
    "DEFAULT_TIMEOUT",
    "LONGEST",
    "SETTING_FORMS",
    "BootstrapServers",
    "ConsumerSettings",
    "EncryptionKeys",
    "Isolation",
    "KeyPrefix",
    "Layout",
    "OldTopic",
    "Output",
    "Partition",
    "Store",
    "StoreOptions",
    "Timeout",
    "Topics",
]

SETTING_FORMS = "KEY=VALUE|@FILE"
DEFAULT_LAYOUT: str = default_of("remote.storage.store.layout")
LONGEST = 1e9
"""Seconds or milliseconds, without infinity."""
DEFAULT_TIMEOUT = 30.0
"""Seconds."""

Store = Annotated[
    str, typer.Option("--store", help="URL of the tier: file:///DIR, s3://BUCKET/PREFIX, gs://…, az://…", metavar="URL")
]
StoreOptions = Annotated[
    list[str] | None,
    typer.Option("--store-option", help="Setting of the store; repeatable (docs/stores.md).", metavar=SETTING_FORMS),
]
Layout = Annotated[str, typer.Option("--layout", help="Layout of the tier's objects.", metavar="NAME")]
KeyPrefix = Annotated[str, typer.Option("--key-prefix", help="Prefix of all object names (aiven).", metavar="PREFIX")]
EncryptionKeys = Annotated[
    list[str] | None,
    typer.Option(
        "--encryption-key", help="RSA private key in PEM or DER; repeatable (aiven).", metavar="KEYID=PRIVATE_KEY_FILE"
    ),
]
Topics = Annotated[list[str] | None, typer.Argument(help="Topics to include; all if none is given.", metavar="[TOPIC]...")]
Output = Annotated[OutputFormat, typer.Option("--output", help="Format: text, or json (one object per line).")]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Partition to include.")]
BootstrapServers = Annotated[
    str, typer.Option("--bootstrap-servers", help="Bootstrap servers of the Kafka cluster.", metavar="HOST:PORT,…")
]
ConsumerSettings = Annotated[
    list[str] | None,
    typer.Option("--consumer", help="Setting of a consumer, as for TLS and SASL; repeatable.", metavar=SETTING_FORMS),
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, max=LONGEST, help="Seconds that brokers and store get for all answers.")
]
OldTopic = Annotated[str | None, typer.Option("--topic", hidden=True)]


class Isolation(StrEnum):
    """``--isolation-level``, as consumers spell it."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"
