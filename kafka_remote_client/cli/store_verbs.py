"""The verbs ``ls`` and ``verify``, which look at all of a store, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_remote_client.cli.given_settings import parse_settings
from kafka_remote_client.cli.ls import found_segments
from kafka_remote_client.cli.old_spellings import output_of, topics_of
from kafka_remote_client.cli.options import (
    DEFAULT_GRACE,
    DEFAULT_LAYOUT,
    DEFAULT_METADATA_TIMEOUT,
    SETTING_FORMS,
    EncryptionKeys,
    Grace,
    KeyPrefix,
    Layout,
    MetadataTimeout,
    MetadataTopicName,
    OldTopic,
    Output,
    Partition,
    Store,
    StoreOptions,
    Topics,
)
from kafka_remote_client.cli.output import OutputFormat, show_segments
from kafka_remote_client.cli.progress import spinner
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import open_listing, parse_encryption_keys
from kafka_remote_client.cli.verify import VerifyCommand, verify
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layouts import LayoutOptions
from kafka_remote_client.verify.verifier import VerifyRequest

__all__ = ["add_verbs"]


def add_verbs(app: typer.Typer) -> None:
    """Adds the verbs of this module."""
    app.command("ls")(_ls)
    app.command("verify")(_verify)


def _ls(
    store: Store,
    topics: Topics = None,
    store_option: StoreOptions = None,
    layout: Layout = DEFAULT_LAYOUT,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    partition: Partition = None,
    output: Output = OutputFormat.TEXT,
    old_topic: OldTopic = None,
) -> None:
    """Lists topics, partitions and segments of the tier."""
    options = LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or []))
    store_options = parse_settings(store_option or [], "--store-option")
    named = topics_of(topics, old_topic, remark)
    only = named[0] if len(named) == 1 else None  # reads no more of the store than that topic
    listing = open_listing(store, layout, options, store_options=store_options, topic=only)
    with listing as (opened, source), spinner():
        lines = found_segments(opened, source, named, partition)
    show_segments(lines, output)


def _verify(
    store: Store,
    topics: Topics = None,
    layout: Layout = DEFAULT_LAYOUT,
    store_option: StoreOptions = None,
    key_prefix: KeyPrefix = "",
    encryption_key: EncryptionKeys = None,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "--bootstrap-servers",
            help="Bootstrap servers of the cluster whose metadata topic is compared with the store.",
            metavar="HOST:PORT,…",
        ),
    ] = None,
    metadata_topic: MetadataTopicName = METADATA_TOPIC,
    metadata_consumer: Annotated[
        list[str] | None,
        typer.Option(
            "--metadata-consumer", help="librdkafka setting for reading the metadata topic; repeatable.", metavar=SETTING_FORMS
        ),
    ] = None,
    metadata_timeout: MetadataTimeout = DEFAULT_METADATA_TIMEOUT,
    quick: Annotated[
        bool, typer.Option("--quick", help="Check objects, sizes, manifests and indexes, but no record data.")
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="Number of segments to check in parallel.")] = 4,
    allow_offset_gaps: Annotated[
        bool, typer.Option("--allow-offset-gaps", help="Accept offset gaps, for topics that were compacted before.")
    ] = False,
    grace: Grace = DEFAULT_GRACE,
    output: Output = OutputFormat.TEXT,
    as_json: Annotated[bool, typer.Option("--json", hidden=True)] = False,
) -> None:
    """Checks a tier for damage. Exit status: 0 sound, 1 findings, 2 failed to check."""
    command = VerifyCommand(
        store=store,
        store_options=parse_settings(store_option or [], "--store-option"),
        layout=layout,
        layout_options=LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or [])),
        request=VerifyRequest(tuple(topics or ()), quick, jobs, allow_offset_gaps, int(grace * 1000)),
        bootstrap_servers=bootstrap_server,
        metadata_topic=metadata_topic,
        metadata_consumer=parse_settings(metadata_consumer or [], "--metadata-consumer"),
        metadata_timeout=metadata_timeout,
        output=output_of(output, as_json=as_json, say=remark),
    )
    raise typer.Exit(verify(command, remark))
