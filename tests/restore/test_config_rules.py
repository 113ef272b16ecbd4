"""KAFKA is what ``LogConfig.CONFIG`` of Kafka 4.4.0 and 4.3.1 says: name, type, validator."""

import pytest

from kafka_remote_client.restore.config_rules import RULES, config_problems, policies

KAFKA = """\
cleanup.policy | LIST | compact,delete
compression.gzip.level | INT | 1 9
compression.lz4.level | INT | 1 17
compression.type | STRING | uncompressed,zstd,lz4,snappy,gzip,producer
compression.zstd.level | INT | -131072 22
delete.retention.ms | LONG | 0
errors.deadletterqueue.group.enable | BOOLEAN |
file.delete.delay.ms | LONG | 0
flush.messages | LONG | 1
flush.ms | LONG | 0
index.interval.bytes | INT | 0
internal.segment.bytes | INT |
local.retention.bytes | LONG | -2
local.retention.ms | LONG | -2
max.compaction.lag.ms | LONG | 1
max.decompressed.message.bytes | INT | 1 2147483639
max.message.bytes | INT | 0
message.timestamp.after.max.ms | LONG | 0
message.timestamp.before.max.ms | LONG | 0
message.timestamp.type | STRING | CreateTime,LogAppendTime
min.cleanable.dirty.ratio | DOUBLE | 0 1
min.compaction.lag.ms | LONG | 0
min.insync.replicas | INT | 1
preallocate | BOOLEAN |
remote.copy.lag.bytes | LONG | -1
remote.copy.lag.ms | LONG | -1
remote.log.copy.disable | BOOLEAN |
remote.log.delete.on.disable | BOOLEAN |
remote.storage.enable | BOOLEAN |
retention.bytes | LONG |
retention.ms | LONG | -1
segment.bytes | INT | 1048576
segment.index.bytes | INT | 4
segment.jitter.ms | LONG | 0
segment.ms | LONG | 1
unclean.leader.election.enable | BOOLEAN |
"""
THROTTLED = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
OLD = {"message.downconversion.enable", "message.timestamp.difference.max.ms"}
LIMITS = {"INT": 31, "LONG": 63}
ROWS = [tuple(part.strip() for part in line.split("|")) for line in KAFKA.splitlines()]


def wrong(name: str, value: str) -> bool:
    """Whether the value is wrong alone."""
    rule = RULES[name]
    return rule(value) is not None


def test_has_the_names_of_kafka() -> None:
    assert RULES.keys() - THROTTLED - OLD == {name for name, *_ in ROWS}


@pytest.mark.parametrize(("name", "kind", "accepted"), ROWS)
def test_accepts_what_kafka_accepts(name: str, kind: str, accepted: str) -> None:
    if kind in LIMITS:
        most = 2 ** LIMITS[kind]
        low, high = ([*map(int, accepted.split()), most - 1] if accepted else [-most, most - 1])[:2]
        assert [wrong(name, str(value)) for value in (low - 1, low, high, high + 1)] == [True, False, False, True]
        assert all(wrong(name, text) for text in ("", "1.5", "true", "1_0", "\u0661"))
    elif kind == "DOUBLE":
        assert [wrong(name, text) for text in ("0", "0.5", "1", "1.1", "-0.1", "nan", "half")] == [False] * 3 + [True] * 4
    elif kind == "BOOLEAN":
        assert [wrong(name, text) for text in ("true", "False", "1", "yes")] == [False, False, True, True]
    else:
        assert [wrong(name, text) for text in [*accepted.split(","), "other", ""]] == [False] * (accepted.count(",") + 1) + [
            True,
            True,
        ]


def test_accepts_levels_beside_the_range() -> None:
    assert [wrong("compression.gzip.level", text) for text in ("-1", "0", "10")] == [False, True, True]


@pytest.mark.parametrize("name", sorted(THROTTLED))
def test_reads_throttled_replicas(name: str) -> None:
    assert [wrong(name, text) for text in ("", "*", "none", "0:1", "0:1,12:3")] == [False] * 5
    assert all(wrong(name, text) for text in ("0", "0:1,", "a:1", "-1:1"))


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ({}, []),
        ({"retention.ms": "-1", "cleanup.policy": "compact, delete"}, []),
        ({"retention_ms": "-1"}, ["retention_ms is no config of a topic; did you mean retention.ms?"]),
        ({"zzz": "1"}, ["zzz is no config of a topic"]),
        ({"segment.bytes": "1000"}, ["segment.bytes=1000 must be between 1048576 and 2147483647"]),
        (
            {"compression.type": "lzma"},
            ["compression.type=lzma must be one of uncompressed, zstd, lz4, snappy, gzip, producer"],
        ),
        ({"cleanup.policy": "remove"}, ["cleanup.policy=remove must be delete, compact or both"]),
        ({"min.cleanable.dirty.ratio": "2"}, ["min.cleanable.dirty.ratio=2 must be between 0 and 1"]),
        ({"min.cleanable.dirty.ratio": "x"}, ["min.cleanable.dirty.ratio=x must be a number"]),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            ["min.compaction.lag.ms=9 is above max.compaction.lag.ms=8"],
        ),
        (
            {"remote.storage.enable": "true", "cleanup.policy": "compact"},
            ["remote.storage.enable=true is not possible with cleanup.policy=compact"],
        ),
        (
            {"remote.storage.enable": "true", "local.retention.ms": "604800001"},
            ["local.retention.ms=604800001 is above retention.ms=604800000"],
        ),
        (
            {"remote.storage.enable": "true", "local.retention.bytes": "-1", "retention.bytes": "5"},
            ["local.retention.bytes=-1 is above retention.bytes=5"],
        ),
        ({"remote.storage.enable": "true", "local.retention.ms": "-1", "retention.ms": "-1"}, []),
        ({"remote.storage.enable": "true", "local.retention.ms": "-2", "local.retention.bytes": "1"}, []),
        ({"remote.storage.enable": "false", "local.retention.ms": "604800001"}, []),
    ],
)
def test_says_what_kafka_refuses(configs: dict[str, str], said: list[str]) -> None:
    assert list(config_problems(configs)) == said


def test_knows_the_policies() -> None:
    assert policies({}) == {"delete"}
    assert policies({"cleanup.policy": "compact, delete"}) == {"compact", "delete"}
