"""Fixtures that all tests share, such as the real broker (one per run), and the rule that CI skips nothing silently.

The process that begins a run makes a directory for it and puts its name into the environment; xdist's workers, and further
pytest processes of one ``make test``, inherit it. The first test that needs the broker starts it there, the others attach, and
the process that made the directory stops it. A test that restarts the broker excludes all others (``restartable_broker``).

Fixtures import what they need themselves: each worker of each suite imports this module.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import hypothesis
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.selection import PHASES, has_none, selected
from tests.suites import SUITES, is_elsewhere, place_of, suite_of
from tests.support.artifacts import CACHE, MissingPartError, file_lock
from tests.support.browser import BROWSER
from tests.support.code_constants import ignore_code_constants
from tests.support.once import once_per_run
from tests.support.ports import servers_on_free_ports
from tests.support.promtool import PROMTOOL
from tests.support.run_directory import RUN_VARIABLE, run_directory
from tests.support.run_summary import summary
from tests.uncounted import is_counted

if TYPE_CHECKING:
    from kafka_remote_client.embedded.cluster import EmbeddedCluster
    from tests.support.aiven_tier import AivenTier
    from tests.support.azure_server import AzureServer, AzureTlsServer
    from tests.support.gcs_server import GcsServer
    from tests.support.kafka_broker import KafkaBroker
    from tests.support.kafka_cluster import KafkaCluster
    from tests.support.s3_server import S3Server
    from tests.support.scenario import TransactionalTopic
    from tests.support.spark import SparkDriver

S3_SERVERS = ("minio", "seaweedfs")
ORDER_SEED = 1254
"""One random order for all runs of a commit. Campaigns choose another: ``--randomly-seed=N``."""
_RESTARTS = frozenset({"transactional_topic"})
"""Shared fixtures that restart the broker themselves."""
ALLOWED_SKIPS = ("the full golden set is not beside the checkout",)
"""Reasons for which a test may be skipped even where CI=true."""

_Part = TypeVar("_Part")
hypothesis.settings.register_profile(
    "commit", derandomize=True, database=None, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
"""Every run of a commit tries the same examples, here and in CI."""
hypothesis.settings.register_profile(
    "campaign",
    hypothesis.settings.get_profile("commit"),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(CACHE / "hypothesis"),
    print_blob=True,
)
"""New examples by ``--campaign-seed`` (``make properties``). What one finds is kept and becomes an ``@example``."""
hypothesis.settings.load_profile("commit")
_OUR_RUN = pytest.StashKey[Path]()
LONGEST_BYTES = 16
"""Bytes of a parameter that a test's name shows."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--suite", action="append", choices=SUITES, help="run only this suite (tests/suites.py); may be repeated")
    parser.addoption("--selection", choices=PHASES, help="run the selection of make test only (tests/selection.py)")
    parser.addoption(
        "--campaign-seed", type=int, help="of Hypothesis's examples and of random programs; tests/support/campaign.py"
    )
    parser.addoption("--s3-server", choices=S3_SERVERS, default="minio", help="the S3 server of the tests")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--campaign-seed") is None:
        ignore_code_constants()
    if getattr(config.option, "randomly_seed", None) == "default":  # absent with -p no:randomly
        config.option.randomly_seed = ORDER_SEED
    config.addinivalue_line("markers", "fault(number, ...): is about these faults of tests/faults/registry.py")
    if RUN_VARIABLE not in os.environ:
        run = Path(tempfile.mkdtemp(prefix="kafka-remote-tests-"))
        (run / "owner.pid").write_text(str(os.getpid()))
        os.environ[RUN_VARIABLE] = str(run)
        config.stash[_OUR_RUN] = run


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps modules and tests, which live as long as the process, out of each garbage collection during the tests.

    They are up to a million objects. To look at them again and again took a tenth of the CPU time of a run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


