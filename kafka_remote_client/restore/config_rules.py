"""Which configs a topic of Kafka has, and which values they take. Pure.

A restored topic gets its configs as metadata records, which no controller checks. A broker ends at its start with a value that
it cannot parse, and ignores a name that it does not know, so both are errors here. The names are those of Kafka 3.7 to 4.4; a
bound that changed is that of Kafka 4.3.

References: Kafka's TopicConfig, LogConfig (``CONFIG``, ``validateValues``), QuotaConfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from kafka_remote_client.arguments import closest, java_boolean

__all__ = ["COMPACT", "DELETE", "RULES", "UNLIMITED", "WEEK_MS", "config_problems", "policies", "whole_number"]

DELETE = "delete"
COMPACT = "compact"
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1
_INT_MIN, _LONG_MIN = -(2**31), -(2**63)
_MIB = 1 << 20
UNLIMITED, _AS_RETENTION = -1, -2
WEEK_MS = "604800000"
_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)

Rule = Callable[[str], str | None]
"""What is wrong with a value, or None."""


def _whole(low: int, high: int) -> Rule:
    def check(value: str) -> str | None:
        number = int(value) if _NUMBER.fullmatch(value) else None
        if number is None:
            return "must be a whole number"
        return None if low <= number <= high else f"must be between {low} and {high}"

    return check


def _level(low: int, high: int, *more: int) -> Rule:
    between = _whole(low, high)
    return lambda value: None if value in map(str, more) else between(value)


def _share(value: str) -> str | None:
    try:
        share = float(value)
    except ValueError:
        return "must be a number"
    return None if 0 <= share <= 1 else "must be between 0 and 1"


def _one_of(*known: str) -> Rule:
    return lambda value: None if value in known else f"must be one of {', '.join(known)}"


def _boolean(value: str) -> str | None:
    return "must be true or false" if java_boolean(value) is None else None


def _policy(value: str) -> str | None:
    return None if {DELETE, COMPACT}.issuperset(_parts(value)) else f"must be {DELETE}, {COMPACT} or both"


def _replicas(value: str) -> str | None:
    form = r"\*|none|[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*|"
    return None if re.fullmatch(form, value, re.ASCII) else "must be *, none, or PARTITION:BROKER, separated by commas"


RULES: Mapping[str, Rule] = {
    "cleanup.policy": _policy,
    "compression.gzip.level": _level(1, 9, -1),
    "compression.lz4.level": _whole(1, 17),
    "compression.type": _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "compression.zstd.level": _whole(-131072, 22),
    "delete.retention.ms": _whole(0, _LONG_MAX),
    "errors.deadletterqueue.group.enable": _boolean,  # since Kafka 4.4
    "file.delete.delay.ms": _whole(0, _LONG_MAX),
    "flush.messages": _whole(1, _LONG_MAX),
    "flush.ms": _whole(0, _LONG_MAX),
    "follower.replication.throttled.replicas": _replicas,
    "index.interval.bytes": _whole(0, _INT_MAX),
    "internal.segment.bytes": _whole(_INT_MIN, _INT_MAX),
    "leader.replication.throttled.replicas": _replicas,
    "local.retention.bytes": _whole(_AS_RETENTION, _LONG_MAX),
    "local.retention.ms": _whole(_AS_RETENTION, _LONG_MAX),
    "max.compaction.lag.ms": _whole(1, _LONG_MAX),
    "max.decompressed.message.bytes": _whole(1, _INT_MAX - 8),  # since Kafka 4.4
    "max.message.bytes": _whole(0, _INT_MAX),
    "message.downconversion.enable": _boolean,  # until Kafka 3.9
    "message.timestamp.after.max.ms": _whole(0, _LONG_MAX),
    "message.timestamp.before.max.ms": _whole(0, _LONG_MAX),
    "message.timestamp.difference.max.ms": _whole(0, _LONG_MAX),  # until Kafka 3.9
    "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
    "min.cleanable.dirty.ratio": _share,
    "min.compaction.lag.ms": _whole(0, _LONG_MAX),
    "min.insync.replicas": _whole(1, _INT_MAX),
    "preallocate": _boolean,
    "remote.copy.lag.bytes": _whole(UNLIMITED, _LONG_MAX),  # since Kafka 4.4
    "remote.copy.lag.ms": _whole(UNLIMITED, _LONG_MAX),  # since Kafka 4.4
    "remote.log.copy.disable": _boolean,
    "remote.log.delete.on.disable": _boolean,
    "remote.storage.enable": _boolean,
    "retention.bytes": _whole(_LONG_MIN, _LONG_MAX),
    "retention.ms": _whole(UNLIMITED, _LONG_MAX),
    "segment.bytes": _whole(_MIB, _INT_MAX),
    "segment.index.bytes": _whole(4, _INT_MAX),
    "segment.jitter.ms": _whole(0, _LONG_MAX),
    "segment.ms": _whole(1, _LONG_MAX),
    "unclean.leader.election.enable": _boolean,
}


def config_problems(configs: Mapping[str, str]) -> Iterator[str]:
    """What Kafka would refuse or ignore of a topic's configs; nothing if they are right."""
    sound = True
    for name, value in configs.items():
        rule = RULES.get(name)
        if rule is None:
            close = closest(name, RULES)
            yield f"{name} is no config of a topic" + (f"; did you mean {close}?" if close else "")
        elif (wrong := rule(value)) is not None:
            yield f"{name}={value} {wrong}"
        else:
            continue
        sound = False
    if sound:
        yield from _contradictions(configs)


def _contradictions(configs: Mapping[str, str]) -> Iterator[str]:
    """Values that are right alone and not together, as LogConfig.validateValues and its neighbours say."""
    shortest = whole_number(configs, "min.compaction.lag.ms", "0")
    longest = whole_number(configs, "max.compaction.lag.ms", str(_LONG_MAX))
    if shortest > longest:
        yield f"min.compaction.lag.ms={shortest} is above max.compaction.lag.ms={longest}"
    if configs.get("remote.storage.enable", "false").lower() != "true":
        return
    if COMPACT in policies(configs):
        yield "remote.storage.enable=true is not possible with cleanup.policy=compact"
    for unit, default in (("ms", WEEK_MS), ("bytes", str(UNLIMITED))):
        local = whole_number(configs, f"local.retention.{unit}", str(_AS_RETENTION))
        kept = whole_number(configs, f"retention.{unit}", default)
        if kept > UNLIMITED and local != _AS_RETENTION and not 0 <= local <= kept:
            yield f"local.retention.{unit}={local} is above retention.{unit}={kept}"


def policies(configs: Mapping[str, str]) -> set[str]:
    """The parts of the topic's ``cleanup.policy``."""
    return set(_parts(configs.get("cleanup.policy", DELETE)))


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]


def whole_number(configs: Mapping[str, str], name: str, default: str) -> int:
    """A config of which :func:`config_problems` says nothing."""
    return int(configs.get(name, default))
