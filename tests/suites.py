"""The suites, listed only here, and the suite of each test. ``pytest --suite NAME`` runs one of them.

``.ci/suites.py`` reads the list before anything is installed, so this module imports only the standard library.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["SAMPLES", "SUITES", "Suite", "is_elsewhere", "is_in_everything", "passed_in", "place_of", "suite_of"]


@dataclass(frozen=True)
class Suite:
    """``ceiling``: minutes after which a suite counts as hung, at least five times its duration on two idle cores. A slow suite
    must not count as hung: on a busy machine one that computes took 3.5 times as long. A test that hangs ends after 300 s.
    ``workers``, ``dist``: for xdist; suites that wait have more workers than cores. ``dist`` is ``loadfile`` if the fixtures
    of a module write topics. ``has``: tells by the path of a folder or file below ``tests`` whether it may have tests of the
    suite; no worker imports other files, because imports take most of the time in which a run begins.

    ``counted``: coverage is measured. ``campaign``: a separate command (``make NAME``), not part of ``make test-all``.
    ``dev_mode``: workers run in Python's development mode, in which asyncio checks its callers; it takes a fifth more CPU time.
    ``debug_memory``: then the interpreter's allocators also check for writes outside of blocks, for suites that test the
    compiled decoder. Elsewhere that would take a quarter of the time, for the same code.
    ``needs_parts``: its tests need a broker, a store server or Spark, which are fetched or built. ``alone``: no other test runs
    at the same time, here or in ``make test``. ``beside``: mostly waits, so it runs at the same time as the other suites, with
    its own broker, as soon as the parts are there.
    """

    ceiling: int
    workers: int
    dist: str
    has: Callable[[str], bool]
    counted: bool = True
    dev_mode: bool = False
    debug_memory: bool = False
    campaign: bool = False
    needs_parts: bool = False
    alone: bool = False
    beside: bool = False

    @property
    def parallel(self) -> list[str]:
        """The options of xdist."""
        return ["--numprocesses", str(self.workers), "--dist", *self.dist.split()]


def _in(*beginnings: str, without: Sequence[str] = ()) -> Callable[[str], bool]:
    """In files whose path begins with one of these, unless it begins with a longer one of ``without``."""

    def has(path: str) -> bool:
        longest = max((len(beginning) for beginning in beginnings if path.startswith(beginning)), default=-1)
        excluded = max((len(beginning) for beginning in without if path.startswith(beginning)), default=-1)
        return longest > excluded or any(beginning.startswith(f"{path}/") for beginning in beginnings)

    return has


SUITES = {
    "unit": Suite(
        45,
        2,
        "loadgroup",
        _in(
            *("", "integration/test_a", "integration/test_export_", "integration/test_imports", "integration/test_keeper"),
            *("integration/test_librdkafka_mock", "integration/test_notebook", "integration/test_spark_iceberg_backfill"),
            *("integration/test_spark_scenarios_plan", "integration/test_tier_report"),
            without=(
                *("docs/", "embedded/", "faults/", "fuzz/", "integration/", "packaging/", "records/", "shim/"),
                *("state_machine/",),
            ),
        ),
    ),
    "records": Suite(12, 2, "loadgroup", _in("records/"), dev_mode=True, debug_memory=True),
    "shim": Suite(
        14,
        4,
        "loadfile",
        _in(
            *("cli/", "embedded/", "shim/", "fetch/test_open_reader", "parity/test_calls", "scanning/test_broker_part"),
            *("spark/test_mistakes", "spark/source/test_datasource", "integration/test_spark_fallback"),
            *("integration/test_header_names", "integration/test_application_callbacks", "integration/test_imports"),
        ),
        dev_mode=True,
    ),
    "consumer": Suite(16, 4, "loadfile", _in("consumer/")),
    "field": Suite(10, 1, "no", _in("consumer/"), counted=False, alone=True),  # under default time-outs
    # Hundreds of cells that mostly wait. Here and below coverage would take up to a third of the time and add nothing: the
    # suites above run the same code and reach the required coverage by themselves.
    "faults": Suite(25, 8, "load", _in("faults/"), counted=False),
    # Programs that wait for two consumers, or for a group.
    "state-machine": Suite(15, 7, "load", _in("state_machine/"), counted=False, needs_parts=True),
    # With four workers the processors are idle for a third of the time. Long files run first.
    "broker": Suite(
        35,
        6,
        "loadfile --no-loadscope-reorder",
        _in(
            *("benchmarks/test_field", "benchmarks/test_consumer", "cli/test_verify", "faults/test_shim_"),
            *("faults/test_metadata_faults", "integration/", "integration/test_spark_s"),
            without=("integration/test_spark_", "integration/test_getting_started", "integration/test_consumer_semantics"),
        ),
        counted=False,
        needs_parts=True,
    ),
    # One fixture runs all rebalanced groups at the same time and mostly waits for them: it has its own worker.
    "parity": Suite(
        15,
        5,
        "loadfile --no-loadscope-reorder",
        _in("integration/test_group_rebalances", "integration/test_consumer_semantics", "parity/"),
        counted=False,
        needs_parts=True,
    ),
    # One long table of cells, which several workers share.
    "stores": Suite(
        14,
        6,
        "load",
        _in(
            *(
                "cli/test_verify",
                "fetchers/",
                "integration/test_store",
                "integration/test_restore",
                "integration/test_bench_s3",
            ),
            *("integration/test_shim_start", "integration/test_export_stores", "test_stores_page"),
        ),
        counted=False,
        needs_parts=True,
        beside=True,
    ),
    # Each worker has its own sessions: they start slowly, and its files share them; long files come first.
    "spark": Suite(
        75,
        2,
        "loadfile --no-loadscope-reorder",
        _in("integration/test_spark_", "integration/test_getting_started"),
        counted=False,
        needs_parts=True,
        beside=True,
    ),
    "packaging-docs": Suite(16, 2, "loadgroup", _in("docs/", "packaging/"), counted=False),
    "fuzz": Suite(15, 2, "load", _in("fuzz/"), counted=False, dev_mode=True, debug_memory=True),
    "plain-groups": Suite(30, 4, "load", _in("state_machine/"), counted=False, campaign=True, needs_parts=True),
    "pure-python": Suite(10, 1, "no", _in("packaging/"), counted=False, campaign=True),
    "confluent-versions": Suite(15, 2, "load", _in("packaging/"), counted=False, campaign=True),
    "kernel-coverage": Suite(10, 1, "no", _in("fuzz/"), counted=False, campaign=True),
}
SAMPLES = {
    "broker-versions": "tests/support/test_broker_versions.py",
    "chaos": "tests/integration/test_broker_faults.py",
    "confluent-versions": "tests/packaging/test_campaign_samples.py",
    "export-kills": "tests/integration/test_export_kills.py",
    "faults": "tests/faults/test_matrix.py",
    "fuzz": "tests/fuzz/test_run.py",
    "group-machines": "tests/state_machine/test_groups.py",
    "kernel-coverage": "tests/packaging/test_campaign_samples.py",
    "mutants": "tests/mutants/test_run.py",
    "plain-groups": "tests/support/test_group_judgement.py",
    "properties": "tests/records/test_parity.py",
    "pure-python": "tests/packaging/test_campaign_samples.py",
    "resident-memory": "tests/shim/test_resident_memory.py",
    "scan-predicates": "tests/scanning/test_open_scan.py",
    "shim-kills": "tests/faults/test_shim_kills.py",
    "simulate": "tests/simulation/test_world.py",
    "simulate-bugs": "tests/simulation/test_world.py",
    "spark-export-kills": "tests/integration/test_spark_export_faults.py",
    "state-machine": "tests/state_machine/test_manual_assignment.py",
    "under-load": "tests/support/test_under_load.py",
}
"""The command of each campaign, and where a fixed sample of it is in ``make test-all``."""
_TESTS = Path(__file__).resolve().parent
_SIDE_BY_SIDE = "test_consumer_semantics"
"""How names of files begin in which the real broker serves our consumer and the plain one."""
_OF_THEIR_OWN = {
    "consumer/test_field.py": "field",
    "consumer/test_many_partitions.py": "field",
    "fuzz/test_kernel_coverage.py": "kernel-coverage",
    "integration/test_group_rebalances.py": "parity",
    "packaging/test_confluent_versions.py": "confluent-versions",
    "packaging/test_pure_python.py": "pure-python",
    "state_machine/test_plain_groups.py": "plain-groups",
}
_LONG_FIRST = (
    *("integration/test_group_rebalances.py", "integration/test_consumer_semantics.py", "integration/test_broker_faults.py"),
    *("benchmarks/test_field.py", "benchmarks/test_consumer.py", "faults/test_shim_kills.py"),
    *("integration/test_consumer_mixed_groups.py", "integration/test_oracle.py", "integration/test_remote_fetch_switch.py"),
    *("integration/test_spark_cluster.py", "integration/test_spark_scenarios.py", "integration/test_spark_rows.py"),
    *("integration/test_spark_to_database.py", "integration/test_spark_page.py", "integration/test_spark_batch.py"),
    *("integration/test_spark_segments.py", "integration/test_spark_backfill.py", "integration/test_spark_live_stream.py"),
    *("integration/test_spark_export_faults.py", "integration/test_spark_iceberg_backfill.py"),
    *("state_machine/test_groups.py", "state_machine/test_on_a_broker.py"),  # programs that wait while others compute
)
"""Files that run long, by how long in their suite: one that a worker takes last leaves the others without work."""


_IN_STACK = re.compile(r"Timeout \(|Thread |Current thread |  File |$")
_MOST_OF_A_STACK = 60


def passed_in(text: str) -> int:
    """Returns the number of passed tests, by the last summary line in pytest's output."""
    found = re.findall(r"(\d+) passed", text)
    return int(found[-1]) if found else 0


