"""What works with each version of the broker, from Maven's artifacts.

``make broker-versions`` starts each version, runs the checks below, and prints a line for the ledger. ``docs/generate.py``
writes the table of the last lines into docs/reliability.md. The exit status is 0 only if all checks of all versions pass.

::

    check        | passes if
    tier         | the broker starts with LocalTieredStorage, and segments with two leader epochs and transactions are in it
    announced    | the shim announces itself in the broker's answer to ApiVersions
    records      | read_uncommitted: the direct consumer's records are the plain one's, and all tiered ones come from the store
    transactions | read_committed: the same, and records of aborted transactions are missing
    delayed      | KIP-1241, from 4.4 on: the same across the hand-over, where the tiers overlap completely, and not at all,
                 | while a producer writes and the broker goes on to copy
    denied       | in each version of Fetch that has locations, a user with READ gets one, and a user without READ gets the
                 | broker's answer, byte for byte
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import attrs
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, ConfigResource, ResourceType

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.protocol import api_versions
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.ledger import ledger
from tests.support.reading import PATIENCE_SECONDS, by_consume, direct, plain, read_to_end, row, shim_before, total
from tests.support.scenario import TransactionalTopic, write_transactional_topic
from tests.support.scram_broker import ScramBroker
from tests.support.scram_client import answered, connection, error_of, is_granted, location_request, topic_id_of
from tests.support.waiting import wait_until

__all__ = ["CHECKS", "VERSIONS", "Stage", "main", "outcomes"]

VERSIONS = ("3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0")
"""The newest of each minor version. They need LocalTieredStorage: 4.4.0 runs with that of 4.3.1 (``artifacts.py``)."""
_TOPIC = "versions"
_FETCHES = range(12, 16)
_COPY_LAG = "remote.copy.lag.bytes"
_SEGMENT_BYTES, _LOCAL_BYTES = 10_000, 80_000
_COPY_LAGS = {"0": "0", str(_LOCAL_BYTES): "3600000"}
"""Bytes and milliseconds; a segment is copied once one of them is reached: at once, or when it may leave the local disk."""
_PATIENCE_SECONDS = 120
_CLOCK = SystemClock()


@attrs.frozen
class Stage:
    """A broker with a tiered topic, a shim in front of it, and a shim in front of its listener for SCRAM."""

    broker: ScramBroker
    topic: TransactionalTopic
    shim: Shim
    scram_shim: Shim


@contextmanager
def _stage(version: str) -> Iterator[Stage]:
    with tempfile.TemporaryDirectory() as directory, ScramBroker(Path(directory) / "broker", version) as broker:
        topic = write_transactional_topic(broker.broker, _TOPIC)
        for user in ("shim", "reader", "stranger"):
            broker.add_user(user)
        for operation in (AclOperation.READ, AclOperation.DESCRIBE):
            broker.allow("shim", operation, ResourceType.TOPIC, "__remote_log_metadata")
        broker.allow("reader", AclOperation.READ, ResourceType.TOPIC, _TOPIC)
        config = ShimConfig(
            broker.bootstrap_servers,
            store=broker.broker.store_url,
            broker_settings={"security.protocol": "sasl_plaintext"},
            metadata_consumer={
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "shim",
                "sasl.password": "shim-password",
            },
        )
        with shim_before(broker.broker) as shim, Shim(config) as scram_shim:
            assert scram_shim.wait_ready(PATIENCE_SECONDS)
            yield Stage(broker, topic, shim, scram_shim)


def _tier(stage: Stage) -> str:
    assert stage.topic.remote_segments > 10
    assert len(stage.topic.leader_epochs) == 2
    return f"{stage.topic.remote_segments} segments"


def _announced(stage: Stage) -> str:
    with closing(connection(stage.scram_shim.bootstrap_servers, "stranger")) as made:
        body = api_versions.encode_request(api_versions.ApiVersionsRequest("tests", "1"), 3)
        answer = api_versions.decode_response(made.send_receive(ApiKey.API_VERSIONS, 3, body, Deadline(_CLOCK, 60)), 3)
    offered = {entry.api_key: entry.max_version for entry in answer.api_keys}
    assert ApiKey.DIRECT_REMOTE_FETCH in offered
    return f"Fetch up to {offered[ApiKey.FETCH]}"


def _compared(stage: Stage, isolation: str) -> tuple[int, int]:
    """Compares both consumers. Returns the numbers of records, and of those from the store."""
    expected = plain(stage.broker.broker, _TOPIC, isolation)
    with Consumer(direct(stage.shim, isolation)) as consumer:
        consumer.subscribe([_TOPIC])
        rows = read_to_end(consumer, by_consume)
        from_store = total(consumer.metrics(), "remote-fetch-records-total")
    assert rows == expected, f"{len(rows)} records, the plain consumer has {len(expected)}"
    tiered = sum(offset < stage.topic.offsets.earliest_local for offset, *_ in expected)
    assert from_store >= tiered > 1000, f"{from_store} of {tiered} tiered records come from the store"
    return len(rows), from_store


def _records(stage: Stage) -> str:
    records, from_store = _compared(stage, "read_uncommitted")
    return f"{records:,}, {from_store:,} from the store"


def _transactions(stage: Stage) -> str:
    committed, from_store = _compared(stage, "read_committed")
    everything = len(plain(stage.broker.broker, _TOPIC, "read_uncommitted"))
    assert committed < everything
    return f"{committed:,}, {from_store:,} from the store"


def _delayed(stage: Stage) -> str:
    broker = stage.broker.broker
    resource = ConfigResource(ConfigResource.Type.TOPIC, _TOPIC)
    if _COPY_LAG not in broker.admin.describe_configs([resource])[resource].result(60):
        return "not in this version"
    early, late = (_handed_over(stage, nbytes, milliseconds) for nbytes, milliseconds in _COPY_LAGS.items())
    assert late < early / 4, f"{late} offsets are in both tiers, and {early} without delay"
    return f"{late:,} offsets in both tiers, {early:,} without delay"


def _handed_over(stage: Stage, lag_bytes: str, lag_ms: str) -> int:
    """Reads a topic whose segments are copied so far behind the log's end. Returns how many offsets both tiers have."""
    broker, topic = stage.broker.broker, f"delayed-{lag_bytes}"
    lags = {"remote_copy_lag_bytes": lag_bytes, "remote_copy_lag_ms": lag_ms}
    broker.create_topic(topic, segment_bytes=_SEGMENT_BYTES, local_retention_bytes=str(_LOCAL_BYTES), **lags)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 10, "log_level": 0})
    _produce(producer, topic, 0, 2000)
    behind = int(lag_bytes) + 2 * _SEGMENT_BYTES

    def copied() -> bool:
        now = broker.offsets(topic)
        rest = [path.stat().st_size for path in broker.local_log(topic).glob("*.log") if int(path.stem) > now.latest_tiered]
        return now.earliest_local > 0 and sum(rest) <= behind

    wait_until(copied, f"{topic} to be copied", seconds=_PATIENCE_SECONDS)
    offsets = broker.offsets(topic)
    overlap = offsets.latest_tiered + 1 - offsets.earliest_local
    assert overlap >= 0, f"no tier has offset {offsets.latest_tiered + 1}"
    with Consumer(direct(stage.shim, "read_uncommitted")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        rows = [row(message) for message in consumer.consume(100, PATIENCE_SECONDS)]
        _produce(producer, topic, 2000, 3000)  # copying goes on, so the hand-over moves
        rows += read_to_end(consumer, by_consume)
        from_store = total(consumer.metrics(), "remote-fetch-records-total")
    assert rows == plain(broker, topic, "read_uncommitted")
    assert len(rows) == 3000
    assert from_store >= offsets.earliest_local, f"{from_store} records come from the store"
    return overlap


def _produce(producer: Producer, topic: str, start: int, end: int) -> None:
    for number in range(start, end):
        producer.produce(topic, b"%d".ljust(60, b".") % number, partition=0)
    assert producer.flush(_PATIENCE_SECONDS) == 0, "the broker did not take all records"


def _denied(stage: Stage) -> str:
    topic_id = topic_id_of(stage.broker, _TOPIC)
    for version in _FETCHES:
        body = location_request(_TOPIC, topic_id, version, stage.topic.deleted_before)
        expected = answered(stage.broker.bootstrap_servers, "stranger", body, version)
        assert error_of(expected, version)
        assert answered(stage.scram_shim.bootstrap_servers, "stranger", body, version) == expected, f"Fetch {version}"
        granted = is_granted(answered(stage.scram_shim.bootstrap_servers, "reader", body, version), version)
        assert granted, f"Fetch {version}: no location for the reader"
    return f"Fetch {_FETCHES[0]} to {_FETCHES[-1]}"


CHECKS: Mapping[str, Callable[[Stage], str]] = {
    "tier": _tier,
    "announced": _announced,
    "records": _records,
    "transactions": _transactions,
    "delayed": _delayed,
    "denied": _denied,
}
"""Each check returns what it has seen, or raises."""


def outcomes(stage: Stage, checks: Mapping[str, Callable[[Stage], str]] = CHECKS) -> dict[str, str]:
    """Returns the outcome of each check; that of a failed one begins with "failed"."""
    return {name: _outcome(check, stage) for name, check in checks.items()}


def _outcome(check: Callable[[Stage], str], stage: Stage) -> str:
    try:
        return check(stage)
    except Exception as error:
        return f"failed: {error!r}"[:200]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    failed = False
    for version in parser.parse_args(arguments).versions:
        started = _CLOCK.monotonic()
        try:
            with _stage(version) as stage:
                found = outcomes(stage)
        except Exception as error:
            found = {"tier": f"failed: {error!r}"[:200]}
        failed |= any(outcome.startswith("failed") for outcome in found.values())
        ledger("broker-versions", seconds=round(_CLOCK.monotonic() - started), version=version, **found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
