"""The surface of confluent_kafka's Consumer, and what was found out about it by trial: which test says that ours is the same.

``SURFACE`` has every public method of the class, ``CONFIGURATION`` the settings that a consumer with direct fetch acts on,
``RULES`` what one has to keep that delivers some messages itself. Tests are named as in ``tests.parity.kafka_scenarios``.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CONFIGURATION", "MESSAGES", "RULES", "SURFACE"]

_EVERYTHING = "parity/test_deliveries:everything_to_the_end"
_START = "parity/test_deliveries:any_start"
_COME_AND_GO = "parity/test_places:partitions_come_and_go"
_WRONG_STATE = "parity/test_groups:calls_in_the_wrong_state"
_NONE = "parity/test_calls:topics_and_assignments_that_are_none"
_REST = "parity/test_calls:the_rest_of_the_surface"
_FORMS = "parity/test_commits:forms_of_commit"
_STORING = "parity/test_commits:storing_is_the_applications_own"
_AUTOMATIC = "parity/test_commits:storing_is_refused_while_it_is_automatic"
_CLOSE = "parity/test_commits:what_close_commits"
_GROUP = "parity/test_groups:a_group_of_one_from_the_beginning"
_CALLBACK = "parity/test_groups:what_a_callback_may_do"
_POSITIONS = "parity/test_places:positions"
_PAUSES = "parity/test_places:pauses"
_END = "parity/test_places:the_end_is_told_each_time_it_is_reached"
_MESSAGES = "parity/test_calls:messages_are_confluent_kafkas_own"
_CONFIGURED = "parity/test_calls:configurations_that_are_none"
_AS_TEXT = "parity/test_calls:settings_as_text_and_as_values_mean_the_same"
_LATE = "faults/test_application_faults:late_poller_cannot_commit_and_is_told_as_by_the_plain_consumer"
_METRICS = "consumer/test_statistics:statistics_of_both_tiers_arrive_together"

SURFACE: Mapping[str, tuple[str, ...]] = {
    "__init__": (
        _CONFIGURED,
        _AS_TEXT,
        "consumer/test_consumer:configuration_comes_as_mapping_keywords_or_with_a_logger",
    ),
    "__enter__": ("parity/test_calls:leaving_its_context_closes_it",),
    "__exit__": ("parity/test_calls:leaving_its_context_closes_it",),
    "assign": (_START, _NONE, _WRONG_STATE),
    "assignment": (_START, _COME_AND_GO),
    "close": (_CLOSE, "parity/test_calls:closed_is_closed"),
    "cluster_id": (_REST,),
    "commit": (
        _FORMS,
        "parity/test_commits:commits_that_are_not_waited_for_call_back",
        "parity/test_commits:an_end_cannot_be_committed",
    ),
    "committed": (_FORMS, "parity/test_commits:committed_offsets_of_what_is_not_there"),
    "consume": ("parity/test_calls:consume_keeps_its_contract", _EVERYTHING),
    "consumer_group_metadata": (_REST, "parity/test_groups:a_static_member_and_the_figures_of_its_group"),
    "get_watermark_offsets": ("parity/test_places:watermarks",),
    "incremental_assign": (_COME_AND_GO, _WRONG_STATE),
    "incremental_unassign": (_COME_AND_GO, _WRONG_STATE),
    "list_topics": (_REST,),
    "memberid": (_REST, "parity/test_groups:a_static_member_and_the_figures_of_its_group"),
    "offsets_for_times": ("parity/test_places:offsets_for_times_in_the_tier_and_past_the_end",),
    "pause": (_PAUSES, "parity/test_places:pauses_of_what_is_not_assigned_and_of_what_is_none"),
    "poll": ("parity/test_calls:poll_keeps_its_contract", _EVERYTHING),
    "position": (_POSITIONS, _PAUSES),
    "resume": (_PAUSES, "parity/test_places:pauses_of_what_is_not_assigned_and_of_what_is_none"),
    "seek": (
        "parity/test_places:seeks_between_and_within_tiers",
        "parity/test_places:seeks_to_logical_places_and_beyond",
        "parity/test_places:seeks_that_are_refused_change_nothing",
    ),
    "set_sasl_credentials": (_REST,),
    "store_offsets": (_STORING, _AUTOMATIC),
    "subscribe": (_GROUP, _NONE, "parity/test_groups:an_unknown_topic_is_told_once_and_others_are_read"),
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
    "enable.partition.eof": (_END, "parity/test_places:no_end_is_told_where_none_is_asked_for"),
    "isolation.level": (_EVERYTHING,),
    "auto.offset.reset": (_START, "parity/test_commits:continues_where_the_group_stands"),
    "max.poll.interval.ms": (_LATE,),
    "group.protocol": (_GROUP, _CALLBACK),
    "partition.assignment.strategy": (_GROUP, _CALLBACK),
    "fetch.message.max.bytes": (_EVERYTHING,),
    "fetch.max.bytes": (_EVERYTHING,),
    "queued.max.messages.kbytes": (_EVERYTHING,),
    "queued.min.messages": (_EVERYTHING,),
    "check.crcs": (_EVERYTHING,),
    "client.rack": ("integration/test_follower_fetch:all_that_is_not_in_the_store_comes_from_the_racks_replica",),
    "stats_cb": (_METRICS,),
    "on_commit": ("parity/test_commits:commits_that_are_not_waited_for_call_back",),
    "logger": ("consumer/test_consumer:configuration_comes_as_mapping_keywords_or_with_a_logger",),
    "group.instance.id": ("parity/test_groups:a_static_member_and_the_figures_of_its_group",),
    "security.protocol": ("integration/test_tls:everything_over_tls_equals_the_broker_and_comes_from_the_store",),
    "sasl.mechanism": ("integration/test_sasl:locations_are_asked_by_the_consumers_own_mechanism",),
}
"""By librdkafka's names (A3)."""

RULES: Mapping[int, tuple[str, ...]] = {
    1: (_STORING,),
    2: ("parity/test_commits:a_rewind_is_committed_only_by_name", _FORMS),
    3: (_CLOSE, _GROUP, "consumer/test_callbacks:lost_partitions_are_gone_after_the_callback_and_not_stored"),
    4: (_PAUSES,),
    5: ("consumer/test_routing:the_broker_continues_at_the_exact_next_offset_with_its_epoch",),
    6: (_CALLBACK,),
    7: ("parity/test_places:a_pause_outlives_the_assignment", "consumer/test_direct_consumer:a_pause_outlives_the_assignment"),
    8: ("faults/test_application_faults:a_second_thread_may_close_while_the_first_one_polls",),
    9: (
        "parity/test_groups:what_a_callback_raises_comes_out_of_the_call_that_served_it",
        "consumer/test_callbacks:nothing_is_lost_when_a_callback_raises",
    ),
    10: (
        "consumer/test_consumer:a_subclass_keeps_its_methods_and_reaches_ours",
        "consumer/test_consumer:deserializers_work_over_both_tiers",
        "parity/test_calls:leaving_its_context_closes_it",
    ),
    11: ("consumer/test_callbacks:what_was_gathered_before_a_revocation_is_not_handed_out",),
    12: ("integration/test_librdkafka_mock:librdkafkas_mock_is_a_broker_without_the_dialect",),
}
"""By their numbers (A4): storing what was never fetched; commits that only rise; storing on revocation; pause and seek; resume
before seek; what a rebalance callback may do; pauses that outlive assignments; one thread at a time; exceptions of callbacks;
subclasses; what a revocation drops; what the mock cluster cannot do."""
