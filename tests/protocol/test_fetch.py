from __future__ import annotations

import io
from datetime import timedelta
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.fetch.v16 import response as kio
from kio.schema.types import BrokerId
from kio.serial import entity_writer
from kio.static.primitive import i32, i64

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.protocol.fetch import (
    DIVERGING_EPOCH_TAG,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    PartitionData,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)


def test_golden_bytes_of_a_tagged_request() -> None:
    partition = FetchPartition(3, 900, 1, 2, 1, tags={12481: b"\x01"})
    request = FetchRequest(
        (FetchTopic((partition,), "t"),), max_bytes=1, tags={12480: bytes.fromhex("020e") + b"ApacheKafkaV1"}
    )
    head = "ffffffff" + "00000000" + "00000000" + "00000001" + "00" + "00000000" + "ffffffff"
    asked = "00000003" + "00000002" + "0000000000000384" + "00000001" + "ffffffffffffffff" + "00000001" + "01c1610101"
    formats = "01" + "c0610f" + "020e" + b"ApacheKafkaV1".hex()
    body = head + "02" + "0274" + "02" + asked + "00" + "01" + "01" + formats
    assert encode_request(request, 12).hex() == body
    assert decode_request(bytes.fromhex(body), 12) == request


def test_tags_that_kafka_defines_are_kept_raw() -> None:
    endpoints = kio.NodeEndpoint(node_id=BrokerId(1), host="h", port=i32(9092), rack=None)
    diverging = kio.EpochEndOffset(epoch=i32(3), end_offset=i64(77))
    partition = kio.PartitionData(
        partition_index=i32(0),
        error_code=KioErrorCode.none,
        high_watermark=i64(5),
        diverging_epoch=diverging,
        aborted_transactions=None,
        records=None,
    )
    topic = kio.FetchableTopicResponse(topic_id=UUID(int=7), partitions=(partition,))
    out = io.BytesIO()
    entity_writer(kio.FetchResponse)(
        out,
        kio.FetchResponse(
            throttle_time=timedelta(),
            error_code=KioErrorCode.none,
            session_id=i32(0),
            responses=(topic,),
            node_endpoints=(endpoints,),
        ),
    )
    response = decode_response(out.getvalue(), 16)
    assert response.responses[0].partitions[0].tags == {DIVERGING_EPOCH_TAG: bytes.fromhex("00000003000000000000004d00")}
    assert set(response.tags) == {0}
    assert encode_response(response, 16) == out.getvalue()


def test_tags_inside_an_aborted_transaction_are_dropped() -> None:
    aborted = PartitionData(0, aborted_transactions=(AbortedTransaction(1, 2),))
    body = encode_response(FetchResponse((FetchTopicResponse((aborted,), "t"),)), 12)
    plain = bytes.fromhex("0000000000000001000000000000000200")
    tagged = plain[:-1] + bytes.fromhex("010501ff")
    assert body.count(plain) == 1
    assert decode_response(body.replace(plain, tagged), 12) == decode_response(body, 12)


def test_a_version_without_tags_cannot_carry_them() -> None:
    request = FetchRequest((FetchTopic((FetchPartition(0, 0, 0, tags={12481: b"\x01"}),), "t"),))
    with pytest.raises(ProtocolError, match="no tagged fields"):
        encode_request(request, 11)


def test_records_are_a_view_of_the_frame() -> None:
    body = encode_response(FetchResponse((FetchTopicResponse((PartitionData(0, records=b"abc"),), "t"),)), 12)
    records = decode_response(body, 12).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is body


def test_repr_shows_neither_records_nor_tag_values() -> None:
    shown = repr(PartitionData(0, records=b"payload", tags={12483: b"https://signed"}))
    assert "<7 bytes>" in shown
    assert "12483" in shown
    assert "signed" not in shown
    assert "payload" not in shown
