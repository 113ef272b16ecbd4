"""Kafka's tests of its own consumers' fetchers, by name, each with our tests of the same behaviour or the reason for none.

A test of ours is given by file and name: ``parity/test_places:a_seek_carries_its_leader_epoch`` is in tests/parity. The
names are those of Kafka 4.3's ``FetcherTest`` (the classic consumer) and ``FetchRequestManagerTest`` (the asynchronous one),
which have most tests in common.

References: apache/kafka, clients/src/test/java/org/apache/kafka/clients/consumer/internals.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["NOT_HERE", "ONLY_IN", "RESTATED", "SUITES", "names_of"]

SUITES = ("FetcherTest", "FetchRequestManagerTest")

_EVERYTHING = "parity/test_deliveries:all_records_to_the_end_are_delivered"
_START = "parity/test_deliveries:any_start_offset_gives_the_same_records"
_PAUSES = "parity/test_places:pause_and_resume_give_the_same_records"
_SEEKS = "parity/test_places:seeks_between_and_within_tiers_are_equal"
_COME_AND_GO = "parity/test_places:partitions_are_added_and_removed_alike"
_POSITIONS = "parity/test_places:positions_are_equal"
_SEVERAL = "parity/test_places:several_partitions_are_each_read_in_order_to_their_end"
_CALLBACK = "parity/test_groups:callbacks_may_make_the_same_calls"
_REBALANCE = "faults/test_application_faults:a_rebalance_during_requests_delivers_no_earlier_position"
_ELECTION = "location/test_broker:the_new_leader_is_asked_if_the_old_one_is_gone"

RESTATED: Mapping[str, tuple[str, ...]] = {
    # what is fetched, and from which node
    "testFetchNormal": (_EVERYTHING,),
    "testFetchWithNoTopicId": ("location/test_leaders:fetch_names_topics_by_id_if_both_sides_can",),
    "testFetchWithTopicId": ("location/test_broker:topic_ids_are_used_if_both_sides_support_them",),
    "testFetchForgetTopicIdWhenUnassigned": (_COME_AND_GO,),
    "testFetchForgetTopicIdWhenReplaced": (
        "integration/test_broker_faults:f65_a_recreated_topic_is_never_read_from_the_old_ones_tier",
    ),
    "testFetchTopicIdUpgradeDowngrade": ("integration/test_shim_broker:every_offered_version_is_granted",),
    "testFetchSkipsBlackedOutNodes": ("location/test_broker:an_unreachable_peer_is_an_error_without_an_immediate_retry",),
    "testFetchMaxPollRecords": ("parity/test_calls:consume_keeps_its_contract",),
    "testFetchMaxPollRecordsUnaligned": ("parity/test_calls:consume_keeps_its_contract",),
    "testFetchNonContinuousRecords": ("records/test_aborted:compacted_topic",),
    "testHeaders": ("records/test_record:keys_values_and_headers_may_be_null_empty_or_full", _EVERYTHING),
    "testQuotaMetrics": ("location/test_broker:a_throttling_broker_gets_no_request_and_its_metadata_is_used",),
    "testFetcherMetrics": ("consumer/test_statistics:statistics_of_both_tiers_arrive_together",),
    "testFetchCompletedBeforeHandlerAdded": ("fetch/test_remote_reader:a_stopped_reader_delivers_nothing",),
    "testConsumingViaIncrementalFetchRequests": (_SEVERAL,),
    "testFetcherConcurrency": (
        "fetch/test_remote_reader:a_thousand_partitions_are_all_read",
        "faults/test_application_faults:a_second_thread_may_close_while_the_first_one_polls",
    ),
    "testCloseShouldBeIdempotent": ("parity/test_calls:a_closed_consumer_refuses_all_calls",),
    # leader epochs
    "testMissingLeaderEpochInRecords": ("consumer/test_partition_flow:a_leader_epoch_goes_with_an_offset_only",),
    "testLeaderEpochInConsumerRecord": (_EVERYTHING,),
    "testEpochSetInFetchRequest": ("integration/test_shim_broker:an_unknown_or_diverging_epoch_comes_from_the_broker",),
    "testSubscriptionPositionUpdatedWithEpoch": ("parity/test_places:a_seek_carries_its_leader_epoch", _POSITIONS),
    "testTruncationDetected": (
        "integration/test_broker_faults:f63_truncation_below_the_position_is_found_as_by_a_plain_consumer",
    ),
    # assignments and rebalances with data in flight
    "testInflightFetchOnPendingPartitions": (_CALLBACK,),
    "testFetchingPendingPartitions": (_CALLBACK,),
    "testInflightFetchResultNotProcessedForPartitionsAwaitingCallbackCompletion": (_CALLBACK,),
    "testFetchResultNotProcessedForPartitionsAwaitingCallbackCompletion": (_CALLBACK,),
    "testClearBufferedDataForTopicPartitions": (_COME_AND_GO,),
    "testFetchAfterPartitionWithFetchedRecordsIsUnassigned": (_COME_AND_GO,),
    "testFetchDuringEagerRebalance": (_REBALANCE,),
    "testFetchDuringCooperativeRebalance": (_REBALANCE,),
    "testFetchRequestWithBufferedPartitionNotAssigned": (_COME_AND_GO,),
    "testFetchRequestWithBufferedPartitionPendingRevocation": (
        "consumer/test_callbacks:what_was_gathered_before_a_revocation_is_not_handed_out",
    ),
    "testFetchRequestWithBufferedPartitionPendingAssignment": (_CALLBACK,),
    # pauses
    "testInFlightFetchOnPausedPartition": (_PAUSES,),
    "testFetchOnPausedPartition": (_PAUSES, "consumer/test_routing:a_paused_partition_is_not_read"),
    "testFetchOnCompletedFetchesForPausedAndResumedPartitions": (_PAUSES,),
    "testFetchOnCompletedFetchesForSomePausedPartitions": (_SEVERAL,),
    "testFetchOnCompletedFetchesForAllPausedPartitions": (_PAUSES,),
    "testPartialFetchWithPausedPartitions": (_PAUSES, _SEVERAL),
    "testFetchDiscardedAfterPausedPartitionResumedAndSoughtToNewOffset": (_PAUSES,),
    "testFetchDiscardedAfterPausedPartitionResumedAndSeekedToNewOffset": (_PAUSES,),
    "testFetchRequestWithBufferedPartitionPaused": (_PAUSES,),
    # seeks, positions, offsets out of range
    "testFetchedRecordsAfterSeek": (_SEEKS, "consumer/test_direct_consumer:seek_while_records_fly_delivers_nothing_of_before"),
    "testSeekBeforeException": (_START, "parity/test_places:seeks_to_logical_offsets_and_out_of_range_are_equal"),
    "testFetchOffsetOutOfRange": (_START,),
    "testStaleOutOfRangeError": ("parity/test_places:seeks_to_logical_offsets_and_out_of_range_are_equal",),
    "testFetchOffsetOutOfRangeException": (_START,),
    "testFetchPositionAfterException": (_START,),
    "testFetchRequestWithBufferedPartitionMissingPosition": (_POSITIONS,),
    "testFetchRequestWithBufferedPartitionResetOffset": (_START,),
    "testUpdatePositionWithLastRecordMissingFromBatch": ("records/test_aborted:compacted_topic",),
    "testUpdatePositionOnEmptyBatch": ("records/test_completed_fetch:empty_batch_moves_the_position",),
    # errors
    "testFetchError": ("location/test_broker:other_errors_are_final",),
    "testFetchRequestInternalError": ("location/test_broker:an_answer_that_does_not_parse_closes_the_connection",),
    "testUnauthorizedTopic": ("location/test_broker:refused_offsets_are_an_error",),
    "testHandleFetchResponseError": (
        "location/test_broker:stale_metadata_is_refreshed_and_retried_once",
        "location/test_broker:other_errors_are_final",
    ),
    "testFetchDisconnected": ("location/test_broker:a_closed_idle_connection_is_replaced",),
    "testCorruptMessageError": ("fetch/test_remote_reader:a_permanent_failure_goes_to_the_broker_at_the_next_offset",),
    "testParseCorruptedRecord": ("records/test_completed_fetch:good_batches_before_damaged_records_are_delivered_first",),
    "testParseInvalidRecordBatch": ("records/test_batch:raises_for_checksum_mismatch_after_the_good_batches",),
    "testInvalidDefaultRecordBatch": ("records/test_batch:raises_for_checksum_mismatch_after_the_good_batches",),
    "testFetchedRecordsRaisesOnSerializationErrors": (
        "consumer/test_deserializing:what_cannot_be_deserialised_is_raised_as_upstream_raises_it",
    ),
    "testWhenFetchResponseReturnsALeaderShipChangeErrorButNoNewLeaderInformation": (
        "location/test_leaders:a_broker_that_is_no_longer_leader_is_replaced",
    ),
    "testWhenFetchResponseReturnsALeaderShipChangeErrorAndNewLeaderInformation": (_ELECTION,),
    "testFetchRequestWithBufferedPartitionMissingLeader": (_ELECTION,),
    # transactions
    "testFetcherIgnoresControlRecords": (
        "records/test_control:kafkas_own_marker_is_never_returned_and_moves_the_offset",
        _EVERYTHING,
    ),
    "testSkippingAbortedTransactions": ("records/test_aborted:skips_aborted_transactions", _EVERYTHING),
    "testReturnCommittedTransactions": ("records/test_aborted:returns_committed_transactions", _EVERYTHING),
    "testReadCommittedWithCommittedAndAbortedTransactions": (
        "records/test_aborted:commits_and_aborts_interleaved",
        _EVERYTHING,
    ),
    "testMultipleAbortMarkers": ("records/test_aborted:multiple_abort_markers",),
    "testReadCommittedAbortMarkerWithNoData": ("records/test_aborted:abort_marker_with_no_data",),
    "testReadCommittedWithCompactedTopic": ("records/test_aborted:compacted_topic",),
    "testReturnAbortedTransactionsInUncommittedMode": (
        "records/test_aborted:uncommitted_mode_returns_aborted_records",
        _EVERYTHING,
    ),
    "testConsumerPositionUpdatedWhenSkippingAbortedTransactions": (
        "records/test_aborted:position_after_wholly_filtered_batch",
        _EVERYTHING,
    ),
    "testEmptyControlBatch": ("records/test_control:an_empty_control_batch_moves_the_offset_and_ends_nothing",),
    # delivered and buffered records
    "testCompletedFetchRemoval": (_SEVERAL,),
    "testFetchRequestWithBufferedPartitions": ("fetch/test_remote_reader:memory_limits_the_read_ahead",),
}
"""By Kafka's name of a scenario; the same name in both of its classes is the same scenario."""