def failures_in(text: str) -> list[str]:
    """Returns the lines of pytest's output that name a failed test, and the stack of a test that did not end."""
    lines = text.splitlines()
    late = [at for at, line in enumerate(lines) if line.startswith("Timeout (")]
    stacks = [line for at in late for line in itertools.takewhile(_IN_STACK.match, lines[at : at + _MOST_OF_A_STACK])]
    return [line for line in lines if line.startswith(("FAILED ", "ERROR "))] + stacks


@cache
def _below_tests(path: Path) -> str:
    """The path below this folder; "" for this folder and files elsewhere. Cached, because each test of a file asks for it."""
    name = path.relative_to(_TESTS).as_posix() if path.is_relative_to(_TESTS) else ""
    return "" if name == "." else name


def place_of(item: pytest.Item) -> int:
    """Returns the position of its file in a run; the remaining order is random."""
    name = _below_tests(item.path)
    return _LONG_FIRST.index(name) if name in _LONG_FIRST else len(_LONG_FIRST)


def is_elsewhere(path: Path, suite: str) -> bool:
    """Returns whether no test of the suite is at this path."""
    name = _below_tests(path)
    return bool(name) and not SUITES[suite].has(name)


def is_in_everything(path: Path) -> bool:
    """Returns whether ``make test-all`` runs a test file, whose path begins with ``tests``."""
    own = _OF_THEIR_OWN.get(path.relative_to("tests").as_posix())
    return own is None or not SUITES[own].campaign


