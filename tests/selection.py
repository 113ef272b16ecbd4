"""The tests that ``make test`` runs: a part of ``make test-all`` that covers everything and takes minutes.

The rule:

1. Each test function of the suites ``unit``, ``records`` and ``packaging-docs``, except those in ``_OF_TOOLS`` and ``_LONG``.
   Of a function with more than :data:`CASES` cases, that many are selected, spread evenly: the function is the claim, the
   cases are samples.
2. For each real component, and each combination of several, the tests that cover most of it (``NAMED``).
3. Each package, each security promise and each component has a selected test.
   ``tests/packaging/test_selection.py`` checks that.

``PHASES``: tests that need no component run while components are fetched, then tests that must run alone, then the others;
``all`` is all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.suites import SUITES, is_elsewhere

if TYPE_CHECKING:
    import pytest

__all__ = ["CASES", "NAMED", "NOT_SELECTED", "PHASES", "Component", "component_of", "has_none", "selected", "spread"]

_Case = TypeVar("_Case")

CASES = 4
_TESTS = Path(__file__).parent
PHASES = ("without-parts", "alone", "with-parts", "all")


class Component(StrEnum):
    """What is real in a test. Suites whose tests need components declare it (``tests/suites.py``)."""

    EMBEDDED = "the embedded cluster"
    FAULTS = "the fault matrix"
    BROKER = "a real Kafka broker"
    PARITY = "the plain consumer beside ours, on the real broker"
    S3 = "a real S3 server"
    SPARK = "Spark, beside its own Kafka source"
    SPARK_TIER = "PySpark with a tier on S3"


NAMED = {
    Component.EMBEDDED: (
        "tests/cli/test_demo.py",
        "tests/consumer/test_direct_consumer.py",
        "tests/consumer/test_field.py",
        "tests/consumer/test_rebalance.py",
        "tests/embedded/",
        "tests/shim/",
    ),
    Component.FAULTS: (
        "tests/faults/test_canary.py",
        "tests/faults/test_hostile_shim.py",
        "tests/faults/test_matrix.py",
        "tests/faults/test_registry.py",
        "tests/fuzz/test_corpus.py",
    ),
    Component.BROKER: (
        "tests/integration/test_direct_fetch.py::test_direct_fetch_equals_the_broker_and_reads_the_tier_from_the_store",
        "tests/integration/test_direct_fetch.py::test_a_store_that_becomes_unreadable_during_a_read_costs_speed_only",
        "tests/integration/test_direct_fetch.py::test_an_unmodified_consumer_works_through_the_shim",
        "tests/integration/test_shim_acl.py",
        "tests/integration/test_transactions.py",
    ),
    Component.PARITY: ("tests/parity/test_deliveries.py",),
    Component.S3: (
        "tests/fetchers/test_conformance.py",
        "tests/fetchers/test_s3.py",
        "tests/fetchers/test_s3_signer.py",
        "tests/fetchers/test_s3_store.py",
        "tests/integration/test_stores.py::test_s3_gives_the_plain_consumers_records",
    ),
    Component.SPARK: ("tests/integration/test_spark_rows.py::test_unusual_records_equal_sparks_source",),
    Component.SPARK_TIER: ("tests/integration/test_spark_rows.py::test_rows_of_aivens_layout_on_s3_equal_sparks_source",),
}
_MORE_CASES = {Component.FAULTS: 24, Component.SPARK: 2, Component.SPARK_TIER: 2}
_MINIO_ALONE = (
    "tests/fetchers/test_s3.py::test_assumes_a_role_with_the_credentials_of_the_chain",
    "tests/fetchers/test_s3_store.py::test_each_operation_refuses_a_wrong_region",
)
"""What SeaweedFS does not do: roles, regions, listing in byte order, URLs that begin later."""
_SECOND_DOWNLOAD = "spark_newest"
"""The fixture of cases that need another version of Spark, which is 470 MB more to download."""
_OF_TOOLS = (
    "tests/benchmarks/",
    "tests/docs/test_site.py",
    "tests/docs/test_texts.py",
    "tests/mutants/",
    "tests/packaging/test_build_backend.py",
    "tests/packaging/test_campaign_samples.py",
    "tests/packaging/test_ci.py",
    "tests/packaging/test_defaults.py",
    "tests/packaging/test_repeats.py",
    "tests/packaging/test_selection.py",
    "tests/packaging/test_uncounted.py",
    "tests/simulation/test_inner_groups.py::test_members_of_librdkafka_have_the_same_rebalances",
    "tests/simulation/test_world.py::test_a_bug_of_the_consumer_breaks_an_invariant",
)
"""Tests of the test suite, the benchmarks and the source's style, which take minutes and say nothing about the product."""
_LONG = (
    "tests/cli/test_dump.py::test_prints_the_records_of_a_real_consumer_for_the_full_set",
    "tests/cli/test_dump.py::test_prints_the_records_of_the_full_set_of_aivens_plugin",
    "tests/docs/test_examples.py",
    "tests/fetch/test_adaptive_reading.py::test_no_fixed_setting_is_much_faster",
    "tests/fetch/test_tail_latency.py",
    "tests/integration/test_export_kills.py",
    "tests/packaging/test_distribution.py",
    "tests/packaging/test_hashes.py",
    "tests/records/test_any_bytes.py",
    "tests/records/test_record.py::test_large_batch_of_100_mib",
    "tests/shim/test_resident_memory.py",
    "tests/simulation/test_world.py::test_a_bug_of_one_line_is_found",
    "tests/simulation/test_world.py::test_the_command_fails_with_the_story_of_a_failure",
    "tests/tiered_kafka/test_copy_lag.py",
)
"""Tests that take longer than what they add to a first look."""
NOT_SELECTED = (*_OF_TOOLS, *_LONG, *_MINIO_ALONE)


