"""The tree is clean: no paths of a machine, no registry address, paired names, complete modules, short files."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
from pathlib import Path

from tests import suites
from tests.packaging.tree import ROOT, module_name, source_modules, tracked_files, tracked_texts

_PYTHON = [path for path in tracked_files() if path.suffix == ".py"]
_MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:home|root|Users|work|mnt)/[\w.-]+")
_REGISTRY = re.compile(r"pypi\.org|pythonhosted\.org|registry\.npmjs|repo1?\.maven|maven\.apache\.org/maven2|proxy\.golang")
_LONGEST, _LONGEST_TEST = 500, 700
_LONGEST_TEST_NAME = 70

_LONGEST_ADAPTER = 150
_ADAPTERS = {
    "Arrow stream": "kafka_remote_client/scanning/table_scan.py",
    "Polars": "kafka_remote_client/scanning/polars_source.py",
    "exports": "kafka_remote_client/scanning/export/table_exports.py",
    "Parquet": "kafka_remote_client/scanning/export/parquet.py",
    "Iceberg": "kafka_remote_client/scanning/export/iceberg.py",
    "Delta": "kafka_remote_client/scanning/export/delta.py",
    "backfill by the tasks of a Spark job": "kafka_remote_client/scanning/export/spark_tasks.py",
    "backfill of files, resumed": "examples/spark_backfill.py",
    "backfill of an Iceberg table": "examples/spark_iceberg_backfill.py",
    "Spark batch": "kafka_remote_client/spark/source/datasource.py",
    "Spark stream": "kafka_remote_client/spark/source/stream_reader.py",
    "Spark stream with limits": "kafka_remote_client/spark/source/limited_stream_reader.py",
    "Spark segments": "kafka_remote_client/spark/source/segments.py",
    "kafka-remote export": "kafka_remote_client/cli/export.py",
}
"""What hands the records of a scan, or of its splits, to something else: each translates and does nothing more."""

# Sources that need no test file of the same name, each with the reason.
_TESTED_ELSEWHERE = {
    "fetchers/kafka_remote_fetchers/_range_client.py": "test_presigned and test_s3, on real sockets",
    "fetchers/kafka_remote_fetchers/_range_stream.py": "test_presigned, on real sockets",
    "fetchers/kafka_remote_fetchers/_signed_headers.py": "test_presigned and test_requests_session",
    "fetchers/kafka_remote_fetchers/_transport_errors.py": "test_presigned, on real sockets",
    "kafka_remote_client/__main__.py": "tests/cli/test_main.py, as a process",
    "kafka_remote_client/cli/command_group.py": "test_main",
    "kafka_remote_client/cli/demo_output.py": "test_demo",
    "kafka_remote_client/cli/demo_run.py": "test_demo",
    "kafka_remote_client/cli/export_options.py": "test_export",
    "kafka_remote_client/cli/options.py": "the verbs' own tests",
    "kafka_remote_client/cli/remarks.py": "test_main",
    "kafka_remote_client/cli/store_arguments.py": "test_dump and test_ls",
    "kafka_remote_client/fetch/read_request.py": "a value; test_partition_read and test_engine",
    "kafka_remote_client/fetch/shared.py": "values alone; test_partition_read and test_scheduler",
    "kafka_remote_client/consumer/message_positions.py": "every test that delivers",
    "kafka_remote_client/fetch/read_end.py": "test_remote_reader, and whoever reads to an end",
    "kafka_remote_client/plugin.py": "interfaces only; the conformance suite holds fetchers against them",
    "kafka_remote_client/records/arrow.py": "test_block and test_parity",
    "kafka_remote_client/records/columns.py": "test_block and test_parity",
    "kafka_remote_client/records/faults.py": "every test of damage",
    "kafka_remote_client/records/header_tally.py": "test_tally",
    "kafka_remote_client/records/input_stream.py": "test_batch and test_golden",
    "kafka_remote_client/records/payload.py": "test_block and test_parity",
    "kafka_remote_client/scanning/export/iceberg_table.py": "test_iceberg",
    "kafka_remote_client/scanning/export/table_exports.py": "test_parquet, test_iceberg, test_delta and test_run",
    "kafka_remote_client/scanning/scan_topics.py": "test_table_scan, and every test of a scan by its arguments",
    "kafka_remote_client/shim/origin_objects.py": "test_origin",
    "kafka_remote_client/spark/source/session_rows.py": "test_segments",
    "kafka_remote_client/testing/answers.py": "the scripted origin's tests",
    "kafka_remote_client/tiered_cluster/error_codes.py": "values alone; every test of a refusal",
    "kafka_remote_client/tiered_kafka/changes.py": "test_fetches",
    "kafka_remote_client/tiered_kafka/plain_files.py": "test_tier_store",
    "kafka_remote_client/tiered_kafka/pytest_plugin.py": "tests/test_tiered_kafka_page.py, in a process",
    "kafka_remote_client/verify/aiven_layout.py": "test_defects and test_verifier",
    "kafka_remote_client/verify/index_kinds.py": "test_defects",
}
# Test files without a source of the same name: they test several modules.
_SCENARIOS = {
    "integration",
    "packaging",
    "docs",
    "benchmarks",
    "support",
    "fuzz",
    "faults",
    "mutants",
    "parity",
    "state_machine",
}
_WITHOUT_SOURCE = {
    "tests/records/test_free_threaded.py": "the compiled decoder in an interpreter without a global lock",
    "tests/fetch/test_compacted_topic.py": "holes of a compacted topic, from a gap to the policy and on",
    "tests/fetch/test_large_segment.py": "a segment above 4 GiB, from index to records",
    "tests/protocol/test_large_positions.py": "positions of 64 bits, also with an earlier package",
    "tests/remote_log/test_compacted_metadata.py": "a compacted metadata partition, from keys to segments",
    "tests/restore/test_several_nodes.py": "a restore to the folders of several nodes, from assignment to metadata",
    "tests/tiered_kafka/test_compaction.py": "a compacted topic over TCP, from the command to clients",
    "tests/tiered_kafka/test_kafka_scenarios.py": "Kafka's tiered integration scenarios",
    "tests/tiered_kafka/test_copy_lag.py": "delayed upload (KIP-1241), read across the hand-over",
    "tests/shim/test_many_peers.py": "hundreds of peers that mean no good, against the whole shim",
    "tests/simulation/test_inner_groups.py": "the model of a cooperative group, compared with librdkafka",
    "tests/simulation/test_inner_model.py": "the model of librdkafka, compared with librdkafka",
    "tests/simulation/test_inner_model_on_cut_logs.py": "the same while leaders change and logs are cut",
    "tests/simulation/test_interleaved.py": "modules with locks, under many interleavings of their threads",
    "tests/simulation/test_interleaved_parts.py": "the same for parts that are larger",
    "tests/simulation/test_judge.py": "the judge of the simulation",
    "tests/simulation/test_replaced_log_judge.py": "the judge of consumers whose logs are replaced",
    "tests/simulation/test_store_judge.py": "the rules about requests to the store and to the peer",
    "tests/simulation/test_world.py": "the parts of the fetch engine and of the consumer together, in virtual time",
    "tests/shim/test_resident_memory.py": "a thousand peers that never read or finish a handshake, against the whole shim",
    "tests/cli/test_mistakes.py": "what a user sees of typical mistakes, in all verbs",
    "tests/consumer/test_mistakes.py": "what a user sees of typical mistakes, on the embedded cluster",
    "tests/spark/test_export_operations.py": "which operations of an export count for a fault",
    "tests/spark/test_mistakes.py": "what a user sees of typical mistakes, by the driver's code",
    "tests/spark/test_plan_and_counters.py": "plan, location source, engine and counters of tasks, over one tier",
    "tests/spark/test_drifting_records.py": "plans, splits and batches of one log, from questions to figures",
    "tests/consumer/test_deserializing.py": "keys and values through upstream's deserializers, on the embedded cluster",
    "tests/consumer/test_interrupted_routing.py": "hand-overs in the middle of which a signal's handler raises",
    "tests/consumer/test_moved_log_start.py": "reads from the beginning after the log's start has moved",
    "tests/consumer/test_partition_metrics.py": "metrics by partition, which statistics makes",
    "tests/consumer/test_tiered_consumer.py": "which tier delivered what, and the switch, on the embedded cluster",
    "tests/consumer/test_callbacks.py": "callbacks of all kinds, on the embedded cluster",
    "tests/consumer/test_faults.py": "faults of store, shim and plugins, on the embedded cluster",
    "tests/embedded/test_example_topics.py": "examples and a topic that does not exist, on the embedded cluster",
    "tests/consumer/test_field.py": "cold partitions and a store that answers late, on the embedded cluster",
    "tests/consumer/test_interrupts.py": "Ctrl-C, on the embedded cluster",
    "tests/consumer/test_many_partitions.py": "a thousand partitions, on the embedded cluster",
    "tests/consumer/test_many_topics.py": "many topics, on the embedded cluster",
    "tests/consumer/test_offsets.py": "positions and commits, on the embedded cluster",
    "tests/consumer/test_queue_limits.py": "librdkafka's queue, on the embedded cluster",
    "tests/consumer/test_recreated_topic.py": "a topic that is deleted and created again, on the embedded cluster",
    "tests/consumer/test_doubted_logs.py": "a log that ends before the hand-over, in the parts of routing",
    "tests/consumer/test_throttling.py": "what an application is told of a broker that holds it back, on the embedded cluster",
    "tests/consumer/test_rebalance.py": "groups, on the embedded cluster",
    "tests/consumer/test_schema_registry.py": "serialisers of Schema Registry, on the embedded cluster",
    "tests/consumer/test_surface.py": "every public attribute, of all classes",
    "tests/consumer/test_upstream_configuration.py": "every setting of librdkafka",
    "tests/consumer/test_upstream_files.py": "the list of upstream's own tests",
    "tests/consumer/test_unanswered.py": "calls while nobody answers, on the embedded cluster",
    "tests/consumer/test_upstream_scenarios.py": "upstream's own tests, by name",
    "tests/consumer/test_waking.py": "what ends a wait, on the embedded cluster",
    "tests/fetch/test_adaptive_reading.py": "ranges in flight and their size, in virtual time",
    "tests/fetch/test_hedged_reads.py": "late ranges that are requested again, on the scheduler and the engine",
    "tests/fetch/test_limits.py": "rate limits and pauses, on the engine and its readers",
    "tests/fetch/test_over_read.py": "bytes received for nothing, on the engine and its readers",
    "tests/fetch/test_tail_latency.py": "late and lost answers and 503s, in virtual time",
    "tests/fetchers/test_conformance.py": "the shipped suite over all fetchers",
    "tests/spark/source/test_default_source.py": "a package of one name",
    "tests/protocol/test_messages.py": "every message, in every version",
    "tests/records/test_any_bytes.py": "any bytes into every decoder",
    "tests/records/test_differential.py": "batches of other libraries",
    "tests/records/test_golden.py": "the golden tier through the whole room",
    "tests/records/test_kafka_scenarios.py": "Kafka's own tests, by name",
    "tests/records/test_kernel.py": "the kernel's memory and exits; its source is not Python",
    "tests/records/test_java_vectors.py": "batches of Kafka's own builder",
    "tests/records/test_parity.py": "the kernel against its twin",
    "tests/scanning/export/test_orphans.py": "files of killed attempts, in all table formats",
    "tests/scanning/export/test_two_runs.py": "two runs of one job at the same time",
    "tests/scanning/export/test_typed_tables.py": "typed columns of all table formats, as their libraries read them",
    "tests/shim/test_batches.py": "many partitions of one Fetch, from the request to the answer",
    "tests/test_aiven_page.py": "a page of the docs",
    "tests/verify/test_defects.py": "every way to damage a tier",
    "tests/test_extending_page.py": "a page of the docs",
    "tests/test_plugins_page.py": "a page of the docs",
    "tests/test_restore_page.py": "a page of the docs",
    "tests/test_stores_page.py": "a page of the docs",
    "tests/test_segment_page.py": "a page of the docs",
    "tests/test_tiered_kafka_page.py": "a page of the docs",
}


def _ids(paths: list[Path]) -> list[str]:
    return [str(path) for path in paths]


def _test_of(source: Path) -> str:
    """``kafka_remote_client/records/batch.py`` -> ``tests/records/test_batch.py``; fetchers are in ``tests/fetchers``."""
    folders = source.parts[1:-1] if source.parts[0] == "kafka_remote_client" else source.parts[:1]
    return str(Path("tests", *folders, f"test_{source.stem.lstrip('_')}.py"))


def test_no_file_has_a_path_of_some_machine() -> None:
    found = {str(path): hits for path, text in tracked_texts().items() if (hits := _MACHINE_PATH.findall(text))}
    assert not found
    beside = {str(path) for path, text in tracked_texts().items() if str(ROOT) + "/" in text}
    assert not beside


def test_no_file_has_the_address_of_a_package_registry() -> None:
    assert not {str(path): hits for path, text in tracked_texts().items() if (hits := _REGISTRY.findall(text))}


def _longest(path: Path) -> int:
    return _LONGEST_TEST if path.parts[0] == "tests" else _LONGEST


def test_every_python_file_is_within_its_line_limit() -> None:
    lengths = {path: len((ROOT / path).read_text().splitlines()) for path in _PYTHON}
    assert {str(path): length for path, length in lengths.items() if length > _longest(path)} == {}


def test_every_adapter_of_a_scan_is_short() -> None:
    lengths = {name: len((ROOT / path).read_text().splitlines()) for name, path in _ADAPTERS.items()}
    assert {name: length for name, length in lengths.items() if length > _LONGEST_ADAPTER} == {}


def test_every_module_that_makes_a_scan_is_a_listed_adapter() -> None:
    makes = re.compile(r"scanning\.scan_topics import scan\b|\bOpenScan\(|scanning\.scan import Scan\b|\bTableExports\b")
    own = {path for path in source_modules() if path.parts[:2] == ("kafka_remote_client", "scanning")}
    outside = [path for path in source_modules() if path not in own and path.name != "__init__.py"]
    assert {str(path) for path in outside if makes.search((ROOT / path).read_text())} <= set(_ADAPTERS.values())


def test_every_test_name_is_within_its_limit() -> None:
    defined = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
    tests = [path for path in _PYTHON if path.parts[0] == "tests"]
    names = {name: str(path) for path in tests for name in defined.findall((ROOT / path).read_text())}
    assert {name: path for name, path in names.items() if len(name) > _LONGEST_TEST_NAME} == {}


def _complaints(path: Path) -> list[str]:
    """Returns what is wrong with a module's docstring and its ``__all__``."""
    module = importlib.import_module(module_name(path))
    found = [] if (module.__doc__ or "").strip() else [f"{path}: no docstring says what the module is for"]
    names = getattr(module, "__all__", None)
    if names is None:
        return [*found, f"{path}: no __all__"]
    found += [f"{path}: {name} is in __all__ twice" for name in set(names) if names.count(name) > 1]
    for name in names:
        value = getattr(module, name, None)
        if value is None and not hasattr(module, name):
            found.append(f"{path}: {name} is in __all__ and does not exist")
        elif (inspect.isclass(value) or inspect.isroutine(value)) and not (value.__doc__ or "").strip():
            found.append(f"{path}: {name} is public and has no docstring")
    return found


