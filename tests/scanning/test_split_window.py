from __future__ import annotations

import pytest

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.scanning.split_window import split_window

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({}, 8 * MIB),
        ({"range_bytes": 256 * KIB}, 256 * KIB),
        ({"range_bytes": 64 * MIB}, 8 * MIB),
        ({"buffer_memory": 32 * MIB}, 2 * MIB),
        ({"buffer_memory": 32 * MIB, "range_bytes": MIB}, MIB),
        ({"max_bytes_per_second": 3 * MIB}, 3 * MIB),
        ({"max_bytes_per_second": 90 * MIB}, 8 * MIB),
        ({"buffer_memory": MIB - 16}, 64 * KIB),
    ],
)
def test_ranges_are_bounded_by_settings_memory_and_limit(settings: dict[str, int], size: int) -> None:
    assert split_window(RemoteFetchConfig(enabled=True, **settings)) == (32 * size, size)
