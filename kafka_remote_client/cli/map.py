"""``kafka-remote map``: what holds which offsets of a topic, as a table and as a page."""

from __future__ import annotations

from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer

from kafka_remote_client.cli import options
from kafka_remote_client.cli.given_settings import parse_settings, utf_8
from kafka_remote_client.cli.offsets import open_cluster, partition_lines, read_metadata
from kafka_remote_client.cli.output import OutputFormat, show_lines, show_text
from kafka_remote_client.cli.prices import load_prices
from kafka_remote_client.cli.progress import spinner
from kafka_remote_client.cli.remarks import remark
from kafka_remote_client.cli.store_arguments import parse_encryption_keys, parse_topic_id
from kafka_remote_client.cli.topic_map import COLUMNS
from kafka_remote_client.cli.topic_map_facts import ClusterFacts, map_topic
from kafka_remote_client.cli.topic_map_page import map_page
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.registry import check_store_options, load_store
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named

__all__ = ["add_verb"]


def add_verb(app: typer.Typer) -> None:
    """Adds the verb of this module."""
    app.command("map")(_map)


def _map(
    topic: Annotated[str, typer.Argument(help="Topic to map.", metavar="TOPIC", callback=utf_8)],
    store: options.Store,
    store_option: options.StoreOptions = None,
    layout: options.Layout = options.DEFAULT_LAYOUT,
    key_prefix: options.KeyPrefix = "",
    encryption_key: options.EncryptionKeys = None,
    topic_id: options.TopicId = None,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            help="Cluster to ask for log start, local part and metadata.",
            metavar="HOST:PORT,…",
            callback=utf_8,
        ),
    ] = None,
    consumer: options.ConsumerSettings = None,
    metadata_topic: options.MetadataTopicName = METADATA_TOPIC,
    no_metadata: options.NoMetadata = False,
    metadata_timeout: options.MetadataTimeout = options.DEFAULT_METADATA_TIMEOUT,
    grace: options.Grace = options.DEFAULT_GRACE,
    prices: options.PriceFile = None,
    storage_class: options.StorageClassName = "standard",
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write the map as a page. An existing file is replaced.", metavar="FILE")
    ] = None,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT,
    output: options.Output = OutputFormat.TEXT,
) -> None:
    """Shows what holds which offsets of a topic: segments, local part, gaps, duplicates, orphans."""
    storage = load_prices(prices).of_class(storage_class)
    laid_out = layout_named(layout, LayoutOptions(key_prefix, parse_encryption_keys(encryption_key or [])))
    store_options = parse_settings(store_option or [], "--store-option")
    settings = parse_settings(consumer or [], "--consumer")
    identity, clock = parse_topic_id(topic_id), SystemClock()
    with ExitStack() as opened:
        tier = opened.enter_context(closing(load_store(store, store_options)))
        check_store_options(store_options, tier)

        def ask() -> ClusterFacts:
            assert bootstrap_servers is not None
            with open_cluster(bootstrap_servers, settings, timeout) as leaders:
                bounds = partition_lines(leaders, [topic], None, clock, timeout)
            known = None
            if not no_metadata:
                known = opened.enter_context(read_metadata(bootstrap_servers, settings, metadata_topic, metadata_timeout))
            return ClusterFacts(bounds, known, clock.time_ms(), int(grace * 1000))

        asked = None if bootstrap_servers is None else ask
        with spinner(f"reading what is known of {topic}"):
            found = map_topic(tier, laid_out, topic, storage, remark, topic_id=identity, ask=asked)
    show_lines(found.parts, COLUMNS, output)
    if output is OutputFormat.TEXT:
        show_text(found.totals())
    if html is not None:
        _write(html, map_page(found))


def _write(path: Path, text: str) -> None:
    """Writes a file under another name, then renames it, so the file is whole or absent. Raises ConfigurationError.

    A device or a pipe, such as /dev/stdout, is written to.
    """
    if not path.name:
        raise ConfigurationError(f"--html: {path} is not the name of a file")
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_text(text, encoding="utf-8")
            return
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        with suppress(OSError):  # a file system that cannot be written refuses this too
            unfinished.unlink(missing_ok=True)
        raise ConfigurationError(f"--html: {path} cannot be written: {error.strerror}") from None
