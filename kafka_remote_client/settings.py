"""The table of the consumer's own settings: name, type, default, unit, bound, and what moving it costs.

The first five are KIP-1254's, under its names and with its defaults; the others are ours, under the same prefixes.
docs/configs.md is generated from the table.

References: KIP-1254, "New Consumer Configs".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from types import FunctionType
from typing import Any

import attrs

from kafka_remote_client.errors import ConfigurationError

__all__ = ["FETCHER_PREFIX", "LOCATION_SOURCES", "PREFIX", "SETTINGS", "STORE_PREFIX", "Setting", "unknown_setting"]

PREFIX = "fetch.remote."
FETCHER_PREFIX = "remote.storage.fetcher."
STORE_PREFIX = "remote.storage.store."

LOCATION_SOURCES = ("broker", "metadata-topic", "listing")
"""The values of ``fetch.remote.location.source``."""

_MIB = 1024 * 1024
_TRUE = frozenset({"true", "t", "1"})
_FALSE = frozenset({"false", "f", "0"})


def unknown_setting(name: str, valid: Iterable[str], where: str = "") -> ConfigurationError:
    """The error for a key that nobody reads. It names the closest of the ``valid`` ones; ``where`` says who reads those."""
    by_stem = {_stem(known): known for known in sorted(valid)}
    closest = get_close_matches(_stem(name), by_stem, n=1)
    hint = f"; did you mean {by_stem[closest[0]]}?" if closest else ""
    return ConfigurationError(f"no such setting{where}: {name}{hint}")


def _stem(name: str) -> str:
    """The name without the prefix, which all share and which would make any two alike."""
    return name.removeprefix(PREFIX).removeprefix(FETCHER_PREFIX).removeprefix(STORE_PREFIX)


@attrs.frozen
class Setting:
    """One line of docs/configs.md. ``minimum`` and ``maximum`` bound integers, both inclusive; ``choices`` are all values."""

    name: str
    type: type
    default: object
    unit: str
    doc: str
    minimum: int | None = None
    maximum: int | None = None
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
        if self.type is int and not (
            (self.minimum is None or parsed >= self.minimum) and (self.maximum is None or parsed <= self.maximum)
        ):
            raise ConfigurationError(f"{self.name} must lie between {self.minimum} and {self.maximum}")
        if self.choices and parsed not in self.choices:
            raise ConfigurationError(f"{self.name} must be one of: {', '.join(self.choices)}")
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
        "Time to connect to the store, or to who is asked for locations. Higher waits longer on a dead one; lower gives up on "
        "a slow path.",
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
        "fetch.remote.min.bytes.per.second",
        int,
        64 * 1024,
        "bytes/s",
        "A range's body that flows more slowly than this after its first 2 s has timed out. Lower tolerates slow paths; higher "
        "falls back to the broker sooner. 0: the read time-out alone counts, as with the fetcher object_store.",
        0,
        1024 * _MIB,
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
        "fetch.remote.cache.directory",
        str,
        None,
        "",
        "Directory in which all consumers of this host and user keep the ranges they read, as the store has them: records in "
        "the clear where the store has them so. Not set: nothing is kept.",
    ),
    Setting(
        "fetch.remote.cache.max.bytes",
        int,
        10 * 1024 * _MIB,
        "bytes",
        "Bytes kept in that directory by all together; what was used longest ago goes first. Higher spares more GETs.",
        1 * _MIB,
        1 << 50,
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
        "First pause of a partition after a fallback, doubled each time up to 15 s. Lower tries the store again sooner.",
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
        "Failures of one store within 10 s, with no range that came in between, that stop direct fetch from it for a while. "
        "Higher costs more time-outs.",
        1,
        1000,
    ),
    Setting(
        "fetch.remote.breaker.reset.ms",
        int,
        10_000,
        "ms",
        "How long a store that failed is left alone before one range tries it again. A store that asks for more than 2 s "
        "(Retry-After) is left alone for as long as it asked, at most 30 s.",
        100,
        600_000,
    ),
    Setting(
        "fetch.remote.slow.bytes.per.second",
        int,
        1 * _MIB,
        "bytes/s",
        "Below this pace of the store, all ranges in flight together, one partition at a time is read through the broker for "
        "2 s, and goes on so for a while where that is more than twice as fast. 0: never. Higher favours the broker.",
        0,
        1024 * 1024 * _MIB,
    ),
    Setting(
        "fetch.remote.progress.cb",
        FunctionType,
        None,
        "",
        "Called by poll and consume with a Progress of each partition that is read directly (docs/consumer.md). Any callable; "
        "a consumer's alone.",
    ),
    Setting(
        "fetch.remote.progress.interval.ms",
        int,
        1000,
        "ms",
        "How often that is called for a partition at most. Lower costs calls.",
        100,
        3_600_000,
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
    Setting(
        "fetch.remote.location.source",
        str,
        "broker",
        "",
        "Who says where an offset lies (docs/sources.md). All but broker read the store with credentials of the client's own.",
        choices=LOCATION_SOURCES,
    ),
    Setting(
        "fetch.remote.metadata.topic",
        str,
        "__remote_log_metadata",
        "",
        "The topic that the source metadata-topic follows.",
    ),
    Setting(
        "fetch.remote.listing.broker",
        bool,
        True,
        "",
        "Whether the source listing has the partition's leader confirm what it finds. Off: the bucket alone, for the day when "
        "no broker is left; what DeleteRecords took away comes back then.",
    ),
    Setting(
        "remote.storage.store.url",
        str,
        None,
        "",
        "The store that the sources metadata-topic and listing read, such as s3://bucket/prefix; set up as the fetcher is.",
    ),
    Setting(
        "remote.storage.store.layout", str, "local", "", "How the plugin of the brokers lays segments out: local or aiven."
    ),
    Setting("remote.storage.store.key.prefix", str, "", "", "What the plugin puts in front of all names: its key.prefix."),
    Setting(
        "remote.storage.store.encryption.keys",
        str,
        "",
        "",
        "Private keys of encrypted segments, as KEYID=FILE, comma separated. Files in PEM or DER; never the keys themselves.",
    ),
)
