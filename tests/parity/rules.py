"""The public methods of confluent_kafka's Consumer and rules found by trial, each with the test that compares ours.

``SURFACE`` has every public method of the class, ``CONFIGURATION`` the settings that a consumer with direct fetch uses,
``RULES`` what a consumer must keep if it delivers some messages itself. Tests are given as in ``tests.parity.kafka_scenarios``.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CONFIGURATION", "MESSAGES", "RULES", "SURFACE"]

_EVERYTHING = "parity/test_deliveries:all_records_to_the_end_are_delivered"
_START = "parity/test_deliveries:any_start_offset_gives_the_same_records"
_COME_AND_GO = "parity/test_places:partitions_are_added_and_removed_alike"
_WRONG_STATE = "parity/test_groups:calls_in_the_wrong_state_are_refused_alike"
_NONE = "parity/test_calls:invalid_topics_and_assignments_are_refused"
_REST = "parity/test_calls:the_remaining_methods_are_equal"
_FORMS = "parity/test_commits:all_forms_of_commit_give_the_same_offsets"
_STORING = "parity/test_commits:store_offsets_stores_the_applications_offsets"
_AUTOMATIC = "parity/test_commits:store_offsets_is_refused_while_storing_is_automatic"
_CLOSE = "parity/test_commits:close_commits_the_same_offsets"
_GROUP = "parity/test_groups:a_group_of_one_reads_from_the_beginning"
_CALLBACK = "parity/test_groups:callbacks_may_make_the_same_calls"
_POSITIONS = "parity/test_places:positions_are_equal"
_PAUSES = "parity/test_places:pause_and_resume_give_the_same_records"
_END = "parity/test_places:the_end_is_reported_each_time_it_is_reached"
_MESSAGES = "parity/test_calls:messages_are_of_confluent_kafkas_class"
_CONFIGURED = "parity/test_calls:invalid_configurations_are_refused"
_AS_TEXT = "parity/test_calls:settings_as_strings_and_as_values_are_equal"
_LATE = "faults/test_application_faults:a_late_poller_cannot_commit_and_gets_the_plain_consumers_error"
_METRICS = "consumer/test_statistics:statistics_of_both_tiers_arrive_together"

SURFACE: Mapping[str, tuple[str, ...]] = {
    "__init__": (
        _CONFIGURED,
        _AS_TEXT,
        "consumer/test_consumer:configuration_comes_as_mapping_keywords_or_with_a_logger",
    ),
    "__enter__": ("parity/test_calls:leaving_the_context_closes_the_consumer",),
    "__exit__": ("parity/test_calls:leaving_the_context_closes_the_consumer",),
    "assign": (_START, _NONE, _WRONG_STATE),
    "assignment": (_START, _COME_AND_GO),
    "close": (_CLOSE, "parity/test_calls:a_closed_consumer_refuses_all_calls"),
    "cluster_id": (_REST,),
    "commit": (
        _FORMS,
        "parity/test_commits:asynchronous_commits_call_back",
        "parity/test_commits:an_end_cannot_be_committed",
    ),
    "committed": (_FORMS, "parity/test_commits:committed_offsets_of_unknown_partitions_are_equal"),
    "consume": ("parity/test_calls:consume_keeps_its_contract", _EVERYTHING),
    "consumer_group_metadata": (_REST, "parity/test_groups:a_static_member_has_the_same_group_metadata"),
    "get_watermark_offsets": ("parity/test_places:watermarks_are_equal",),
    "incremental_assign": (_COME_AND_GO, _WRONG_STATE),
    "incremental_unassign": (_COME_AND_GO, _WRONG_STATE),
    "list_topics": (_REST,),
    "memberid": (_REST, "parity/test_groups:a_static_member_has_the_same_group_metadata"),
    "offsets_for_times": ("parity/test_places:offsets_for_times_in_the_tier_and_past_the_end",),
    "pause": (_PAUSES, "parity/test_places:pauses_of_unassigned_and_unknown_partitions_are_equal"),
    "poll": ("parity/test_calls:poll_keeps_its_contract", _EVERYTHING),
    "position": (_POSITIONS, _PAUSES),
    "resume": (_PAUSES, "parity/test_places:pauses_of_unassigned_and_unknown_partitions_are_equal"),
    "seek": (
        "parity/test_places:seeks_between_and_within_tiers_are_equal",
        "parity/test_places:seeks_to_logical_offsets_and_out_of_range_are_equal",
        "parity/test_places:refused_seeks_change_nothing",
    ),
    "set_sasl_credentials": (_REST,),
    "store_offsets": (_STORING, _AUTOMATIC),
    "subscribe": (_GROUP, _NONE, "parity/test_groups:an_unknown_topic_is_reported_once_and_others_are_read"),
    "unassign": (_COME_AND_GO,),
    "unsubscribe": ("parity/test_groups:a_new_subscription_continues_at_the_groups_commit",),
}
"""By the class's own names (A1)."""

