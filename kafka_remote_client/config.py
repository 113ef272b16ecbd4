"""Every setting of the consumer that is not librdkafka's own: type, default, unit, bound, and what moving it costs.

The first five are KIP-1254's, under its names and with its defaults; the others are ours, under the same two prefixes. Keys
that begin with ``remote.storage.fetcher.`` and are not listed here belong to the fetcher and are handed to it unread. An
unknown ``fetch.remote.*`` key is an error, because a misspelt setting that is silently ignored is found in production.

docs/configs.md is generated from the table below.

References: KIP-1254, "New Consumer Configs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kafka_remote_client.errors import ConfigurationError

__all__ = ["FETCHER_PREFIX", "PREFIX", "SETTINGS", "RemoteFetchConfig", "Setting", "split_config"]

PREFIX = "fetch.remote."
FETCHER_PREFIX = "remote.storage.fetcher."

_MIB = 1024 * 1024
_TRUE = frozenset({"true", "t", "1"})
_FALSE = frozenset({"false", "f", "0"})


@attrs.frozen
class Setting:
    """One line of docs/configs.md. ``minimum`` and ``maximum`` bound integers, both inclusive."""

    name: str
    type: type
    default: object
    unit: str
    doc: str
    minimum: int | None = None
    maximum: int | None = None

    @property
    def attribute(self) -> str:
        """The setting's field in :class:`RemoteFetchConfig`."""
        stem = self.name.removeprefix(PREFIX) if self.name.startswith(PREFIX) else self.name.removeprefix("remote.storage.")
        return stem.replace(".", "_")

    def parse(self, value: object) -> Any:
        """The value in the setting's type. Raises ConfigurationError, which names the key and never shows the value."""
        if value is None:
            return self.default
        parsed = _PARSERS[self.type](self, value)
        if self.type is int and not (
            (self.minimum is None or parsed >= self.minimum) and (self.maximum is None or parsed <= self.maximum)
        ):
            raise ConfigurationError(f"{self.name} must lie between {self.minimum} and {self.maximum}")
        return parsed


