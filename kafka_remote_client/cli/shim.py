"""``kafka-remote shim``: stands in front of a cluster until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim

__all__ = ["serve"]


def serve(config: ShimConfig, say: Callable[[str], None], wait: Callable[[], object]) -> Mapping[str, int]:
    """Runs a shim until ``wait`` returns; its counters. Raises ConfigurationError, OSError when an address is taken."""
    with Shim(config) as shim:
        say(f"clients connect to {shim.bootstrap_servers}")
        if shim.origin_url is not None:
            say(f"segments are served at {shim.origin_url}")
        wait()
        return shim.metrics()
