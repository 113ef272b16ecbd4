"""The layouts that ``--layout`` can name."""

from __future__ import annotations

from collections.abc import Callable

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout

__all__ = ["LAYOUTS", "layout_named"]

LAYOUTS: dict[str, Callable[[], ObjectLayout]] = {LocalTieredStorageLayout.name: LocalTieredStorageLayout}


def layout_named(name: str) -> ObjectLayout:
    """A new layout. Raises ConfigurationError, with the names that exist, for another one."""
    try:
        return LAYOUTS[name]()
    except KeyError:
        raise ConfigurationError(f"there is no layout {name!r}; there are: {', '.join(sorted(LAYOUTS))}") from None
