"""The storage formats that this process can read, and the fetcher of each over one that reads the store.

::

    location of a range ─► its format ─► that format's fetcher ─► the plain fetcher ─► the store

Formats are plugins of the entry-point group ``kafka_remote_client.storage_formats``, by the names that locations announce
(:class:`~kafka_remote_client.plugin.StorageFormat`). Segments as Kafka wrote them need none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack

from kafka_remote_client.model import RemoteLogSegmentMetadata, SegmentLocation
from kafka_remote_client.plugin import ReadableStream, RemoteStorageFetcher, StorageFormat
from kafka_remote_client.registry import STORAGE_FORMATS, load_named, plugin_names
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT

__all__ = ["RestoringFetcher", "fetcher_for", "installed_formats", "readable_formats"]

_log = logging.getLogger(__name__)


def installed_formats() -> dict[str, StorageFormat]:
    """All formats by name. Raises ConfigurationError when one fails to load."""
    return {name: load_named(STORAGE_FORMATS, "storage format", name)() for name in plugin_names(STORAGE_FORMATS)}


def readable_formats(formats: Mapping[str, StorageFormat]) -> tuple[str, ...]:
    """The names of the formats that this process can read, Kafka's own first. Logs the others with what they miss."""
    readable = [ORIGINAL_FORMAT]
    for name, storage_format in formats.items():
        missing = storage_format.missing()
        if missing is None:
            readable.append(name)
        else:
            _log.info("the broker serves segments in format %s; to read them directly: %s", name, missing)
    return tuple(readable)


class RestoringFetcher:
    """A RemoteStorageFetcher with a fetcher for each format. Its own reads return objects as they are stored."""

    def __init__(self, inner: RemoteStorageFetcher, formats: Mapping[str, StorageFormat]) -> None:
        self._inner = inner
        self._restoring = {name: storage_format.restoring(inner) for name, storage_format in formats.items()}

    def of_format(self, name: str) -> RemoteStorageFetcher:
        """Returns the fetcher of segments in that format, in positions of the original segment."""
        return self._restoring.get(name, self._inner)

    def configure(self, configs: Mapping[str, object]) -> None:
        self._inner.configure(configs)

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        return self._inner.fetch_log_segment(remote_log_segment_metadata, start_position, end_position)

    def close(self) -> None:
        with ExitStack() as steps:  # a plugin may raise anything, and the others must still be closed
            steps.callback(self._inner.close)
            for restoring in self._restoring.values():
                steps.callback(restoring.close)


def fetcher_for(fetcher: RemoteStorageFetcher, location: SegmentLocation) -> RemoteStorageFetcher:
    """Returns the fetcher of the location's format, in positions of the original segment."""
    return fetcher.of_format(location.format) if isinstance(fetcher, RestoringFetcher) else fetcher