def test_every_module_is_documented_and_its_exports_exist() -> None:
    assert [complaint for path in source_modules() for complaint in _complaints(path)] == []


def test_each_source_has_a_test_file_of_its_name() -> None:
    tests = {str(path) for path in tracked_files()}
    sources = [path for path in source_modules() if path.name != "__init__.py"]
    missing = {str(path) for path in sources if _test_of(path) not in tests}
    assert missing == set(_TESTED_ELSEWHERE)


def test_each_test_file_has_a_source_of_its_name() -> None:
    wanted = {_test_of(path) for path in source_modules()}
    tests = {path for path in _PYTHON if path.parts[0] == "tests" and path.name.startswith("test_")}
    alone = {str(path) for path in tests if str(path) not in wanted and path.parts[1] not in _SCENARIOS}
    assert alone == set(_WITHOUT_SOURCE)


def test_golden_data_stays_small() -> None:
    assert sum((ROOT / path).stat().st_size for path in tracked_files() if path.parts[:2] == ("tests", "golden")) <= 15 << 20


def test_each_campaign_is_a_command_of_its_name() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert [name for name, suite in suites.SUITES.items() if suite.campaign and f"\n{name}:" not in makefile] == []
    assert [name for name in suites.SAMPLES if f"\n{name}:" not in makefile] == []


def test_each_campaign_has_a_ledger_line_and_a_sample_in_all_suites() -> None:
    (kept,) = re.findall(r"^([a-z\s\\-]+): export KAFKA_REMOTE_LEDGER_FILE", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(kept.replace("\\", "").split()) == {"test-all", *suites.SAMPLES}
    page = (ROOT / "docs" / "testing.md").read_text()
    for campaign, sample in suites.SAMPLES.items():
        assert Path(sample) in _PYTHON
        assert suites.is_in_everything(Path(sample)), f"{sample} is in a campaign of its own"
        row = next(line for line in page.splitlines() if line.startswith(f"| `make {campaign}"))
        assert f"`{sample.removeprefix('tests/')}`" in row, row


def test_make_help_lists_the_commands_for_users() -> None:
    listed = subprocess.run(["make", "--silent", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commands = {line.split()[1] for line in listed.splitlines()}
    assert {"demo", "test", "test-all", "test-fast", "lint", "types", "bench", "docs", "clean"} <= commands
