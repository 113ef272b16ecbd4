"""Settings of a topic, under Kafka's defaults but without time limits."""

from __future__ import annotations

import attrs

__all__ = ["UNLIMITED", "TopicConfig"]

UNLIMITED = -1


@attrs.frozen
class TopicConfig:
    """Each field is Kafka's setting of that name. Sizes are in bytes, times in milliseconds.

    ``UNLIMITED``: no retention limit; for copy lags, a lag that never ends. A copy lag of 0 copies at once.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    index_interval_bytes: int = 4096
    log_append_time: bool = False
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    local_retention_ms: int = UNLIMITED
    local_retention_bytes: int = UNLIMITED
    remote_copy_lag_ms: int = 0
    remote_copy_lag_bytes: int = 0
    remote_log_copy_disable: bool = False
