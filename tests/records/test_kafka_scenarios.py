"""Kafka's own tests of its record layer and its client's filter, by name, each with our tests of the same behaviour.

The batch iteration of RemoteLogInputStreamTest, with each magic and codec, is here; the other tests are with their subjects.
Kafka's tests of its writers (sizes, setters, builders, the log cleaner) have no counterpart: this package only reads.

References: Kafka 4.x, clients/src/test/java/org/apache/kafka: common/record, common/compress, clients/consumer/internals.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.records import RemoteLogInputStream, read_batches
from tests.support.batches import Rec, batch, legacy_message, legacy_set

HERE = Path(__file__)
EVERY = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if magic == 2 or codec < 4]

SCENARIOS = {
    "RemoteLogInputStreamTest": {
        "testSimpleBatchIteration": ["kafka_scenarios:simple_batch_iteration"],
        "testBatchIterationWithMultipleRecordsPerBatch": ["kafka_scenarios:batch_iteration_with_multiple_records_per_batch"],
        "testBatchIterationV2": ["kafka_scenarios:batch_iteration_v2"],
        "testBatchIterationIncompleteBatch": ["kafka_scenarios:batch_iteration_incomplete_batch"],
    },
    "ByteBufferLogInputStreamTest": {
        "iteratorIgnoresIncompleteEntries": ["batch:truncated_last_batch_is_left_out"],
        "iteratorRaisesOnTooSmallRecords": ["batch:too_small_a_size_is_damage"],
        "iteratorRaisesOnInvalidMagic": ["batch:unknown_magic_is_an_unsupported_format"],
        "iteratorRaisesOnTooLargeRecords": ["batch:a_size_beyond_the_segment_is_damage_not_a_cut_off_batch"],
    },
    "DefaultRecordBatchTest": {
        "testWriteEmptyHeader": ["record:empty_batch_yields_nothing_and_moves_the_offset", "batch:attribute_bits_read_by_name"],
        "buildDefaultRecordBatch": ["batch:batches_of_one_and_many_records_have_all_their_fields"],
        "buildDefaultRecordBatchWithProducerId": ["record:producer_fields_and_sequence_wrap_do_not_change_records"],
        "buildDefaultRecordBatchWithSequenceWrapAround": ["record:producer_fields_and_sequence_wrap_do_not_change_records"],
        "testInvalidRecordSize": ["batch:too_small_a_size_is_damage"],
        "testInvalidRecordCountTooManyNonCompressedV2": [
            "record:a_record_count_that_is_too_large_is_damage",
            "record:a_record_count_that_is_too_large_but_plausible_is_damage",
        ],
        "testInvalidRecordCountTooLittleNonCompressedV2": ["record:a_record_count_that_is_too_small_is_damage"],
        "testInvalidRecordCountTooManyCompressedV2": ["kafka_scenarios:invalid_record_count_compressed_v2"],
        "testInvalidRecordCountTooLittleCompressedV2": ["kafka_scenarios:invalid_record_count_compressed_v2"],
        "testInvalidCrc": ["batch:raises_for_checksum_mismatch_after_the_good_batches"],
        "testSetLastOffset": ["batch:set_leader_epoch_or_offset_leaves_the_checksum_valid"],
        "testSetPartitionLeaderEpoch": ["batch:set_leader_epoch_or_offset_leaves_the_checksum_valid"],
        "testSetLogAppendTime": ["record:log_append_time_gives_every_record_the_batch_maximum"],
        "testReadAndWriteControlBatch": ["control:kafkas_own_marker_is_never_returned_and_moves_the_offset"],
        "testStreamingIteratorConsistency": ["completed_fetch:feed_gives_whole_batches_and_leaves_the_tail"],
    },
    "DefaultRecordTest": {
        "testBasicSerde": ["record:keys_values_and_headers_may_be_null_empty_or_full"],
        "testBasicSerdeInvalidHeaderCountTooHigh": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testBasicSerdeInvalidHeaderCountTooLow": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testInvalidKeySize": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testInvalidValueSize": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testInvalidNumHeaders": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testInvalidHeaderKey": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testNullHeaderKey": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testInvalidHeaderValue": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testUnderflowReadingTimestamp": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testUnderflowReadingVarlong": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testInvalidVarlong": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testInvalidSizeOfBodyInBytes": ["record:raises_for_a_record_with_inconsistent_fields"],
        "testSerdeNoSequence": ["record:producer_fields_and_sequence_wrap_do_not_change_records"],
        "testReadFromStreamRejectsInvalidBodySize": ["record:raises_for_a_record_with_inconsistent_fields"],
    },
    "MemoryRecordsTest": {
        "testIterator": ["java_vectors:reads_as_kafka_reads", "kafka_scenarios:simple_batch_iteration"],
        "testChecksum": [
            "batch:raises_for_checksum_mismatch_after_the_good_batches",
            "legacy:checksums_of_outer_and_inner_messages_are_verified",
        ],
        "testEmptyBatchRetention": ["record:empty_batch_yields_nothing_and_moves_the_offset"],
        "testEmptyBatchDeletion": ["record:offset_holes_of_compaction_are_kept", "aborted:compacted_topic"],
        "testFilterToEmptyBatchRetention": ["record:empty_batch_yields_nothing_and_moves_the_offset"],
        "testFilterToAlreadyCompactedLog": ["record:offset_holes_of_compaction_are_kept"],
        "testFilterToPreservesPartitionLeaderEpoch": ["completed_fetch:the_leader_epoch_is_that_of_the_last_delivered_batch"],
        "testFilterToPreservesProducerInfo": ["record:producer_fields_and_sequence_wrap_do_not_change_records"],
        "testFilterToPreservesLogAppendTime": ["record:log_append_time_gives_every_record_the_batch_maximum"],
        "testBaseTimestampToDeleteHorizonConversion": ["record:delete_horizon_keeps_deltas_relative_to_the_base_timestamp"],
        "testBuildEndTxnMarker": ["control:kafkas_own_marker_is_never_returned_and_moves_the_offset"],
        "testNextBatchSize": ["batch:truncated_last_batch_is_left_out", "batch:unknown_magic_is_an_unsupported_format"],
    },
    "AbstractLegacyRecordBatchTest": {
        "testSetLastOffsetCompressed": ["legacy:compressed_set_gives_absolute_offsets"],
        "testIterateCompressedRecordWithWrapperOffsetZero": ["legacy:outer_offset_zero_counts_from_zero"],
        "testInvalidWrapperOffsetV1": ["legacy:outer_offset_below_the_last_inner_one_is_damage"],
        "testSetLogAppendTimeV1": ["legacy:log_append_time_of_the_outer_message_replaces_the_inner_ones"],
        "testSetCreateTimeV1": ["legacy:compressed_set_gives_absolute_offsets"],
        "testZStdCompressionTypeWithV0OrV1": ["legacy:zstd_is_damage_in_old_formats"],
    },
    "SimpleLegacyRecordTest": {
        "testCompressedIterationWithNullValue": ["legacy:null_value_of_a_compressed_message_is_damage"],
        "testCompressedIterationWithEmptyRecords": ["legacy:empty_compressed_set_is_damage"],
        "testIsValidWithTooSmallBuffer": ["batch:too_small_a_size_of_an_old_message_is_damage"],
        "testIsValidWithChecksumMismatch": ["legacy:checksums_of_outer_and_inner_messages_are_verified"],
    },
    "LegacyRecordTest": {
        "testFields": ["legacy:magic_0_has_no_timestamp_and_no_epoch", "legacy:magic_1_has_its_own_timestamp_and_type"],
        "testChecksum": ["any_bytes:flips_in_old_formats"],
        "testEquality": ["java_vectors:reads_as_kafka_reads"],
    },
    "ControlRecordTypeTest": {
        "testParseUnknownType": ["control:unknown_types_are_read_and_ignored"],
        "testParseUnknownVersion": ["control:newer_versions_are_read_as_version_0"],
    },
    "EndTransactionMarkerTest": {
        "testCannotDeserializeUnknownControlType": ["control:control_batches_of_unknown_type_are_skipped"],
        "testIllegalNegativeVersion": ["control:short_null_or_negative_version_keys_are_damage"],
        "testNotEnoughBytes": ["control:short_null_or_negative_version_keys_are_damage"],
        "testDeserializeNewerVersion": ["control:newer_versions_are_read_as_version_0"],
    },
    "Lz4CompressionTest": {
        "testHeaderPrematureEnd": ["compression:damaged_lz4_header", "compression:every_framing_cut_short_is_damage"],
        "testNotSupported": ["compression:damaged_lz4_header"],
        "testBadFrameChecksum": ["compression:damaged_lz4_header"],
        "testBadBlockSize": ["compression:damaged_lz4_header"],
        "testCompression": ["compression:lz4_flag_combinations"],
        "testLz4FramingMagicV1": ["legacy:lz4_of_magic_0_has_a_wrong_header_checksum"],
        "testLz4FramingMagicV0": ["legacy:lz4_of_magic_0_has_a_wrong_header_checksum"],
    },
    "Snappy-, Gzip-, ZstdCompressionTest": {"testCompressionDecompression": ["compression:every_framing_gives_the_records"]},
    "CompletedFetchTest": {
        "testSimple": ["completed_fetch:records_below_the_fetch_offset_are_skipped_in_the_first_batch"],
        "testAbortedTransactionRecordsRemoved": ["aborted:skips_aborted_transactions"],
        "testCommittedTransactionRecordsIncluded": ["aborted:returns_committed_transactions"],
        "testNoRecordsInFetch": ["completed_fetch:feed_of_less_than_a_batch_consumes_nothing"],
        "testCorruptedMessage": ["completed_fetch:good_batches_before_damaged_records_are_delivered_first"],
    },
    "FetcherTest": {
        "testFetcherIgnoresControlRecords": ["control:kafkas_own_marker_is_never_returned_and_moves_the_offset"],
        "testSkippingAbortedTransactions": ["aborted:skips_aborted_transactions"],
        "testReturnCommittedTransactions": ["aborted:returns_committed_transactions"],
        "testReadCommittedWithCommittedAndAbortedTransactions": ["aborted:commits_and_aborts_interleaved"],
        "testMultipleAbortMarkers": ["aborted:multiple_abort_markers"],
        "testReadCommittedAbortMarkerWithNoData": ["aborted:abort_marker_with_no_data"],
        "testUpdatePositionOnEmptyBatch": ["completed_fetch:empty_batch_moves_the_position"],
        "testReadCommittedWithCompactedTopic": ["aborted:compacted_topic"],
        "testReturnAbortedTransactionsInUncommittedMode": ["aborted:uncommitted_mode_returns_aborted_records"],
        "testConsumerPositionUpdatedWhenSkippingAbortedTransactions": ["aborted:position_after_wholly_filtered_batch"],
        "testEmptyControlBatch": ["control:an_empty_control_batch_moves_the_offset_and_ends_nothing"],
        "testParseCorruptedRecord": ["completed_fetch:good_batches_before_damaged_records_are_delivered_first"],
        "testInvalidDefaultRecordBatch": ["batch:raises_for_checksum_mismatch_after_the_good_batches"],
        "testHeaders": ["record:keys_values_and_headers_may_be_null_empty_or_full"],
    },
}


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, names in SCENARIOS.items() for name in names])
def test_tests_of_each_scenario_exist(group: str, name: str) -> None:
    for told in SCENARIOS[group][name]:
        file, test = told.split(":")
        text = HERE.with_name(f"test_{file}.py").read_text()
        assert re.search(rf"^def test_{test}\(", text, re.MULTILINE), told


def written(magic: int, codec: int, base: int, records: list[tuple[int, bytes | None, bytes | None]]) -> bytes:
    """One batch of (timestamp, key, value); for magic 0 and 1 without a codec there is one message only."""
    if magic == 2:
        first = records[0][0]
        made = [Rec(i, key, value, timestamp=timestamp - first) for i, (timestamp, key, value) in enumerate(records)]
        return batch(base, made, codec=codec, timestamp=first, max_timestamp=max(record[0] for record in records))
    if not codec:
        ((timestamp, key, value),) = records
        return legacy_message(base, value, magic=magic, key=key, timestamp=timestamp)
    start = base if magic == 0 else 0
    inner = [legacy_message(start + i, v, magic=magic, key=k, timestamp=t) for i, (t, k, v) in enumerate(records)]
    return legacy_set(base + len(records) - 1, b"".join(inner), codec=codec, magic=magic)


def read(data: bytes) -> list[tuple[object, ...]]:
    """(offset, timestamp, key, value) of all records."""
    return [(row[0], row[1], row[4], row[5]) for row in read_batches(data).rows()]


FIRST: list[tuple[int, bytes | None, bytes | None]] = [(3241324, b"a", b"1"), (234280, b"b", b"2")]
SECOND: list[tuple[int, bytes | None, bytes | None]] = [(238423489, b"c", b"3"), (897839, None, b"4"), (8234020, b"e", None)]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("magic", "codec"), EVERY)
def test_simple_batch_iteration(magic: int, codec: int) -> None:
    data = written(magic, codec, 0, FIRST[:1]) + written(magic, codec, 1, SECOND[:1])
    assert [(b.magic, b.codec, b.base_offset, b.last_offset) for b in RemoteLogInputStream(data)] == [
        (magic, codec, 0, 0),
        (magic, codec, 1, 1),
    ]
    assert read(data) == [(0, 3241324 if magic else -1, b"a", b"1"), (1, 238423489 if magic else -1, b"c", b"3")]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("magic", "codec"), [(magic, codec) for magic, codec in EVERY if magic == 2 or codec])
def test_batch_iteration_with_multiple_records_per_batch(magic: int, codec: int) -> None:
    data = written(magic, codec, 0, FIRST) + written(magic, codec, 2, SECOND)
    assert [(b.base_offset, b.last_offset) for b in RemoteLogInputStream(data)] == [(0, 1), (2, 4)]
    assert read(data) == [(i, t if magic else -1, key, value) for i, (t, key, value) in enumerate(FIRST + SECOND)]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("codec", range(5))
def test_batch_iteration_v2(codec: int) -> None:
    headers = [(b"header-key", b"header-value")]
    records = [Rec(0, b"a", b"1"), Rec(1, b"b", b"2", headers)]
    data = batch(15, records, codec=codec, producer=83843, epoch=9832)
    data += batch(27, [Rec(0, None, b"4"), Rec(1, b"e", None)], codec=codec, producer=83843, epoch=9832, attributes=0x10)
    first, second = RemoteLogInputStream(data)
    assert (first.producer_id, first.leader_epoch, first.is_transactional, first.base_offset) == (83843, 9832, False, 15)
    assert (second.producer_id, second.leader_epoch, second.is_transactional, second.base_offset) == (83843, 9832, True, 27)
    assert [(row[0], row[4], row[5], row[6]) for row in read_batches(data).rows()] == [
        (15, b"a", b"1", []),
        (16, b"b", b"2", [("header-key", b"header-value")]),
        (27, None, b"4", []),
        (28, b"e", None, []),
    ]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("magic", "codec"), EVERY)
def test_batch_iteration_incomplete_batch(magic: int, codec: int) -> None:
    data = written(magic, codec, 0, [(100, None, b"foo")]) + written(magic, codec, 1, [(200, None, b"bar")])
    assert read(data[:-13]) == [(0, 100 if magic else -1, None, b"foo")]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("codec", range(1, 5))
@pytest.mark.parametrize("count", [2, 5])
def test_invalid_record_count_compressed_v2(codec: int, count: int) -> None:
    with pytest.raises(CorruptRecordError):
        read_batches(batch(0, [Rec(0), Rec(1), Rec(2)], codec=codec, count=count, last_delta=4))
