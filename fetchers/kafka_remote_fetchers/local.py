"""Reads segments from a directory that the consumer can reach itself: a mounted tier, LocalTieredStorage, an archive.

The object key comes with each range (:class:`LocationMetadata`) and is opened below the root and never outside it.

Setting: ``local.root``, declared in :mod:`kafka_remote_fetchers._settings`.

References: reliability promise S17.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from kafka_remote_client.errors import (
    ConfigurationError,
    ObjectNotFoundError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._settings import fetcher_settings, text_setting
from kafka_remote_fetchers.directory_store import directory_of, open_file_range

__all__ = ["LocalFetcher"]


class LocalFetcher:
    """The fetcher ``local``."""

    settings: ClassVar[frozenset[str]] = fetcher_settings("local.root")

    def __init__(self) -> None:
        self._root: Path | None = None

    def configure(self, configs: Mapping[str, object]) -> None:
        root = text_setting(configs, "remote.storage.fetcher.local.root")
        url = text_setting(configs, "remote.storage.store.url")
        if root is None and (url is None or not url.startswith("file:")):
            raise ConfigurationError("the fetcher 'local' needs remote.storage.fetcher.local.root")
        self._root = directory_of(url or "") if root is None else Path(root)

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        wanted = WantedRange.of(start_position, end_position)
        key = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata).object_key
        if key is None:
            raise RemoteStorageError("the location has no object key")
        if self._root is None:
            raise RemoteStorageUnavailableError("the fetcher is not configured")
        try:
            return open_file_range(self._root, key, wanted)
        except ObjectNotFoundError:
            failure = SegmentNotFoundError("the object does not exist")
        raise failure

    def close(self) -> None:
        """Forgets the root; streams that are open stay so."""
        self._root = None
