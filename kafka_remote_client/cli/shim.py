"""``kafka-remote shim``: stands in front of a cluster until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim

__all__ = ["parse_settings", "read_secret", "serve"]


def parse_settings(pairs: Sequence[str], option: str = "--metadata-consumer") -> dict[str, str]:
    """``KEY=VALUE`` arguments. Raises ConfigurationError for one without ``=`` (and does not show it: it may be a secret)."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise ConfigurationError(f"{option} takes KEY=VALUE")
        settings[name] = value
    return settings


def read_secret(path: str | None) -> str | None:
    """A secret's file, without the line end that editors add. Raises ConfigurationError."""
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigurationError(f"{path} cannot be read: {reason}") from None


def serve(config: ShimConfig, say: Callable[[str], None], wait: Callable[[], object]) -> Mapping[str, int]:
    """Runs a shim until ``wait`` returns; its counters. Raises ConfigurationError, OSError when an address is taken."""
    with Shim(config) as shim:
        say(f"clients connect to {shim.bootstrap_servers}")
        if shim.origin_url is not None:
            say(f"segments are served at {shim.origin_url}")
        wait()
        return shim.metrics()