def _parse_bool(setting: Setting, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ConfigurationError(f"{setting.name} must be true or false")


def _parse_int(setting: Setting, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(str(value))
    except ValueError:
        raise ConfigurationError(f"{setting.name} must be an integer") from None


def _parse_str(setting: Setting, value: object) -> str:
    if isinstance(value, str):
        return value
    raise ConfigurationError(f"{setting.name} must be a string")


_PARSERS: Mapping[type, Callable[[Setting, object], Any]] = {bool: _parse_bool, int: _parse_int, str: _parse_str}

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "fetch.remote.enabled",
        bool,
        False,
        "",
        "Read tiered segments straight from the store. Off: this is confluent_kafka.Consumer.",
    ),
    Setting(
        "remote.storage.fetcher.class",
        str,
        None,
        "",
        "The fetcher: a name of the entry-point group kafka_remote_client.fetchers. Not set: no direct fetch.",
    ),
    Setting(
        "remote.storage.fetcher.class.path",
        str,
        None,
        "",
        "Directory to load the fetcher's module from. Refused unless fetch.remote.allow.class.path is true.",
    ),
    Setting(
        "fetch.remote.connect.timeout.ms",
        int,
        1000,
        "ms",
        "Time to connect to the store. Higher waits longer on a dead store; lower gives up on a slow path.",
        1,
        60_000,
    ),
    Setting(
        "fetch.remote.read.timeout.ms",
        int,
        5000,
        "ms",
        "Time for one whole range, first byte to last. Higher tolerates slow stores; lower falls back to the broker sooner.",
        1,
        600_000,
    ),
    Setting(
        "fetch.remote.bootstrap.servers",
        str,
        None,
        "",
        "Where locations are asked: the shim. Not set: bootstrap.servers.",
    ),
    Setting(
        "fetch.remote.topics",
        str,
        None,
        "",
        "Topics that may be read directly, separated by commas: names, or regular expressions that begin with ^. Not set: all.",
    ),
    Setting(
        "fetch.remote.location.timeout.ms",
        int,
        1000,
        "ms",
        "Time for one location request. Until it is over, a partition with a silent shim delivers nothing.",
        1,
        60_000,
    ),
    Setting(
        "fetch.remote.buffer.memory",
        int,
        128 * _MIB,
        "bytes",
        "Bytes held for ranges in flight and records not yet delivered, all partitions together. Higher hides more latency.",
        4 * _MIB,
        64 * 1024 * _MIB,
    ),
    Setting(
        "fetch.remote.max.in.flight",
        int,
        8,
        "",
        "Ranges read at the same time. 2 suffice for a store without latency; each further one hides some, and is a thread.",
        1,
        256,
    ),
    Setting(
        "fetch.remote.range.bytes",
        int,
        8 * _MIB,
        "bytes",
        "Largest range of one GET. Higher means fewer GETs and more memory; it is halved by itself when a range times out.",
        64 * 1024,
        256 * _MIB,
    ),
    Setting(
        "fetch.remote.max.bytes.per.second",
        int,
        None,
        "bytes/s",
        "Bytes asked of the store per second, by all partitions together. They wait and do not fall back. Not set: no limit.",
        64 * 1024,
        1024 * 1024 * _MIB,
    ),
    Setting(
        "fetch.remote.max.requests.per.second",
        int,
        None,
        "1/s",
        "Ranges (GETs) asked of the store per second, by all partitions together. Lower is slower. Not set: no limit.",
        1,
        1_000_000,
    ),
    Setting(
        "fetch.remote.retries",
        int,
        2,
        "",
        "Repetitions of one range before the broker takes over. Higher favours the store; each costs up to a read time-out.",
        0,
        10,
    ),
    Setting(
        "fetch.remote.fallback.backoff.ms",
        int,
        1000,
        "ms",
        "First pause of a partition after a fallback, doubled each time up to 30 s. Lower tries the store again sooner.",
        0,
        600_000,
    ),
    Setting(
        "fetch.remote.recheck.interval.ms",
        int,
        10_000,
        "ms",
        "How often a partition on the broker path is checked for having fallen behind the broker's local log.",
        100,
        3_600_000,
    ),
    Setting(
        "fetch.remote.breaker.failures",
        int,
        5,
        "",
        "Failures of one store within 10 s that stop direct fetch from it for a while. Higher costs more time-outs.",
        1,
        1000,
    ),
    Setting(
        "fetch.remote.breaker.reset.ms",
        int,
        10_000,
        "ms",
        "How long a store that failed is left alone before one range tries it again.",
        100,
        600_000,
    ),
    Setting(
        "fetch.remote.max.decompressed.bytes",
        int,
        128 * _MIB,
        "bytes",
        "Largest decompressed size of one batch, and largest size of its decoded columns (48 bytes a record). "
        "A larger one goes to the broker path.",
        1 * _MIB,
        1024 * _MIB,
    ),
    Setting(
        "fetch.remote.allow.offset.gaps",
        bool,
        False,
        "",
        "Accept gaps between batches, for topics that were once compacted. Off: a gap goes to the broker path.",
    ),
    Setting(
        "fetch.remote.allow.class.path",
        bool,
        False,
        "",
        "Permit remote.storage.fetcher.class.path. Code from that directory runs with the consumer's rights.",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


@attrs.frozen
class RemoteFetchConfig:
    """All settings as one frozen value. Time-outs are in milliseconds, sizes in bytes, as in the table."""

    enabled: bool = False
    fetcher_class: str | None = None
    fetcher_class_path: str | None = None
    connect_timeout_ms: int = 1000
    read_timeout_ms: int = 5000
    bootstrap_servers: str | None = None
    topics: str | None = None
    location_timeout_ms: int = 1000
    buffer_memory: int = 128 * _MIB
    max_in_flight: int = 8
    range_bytes: int = 8 * _MIB
    max_bytes_per_second: int | None = None
    max_requests_per_second: int | None = None
    retries: int = 2
    fallback_backoff_ms: int = 1000
    recheck_interval_ms: int = 10_000
    breaker_failures: int = 5
    breaker_reset_ms: int = 10_000
    max_decompressed_bytes: int = 128 * _MIB
    allow_offset_gaps: bool = False
    allow_class_path: bool = False
    fetcher_options: Mapping[str, object] = attrs.field(factory=dict, repr=lambda options: f"<{len(options)} options>")

    def fetcher_configs(self) -> dict[str, object]:
        """What a fetcher's ``configure`` receives: the shared time-outs and limits, and all of its own keys."""
        shared = {
            "fetch.remote.connect.timeout.ms": self.connect_timeout_ms,
            "fetch.remote.read.timeout.ms": self.read_timeout_ms,
            "fetch.remote.max.in.flight": self.max_in_flight,
        }
        return {**shared, **self.fetcher_options}


def split_config(config: Mapping[str, object]) -> tuple[RemoteFetchConfig, dict[str, object]]:
    """Takes our settings out of a consumer's configuration; the rest is librdkafka's, in its order, untouched.

    Raises ConfigurationError for an unknown ``fetch.remote.*`` key, a value of the wrong type or out of bounds, a class path
    without its opt-in, and direct fetch without a fetcher.
    """
    values: dict[str, Any] = {}
    fetcher_options: dict[str, object] = {}
    inner: dict[str, object] = {}
    for name, value in config.items():
        setting = _BY_NAME.get(name)
        if setting is not None:
            values[setting.attribute] = setting.parse(value)
        elif name.startswith(FETCHER_PREFIX):
            fetcher_options[name] = value
        elif name.startswith(PREFIX):
            raise ConfigurationError(f"no such setting: {name}")
        else:
            inner[name] = value
    remote = RemoteFetchConfig(**values, fetcher_options=fetcher_options)
    if remote.fetcher_class_path is not None and not remote.allow_class_path:
        raise ConfigurationError("remote.storage.fetcher.class.path needs fetch.remote.allow.class.path=true")
    return remote, inner
