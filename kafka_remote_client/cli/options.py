"""The options that several verbs have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kafka_remote_client.cli.given_settings import utf_8
from kafka_remote_client.cli.output import OutputFormat
from kafka_remote_client.settings import default_of

__all__ = [
    "DEFAULT_GRACE",
    "DEFAULT_LAYOUT",
    "DEFAULT_METADATA_TIMEOUT",
    "DEFAULT_TIMEOUT",
    "LONGEST",
    "SETTING_FORMS",
    "BootstrapServers",
    "ConsumerSettings",
    "EncryptionKeys",
    "Grace",
    "Isolation",
    "KeyPrefix",
    "Layout",
    "MetadataTimeout",
    "MetadataTopicName",
    "NoMetadata",
    "OldTopic",
    "Output",
    "Partition",
    "PriceFile",
    "StorageClassName",
    "Store",
    "StoreOptions",
    "Timeout",
    "TopicId",
    "Topics",
]

SETTING_FORMS = "KEY=VALUE|@FILE"
DEFAULT_LAYOUT: str = default_of("remote.storage.store.layout")
LONGEST = 1e9
"""Seconds, milliseconds, days, megabytes per second or dollars, without infinity."""
DEFAULT_TIMEOUT = 30.0
DEFAULT_METADATA_TIMEOUT = 120.0
DEFAULT_GRACE = 900.0
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
Topics = Annotated[list[str] | None, typer.Argument(help="Topics to include; all if none is given.", metavar="TOPIC")]
Output = Annotated[OutputFormat, typer.Option("--output", help="Format: text, or json (one object per line).")]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="Partition to include.")]
BootstrapServers = Annotated[
    str,
    typer.Option("--bootstrap-servers", help="Bootstrap servers of the Kafka cluster.", metavar="HOST:PORT,…", callback=utf_8),
]
ConsumerSettings = Annotated[
    list[str] | None,
    typer.Option("--consumer", help="Setting of a consumer, as for TLS and SASL; repeatable.", metavar=SETTING_FORMS),
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0.1, max=LONGEST, help="Seconds that brokers and store get for all answers.")
]
MetadataTopicName = Annotated[str, typer.Option("--metadata-topic", help="Name of the metadata topic.", callback=utf_8)]
NoMetadata = Annotated[
    bool, typer.Option("--no-metadata", help="Do not read the metadata topic; leave out what only it knows.")
]
MetadataTimeout = Annotated[
    float, typer.Option("--metadata-timeout", min=0.1, max=LONGEST, help="Seconds for reading the metadata topic.")
]
Grace = Annotated[
    float, typer.Option("--grace", min=0, max=LONGEST, help="Seconds after which an unfinished copy or deletion is reported.")
]
PriceFile = Annotated[
    str | None,
    typer.Option("--prices", help="Prices that differ from the default table (docs/cli.md).", metavar="TOML|JSON"),
]
StorageClassName = Annotated[str, typer.Option("--storage-class", help="Storage class of the tier's objects.", metavar="NAME")]
TopicId = Annotated[str | None, typer.Option("--topic-id", help="Topic id, if several topics have this name.")]
OldTopic = Annotated[str | None, typer.Option("--topic", hidden=True)]


class Isolation(StrEnum):
    """``--isolation-level``, as consumers spell it."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"