_SESSIONS = "fetch sessions are librdkafka's own affair; locations are asked without one"
_REPLICAS = "a follower has no more of the tier than its leader, so locations are asked of leaders alone"
_THREADS = "about how the asynchronous consumer's background thread is asked for requests; librdkafka has its own"
_NUMBERS = "about Java's metric names; librdkafka's statistics are its own, and those of direct fetch are tested by name"

NOT_HERE: Mapping[str, str] = {
    "testFetcherCloseClosesFetchSessionsInBroker": _SESSIONS,
    "testFetcherSessionEpochUpdate": _SESSIONS,
    "testFetchSessionIdError": _SESSIONS,
    "testPreferredReadReplica": _REPLICAS,
    "testFetchDisconnectedShouldClearPreferredReadReplica": _REPLICAS,
    "testFetchDisconnectedShouldNotClearPreferredReadReplicaIfUnassigned": _REPLICAS,
    "testFetchErrorShouldClearPreferredReadReplica": _REPLICAS,
    "testPreferredReadReplicaOffsetError": _REPLICAS,
    "testPollWithoutCreateFetchRequests": _THREADS,
    "testPollWithCreateFetchRequests": _THREADS,
    "testPollWithCreateFetchRequestsError": _THREADS,
    "testPollWithRedundantCreateFetchRequests": _THREADS,
    "testFetcherLeadMetric": _NUMBERS,
    "testReadCommittedLagMetric": _NUMBERS,
    "testFetchResponseMetrics": _NUMBERS,
    "testFetchResponseMetricsWithSkippedOffset": _NUMBERS,
    "testFetchResponseMetricsWithOnePartitionError": _NUMBERS,
    "testFetchResponseMetricsWithOnePartitionAtTheWrongOffset": _NUMBERS,
    "testFetcherMetricsTemplates": _NUMBERS,
    "testFetcherDontCacheAnyData": "about the Java object of an answer, which must read its partitions anew each time",
}
"""The scenarios that no test of ours restates, and why."""