MESSAGES: Mapping[str, tuple[str, ...]] = {
    "accessors give what the broker path gives, absent headers and latency too": (_EVERYTHING, _MESSAGES),
    "the type is exact, and accepted by commit and store_offsets": (_MESSAGES, _FORMS),
    "pickled, unhashable, falsy without a value": (_MESSAGES,),
    "partitions are told with offset, leader epoch, metadata and error": (_FORMS, _POSITIONS),
}
"""Messages and partitions (A2)."""

CONFIGURATION: Mapping[str, tuple[str, ...]] = {
    "enable.auto.offset.store": (_CLOSE, _AUTOMATIC, _STORING),
    "enable.auto.commit": (_CLOSE, _GROUP),
    "auto.commit.interval.ms": ("consumer/test_offsets:auto_commit_commits_while_a_partition_is_read_directly",),
    "enable.partition.eof": (_END, "parity/test_places:no_end_is_reported_unless_configured"),
    "isolation.level": (_EVERYTHING,),
    "auto.offset.reset": (_START, "parity/test_commits:a_consumer_continues_at_the_groups_commit"),
    "max.poll.interval.ms": (_LATE,),
    "group.protocol": (_GROUP, _CALLBACK),
    "partition.assignment.strategy": (_GROUP, _CALLBACK),
    "fetch.message.max.bytes": (_EVERYTHING,),
    "fetch.max.bytes": (_EVERYTHING,),
    "queued.max.messages.kbytes": (_EVERYTHING,),
    "queued.min.messages": (_EVERYTHING,),
    "check.crcs": (_EVERYTHING,),
    "client.rack": ("integration/test_follower_fetch:all_records_outside_the_store_come_from_the_racks_replica",),
    "stats_cb": (_METRICS,),
    "on_commit": ("parity/test_commits:asynchronous_commits_call_back",),
    "logger": ("consumer/test_consumer:configuration_comes_as_mapping_keywords_or_with_a_logger",),
    "group.instance.id": ("parity/test_groups:a_static_member_has_the_same_group_metadata",),
    "security.protocol": ("integration/test_tls:everything_over_tls_equals_the_broker_and_comes_from_the_store",),
    "sasl.mechanism": ("integration/test_sasl:location_requests_use_the_consumers_own_mechanism",),
}
"""By librdkafka's names (A3)."""

RULES: Mapping[int, tuple[str, ...]] = {
    1: (_STORING,),
    2: ("parity/test_commits:a_rewind_is_committed_only_if_its_offset_is_given", _FORMS),
    3: (_CLOSE, _GROUP, "consumer/test_callbacks:lost_partitions_are_gone_after_the_callback_and_not_stored"),
    4: (_PAUSES,),
    5: ("consumer/test_routing:the_broker_continues_at_the_exact_next_offset_with_its_epoch",),
    6: (_CALLBACK,),
    7: ("parity/test_places:a_pause_outlives_the_assignment", "consumer/test_direct_consumer:a_pause_outlives_the_assignment"),
    8: ("faults/test_application_faults:a_second_thread_may_close_while_the_first_one_polls",),
    9: (
        "parity/test_groups:an_exception_of_a_callback_is_raised_by_its_serving_call",
        "consumer/test_callbacks:nothing_is_lost_when_a_callback_raises",
    ),
    10: (
        "consumer/test_consumer:a_subclass_keeps_its_methods_and_reaches_ours",
        "consumer/test_consumer:deserializers_work_over_both_tiers",
        "parity/test_calls:leaving_the_context_closes_the_consumer",
    ),
    11: ("consumer/test_callbacks:what_was_gathered_before_a_revocation_is_not_handed_out",),
    12: ("integration/test_librdkafka_mock:librdkafkas_mock_is_a_broker_without_the_dialect",),
}
"""By their numbers (A4): storing what was never fetched; commits that only rise; storing on revocation; pause and seek; resume
before seek; what a rebalance callback may do; pauses that outlive assignments; one thread at a time; exceptions of callbacks;
subclasses; what a revocation drops; what librdkafka's mock cluster cannot do."""
