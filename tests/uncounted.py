"""The tests that run without coverage although their suite is counted (``Suite.counted``).

The rule: a test is here if it takes a second or more and other counted tests run the same lines and branches. Coverage takes half
of the CPU time of a test, four fifths of that of long loops in Python, and each process that a test starts loads it. If a gate
misses lines that only a test of this list runs, write a short test for them, or take the test off the list.
"""

from __future__ import annotations

__all__ = ["UNCOUNTED", "is_counted"]

UNCOUNTED = (
    # beginnings of the names of tests: files, functions, cases
    "tests/benchmarks/test_metadata_scale.py",
    "tests/benchmarks/test_scaling.py",
    "tests/cli/test_dump.py::test_prints_the_records_of_a_real_consumer[",
    "tests/fetch/test_adaptive_reading.py",
    "tests/integration/test_spark_iceberg_backfill.py",
    "tests/mutants/test_run.py",
    "tests/scanning/export/test_dead_letter_files.py::test_dead_letters_are_exactly_once_after_any_crash[objects",
    "tests/scanning/export/test_run.py::test_export_is_exactly_once_after_a_crash_at_any_step[objects",
    "tests/scanning/export/test_spark_tasks.py::test_tasks_write_each_record_once",
    "tests/scanning/export/test_typed_tables.py::test_readers_get_the_written_values",
    "tests/scanning/test_open_scan.py::test_random_predicates_detect_a_wrong_filter",
    "tests/scanning/test_splits.py::test_plans_a_hundred_thousand_segments_in_linear_steps",
    "tests/scanning/test_table_scan.py::test_a_chunked_encrypted_bucket_is_a_table",
    "tests/simulation/test_interleaved.py",  # it traces lines itself, which is what coverage does
    "tests/simulation/test_world.py",
    "tests/support/test_aiven.py",
)


def is_counted(name: str) -> bool:
    """Returns whether the test of this name is not in the list."""
    return not name.startswith(UNCOUNTED)