def selected(items: Sequence[pytest.Item], phase: str, suite_of: Callable[[pytest.Item], str]) -> set[pytest.Item]:
    """Returns the tests of a phase among ``items``, which are in the order of their files."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        suite = suite_of(item)
        if phase not in {_phase_of(suite), "all"} or not _is_in(item.nodeid, suite):
            continue
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {item for name, cases in functions.items() for item in spread(cases, _cases_of(name))}


def has_none(path: Path, phase: str) -> bool:
    """Returns whether no test of the phase is at this path, so the path needs no import."""
    suites = [suite for suite in SUITES if phase in {_phase_of(suite), "all"} and not SUITES[suite].campaign]
    name = f"tests/{path.relative_to(_TESTS).as_posix()}" if path != _TESTS and path.is_relative_to(_TESTS) else ""
    return _begins(f"{name}/", NOT_SELECTED) or all(is_elsewhere(path, suite) for suite in suites)


def _phase_of(suite: str) -> str:
    if SUITES[suite].alone:
        return "alone"
    return "with-parts" if SUITES[suite].needs_parts else "without-parts"


def component_of(name: str) -> Component | None:
    """Returns the component that a test is selected for; ``None`` if it needs none."""
    for component, tests in NAMED.items():
        if _begins(name, tests):
            return component
    return None


def _is_in(name: str, suite: str) -> bool:
    if _begins(name, NOT_SELECTED) or _SECOND_DOWNLOAD in name:
        return False
    return suite in {"unit", "records", "packaging-docs"} or component_of(name) is not None


def _begins(name: str, tests: Iterable[str]) -> bool:
    return name.startswith(tuple(tests))


def _cases_of(name: str) -> int:
    component = component_of(name)
    return CASES if component is None else _MORE_CASES.get(component, CASES)


def spread(cases: Sequence[_Case], most: int) -> list[_Case]:
    """Returns at most ``most`` of the cases, spread evenly from the first to the last."""
    if len(cases) <= most:
        return list(cases)
    return [cases[number * (len(cases) - 1) // (most - 1)] for number in range(most)]