atexit.register(gc.unfreeze)  # extension modules complain at the end about objects of theirs that were not collected


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Leaves one measurement of coverage in a worker, and none in the process that starts workers, because it runs no test.

    A worker begins with two: coverage's own for each process, and pytest-cov's for a process that starts workers. pytest-cov
    starts a third one after this and pauses it alone, so the other two would measure the tests of tests/uncounted.py.
    """
    in_parallel = hasattr(session.config, "workerinput") or session.config.pluginmanager.hasplugin("dsession")
    if not in_parallel or "coverage" not in sys.modules:
        return
    from coverage import Coverage

    while (running := Coverage.current()) is not None:
        running.stop()


def pytest_unconfigure(config: pytest.Config) -> None:
    run = config.stash.get(_OUR_RUN, None)
    if run is not None:
        from tests.support.kafka_broker import KafkaBroker

        KafkaBroker(run / "broker").destroy()
        shutil.rmtree(run, ignore_errors=True)
        del os.environ[RUN_VARIABLE]


def pytest_report_header() -> list[str]:
    """Names the tests that do not exist here."""
    browser = [] if BROWSER else ["Chromium is not on PATH: no test loads the documentation site in a browser"]
    return browser + ([] if PROMTOOL else ["promtool is not there: no test checks alert rules and metrics with it"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what the tests counted: see tests/support/run_summary.py."""
    told = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, ())]
    for line in summary(report for report in told if report.when == "call"):
        terminalreporter.write_line(line)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files that have no test of the suite or of the selection, so they are not imported."""
    wanted, part = config.getoption("--suite"), config.getoption("--selection")
    if wanted and all(is_elsewhere(collection_path, suite) for suite in wanted):
        return True
    return True if part and has_none(collection_path, part) else None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names long bytes by their parameter. Workers must collect equal names, and bytes may differ between them (times)."""
    return argname if isinstance(val, bytes) and len(val) > LONGEST_BYTES else None


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes down skipped tests, for the table at the end of ``make test`` (``tests/support/parts.py``)."""
    file = os.environ.get("KAFKA_REMOTE_TEST_SKIPS")
    if file and report.skipped and not hasattr(report, "wasxfail") and not os.environ.get("PYTEST_XDIST_WORKER"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        with Path(file).open("a") as skips:
            skips.write(json.dumps({"test": report.nodeid, "reason": reason.removeprefix("Skipped: ")}) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Marks what each test needs and selects those of the suites; in random order, moves long files to the front."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if "running_broker" in fixtures:
            item.add_marker("broker")
        if fixtures & {"s3_server", "azure_server", "azure_tls_server", "gcs_server"}:
            item.add_marker("stores")
        if not is_counted(item.nodeid):
            item.add_marker("no_cover")
        if (seed := config.getoption("--campaign-seed")) is not None:
            _take_seed(item, seed)
    wanted = config.getoption("--suite")
    if wanted:
        others: list[pytest.Item] = []
        own: list[pytest.Item] = []
        for item in items:
            (own if suite_of(item) in wanted else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = own
    if part := config.getoption("--selection"):
        chosen = selected(items, part, suite_of)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]
    yield
    items.sort(key=place_of)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The process of a test with its own time-out ends as much later as those of others. pytest knows one time for all."""
    config, marker = item.config, item.get_closest_marker("timeout")
    ends_after = float(config.getini("faulthandler_timeout"))
    if marker is not None and marker.args and ends_after:
        margin = ends_after - float(config.getini("timeout"))
        stderr, ends = config.stash[fault_handler_stderr_fd_key], config.getini("faulthandler_exit_on_timeout")
        faulthandler.dump_traceback_later(marker.args[0] + margin, file=stderr, exit=ends)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """For a test without coverage: the processes that it starts do not load coverage either."""
    if item.get_closest_marker("no_cover") is None:
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        return (yield)


def _take_seed(item: pytest.Item, seed: int) -> None:
    """Restores each test's own settings: every way to give a seed replaces Hypothesis's database of a test."""
    test = getattr(item, "obj", None)
    if hypothesis.is_hypothesis_test(test):
        function = getattr(test, "__func__", test)
        own = function._hypothesis_internal_use_settings
        hypothesis.seed(seed)(function)
        function._hypothesis_internal_use_settings = own


