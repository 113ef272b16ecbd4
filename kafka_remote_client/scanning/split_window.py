"""The location requests of a split's read: the bytes of each, and the size of its ranges. Pure.

A consumer sizes its ranges by its measurements, so the number of its GETs cannot be planned. A split is read completely,
from its first offset to its last one. So its read uses one fixed size from the beginning, and the plan, which makes the
same requests, knows each of its GETs.

::

    range    fetch.remote.range.bytes; not more than fetch.remote.max.bytes.per.second, nor a sixteenth of
             fetch.remote.buffer.memory; at least 64 KiB, the smallest that a location source grants
    window   32 ranges

A sixteenth: half of the memory is for records that wait, and the other half holds eight ranges in flight. 32 ranges: where
records are chunked, the chunk at the end of a window is read again by the next window.

References: docs/decisions/0010-splits-have-fixed-ranges.md.
"""

from __future__ import annotations

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.range_sizes import MIN_RANGE_BYTES

__all__ = ["split_window"]

_WINDOW_RANGES = 32
_SHARE_OF_MEMORY = 16


def split_window(remote: RemoteFetchConfig) -> tuple[int, int]:
    """Bytes of each window of a split's read, and of one of its ranges."""
    most = remote.range_bytes if remote.max_bytes_per_second is None else min(remote.range_bytes, remote.max_bytes_per_second)
    size = max(MIN_RANGE_BYTES, min(most, remote.buffer_memory // _SHARE_OF_MEMORY))
    return _WINDOW_RANGES * size, size
