"""Opens the tier that ``--store`` and ``--layout`` name, for the verbs that read it without a broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from uuid import UUID

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.model import uuid_from_text
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.registry import check_store_options, load_store
from kafka_remote_client.remote_log.layouts import LayoutOptions, encryption_key_files, layout_named

__all__ = ["open_listing", "parse_encryption_keys", "parse_topic_id"]


@contextmanager
def open_listing(
    store_url: str,
    layout_name: str,
    options: LayoutOptions | None = None,
    *,
    store_options: Mapping[str, object] | None = None,
    topic: str | None = None,
    topic_id: UUID | None = None,
) -> Iterator[tuple[RemoteObjectStore, ListingLocationSource]]:
    """The store and a listing of it (of one topic). Raises ConfigurationError for a store or layout that does not exist."""
    layout = layout_named(layout_name, options)
    store = load_store(store_url, store_options)
    with closing(ListingLocationSource(store, layout, topic=topic, topic_id=topic_id)) as source:
        check_store_options(store_options, store)
        yield store, source


def parse_encryption_keys(pairs: Sequence[str]) -> dict[str, str]:
    """Parses ``KEYID=PRIVATE_KEY_FILE``. Raises ConfigurationError for an invalid argument, and for a repeated id."""
    return encryption_key_files(pairs, "--encryption-key")


def parse_topic_id(text: str | None) -> UUID | None:
    """Kafka's text form of a topic id. Raises ConfigurationError."""
    try:
        return None if text is None else uuid_from_text(text)
    except ValueError as error:
        raise ConfigurationError(f"--topic-id: {error}") from None