ONLY_IN: Mapping[str, tuple[str, ...]] = {
    "FetcherTest": (
        "testFetchMaxPollRecordsUnaligned",
        "testFetchDiscardedAfterPausedPartitionResumedAndSoughtToNewOffset",
        "testFetcherConcurrency",
        "testFetcherSessionEpochUpdate",
        "testTruncationDetected",
        "testFetcherDontCacheAnyData",
    ),
    "FetchRequestManagerTest": (
        "testInflightFetchResultNotProcessedForPartitionsAwaitingCallbackCompletion",
        "testFetchResultNotProcessedForPartitionsAwaitingCallbackCompletion",
        "testFetchDiscardedAfterPausedPartitionResumedAndSeekedToNewOffset",
        "testFetchSessionIdError",
        "testPollWithoutCreateFetchRequests",
        "testPollWithCreateFetchRequests",
        "testPollWithCreateFetchRequestsError",
        "testPollWithRedundantCreateFetchRequests",
        "testFetchRequestWithBufferedPartitions",
        "testFetchRequestWithBufferedPartitionNotAssigned",
        "testFetchRequestWithBufferedPartitionMissingLeader",
        "testFetchRequestWithBufferedPartitionMissingPosition",
        "testFetchRequestWithBufferedPartitionPaused",
        "testFetchRequestWithBufferedPartitionPendingRevocation",
        "testFetchRequestWithBufferedPartitionPendingAssignment",
        "testFetchRequestWithBufferedPartitionResetOffset",
    ),
}
"""Which scenarios only one of the two classes has."""


def names_of(suite: str) -> set[str]:
    """Returns all scenarios of one of :data:`SUITES`."""
    (other,) = set(SUITES) - {suite}
    return (RESTATED.keys() | NOT_HERE.keys()) - set(ONLY_IN[other])