def suite_of(item: pytest.Item) -> str:
    """Returns the suite, by the rules below. Raises AssertionError for a test that a run of its suite would not collect."""
    suite = _suite_of(item)
    assert not is_elsewhere(item.path, suite), f"{item.nodeid} is a test of {suite}, whose run leaves out its file (SUITES)"
    return suite


def _suite_of(item: pytest.Item) -> str:
    """``spark``: needs real Spark. ``stores``: needs a real object store server, with or without a broker. ``broker``: needs
    the real broker only. ``parity``: compares the consumer with the plain one, scenario by scenario, and rebalanced groups,
    on the real broker. ``state-machine``: the same command by command, in random programs. ``plain-groups``: programs of
    groups of plain consumers only. ``packaging-docs``: about the tree, packages and documents. ``shim``: needs
    the embedded cluster or tests the shim; ``consumer``: is also about the consumer; ``field``: also reads many partitions
    with default time-outs.
    ``faults``: faults on the embedded cluster. ``fuzz``: any bytes for each parser, for minutes. ``records``: the decoder.
    ``pure-python``: the decoder's tests again without the kernel. ``confluent-versions``: the consumer's again with other
    versions of confluent-kafka. ``kernel-coverage``: the kernel's lines by gcov. ``unit``: all others.
    """
    path = _below_tests(item.path)
    folder = path.partition("/")[0]
    if path in _OF_THEIR_OWN:
        return _OF_THEIR_OWN[path]
    if folder == "state_machine":
        return "state-machine"
    if item.get_closest_marker("spark"):
        return "spark"
    if item.get_closest_marker("stores"):
        return "stores"
    if item.get_closest_marker("broker"):
        return "parity" if folder == "parity" or item.path.name.startswith(_SIDE_BY_SIDE) else "broker"
    if folder in {"packaging", "docs"}:
        return "packaging-docs"
    if folder in {"faults", "fuzz", "records"}:
        return folder
    if folder in {"embedded", "shim"} or item.get_closest_marker("embedded"):
        return "consumer" if folder == "consumer" else "shim"
    return "unit"
