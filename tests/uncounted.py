"""The tests that run without coverage although their suite is counted (``Suite.counted``).

The rule: a test is here if it takes a second or more and other counted tests run the same lines and branches. Coverage takes
half of the CPU time of a test, four fifths of that of long loops in Python, and each process that a test starts loads it. If a
gate misses lines that only a test of this list runs, write a short test for them, or take the test off the list.

A test that interrupts a process (SIGINT) is here too: an exception while coverage holds its own lock (``Collector.lock_data``)
leaves the lock held, and the process waits for ever.
"""

from __future__ import annotations

__all__ = ["UNCOUNTED", "is_counted"]

UNCOUNTED = (
    # beginnings of the names of tests: files, functions, cases
    "tests/benchmarks/test_metadata_scale.py",
    "tests/benchmarks/test_scaling.py",
    "tests/benchmarks/test_shim.py::test_a_short_run_has_a_figure_for_each_target",
    "tests/cli/test_dump.py::test_prints_the_records_of_a_real_consumer[",
    "tests/cli/test_dump.py::test_prints_the_records_of_a_real_consumer_from_aivens_plugin[",
    "tests/cli/test_main.py::test_interrupted_verb_prints_nothing_and_has_status_130",  # SIGINT
    "tests/consumer/test_interrupts.py",  # SIGINT
    "tests/consumer/test_tier_log.py::test_what_it_does_not_know_any_more_it_says_nothing_of",
    "tests/fetch/test_adaptive_reading.py",
    "tests/fetch/test_remote_reader.py::test_a_thousand_partitions_are_all_read",
    "tests/fetch/test_tail_latency.py",
    "tests/integration/test_spark_iceberg_backfill.py",
    "tests/mutants/test_library.py",  # it runs nothing of the product
    "tests/mutants/test_run.py",
    "tests/records/test_any_bytes.py::test_a_flipped_bit_of_a_header_ends_the_read_at_its_batch",
    "tests/records/test_any_bytes.py::test_every_truncation_gives_the_whole_batches_before_it",
    "tests/records/test_any_bytes.py::test_no_flip_in_a_body_gives_a_wrong_record",
    "tests/records/test_block.py::test_more_blocks_than_kept_memory_do_not_disturb_each_other",
    "tests/records/test_differential.py::test_batches_built_by_a_library_read_alike_everywhere",
    "tests/records/test_parity.py::test_damaged_records_with_a_valid_checksum_read_alike",
    "tests/records/test_parity.py::test_damaged_segments_read_alike",
    "tests/records/test_parity.py::test_valid_segments_read_alike",
    "tests/remote_log/test_prefetch.py::test_golden_answers_equal_those_of_sequential_reads",
    "tests/remote_log/test_prefetch.py::test_golden_answers_of_chunked_logs_equal_those_of_sequential_reads",
    "tests/scanning/export/test_dead_letter_files.py::test_dead_letters_are_exactly_once_after_any_crash[objects",
    "tests/scanning/export/test_orphans.py::test_orphan_files_are_never_read_and_the_next_run_removes_them",
    "tests/scanning/export/test_run.py::test_export_is_exactly_once_after_a_crash_at_any_step[objects",
    "tests/scanning/export/test_spark_tasks.py::test_tasks_write_each_record_once",
    "tests/scanning/export/test_typed_tables.py::test_readers_get_the_written_values",
    "tests/scanning/test_open_scan.py::test_random_predicates_detect_a_wrong_filter",
    "tests/scanning/test_open_scan.py::test_random_predicates_equal_a_filtered_full_scan",
    "tests/scanning/test_splits.py::test_plans_a_hundred_thousand_segments_in_linear_steps",
    "tests/scanning/test_table_scan.py::test_a_chunked_encrypted_bucket_is_a_table",
    "tests/simulation/test_interleaved.py",  # it traces lines itself, which is what coverage does
    "tests/simulation/test_interleaved_parts.py",  # as well
    "tests/simulation/test_world.py",
    "tests/spark/test_plan_and_counters.py",
    "tests/support/test_aiven.py",
)


def is_counted(name: str) -> bool:
    """Returns whether the test of this name is not in the list."""
    return not name.startswith(UNCOUNTED)
