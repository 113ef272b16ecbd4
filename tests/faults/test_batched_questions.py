"""F78: a shim answers half of the partitions of each batch: only the others fall back, and no record changes."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import TaggedDialect
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.shim.broker_strategy import Ask, ClientRequest
from kafka_remote_client.shim.grants import GrantingBroker
from tests.support.embedded_topics import (
    Row,
    direct_settings,
    fallbacks,
    filled_cluster,
    from_store,
    plain_rows,
    read_to_ends,
    tiers,
)

pytestmark = pytest.mark.embedded

TOPIC = "t"
PARTITIONS, COUNT = 4, 100
HALF = range(0, PARTITIONS, 2)

Answer = Callable[[fetch.PartitionData], fetch.PartitionData | None]


cluster = filled_cluster(TOPIC, COUNT, range(PARTITIONS))


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], list[int]]:
    """Changes the shim's answer for each partition of HALF. Returns the sizes of the changed batches."""

    def change(answer: Answer) -> list[int]:
        sizes: list[int] = []
        real = GrantingBroker.answer

        async def answered(shim: GrantingBroker, request: ClientRequest, ask: Ask) -> bytes | None:
            true = await real(shim, request, ask)
            assert true is not None
            version = request.header.api_version
            response = fetch.decode_response(true, version)
            (topic,) = response.responses
            sizes.append(len(topic.partitions))
            changed = (answer(one) if one.partition_index in HALF else one for one in topic.partitions)
            topic = attrs.evolve(topic, partitions=tuple(one for one in changed if one is not None))
            return fetch.encode_response(attrs.evolve(response, responses=(topic,)), version)

        monkeypatch.setattr(GrantingBroker, "answer", answered)
        return sizes

    return change


def _pending(data: fetch.PartitionData) -> fetch.PartitionData:
    return attrs.evolve(data, tags=TaggedDialect().pending_tags())


def _refused(data: fetch.PartitionData) -> fetch.PartitionData:
    return attrs.evolve(data, error_code=ErrorCode.UNKNOWN_SERVER_ERROR, tags={})


def _left_out(_data: fetch.PartitionData) -> None:
    return None


def _read(cluster: EmbeddedCluster, **more: object) -> tuple[dict[tuple[str, int], list[Row]], dict[str, int], int]:
    """Returns the rows of each partition, the causes of fallbacks, and the number of records from the store."""
    settings = direct_settings(cluster, fetch_remote_fallback_backoff_ms=600_000, fetch_remote_breaker_failures=1_000, **more)
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        return read_to_ends(consumer), fallbacks(consumer), from_store(consumer)


@pytest.fixture(scope="module")
def expected(cluster: EmbeddedCluster) -> dict[tuple[str, int], list[Row]]:
    return {(TOPIC, number): plain_rows(cluster, TOPIC, number) for number in range(PARTITIONS)}


@pytest.mark.fault("F78")
@pytest.mark.parametrize(
    ("answer", "cause"),
    [(_pending, "location-pending"), (_refused, "broker-error"), (_left_out, "protocol")],
    ids=["pending", "refused", "left-out"],
)
def test_half_an_answer_sends_only_the_other_half_to_the_broker(
    cluster: EmbeddedCluster,
    batches: Callable[[Answer], list[int]],
    expected: dict[tuple[str, int], list[Row]],
    answer: Answer,
    cause: str,
) -> None:
    sizes = batches(answer)
    rows, fell_back, direct = _read(cluster, fetch_remote_pending_timeout_ms=300)
    assert rows == expected
    assert max(sizes) > 1
    assert fell_back == {cause: len(HALF)}
    others = set(range(PARTITIONS)) - set(HALF)
    assert direct == sum(tiers(cluster, TOPIC, number).earliest_local for number in others)