def _skip_is_a_failure(reason: str) -> bool:
    return os.environ.get("CI") == "true" and not any(allowed in reason for allowed in ALLOWED_SKIPS)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """Keeps other workers from restarting the broker while a shared fixture writes to it or reads from it."""
    shares = "running_broker" in fixturedef.argnames and fixturedef.scope != "function"
    if not shares or fixturedef.argname in _RESTARTS:
        return (yield)
    with file_lock(run_directory() / "restart.lock", shared=True):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _skip_is_a_failure(str(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped where CI=true: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped and _skip_is_a_failure(str(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped where CI=true: {report.longrepr}"
    return report


@pytest.fixture(autouse=True, scope="session")
def _servers_on_free_ports() -> Iterator[None]:
    with servers_on_free_ports():
        yield


@pytest.fixture(autouse=True)
def _package_log() -> Iterator[None]:
    """Restores the level and the handlers of the package's log, which the shim's command sets for its process."""
    package = logging.getLogger("kafka_remote_client")
    level, handlers = package.level, list(package.handlers)
    yield
    package.setLevel(level)
    package.handlers[:] = handlers


@pytest.fixture(scope="session")
def running_broker() -> KafkaBroker:
    """The run's broker; the first user starts it. For fixtures of wider scope than a test; tests use kafka_broker."""
    from tests.support.artifacts import SHORT_LIVED
    from tests.support.kafka_broker import KafkaBroker

    run = run_directory()
    owner = int((run / "owner.pid").read_text())
    broker = KafkaBroker(run / "broker", owner=owner, leftover=run, java_options=("-Xmx1g", *SHORT_LIVED))
    missing = run / "broker-missing"
    # Not while another worker's test has stopped it: both would start a broker.
    with file_lock(run / "broker.lock"), file_lock(run / "restart.lock", shared=True):
        if missing.exists():
            pytest.skip(missing.read_text())
        try:
            broker.start()
        except MissingPartError as error:
            missing.write_text(f"no real broker: {error}")
            pytest.skip(missing.read_text())
    return broker


@pytest.fixture
def kafka_broker(running_broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """The run's broker. No other test restarts it while this test runs."""
    with file_lock(run_directory() / "restart.lock", shared=True):
        yield running_broker


@pytest.fixture
def restartable_broker(running_broker: KafkaBroker) -> Iterator[KafkaBroker]:
    """The run's broker for this test alone: it may stop and restart it, and must leave it running."""
    with file_lock(run_directory() / "restart.lock"):
        yield running_broker
        if not running_broker.running():
            running_broker.start()


@pytest.fixture(scope="session")
def transactional_topic(running_broker: KafkaBroker) -> TransactionalTopic:
    """The partition of ``tests.support.scenario``, written once per run. Request it by name, never dynamically:
    writing it restarts the broker, which waits for all running tests.
    """
    from tests.support.scenario import TransactionalTopic, write_transactional_topic

    facts, topic = run_directory() / "transactional-topic.json", "transactional"

    def write() -> None:
        write_transactional_topic(running_broker, topic).save(facts)

    once_per_run(running_broker, topic, write, restarts=True)
    return TransactionalTopic.load(facts)


@pytest.fixture(scope="session")
def wide_topic(running_broker: KafkaBroker) -> str:
    """A tiered topic with segments of several ranges, written once per run (``tests.support.scenario``).

    Its name has every character that names of objects use between their parts.
    """
    from tests.support.scenario import write_wide_topic

    topic = "wide.topic_with-marks-0"
    once_per_run(running_broker, topic, lambda: write_wide_topic(running_broker, topic))
    return topic


@pytest.fixture(scope="session")
def group_topic(running_broker: KafkaBroker) -> str:
    """A tiered topic of many partitions, written once per run (``tests.support.group_topic``)."""
    from tests.support.group_topic import write_group_topic

    topic = "for-groups"
    once_per_run(running_broker, topic, lambda: write_group_topic(running_broker, topic))
    return topic


@pytest.fixture(scope="session")
def aiven_tier(
    running_broker: KafkaBroker, transactional_topic: TransactionalTopic, wide_topic: str
) -> Callable[[str], AivenTier]:
    """The tier of both topics in a mode of ``tests.support.aiven_tier``; each is written once per run."""
    from tests.support.aiven_tier import AivenTier, write_aiven_tier

    run, topics = run_directory(), (transactional_topic.topic, wide_topic)

    def written(mode: str) -> AivenTier:
        facts = run / f"aiven-{mode}.json"
        with file_lock(run / f"aiven-{mode}.lock"):
            if not facts.exists():
                with file_lock(run / "restart.lock", shared=True):
                    directory = run / f"aiven-{mode}"
                    write_aiven_tier(running_broker, topics, mode, directory).save(facts)
        return AivenTier.load(facts)

    return written


@pytest.fixture(scope="module")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Three real brokers with a tier, for one module."""
    from tests.support.kafka_cluster import KafkaCluster

    yield from _entered("real brokers", lambda: KafkaCluster(tmp_path_factory.mktemp("cluster") / "nodes"))


@pytest.fixture
def cluster(running: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """The cluster ``running`` of a module; it is restored after each test."""
    yield running
    running.faults.clear()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[S3Server]:
    """A real S3 server, ``--s3-server``. Each test uses its own bucket."""
    from tests.support.s3_server import S3Server
    from tests.support.seaweedfs_server import SeaweedServer

    server = {"minio": S3Server, "seaweedfs": SeaweedServer}[pytestconfig.getoption("--s3-server")]
    yield from _entered("S3 server", lambda: server(tmp_path_factory.mktemp("s3")))


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """An Azure Blob server. Each test uses its own container."""
    from tests.support.azure_server import AzureServer

    yield from _entered("Azure server", lambda: AzureServer(tmp_path_factory.mktemp("azure")))


@pytest.fixture(scope="session")
def azure_tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureTlsServer]:
    """An Azure Blob server over TLS that accepts bearer tokens."""
    from tests.support.azure_server import AzureTlsServer

    yield from _entered("Azure server over TLS", lambda: AzureTlsServer(tmp_path_factory.mktemp("azure-tls")))


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    """A GCS server. Each test uses its own bucket."""
    from tests.support.gcs_server import GcsServer

    yield from _entered("GCS server", lambda: GcsServer(tmp_path_factory.mktemp("gcs")))


@pytest.fixture(scope="session")
def spark_beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A session of the newest Spark that has its own Kafka source to compare with."""
    from tests.support.s3_server import S3_VARIABLES
    from tests.support.spark import WITH_CONNECTOR, SparkDriver, connector_jars

    yield from _entered(
        "Spark",
        lambda: SparkDriver(WITH_CONNECTOR, tmp_path_factory.mktemp("spark"), jars=connector_jars(), variables=S3_VARIABLES),
    )


@pytest.fixture(scope="session")
def spark_newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A session of the newest Spark."""
    from tests.support.s3_server import S3_VARIABLES
    from tests.support.spark import NEWEST, SparkDriver

    yield from _entered("Spark", lambda: SparkDriver(NEWEST, tmp_path_factory.mktemp("spark"), variables=S3_VARIABLES))


@pytest.fixture(scope="session")
def spark_repeating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A session of the newest Spark that gives a task four attempts, as a cluster does."""
    from tests.support.spark import NEWEST, SparkDriver

    settings = {"spark.master": "local[2,4]"}
    yield from _entered("Spark", lambda: SparkDriver(NEWEST, tmp_path_factory.mktemp("spark"), settings=settings))


@pytest.fixture
def spark_killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A session of the newest Spark for one test, which may kill it."""
    from tests.support.spark import NEWEST, SparkDriver

    yield from _entered("Spark", lambda: SparkDriver(NEWEST, tmp_path_factory.mktemp("spark")))


@pytest.fixture(scope="module")
def spark_oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A session of the oldest Spark, with four attempts too."""
    from tests.support.spark import OLDEST, SparkDriver

    settings = {"spark.master": "local[2,4]"}
    yield from _entered("Spark 3.5", lambda: SparkDriver(OLDEST, tmp_path_factory.mktemp("spark"), settings=settings))


def _entered(what: str, make: Callable[[], AbstractContextManager[_Part]]) -> Iterator[_Part]:
    """Enters the component that ``make`` returns and leaves it at the end; skips the tests if the component cannot start.

    A component that cannot start is tried once in a run: workers must not repeat a build that takes minutes to fail.
    """
    missing = run_directory() / f"missing-{what.replace(' ', '-')}"
    with ExitStack() as stack:
        if missing.exists():
            pytest.skip(missing.read_text())
        try:
            part = stack.enter_context(make())
        except MissingPartError as error:
            missing.write_text(f"no {what}: {error}")
            pytest.skip(missing.read_text())
        yield part


@pytest.fixture
def s3_environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, with its credentials where boto3 and obstore look for them."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def azure_environment(azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> AzureServer:
    """The server, with its account's key where obstore looks for it."""
    for name, value in azure_server.environment.items():
        monkeypatch.setenv(name, value)
    return azure_server
