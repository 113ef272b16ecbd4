"""Reads the settings that a fetcher is configured with: typed values from Python, texts from a properties file."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_remote_client.errors import ConfigurationError

__all__ = ["bool_setting", "fetcher_settings", "int_setting", "store_options", "store_url", "text_setting"]

_PREFIX = "remote.storage.fetcher."
_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}  # as librdkafka reads them


def fetcher_settings(*names: str) -> frozenset[str]:
    """What a fetcher or store declares that it reads (kafka_remote_client.plugin.DeclaresSettings), by names without prefix."""
    return frozenset(f"{_PREFIX}{name}" for name in names)


def bool_setting(configs: Mapping[str, object], name: str, default: bool) -> bool:
    """Raises ConfigurationError unless the value is a bool, or its name in any case."""
    value = configs.get(name)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    parsed = _BOOLEANS.get(str(value).lower())
    if parsed is None:
        raise ConfigurationError(f"{name} must be true or false")
    return parsed


def int_setting(configs: Mapping[str, object], name: str, default: int, *, minimum: int) -> int:
    """Raises ConfigurationError unless the value is an integer of at least ``minimum``."""
    value = configs.get(name)
    if value is None:
        return default
    try:
        parsed = int(str(value))
    except ValueError:
        parsed = minimum - 1
    if parsed < minimum:
        raise ConfigurationError(f"{name} must be an integer of at least {minimum}")
    return parsed


def text_setting(configs: Mapping[str, object], name: str) -> str | None:
    """The text without surrounding blanks; None when absent or empty. Raises ConfigurationError for what is no text."""
    value = configs.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be a string")
    return value.strip() or None


def store_options(configs: Mapping[str, object]) -> dict[str, object]:
    """A fetcher's settings under the names that stores know them by: without their common prefix."""
    return {name.removeprefix(_PREFIX): value for name, value in configs.items() if name.startswith(_PREFIX)}


def store_url(configs: Mapping[str, object]) -> str:
    """Where the tier lies, for a fetcher with access of its own. Raises ConfigurationError when nobody says."""
    url = text_setting(configs, f"{_PREFIX}store.url") or text_setting(configs, "remote.storage.store.url")
    if url is None:
        raise ConfigurationError(f"{_PREFIX}store.url is not set")
    return url
