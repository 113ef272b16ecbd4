"""The ids of topics come from the broker, once per request, and only if the request names topics by name."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from kafka_remote_client.location.probes import NotGrantedError
from kafka_remote_client.protocol import metadata
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.shim.tagged_fetch import read_tagged_fetch
from kafka_remote_client.shim.topic_ids import TopicIds
from tests.support.shim_fakes import TIP, FakeAsk, batched_fetch


def ids_of(ask: FakeAsk, version: int) -> list[UUID]:
    async def asked() -> list[UUID]:
        tagged = read_tagged_fetch(batched_fetch(0, 1), version)
        ids = TopicIds(tagged, ask)
        return list(await asyncio.gather(*(ids.of(one) for one in tagged.partitions)))

    return asyncio.run(asked())


def test_a_name_is_asked_once_for_all_partitions() -> None:
    ask = FakeAsk()
    assert ids_of(ask, 12) == [TIP.topic_id] * 2
    assert ask.metadata_topics == [TIP.topic]


def test_a_request_by_id_needs_no_question() -> None:
    ask = FakeAsk()
    assert ids_of(ask, 13) == [TIP.topic_id] * 2
    assert ask.metadata_topics == []


@pytest.mark.parametrize(
    "topics",
    [
        (),
        (metadata.MetadataTopic(TIP.topic),),
        (metadata.MetadataTopic(TIP.topic, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id=TIP.topic_id),),
    ],
)
def test_a_topic_without_an_id_is_not_granted(topics: tuple[metadata.MetadataTopic, ...]) -> None:
    ask = FakeAsk()
    ask.topics = topics
    with pytest.raises(NotGrantedError, match="unknown-topic"):
        ids_of(ask, 12)
