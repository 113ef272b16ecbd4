"""librdkafka's mock cluster stands for any broker without the dialect."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import BrokerResponseError, NotAnnouncedError
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.leaders import PartitionLeaders
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.model import (
    NotRemote,
    PartitionOffsets,
)
from kafka_remote_client.protocol import fetch, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
from tests.support.mock_cluster import mock_cluster
from tests.support.questions import question

DIALECT = TaggedDialect()


def test_librdkafkas_mock_is_a_broker_without_the_dialect() -> None:
    with mock_cluster("t", [b"0", b"1", b"2"]) as (host, port):
        source = BrokerLocationSource(f"{host}:{port}", client_id="me", clock=SystemClock(), connect_timeout=30)
        deadline = Deadline(SystemClock(), 60)
        leaders = PartitionLeaders(f"{host}:{port}", client_id="me", clock=SystemClock(), connect_timeout=30)
        assert leaders.offsets("t", 0, deadline) == PartitionOffsets(log_start=0, high_watermark=3)
        leaders.close()
        with pytest.raises(NotAnnouncedError, match=f"{host}:{port} does not announce direct fetch"):
            source.offsets("t", 0, deadline)
        refused = locate_one(source, question("t", 0, 0), deadline)
        assert refused == NotRemote("not-announced")
        with pytest.raises(BrokerResponseError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            source.offsets("no such topic", 0, deadline)
        source.close()


@pytest.mark.parametrize("version", [12, 13, 16])
def test_librdkafkas_mock_answers_a_tagged_fetch_like_an_untagged_one(version: int) -> None:
    clock = SystemClock()
    with mock_cluster("t", [b"0", b"1", b"2"]) as (host, port):
        connection = BrokerConnection(host, port, client_id="me", clock=clock, connect_timeout=30)
        asked = metadata.encode_request(metadata.MetadataRequest((metadata.MetadataRequestTopic("t"),)), 12)
        described = metadata.decode_response(connection.send_receive(ApiKey.METADATA, 12, asked, Deadline(clock, 60)), 12)
        root, tags = DIALECT.request_tags(LocationRequest(("ApacheKafkaV1",), max_bytes=1 << 20))

        def answer(root: Any, tags: Any) -> bytes:
            partition = fetch.FetchPartition(0, 1, 1 << 20, tags=tags)
            topic = fetch.FetchTopic((partition,), "t", described.topics[0].topic_id)
            body = fetch.encode_request(fetch.FetchRequest((topic,), max_bytes=1 << 20, tags=root), version)
            return bytes(connection.send_receive(ApiKey.FETCH, version, body, Deadline(clock, 60)))

        tagged = answer(root, tags)
        assert tagged == answer({}, {})
        data = fetch.decode_response(tagged, version).responses[0].partitions[0]
        assert (data.error_code, data.high_watermark) == (0, 3)
        assert data.records
        assert DIALECT.read_grant(data.tags, ("ApacheKafkaV1",)) is None
        connection.close()
