"""The table of the consumer's own settings: name, type, default, unit, bound, and what changing it costs.

Each setting is declared once, here. The value :class:`~kafka_remote_client.config.RemoteFetchConfig`, the fetchers and
docs/configs.md take names, defaults and bounds from the table; no other module writes a default again. The shim's settings are
declared the same way in ``shim/settings.py``, those of the fetchers in ``kafka_remote_fetchers/_settings.py``.

The first five are KIP-1254's, with its names and defaults; the others belong to this project and have the same prefixes.

References: KIP-1254, "New Consumer Configs".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError

__all__ = [
    "FETCHER_PREFIX",
    "LOCATION_SOURCES",
    "PREFIX",
    "SETTINGS",
    "STORE_PREFIX",
    "Setting",
    "declared",
    "default_of",
    "unknown_setting",
]

PREFIX = "fetch.remote."
FETCHER_PREFIX = "remote.storage.fetcher."
STORE_PREFIX = "remote.storage.store."

LOCATION_SOURCES = ("broker", "metadata-topic", "listing")
"""The values of ``fetch.remote.location.source``."""

_MIB = 1024 * 1024


def unknown_setting(name: str, valid: Iterable[str], where: str = "") -> ConfigurationError:
    """The error for an unknown key. It names the closest of the ``valid`` ones; ``where`` says what reads those."""
    by_stem = {_stem(known): known for known in sorted(valid)}
    stem = arguments.closest(_stem(name), by_stem)
    close = None if stem is None else by_stem[stem]
    if close is None and _stem(name) == name:  # the prefix is what is misspelled
        close = arguments.closest(name, by_stem.values())
    hint = f"; did you mean {close}?" if close else ""
    return ConfigurationError(f"unknown setting{where}: {name}{hint}")


def _stem(name: str) -> str:
    """The name without the prefix, which all share and which would make any two alike."""
    return name.removeprefix(PREFIX).removeprefix(FETCHER_PREFIX).removeprefix(STORE_PREFIX)


@attrs.frozen
class Setting:
    """One declaration.

    ``minimum`` and ``maximum`` bound numbers, both inclusive; a setting has both or neither. ``choices``: all valid values.
    """

    name: str
    type: type
    default: object
    unit: str
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

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
        if self.choices and parsed not in self.choices:
            raise ConfigurationError(f"{self.name} must be one of: {', '.join(self.choices)}")
        return parsed

    @property
    def number_form(self) -> str:
        """What a number must be, for an error: its unit, its bounds and an example."""
        kind = "a whole number" if self.type is int else "a number"
        bounds = "" if self.minimum is None else f" between {self.minimum} and {self.maximum}"
        example = self.minimum if self.default is None else self.default
        return f"{kind}{_OF_UNIT[self.unit]}{bounds}, such as {example}"

    def admits(self, number: int) -> bool:
        """Whether a number is within the bounds."""
        return (self.minimum is None or number >= self.minimum) and (self.maximum is None or number <= self.maximum)


_OF_UNIT = {
    "": "",
    "bytes": " of bytes",
    "s": " of seconds",
    "ms": " of milliseconds",
    "bytes/s": " of bytes per second",
    "1/s": " of requests per second",
    "percent": " of percent",
}


def _parse_bool(setting: Setting, value: object) -> bool:
    return arguments.true_or_false(value, setting.name)


def _parse_int(setting: Setting, value: object) -> int:
    try:
        parsed = None if isinstance(value, bool) else int(str(value))
    except ValueError:
        parsed = None
    if parsed is None or not setting.admits(parsed):
        raise ConfigurationError(f"{setting.name} must be {setting.number_form}")
    return parsed


def _parse_str(setting: Setting, value: object) -> str:
    if isinstance(value, str):
        return value
    raise ConfigurationError(f"{setting.name} must be a string")


def _parse_function(setting: Setting, value: object) -> Callable[..., object]:
    if callable(value):
        return value
    raise ConfigurationError(f"{setting.name} must be callable")


_PARSERS: Mapping[type, Callable[[Setting, object], Any]] = {
    bool: _parse_bool,
    int: _parse_int,
    str: _parse_str,
    FunctionType: _parse_function,
}


def _text(name: str, doc: str, default: str | None = None, choices: tuple[str, ...] = ()) -> Setting:
    return Setting(name, str, default, "", doc, choices=choices)


def _switch(name: str, doc: str, *, default: bool = False) -> Setting:
    return Setting(name, bool, default, "", doc)


def _number(name: str, doc: str, default: int | None, bounds: tuple[int, int], unit: str = "") -> Setting:
    return Setting(name, int, default, unit, doc, *bounds)


SETTINGS: tuple[Setting, ...] = (
    _switch(
        "fetch.remote.enabled",
        "Read tiered segments directly from the store. false: the consumer is a plain confluent_kafka.Consumer.",
    ),
    _text(
        "remote.storage.fetcher.class",
        "Fetcher to read with: a name of the entry-point group kafka_remote_client.fetchers. Not set: no direct fetch.",
    ),
    _text(
        "remote.storage.fetcher.class.path",
        "Directory to load the fetcher's module from. Needs fetch.remote.allow.class.path=true.",
    ),
    _number(
        "fetch.remote.connect.timeout.ms",
        "Time to connect to the store or to the location source. Higher waits longer for an unreachable host; "
        "lower gives up on a slow network.",
        default=1000,
        unit="ms",
        bounds=(1, 60_000),
    ),
    _number(
        "fetch.remote.read.timeout.ms",
        "Time for one whole range, from the request to its last byte, including connecting and fetching credentials. "
        "Higher tolerates slow stores; lower falls back to the broker sooner.",
        default=5000,
        unit="ms",
        bounds=(1, 600_000),
    ),
    _number(
        "fetch.remote.min.bytes.per.second",
        "A response slower than this after its first 2 s times out. Lower tolerates slow networks; higher falls "
        "back to the broker sooner. 0: only the read time-out applies, as with the fetcher object_store.",
        default=64 * 1024,
        unit="bytes/s",
        bounds=(0, 1024 * _MIB),
    ),
    _text(
        "fetch.remote.bootstrap.servers", "Addresses of the shim, which answers location requests. Not set: bootstrap.servers."
    ),
    _text(
        "fetch.remote.topics",
        "Topics that may be read directly, separated by commas: names, or regular expressions that begin with ^. Not set: all.",
    ),
    _number(
        "fetch.remote.location.timeout.ms",
        "Time for one location request. A partition delivers nothing until its first request ends.",
        default=1000,
        unit="ms",
        bounds=(1, 60_000),
    ),
    _number(
        "fetch.remote.pending.timeout.ms",
        "Time for which a location may be pending, with many location requests. After it the broker serves the partition.",
        default=30_000,
        unit="ms",
        bounds=(1, 3_600_000),
    ),
    _number(
        "fetch.remote.buffer.memory",
        "Memory for ranges in flight and undelivered records of all partitions. Higher hides more latency.",
        default=128 * _MIB,
        unit="bytes",
        bounds=(4 * _MIB, 64 * 1024 * _MIB),
    ),
    _number(
        "fetch.remote.max.in.flight",
        "Maximum number of ranges in flight. The client uses fewer if measured latency and bandwidth need no more. Each one "
        "costs a thread.",
        default=64,
        bounds=(1, 256),
    ),
    _number(
        "fetch.remote.range.bytes",
        "Maximum size of one GET. Higher needs fewer GETs and more memory. A range that times out halves the size.",
        default=8 * _MIB,
        unit="bytes",
        bounds=(64 * 1024, 256 * _MIB),
    ),
    _number(
        "fetch.remote.hedge.max.percent",
        "Maximum share of hedges: second requests for ranges that are late. 0: no hedges.",
        default=3,
        unit="percent",
        bounds=(0, 100),
    ),
    _number(
        "fetch.remote.max.bytes.per.second",
        "Rate limit for bytes requested from the store, for all partitions. Ranges over the limit wait and do not "
        "fall back. Not set: no limit.",
        default=None,
        unit="bytes/s",
        bounds=(64 * 1024, 1024 * 1024 * _MIB),
    ),
    _number(
        "fetch.remote.max.requests.per.second",
        "Rate limit for GETs, for all partitions. Lower is slower. Not set: no limit.",
        default=None,
        unit="1/s",
        bounds=(1, 1_000_000),
    ),
    _text(
        "fetch.remote.cache.directory",
        "Directory of the disk cache that all consumers of this host and user share. It holds the store's bytes, "
        "unencrypted where the store holds them unencrypted. Not set: no disk cache.",
    ),
    _number(
        "fetch.remote.cache.max.bytes",
        "Maximum size of the disk cache; the least recently used entry is evicted first. Higher saves more GETs.",
        default=10 * 1024 * _MIB,
        unit="bytes",
        bounds=(1 * _MIB, 1 << 50),
    ),
    _number(
        "fetch.remote.retries",
        "Retries of one range before the partition falls back to the broker. Each costs up to one read time-out.",
        default=2,
        bounds=(0, 10),
    ),
    _number(
        "fetch.remote.fallback.backoff.ms",
        "Pause of a partition's direct fetch after a fallback, doubled each time up to 15 s. Lower tries the store "
        "again sooner.",
        default=1000,
        unit="ms",
        bounds=(0, 600_000),
    ),
    _number(
        "fetch.remote.recheck.interval.ms",
        "Interval at which a partition that reads from the broker is checked for tiered data. Lower costs more "
        "ListOffsets requests.",
        default=10_000,
        unit="ms",
        bounds=(100, 3_600_000),
    ),
    _number(
        "fetch.remote.breaker.failures",
        "Consecutive failures of one store within 10 s that open its circuit breaker. Higher costs more time-outs.",
        default=5,
        bounds=(1, 1000),
    ),
    _number(
        "fetch.remote.breaker.reset.ms",
        "Time that a circuit breaker stays open before one range tries the store again. A Retry-After above 2 s, "
        "at most 30 s, takes precedence.",
        default=10_000,
        unit="ms",
        bounds=(100, 600_000),
    ),
    _number(
        "fetch.remote.slow.bytes.per.second",
        "If total store throughput falls below this, one partition at a time tries the broker for 2 s, and stays "
        "on it for a while if it is more than twice as fast. 0: never. Higher favours the broker.",
        default=1 * _MIB,
        unit="bytes/s",
        bounds=(0, 1024 * 1024 * _MIB),
    ),
    Setting(
        "fetch.remote.progress.cb",
        FunctionType,
        None,
        "",
        "Callback of poll and consume with the Progress of each partition that reads from the store "
        "(docs/consumer.md). For consumers only.",
    ),
    _number(
        "fetch.remote.progress.interval.ms",
        "Minimum interval between two progress callbacks of a partition. Lower costs more calls.",
        default=1000,
        unit="ms",
        bounds=(100, 3_600_000),
    ),
    _number(
        "fetch.remote.max.decompressed.bytes",
        "Maximum decompressed size of one batch, and of its decoded columns (48 bytes a record). The broker serves "
        "larger batches.",
        default=128 * _MIB,
        unit="bytes",
        bounds=(1 * _MIB, 1024 * _MIB),
    ),
    _switch(
        "fetch.remote.allow.offset.gaps",
        "Accept offset gaps between batches, for topics that were compacted before. false: a gap falls back to the broker, "
        "unless the topic's cleanup.policy has compact.",
    ),
    _switch(
        "fetch.remote.allow.class.path",
        "Permit remote.storage.fetcher.class.path. Code from that directory runs with the consumer's rights.",
    ),
    _text(
        "fetch.remote.location.source",
        "Location source (docs/sources.md). All but broker read the store with the client's own credentials.",
        default="broker",
        choices=LOCATION_SOURCES,
    ),
    _text(
        "fetch.remote.metadata.topic", "Topic that the location source metadata-topic reads.", default="__remote_log_metadata"
    ),
    _switch(
        "fetch.remote.listing.broker",
        "Whether the location source listing asks the partition's leader to confirm each location. false: it "
        "trusts the bucket alone, for use without brokers; records that DeleteRecords removed may come back.",
        default=True,
    ),
    _number(
        "fetch.remote.lookup.concurrency",
        "Maximum number of look-ups that read the store at the same time, for a location source that reads it itself; "
        "more wait. A look-up mostly waits for the store. Higher starts many partitions sooner; each running look-up takes a "
        "thread.",
        default=128,
        bounds=(1, 1000),
    ),
    _number(
        "fetch.remote.index.cache.bytes",
        "Memory for indexes, checkpoints and snapshots that a location source reads from the store itself. Higher repeats "
        "fewer reads where many segments are read in turn.",
        default=64 * _MIB,
        unit="bytes",
        bounds=(_MIB, 1024 * 1024 * _MIB),
    ),
    _text(
        "remote.storage.store.url",
        "URL of the store that the location sources metadata-topic and listing read, such as s3://bucket/prefix. "
        "It takes the fetcher's settings.",
    ),
    _text(
        "remote.storage.store.layout",
        "Layout of the store's objects: a name of the entry-point group kafka_remote_client.layouts, such as "
        "local-tiered-storage or aiven.",
        default="local-tiered-storage",
    ),
    _text("remote.storage.store.key.prefix", "Prefix of all object names: key.prefix of the brokers' plugin.", default=""),
    _text(
        "remote.storage.store.encryption.keys",
        "Private keys of encrypted segments, as comma-separated KEYID=FILE. Files are PEM or DER; keys themselves "
        "are not accepted.",
        default="",
    ),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


def declared(name: str) -> Setting:
    """The setting of that full name. Raises KeyError for one that is not declared, which is a mistake in code."""
    return _BY_NAME[name]


def default_of(name: str) -> Any:
    """The default of a setting, by its full name, for code that is used without a configuration. Raises as :func:`declared`."""
    return declared(name).default
