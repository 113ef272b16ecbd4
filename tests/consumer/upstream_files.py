"""confluent-kafka-python's own tests of Consumer by file and scenario, and the test here that covers each.

The list covers its history up to 2.16. A moved file has its newest name, and a file's scenarios are those of its newest
known version. Files that were not found are missing.

    empty          a test with the same name, in test_upstream_scenarios.py
    file::test     a test below tests/; one test may cover several scenarios
    not ours: ...  the reason why no test covers it
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["ELSEWHERE", "FILES", "READ_AT"]

READ_AT = "2.16"
_HERE = "consumer/test_upstream_scenarios.py::"
_GATE = "consumer/test_call_gate.py::"
_SHARED = _GATE + "test_threads_that_share_a_consumer_get_each_record_once"
_COROUTINES = _GATE + "test_coroutines_that_share_a_consumer_get_each_record_once"
_SAME_CALLER = _GATE + "test_gate_is_open_to_another_thread_of_the_same_caller"
_SHUT = _GATE + "test_gate_nests_for_its_caller_and_is_shut_for_others"
_CLOSES = _GATE + "test_a_call_with_an_end_returns_what_it_has_and_close_commits_that"
_CALLBACK = "parity/test_groups.py::test_callbacks_may_make_the_same_calls"
_RAISES = "parity/test_groups.py::test_an_exception_of_a_callback_is_raised_by_its_serving_call"
_COMMITS = "parity/test_commits.py::test_asynchronous_commits_call_back"
_SIGNAL = "consumer/test_interrupts.py::test_call_after_an_interrupted_wait_for_the_store_continues"
_SHORT = _HERE + "test_calls_that_wait_for_a_while_or_not_at_all_give_nothing"
_CONTEXT = _HERE + "test_a_context_closes_its_consumer_also_when_something_is_raised"
_BY_HAND = _HERE + "test_a_context_may_be_entered_and_left_by_hand_and_when_it_is_closed"
_CONFIGURED = _HERE + "test_what_a_callback_of_the_configuration_raises_comes_out"
_REFUSED = _HERE + "test_a_call_that_is_refused_leaves_the_consumer_to_other_threads"
_NESTED = _HERE + "test_calls_from_a_callback_of_the_configuration_are_its_callers_own"
_CLOSED = _HERE + "test_closed_is_closed"
_STATISTICS = "consumer/test_statistics.py::test_statistics_of_both_tiers_arrive_together"
_LOST = "consumer/test_callbacks.py::test_lost_partitions_are_gone_after_the_callback_and_not_stored"
_AIO = "consumer/test_aio.py::"
_BOTH_TIERS = _AIO + "test_the_same_records_of_both_tiers_come_to_a_coroutine"
_ARGUMENTS = _AIO + "test_the_constructors_of_upstream_keep_their_arguments_and_refusals"
_DESERIALIZED = "consumer/test_deserializing.py::test_keys_and_values_of_both_tiers_are_what_upstreams_class_gives"
_REFUSED_VALUE = "consumer/test_deserializing.py::test_what_cannot_be_deserialised_is_raised_as_upstream_raises_it"
_WRAPS = "not ours: upstream's own wrapping of coroutines; ours replaces the inner consumer alone"
_REJECTS = "not ours: 2.16 lets a second caller wait, where an earlier form of the gate refused it"
_GOES_THROUGH = "consumer/test_upstream_configuration.py::test_on_everything_but_the_storing_of_offsets_goes_through"
_LOCKS = "not ours: what the C code does with the caller's own list or message while other threads change it"
_SPEED = "not ours: a speed; tests/benchmarks measure ours"


def _all(covered_by: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, covered_by)


FILES: Mapping[str, Mapping[str, str]] = {
    "test_Consumer.py": {
        **_all("", "test_basic_api", "test_store_offsets", "test_on_commit", "test_subclassing", "test_offsets_for_times"),
        **_all(_CLOSED, "test_multiple_close_does_not_throw_exception", "test_any_method_after_close_throws_exception"),
        "test_calling_store_offsets_after_close_throws_erro": _CLOSED,
        "test_consumer_without_groupid": _HERE + "test_consumer_without_group_id",
        **_all(_CONFIGURED, "test_callback_exception_no_system_error", "test_error_callback_exception_different_error_types"),
        **_all(_CONTEXT, "test_consumer_context_manager_basic", "test_consumer_context_manager_exception_propagation"),
        "test_consumer_context_manager_multiple_instances": _CONTEXT,
        **_all(_BY_HAND, "test_consumer_context_manager_exit_with_exceptions", "test_consumer_context_manager_after_exit"),
        "test_uninitialized_consumer_methods": _HERE + "test_a_consumer_whose_constructor_was_not_called_is_a_closed_one",
    },
    "test_Wakeable.py": {
        **_all(_SIGNAL, "test_consumer_wakeable_poll_interruptibility_and_messages"),
        **_all(_SIGNAL, "test_consumer_wakeable_consume_interruptibility_and_messages", "test_can_be_interrupted"),
        **_all(_SIGNAL, "test_check_signals_between_chunks_utility_function", "test_utilities_interaction"),
        **_all(_SHORT, "test_consumer_wakeable_poll_edge_cases", "test_consumer_wakeable_consume_edge_cases"),
        **_all(_SHORT, "test_calculate_chunk_timeout_utility_function", "test_short_timeout_not_chunked"),
    },
    "test_consumer_gate.py": {
        "test_sequential_calls_from_same_thread_never_raise_spuriously": _REFUSED,
        "test_gate_identity_matches_calling_thread": _REFUSED,
        "test_gate_released_after_error_return_path": _REFUSED,
        "test_gate_released_after_every_local_method": _SHARED,
        "test_reentrant_call_from_stats_cb_during_poll_succeeds": _NESTED,
        "test_reentrant_call_error_in_stats_cb_releases_gate": _NESTED,
        "test_identity_match_admits_across_threads_mismatch_waits": _SAME_CALLER,
        "test_zero_identity_falls_back_to_own_thread": _SHUT,
        **_all(_SHARED, "test_concurrent_call_waits_while_poll_in_progress", "test_many_waiters_all_eventually_succeed"),
    },
    "test_misc.py": {
        "test_error_cb": _CONFIGURED,
        "test_stats_cb": _STATISTICS,
        "test_unordered_dict": "not ours: a plug-in of librdkafka that it does not come with",
        "test_set_sasl_credentials_api": _HERE + "test_credentials_may_be_set",
        "test_consumer_config_property": "not ours: later than 2.16; upstream's own attribute",
    },
    "test_oauth_cb.py": {
        **_all(_GOES_THROUGH, "test_oauth_cb", "test_oauth_cb_principal_sasl_extensions", "test_oauth_cb_failure"),
        **_all(_GOES_THROUGH, "test_oauth_cb_token_refresh_success", "test_oauth_cb_token_refresh_failure"),
        **_all(_WRAPS, "test_aio_oauth_cb", "test_aio_oauth_cb_principal_sasl_extensions", "test_aio_oauth_cb_failure"),
        **_all(_WRAPS, "test_aio_oauth_cb_token_refresh_success", "test_aio_oauth_cb_token_refresh_failure"),
    },
    "test_log.py": _all(
        "consumer/test_consumer.py::test_configuration_comes_as_mapping_keywords_or_with_a_logger",
        "test_logging_consumer",
        "test_logging_constructor",
        "test_consumer_logger_logging_in_given_format",
    )
    | _all("not ours: the old Avro class, which builds upstream's consumer", "test_logging_avro_consumer"),
    "test_DeserializingConsumer.py": {
        **_all(_DESERIALIZED, "test_deserialize_both", "test_deserialize_processes_key_before_value"),
        "test_deserialize_serialization_context_fields": _DESERIALIZED,
        **_all(_REFUSED_VALUE, "test_key_failure_short_circuits_value", "test_value_failure_raises"),
        **_all(
            "not ours: a message without a topic, which no broker and no store gives",
            "test_missing_topic_is_a_value_deserialization_error",
            "test_missing_topic_is_a_key_deserialization_error_first",
            "test_missing_topic_passes_through_without_deserializers",
        ),
    },
    "test_AIOConsumer.py": {
        **_all(_ARGUMENTS, "test_constructor_executor_handling", "test_constructor_invalid_max_workers"),
        **_all(_BOTH_TIERS, "test_poll_success", "test_consume_success", "test_subscribe_with_callbacks"),
        "test_async_context_manager": _BOTH_TIERS,
        **_all(_COROUTINES, "test_multiple_concurrent_operations", "test_concurrent_reentrant_calls_sharing_lock_serialize"),
        **_all(_WRAPS, "test_concurrent_operations_error_handling", "test_network_error_handling"),
        **_all(_WRAPS, "test_call_method_executor_usage", "test_call_presents_nonzero_identity_to_blocking_task"),
        **_all(_WRAPS, "test_call_generates_different_identities_for_independent_calls"),
        **_all(_WRAPS, "test_reentrant_call_from_wrapped_callback_reuses_enclosing_identity"),
        **_all(_WRAPS, "test_identity_does_not_leak_into_recycled_worker_thread"),
        **_all(_WRAPS, "test_call_acquires_and_releases_context_bound_lock"),
        **_all(_WRAPS, "test_wrap_callback_binds_a_fresh_lock_per_invocation"),
        **_all(_WRAPS, "test_get_or_generate_id_returns_nonzero_and_distinct_identities"),
        **_all(_WRAPS, "test_active_sets_current_id_reuses_for_get_or_generate_id_then_resets_on_exit"),
        **_all(_WRAPS, "test_active_nesting_restores_outer_identity", "test_active_nesting_with_lock_restores_outer_lock"),
        **_all(_WRAPS, "test_generated_identity_stays_within_unsigned_long_mask"),
        **_all(_WRAPS, "test_active_with_lock_binds_current_lock_then_resets_to_none"),
        **_all(_WRAPS, "test_active_without_lock_arg_clears_outer_lock_for_the_block"),
    },
    "concurrency/test_memory_safety.py": _all(
        _LOCKS, "test_assign_torn_read_from_list_mutation", "test_subscribe_races_topic_list_mutation"
    ),
    "concurrency/test_message_thread_safety.py": {"*": _LOCKS},
    "integration/consumer/test_incremental_assign.py": {"test_incremental_assign": ""},
    "integration/consumer/test_consumer_store_offset.py": {
        "test_read_after_commit_offset_only": _HERE + "test_read_after_a_commit_of_stored_offsets"
    },
    "integration/consumer/test_consumer_topicpartition_metadata.py": {
        "test_consumer_topicpartition_metadata": _HERE + "test_metadata_of_commits"
    },
    "integration/consumer/test_consumer_memberid.py": {"test_consumer_memberid": _HERE + "test_member_id"},
    "integration/consumer/test_consumer_clusterid.py": {"test_consumer_clusterid": _HERE + "test_cluster_id"},
    "integration/consumer/test_consumer_wakeable_poll_consume.py": {
        "test_poll_message_delivery_with_wakeable_pattern": "parity/test_calls.py::test_poll_keeps_its_contract",
        "test_consume_message_delivery_with_wakeable_pattern": "parity/test_calls.py::test_consume_keeps_its_contract",
    },
    "integration/consumer/test_consumer_error.py": {
        "test_consume_error": _DESERIALIZED,
        "test_consume_error_commit": "parity/test_commits.py::test_an_end_cannot_be_committed",
        "test_consume_error_store_offsets": "parity/test_commits.py::test_store_offsets_is_refused_while_storing_is_automatic",
    },
    "integration/consumer/test_consumer_performance.py": _all(
        _SPEED, "test_consumer_performance", "test_batch_consumer_performance"
    ),
    "integration/consumer/test_stats_cb.py": {"test_stats_cb": _STATISTICS},
    "integration/consumer/test_consumer.py": {
        "test_consumer": "parity/test_calls.py::test_poll_keeps_its_contract",
        "test_batch_consumer": "parity/test_calls.py::test_consume_keeps_its_contract",
    },
    "integration/consumer/test_cooperative_rebalance_1.py": {
        "test_cooperative_rebalance_1": (
            "integration/test_consumer_semantics.py::test_a_late_member_commits_nothing_and_continues_at_its_commit"
        )
    },
    "integration/consumer/test_cooperative_rebalance_2.py": {
        "test_cooperative_rebalance_2": "consumer/test_callbacks.py::test_a_lost_callback_defaults_to_that_of_revocation"
    },
    "integration/consumer/test_consumer_upgrade_downgrade.py": {
        "test_consumer_upgrade_downgrade": "not ours: how a group changes its protocol is librdkafka's and the broker's own"
    },
    "integration/consumer/test_consumer_concurrent_rejection.py": _all(
        _REJECTS,
        "test_sequential_calls_succeed_simultaneous_calls_rejected",
        "test_close_rejected_while_poll_in_progress",
        "test_gate_rejects_different_methods_colliding",
        "test_many_threads_hammering_one_consumer",
        "test_callback_exception_releases_gate",
        "test_callback_makes_multiple_reentrant_calls",
    ),
    "integration/consumer/test_consumer_concurrent_serialization.py": {
        **_all(_SHARED, "test_simultaneous_calls_on_shared_consumer_serialize", "test_many_threads_hammering_one_consumer"),
        "test_gate_serializes_different_methods_colliding": _SHARED,
        "test_independent_consumers_do_not_block_each_other": "",
        "test_close_waits_for_poll_then_succeeds": _CLOSES,
        "test_callback_exception_releases_gate": _RAISES,
        "test_callback_makes_multiple_reentrant_calls": _CALLBACK,
        **_all("not ours: list_topics is upstream's own method, and passes no gate of ours", "test_list_topics_racing_close"),
        **_all("not ours: as list_topics beside close", "test_list_topics_serializes_with_poll"),
    },
    "integration/consumer/test_consumer_reentrancy.py": {
        **_all(_CALLBACK, "test_on_assign_calls_assign_from_callback", "test_on_assign_calls_assign_from_consume_callback"),
        **_all(_CALLBACK, "test_on_assign_calls_incremental_assign_from_callback"),
        **_all(_CALLBACK, "test_on_revoke_calls_unassign_from_callback"),
        **_all(_CALLBACK, "test_on_revoke_calls_incremental_unassign_from_callback"),
        **_all(_CALLBACK, "test_store_offsets_calls_store_offsets_from_callback"),
        **_all(_CALLBACK, "test_on_assign_calls_non_reentrancy_eligible_method"),
        "test_on_lost_calls_unassign_from_callback": _LOST,
        **_all(_COMMITS, "test_on_commit_calls_commit_from_callback"),
        **_all(_COMMITS, "test_on_commit_calls_asynchronous_commit_from_callback"),
    },
    "integration/consumer/test_aio_consumer_concurrent_rejection.py": _all(
        _REJECTS,
        "test_gate_rejects_concurrent_non_reentrant_calls",
        "test_gate_rejects_concurrent_close_during_poll",
        "test_gate_rejects_top_level_call_during_reentrant_call",
    ),
    "integration/consumer/test_aio_consumer_concurrent_serialization.py": {
        **_all(_COROUTINES, "test_gate_waits_for_concurrent_non_reentrant_calls"),
        **_all(_COROUTINES, "test_gate_waits_for_top_level_call_during_reentrant_call"),
        **_all(_COROUTINES, "test_gathered_reentrant_calls_from_callback_serialize"),
        **_all(_COROUTINES, "test_unawaited_create_task_from_callback_serializes"),
        "test_close_waits_for_poll_then_succeeds": _CLOSES,
        "test_reentrant_gather_one_call_fails_lock_still_releases": _WRAPS,
    },
    "integration/consumer/test_aio_consumer_misc.py": {
        **_all(_BOTH_TIERS, "test_async_context_manager_closes_on_exit"),
        **_all(_WRAPS, "test_on_assign_default_fallback_without_calling_assign", "test_call_after_close_raises"),
        "test_shared_executor_across_aio_consumers": _ARGUMENTS,
    },
    "integration/consumer/test_aio_consumer_rebalance.py": {
        **_all(_BOTH_TIERS, "test_on_assign_calls_assign_from_callback"),
        **_all(_WRAPS, "test_on_assign_calls_incremental_assign_from_callback"),
        **_all(_WRAPS, "test_on_revoke_calls_unassign_from_callback", "test_on_commit_calls_commit_from_callback"),
        **_all(_WRAPS, "test_on_assign_default_fallback_without_calling_assign"),
    },
    "integration/consumer/test_aio_consumer_reentrancy.py": {
        **_all(_BOTH_TIERS, "test_on_assign_calls_assign_from_callback", "test_on_assign_calls_assign_from_consume_callback"),
        **_all(_COROUTINES, "test_on_assign_calls_non_reentrancy_eligible_method"),
        **_all(_WRAPS, "test_on_assign_calls_incremental_assign_from_callback"),
        **_all(_WRAPS, "test_on_revoke_calls_unassign_from_callback", "test_on_revoke_calls_unassign_from_close_callback"),
        **_all(_WRAPS, "test_on_revoke_calls_incremental_unassign_from_close_callback"),
        **_all(_WRAPS, "test_on_assign_calls_get_watermark_offsets_and_offsets_for_times"),
        **_all(_WRAPS, "test_on_commit_calls_commit_from_callback", "test_on_commit_calls_asynchronous_commit_from_callback"),
        **_all(_WRAPS, "test_store_offsets_calls_store_offsets_from_callback", "test_reentrant_call_error_releases_gate"),
        **_all(_WRAPS, "test_concurrent_aio_consumers_independent_gates", "test_on_lost_calls_unassign_from_callback"),
    },
    "integration/serialization/test_serializers.py": _all(
        _DESERIALIZED, "test_numeric_serialization", "test_string_serialization", "test_mixed_serialization"
    ),
    "ducktape/test_consumer.py": _all(
        _SPEED, "test_basic_consume", "test_basic_poll", "test_basic_consume_with_schema_registry"
    ),
    "integration/integration_test.py": {
        "verify_consumer": "parity/test_calls.py::test_poll_keeps_its_contract",
        "verify_batch_consumer": "parity/test_calls.py::test_consume_keeps_its_contract",
        "verify_stats_cb": _STATISTICS,
        **_all(_SPEED, "verify_consumer_performance", "verify_batch_consumer_performance"),
    },
}
"""By file and scenario; ``*`` is every one of a file."""
ELSEWHERE: Mapping[str, str] = {
    "admin, producer, transactions": "other clients",
    "test_Producer.py, test_threads.py, aio/producer, concurrency/test_*_close_race.py": "producers",
    "share_consumer*, test_ShareConsumer.py": "another class, of share groups",
    "avro, schema_registry, integration/schema_registry, test_serde_builders.py": "serialisers; any consumer's bytes will do",
    "test_Message.py, test_TopicPartition.py, test_kafkaerror.py, test_enums.py, _util": "values that consumers share",
    "test_docs.py": "upstream's docstrings",
    "soak, chaos-test.py": "programs that run for days",
}
"""What else lies there, and why it is not about Consumer."""
