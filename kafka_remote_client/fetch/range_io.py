"""Reads one range through a fetcher into a buffer, within one total deadline."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, runtime_checkable

import attrs

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import (
    InvalidStorageResponseError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch.range_place import located
from kafka_remote_client.fetch.storage_formats import fetcher_for
from kafka_remote_client.model import GrantedRange, RemoteLogSegmentMetadata, SegmentLocation
from kafka_remote_client.plugin import RemoteStorageFetcher, WritableBuffer

__all__ = ["DiscardingFetcher", "Transfer", "attempt", "discard_range", "read_range"]


@runtime_checkable
class DiscardingFetcher(Protocol):
    """A caching wrapper that can drop damaged bytes. Any object with the method is one."""

    def discard(self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int) -> None:
        """Drops these bytes from the cache."""


@attrs.define(eq=False)
class Transfer:
    """One attempt to read a range: the source of its buffer, the buffer, and the number of bytes that arrived."""

    take: Callable[[], WritableBuffer]
    buffer: WritableBuffer = attrs.field(factory=bytearray, init=False)
    filled: int = 0


def attempt(
    fetcher: RemoteStorageFetcher,
    location: SegmentLocation,
    granted: GrantedRange,
    take: Callable[[], WritableBuffer],
    deadline: Deadline,
    unwanted: Callable[[], bool] = lambda: False,
) -> tuple[Transfer, RemoteStorageError | None]:
    """Reads a range into the buffer of ``take``. Returns the received bytes and the error, if any. Never raises.

    The buffer is taken when the store begins to answer. Stops without an error once ``unwanted`` is true.
    """
    transfer = Transfer(take)
    try:
        read_range(fetcher, location, granted, transfer, deadline, unwanted)
    except RemoteStorageError as error:
        return transfer, located(error, location, granted)
    return transfer, None


def read_range(
    fetcher: RemoteStorageFetcher,
    location: SegmentLocation,
    granted: GrantedRange,
    transfer: Transfer,
    deadline: Deadline,
    unwanted: Callable[[], bool] = lambda: False,
) -> None:
    """Fills ``transfer`` with the range; ``transfer.filled`` counts the bytes, also if this raises or stops early.

    Raises only RemoteStorageError kinds. It wraps a plugin's other errors and drops their text, which may have a URL.
    """
    try:
        _fill(fetcher, location, granted, transfer, deadline, unwanted)
    except InvalidStorageResponseError:
        discard_range(fetcher, location, granted)
        raise
    except RemoteStorageError:
        raise
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        raise RemoteStorageError(f"the fetcher raised {type(error).__name__} for bytes {granted.range}") from None


def _fill(
    fetcher: RemoteStorageFetcher,
    location: SegmentLocation,
    granted: GrantedRange,
    transfer: Transfer,
    deadline: Deadline,
    unwanted: Callable[[], bool],
) -> None:
    wanted = granted.range
    stream = fetcher_for(fetcher, location).fetch_log_segment(location.metadata_for(granted), wanted.start, wanted.end)
    try:
        if unwanted():
            return
        try:
            transfer.buffer = transfer.take()
        except (MemoryError, OSError):
            raise RemoteStorageError(f"not enough memory for bytes {wanted}") from None
        view = memoryview(transfer.buffer)[: wanted.size]
        while transfer.filled < wanted.size and not unwanted():
            count = stream.readinto(view[transfer.filled :])
            if not 0 <= count <= wanted.size - transfer.filled:
                raise InvalidStorageResponseError("the fetcher's stream reports more bytes than fit")
            if count == 0:
                raise RemoteStorageUnavailableError(f"the store sent {transfer.filled} of {wanted.size} bytes of {wanted}")
            transfer.filled += count
            if transfer.filled < wanted.size and deadline.expired():
                raise RemoteStorageTimeoutError(f"timed out after {transfer.filled} of {wanted.size} bytes of {wanted}")
    finally:
        stream.close()


def discard_range(fetcher: RemoteStorageFetcher, location: SegmentLocation, granted: GrantedRange) -> None:
    """Reports wrong bytes to a caching fetcher, so that the next attempt reads the store."""
    fetcher = fetcher_for(fetcher, location)
    if isinstance(fetcher, DiscardingFetcher):
        with suppress(Exception):  # a plugin may raise anything, and its method of this name may do something else
            fetcher.discard(location.metadata_for(granted), granted.range.start, granted.range.end)
