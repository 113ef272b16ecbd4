"""Layouts by the names of ``--layout`` and ``remote.storage.store.layout``, from the entry-point group."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.registry import LAYOUTS, load_named
from kafka_remote_client.remote_log.layout import LayoutOptions, ObjectLayout

__all__ = ["LayoutOptions", "encryption_key_files", "layout_named"]

_log = logging.getLogger(__name__)

_OLD_SPELLINGS = {"local": "local-tiered-storage"}
"""Deprecated names, which the next release removes."""


def layout_named(name: str, options: LayoutOptions | None = None) -> ObjectLayout:
    """A new layout, by the name of its entry point.

    Raises ConfigurationError for an unknown name (with the known ones), for options that the layout does not support, and for
    keys that cannot be read; MissingExtraError if a needed package is missing.
    """
    if name in _OLD_SPELLINGS:
        _warn_once(name)
        name = _OLD_SPELLINGS[name]
    layout = load_named(LAYOUTS, "layout", name)(options or LayoutOptions())
    if not isinstance(layout, ObjectLayout):
        raise ConfigurationError(f"plugin {name} does not implement kafka_remote_client.remote_log.layout.ObjectLayout")
    return layout


@cache
def _warn_once(name: str) -> None:
    _log.warning("the layout name %r is deprecated and will be removed in the next release; use %r", name, _OLD_SPELLINGS[name])


def encryption_key_files(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Parses ``KEYID=PRIVATE_KEY_FILE`` texts. Raises ConfigurationError for a malformed one, and for an id given twice."""
    keys: dict[str, str] = {}
    for pair in pairs:
        key_id, separator, path = pair.partition("=")
        if not separator or not key_id or not path:
            raise ConfigurationError(f"{option} must be KEYID=PRIVATE_KEY_FILE")
        if key_id in keys:
            raise ConfigurationError(f"{option}: {key_id} is given twice")
        keys[key_id] = path
    return keys
