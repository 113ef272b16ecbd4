from __future__ import annotations

from kafka_remote_client.protocol.list_offsets import (
    FIRST_VERSION,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetSpec,
    encode_request,
)


def test_each_special_timestamp_has_kafkas_number_and_first_version() -> None:
    assert {spec.name: (int(spec), FIRST_VERSION[spec]) for spec in OffsetSpec} == {
        "LATEST": (-1, 1),
        "EARLIEST": (-2, 1),
        "MAX_TIMESTAMP": (-3, 7),
        "EARLIEST_LOCAL": (-4, 8),
        "LATEST_TIERED": (-5, 9),
        "EARLIEST_PENDING_UPLOAD": (-6, 11),
    }


def test_golden_bytes_of_a_request_for_a_tiered_offset() -> None:
    wanted = ListOffsetsPartition(3, OffsetSpec.LATEST_TIERED, 2)
    request = ListOffsetsRequest((ListOffsetsTopic("t", (wanted,)),))
    asked = "00000003" + "00000002" + "fffffffffffffffb" + "00"
    assert encode_request(request, 9).hex() == "ffffffff" + "00" + "02" + "0274" + "02" + asked + "00" + "00"
