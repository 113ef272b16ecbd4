"""The layouts that ``--layout`` can name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.layout import AivenLayout
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout

__all__ = ["LAYOUTS", "LayoutOptions", "encryption_key_files", "layout_named"]

_ALIASES = {"local": LocalTieredStorageLayout.name}


@attrs.frozen
class LayoutOptions:
    """What a user may say about a tier besides its layout's name. ``encryption_keys``: files of private keys by key id."""

    key_prefix: str = ""
    encryption_keys: Mapping[str, str] = attrs.field(factory=dict)


def _local_tiered_storage(options: LayoutOptions) -> ObjectLayout:
    if options != LayoutOptions():
        raise ConfigurationError(f"the layout {LocalTieredStorageLayout.name} has no key prefix and no encryption keys")
    return LocalTieredStorageLayout()


def _aiven(options: LayoutOptions) -> ObjectLayout:
    return AivenLayout(options.key_prefix, KeyRing.of_files(options.encryption_keys))


LAYOUTS: dict[str, Callable[[LayoutOptions], ObjectLayout]] = {
    AivenLayout.name: _aiven,
    LocalTieredStorageLayout.name: _local_tiered_storage,
}


def layout_named(name: str, options: LayoutOptions | None = None) -> ObjectLayout:
    """A new layout. ``local`` is short for local-tiered-storage.

    Raises ConfigurationError, with the names that exist, for another name, and for options that the layout does not have or
    keys that cannot be read; MissingExtraError where keys need a package that is not installed.
    """
    name = _ALIASES.get(name, name)
    if name not in LAYOUTS:
        raise ConfigurationError(f"there is no layout {name!r}; there are: {', '.join(sorted(LAYOUTS))}")
    return LAYOUTS[name](options or LayoutOptions())


def encryption_key_files(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Reads ``KEYID=PRIVATE_KEY_FILE`` texts. Raises ConfigurationError for one that is not so, and for an id given twice."""
    keys: dict[str, str] = {}
    for pair in pairs:
        key_id, separator, path = pair.partition("=")
        if not separator or not key_id or not path:
            raise ConfigurationError(f"{option} takes KEYID=PRIVATE_KEY_FILE")
        if key_id in keys:
            raise ConfigurationError(f"{option}: {key_id} is given twice")
        keys[key_id] = path
    return keys
