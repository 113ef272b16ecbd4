"""``format("kafka-remote")`` on a standalone cluster: two workers that have the code from a packed environment alone.

What happens to tasks is made to happen in the middle of their splits: the origin holds their requests back meanwhile.
"""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.artifacts import ROOT, MissingPartError
from tests.support.held_origin import HeldOrigin
from tests.support.kafka_broker import KafkaBroker
from tests.support.ports import HOST, free_ports
from tests.support.reading import PATIENCE_SECONDS, PATIENT
from tests.support.shim_process import ShimProcess
from tests.support.spark import WITH_CONNECTOR, SparkDriver, connector_jars, java_variables, pyspark_home
from tests.support.spark_environment import cluster_commands, packed_environment
from tests.support.spark_examples import output_of
from tests.support.spark_standalone import StandaloneCluster
from tests.support.spark_topics import through_the_broker
from tests.support.waiting import wait_until

# The first test waits for an environment to be packed, for the cluster, the session, and a topic to be tiered.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

_PREFLIGHT = 1
"""GETs of the driver before its first task."""

OURS, THEIRS = "kafka-remote", "kafka"
CANARY = "marked-secret-5b1e"
SECRETS = {
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="u" password="{CANARY}";',
    "kafka.ssl.keystore.type": "PEM",
    "kafka.ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
    "kafka.ssl.keystore.key": f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n",
    "kafka.ssl.key.password": CANARY,
}
"""No connection uses them, but they go wherever options go."""
_PAGE = (ROOT / "docs" / "spark.md").read_text()
_LOG_ALL = """
import logging
logging.basicConfig(level=logging.DEBUG)
logging.getLogger("py4j").setLevel(logging.INFO)  # at DEBUG it logs each call of Java with its arguments
"""


@attrs.frozen
class Cluster:
    """The cluster with one session on it, one core on each of its two workers."""

    standalone: StandaloneCluster
    environment: Path
    driver: SparkDriver
    events: Path
    page: str

    def ready(self) -> None:
        """Waits until both executors run: Spark replaces a killed one."""
        wait_until(lambda: self.driver("executors") == 2 == len(self.standalone.executors()), "two executors")

    def tasks(self, since: int) -> list[dict[str, Any]]:
        """The attempts of the query that ran since that time, as Spark's event log, which comes behind, has them."""
        events = wait_until(lambda: self._events_of_a_query(since), "the query to be in the event log")
        return [
            event for event in events if event["Event"] == "SparkListenerTaskEnd" and since <= event["Task Info"]["Launch Time"]
        ]

    def tasks_by_now(self, since: int) -> list[dict[str, Any]]:
        """The same with attempts that end after their query: Spark logs those at the end of another job."""
        self.driver("packages")
        return self.tasks(since)

    def _events_of_a_query(self, since: int) -> list[dict[str, Any]]:
        text = "".join(file.read_text() for file in self.events.iterdir())
        events = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        ended = [event["time"] for event in events if event["Event"].endswith("SparkListenerSQLExecutionEnd")]
        return events if any(since <= time for time in ended) else []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        environment, jars = packed_environment(), connector_jars()
        directory = tmp_path_factory.mktemp("spark")
        modules = directory / "modules"
        modules.mkdir()
        (modules / "sitecustomize.py").write_text(_LOG_ALL)
        standalone = StandaloneCluster(WITH_CONNECTOR, directory, modules=[modules])
    except MissingPartError as error:
        pytest.skip(f"no Spark: {error}")
    with standalone:
        events = directory / "events"
        events.mkdir()
        # What ./environment/bin/python is to the driver; executors get the archive.
        (directory / "environment").symlink_to(environment / "environment")
        (port,) = free_ports(1)
        (redaction,) = re.findall(r"^spark\.redaction\.regex +(.*)$", _PAGE, re.MULTILINE)
        settings = {
            "spark.master": standalone.master,
            "spark.archives": f"{environment}/environment.tar.gz#environment",
            "spark.cores.max": "2",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.minTaskRuntime": "100ms",
            "spark.speculation.quantile": "0.5",
            "spark.redaction.regex": redaction,
            "spark.executor.syncLogLevel.enabled": "true",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
        }
        variables = {
            "PYSPARK_PYTHON": "./environment/bin/python",
            # The driver could find the source with its own Python, which executors of other machines do not have.
            "PYTHONPATH": f"{pyspark_home(WITH_CONNECTOR)}:{ROOT}:{ROOT / 'fetchers'}:{modules}",
        }
        with SparkDriver(WITH_CONNECTOR, directory, jars=jars, settings=settings, variables=variables) as driver:
            yield Cluster(standalone, environment, driver, events, f"http://{HOST}:{port}")


@pytest.fixture
def held() -> Iterator[HeldOrigin]:
    with HeldOrigin() as origin:
        yield origin


def served_by(broker: KafkaBroker, held: HeldOrigin) -> dict[str, Any]:
    """A shim's arguments: small windows, so that a split takes several."""
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "store": broker.store_url,
        "range_bytes": 64 << 10,
        "max_grant_bytes": 128 << 10,
        "origin_listen": held.listen,
        "origin_public_url": held.url,
    }


@contextmanager
def shim_of(broker: KafkaBroker, held: HeldOrigin, **more: Any) -> Iterator[Shim]:
    with Shim(ShimConfig(**served_by(broker, held), **more)) as running:
        assert running.wait_ready(PATIENCE_SECONDS)
        yield running


def options_for(held: HeldOrigin, bootstrap_servers: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap_servers,
        "includeHeaders": "true",
        "remote.storage.fetcher.allowed.hosts": held.url.partition("//")[2],
        "remote.storage.fetcher.allow.http": "true",
        "remote.storage.fetcher.allow.private.addresses": "true",
        # Each segment is a split, so that there are more splits than cores.
        "remote.splitBytes": "1",
        **{name: str(value) for name, value in PATIENT.items()},
        **SECRETS,
        **more,
    }


@pytest.fixture(scope="module")
def expected(cluster: Cluster, running_broker: KafkaBroker, wide_topic: str) -> Any:
    return cluster.driver("digest", source=THEIRS, options=through_the_broker(running_broker, subscribe=wide_topic))


def broker_took_over(cluster: Cluster) -> Counter[str]:
    """The output of executors about it so far."""
    return Counter(
        line for text in cluster.standalone.logs().values() for line in text.splitlines() if "direct fetch disabled" in line
    )


def test_rows_of_both_workers_equal_sparks_source(
    wide_topic: str, cluster: Cluster, kafka_broker: KafkaBroker, held: HeldOrigin, expected: Any
) -> None:
    cluster.ready()
    with shim_of(kafka_broker, held) as shim, ThreadPoolExecutor(1) as aside:
        began = SystemClock().time_ms()
        held.hold(after=_PREFLIGHT)
        job = aside.submit(
            cluster.driver,
            "digest",
            source=OURS,
            options=options_for(held, shim.bootstrap_servers, subscribe=wide_topic, minPartitions="8"),
        )
        # One core each: two concurrent tasks run on both workers.
        held.wait_for_readers(2)
        held.release()
        assert job.result() == expected
    ended = [task["Task Info"] for task in cluster.tasks(began)]
    assert {task["Host"] for task in ended} == {"127.0.0.1", "127.0.0.2"}
    assert len(ended) >= 8


def test_executors_load_the_code_only_from_the_archive(cluster: Cluster) -> None:
    python, package, kernel, path = cluster.driver("packages")
    assert python.endswith("/environment/bin/python")
    for file in (package, kernel):
        assert re.search(r"/worker-\d/app-[^/]+/\d+/(\./)?environment/lib/", file)
    assert kernel.endswith(".so")
    assert str(ROOT) not in path


def test_tasks_run_the_archives_python(wide_topic: str, cluster: Cluster, kafka_broker: KafkaBroker, held: HeldOrigin) -> None:
    cluster.ready()
    with shim_of(kafka_broker, held) as shim, ThreadPoolExecutor(1) as aside:
        held.hold(after=_PREFLIGHT)
        options = options_for(held, shim.bootstrap_servers, subscribe=wide_topic)
        job = aside.submit(cluster.driver, "digest", source=OURS, options=options)
        held.wait_for_readers(2)
        pythons = cluster.standalone.pythons()
        held.release()
        job.result()
    assert pythons == {"./environment/bin/python"}


@pytest.mark.fault("F75")
def test_a_killed_executors_task_is_repeated_without_duplicates(
    wide_topic: str, cluster: Cluster, kafka_broker: KafkaBroker, held: HeldOrigin, expected: Any
) -> None:
    cluster.ready()
    said = broker_took_over(cluster)
    with shim_of(kafka_broker, held) as shim, ThreadPoolExecutor(1) as aside:
        began = SystemClock().time_ms()
        held.hold(after=_PREFLIGHT)
        options = options_for(held, shim.bootstrap_servers, subscribe=wide_topic)
        job = aside.submit(cluster.driver, "digest", source=OURS, options=options)
        asked = held.wait_for_readers(2)
        victim = cluster.standalone.executors()[0]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: victim not in cluster.standalone.executors(), "the executor to be gone")
        held.release()
        assert job.result() == expected
    lost = [task for task in cluster.tasks(began) if task["Task End Reason"]["Reason"] == "ExecutorLostFailure"]
    assert lost
    # The segment that the lost task was reading was read again, with locations of the repetition's own.
    urls = [path for path, _ in held.answers]
    again = [path for path in asked if len({url for url in urls if same_range(url, path)}) > 1]
    assert again
    assert broker_took_over(cluster) == said


@pytest.mark.fault("F75")
def test_a_speculative_task_changes_no_result(
    wide_topic: str, cluster: Cluster, kafka_broker: KafkaBroker, held: HeldOrigin, expected: Any
) -> None:
    cluster.ready()
    said = broker_took_over(cluster)
    with shim_of(kafka_broker, held) as shim:
        began = SystemClock().time_ms()
        # One task hangs, as long as it takes the other core to run all others and then its twin.
        held.hold(limit=1, after=_PREFLIGHT)
        times = {"fetch.remote.read.timeout.ms": "300000", "kafkaConsumer.pollTimeoutMs": "300000"}
        options = options_for(held, shim.bootstrap_servers, subscribe=wide_topic, **times)
        assert cluster.driver("digest", source=OURS, options=options) == expected
        assert broker_took_over(cluster) == said
        held.release()
        with suppress(TimeoutError):
            wait_until(lambda: twins(cluster.tasks_by_now(began)), "both attempts to end", seconds=120)
        tasks = cluster.tasks(began)
    attempts = twins(tasks)
    assert attempts, (held.answers, [(task["Stage ID"], task["Task End Reason"], task["Task Info"]) for task in tasks])
    assert sorted(task["Task End Reason"]["Reason"] for task in attempts) == ["Success", "TaskKilled"]


def twins(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attempts of a task whose speculative twin came first, when both have ended."""

    def task_of(attempt: dict[str, Any]) -> tuple[int, int]:
        return attempt["Stage ID"], attempt["Task Info"]["Index"]

    def came_first(attempt: dict[str, Any]) -> bool:
        return attempt["Task Info"]["Speculative"] and attempt["Task End Reason"]["Reason"] == "Success"

    pairs = [[other for other in tasks if task_of(other) == task_of(twin)] for twin in tasks if came_first(twin)]
    return next((pair for pair in pairs if len(pair) == 2), [])


def test_tasks_outlive_their_urls(
    wide_topic: str, cluster: Cluster, kafka_broker: KafkaBroker, held: HeldOrigin, expected: Any
) -> None:
    cluster.ready()
    said = broker_took_over(cluster)
    with shim_of(kafka_broker, held, url_ttl=2.0) as shim, ThreadPoolExecutor(1) as aside:
        held.hold(after=_PREFLIGHT)
        options = options_for(held, shim.bootstrap_servers, subscribe=wide_topic)
        job = aside.submit(cluster.driver, "digest", source=OURS, options=options)
        asked = held.wait_for_readers(2)
        answered = len(held.answers) - _PREFLIGHT
        wait_until(lambda: {held.ask(path) for path in asked} == {403}, "their URLs to expire")
        held.release()
        assert job.result() == expected
    assert {status for path, status in held.answers if path in asked} <= {403}
    # A machine that takes two seconds from a location to its first range has the broker left.
    assert 206 in {status for _, status in held.answers[answered + _PREFLIGHT :]} or broker_took_over(cluster) > said


def test_the_broker_takes_over_when_the_shim_is_killed(
    wide_topic: str, cluster: Cluster, kafka_broker: KafkaBroker, held: HeldOrigin, expected: Any
) -> None:
    cluster.ready()
    said = broker_took_over(cluster)
    with ShimProcess(**served_by(kafka_broker, held)) as shim, ThreadPoolExecutor(1) as aside:
        held.hold(after=_PREFLIGHT)
        more = {
            "subscribe": wide_topic,
            "fetch.remote.bootstrap.servers": shim.bootstrap_servers,
            "fetch.remote.location.timeout.ms": "2000",
        }
        options = options_for(held, kafka_broker.bootstrap_servers, **more)
        job = aside.submit(cluster.driver, "digest", source=OURS, options=options)
        held.wait_for_readers(2)
        shim.kill()
        held.release()
        assert job.result() == expected
    new = list((broker_took_over(cluster) - said).elements())
    assert new
    assert [
        line
        for line in new
        if not re.search(rf"disabled for {re.escape(wide_topic)}-0: .+; the broker continues at offset \d+ \(\S+", line)
    ] == []


def test_no_log_page_or_plan_shows_a_secret_or_a_location(
    wide_topic: str, cluster: Cluster, kafka_broker: KafkaBroker, held: HeldOrigin
) -> None:
    cluster.ready()
    with shim_of(kafka_broker, held) as shim:
        options = options_for(held, shim.bootstrap_servers, subscribe=wide_topic)
        shown = {"explain": cluster.driver("extended", source=OURS, options=options)}
        cluster.driver("sql", source=OURS, options=options)
    assert any(status == 206 for _, status in held.answers)
    shown |= {str(path.relative_to(path.parents[3])): text for path, text in cluster.standalone.logs().items()}
    shown |= {file.name: file.read_text(errors="replace") for file in [cluster.driver.log_file, *cluster.events.iterdir()]}
    shown |= pages(cluster.page)
    assert "PythonScan" in shown["explain"] or "kafka-remote" in shown["explain"]
    assert any("kafka_remote_client" in text for name, text in shown.items() if name.endswith("stderr"))
    found = {name: leaks(text) for name, text in shown.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def leaks(text: str) -> list[str]:
    """The secret, with the text before it."""
    found = re.finditer(rf"{CANARY}|signature=[0-9a-f]{{8}}|expires=\d{{8}}", text)
    return [text[max(0, match.start() - 80) : match.end()] for match in found]


def pages(url: str) -> dict[str, str]:
    """Spark's own pages, and what its REST interface tells."""

    def get(path: str) -> str:
        with urllib.request.urlopen(f"{url}/{path}", timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    (application,) = json.loads(get("api/v1/applications"))
    rest = f"api/v1/applications/{application['id']}"
    queries = json.loads(get(f"{rest}/sql?length=1000"))
    paths = [f"{rest}/{name}" for name in ("environment", "jobs", "stages?details=true", "sql?length=1000", "allexecutors")]
    paths += ["jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/"]
    paths += [f"SQL/execution/?id={query['id']}" for query in queries]
    return {path: get(path) for path in paths}


def test_the_pages_commands_run_on_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    code = re.findall(r"^```python\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)[0].replace('.master("local[2]")', "")
    for name in ("environment", "environment.tar.gz"):
        (tmp_path / name).symlink_to(cluster.environment / name)
    home = pyspark_home(WITH_CONNECTOR)
    small = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
    }
    local = {"spark.driver.host": HOST, "spark.executor.cores": "1", "spark.local.dir": str(tmp_path / "local")}
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in (small | local).items()))
    with EmbeddedCluster(tmp_path / "tier", segment_bytes=20_000, expire_local=True) as kafka:
        # Each call produces separate batches: a segment ends between batches.
        for partition, _ in product(range(kafka.partitions), range(8)):
            kafka.produce("orders", [(b"key-%d" % n, b"value-%d " % n * 10) for n in range(50)], partition=partition)
        assert kafka.archive() > 0
        for stand_in, real in {
            "localhost:9092": kafka.bootstrap_servers,
            "localhost:9192": kafka.bootstrap_servers,
            "localhost:9193": kafka.origin_url.partition("//")[2],
        }.items():
            code = code.replace(stand_in, real)
        (tmp_path / "orders.py").write_text(code)
        printed = output_of(
            ["bash", "-euc", cluster_commands()[1].replace("spark://localhost:7077", cluster.standalone.master)],
            cwd=tmp_path,
            # A distribution of Spark has its PySpark in SPARK_HOME; pip's is on the path.
            env={
                **os.environ,
                **java_variables(),
                "SPARK_HOME": f"{home}/deps",
                "SPARK_CONF_DIR": str(tmp_path),
                "PYTHONPATH": str(home),
            },
        )
        assert f"{400 * kafka.partitions} records" in printed
        assert kafka.metrics()["origin_requests"] > 0


def same_range(one: str, other: str) -> bool:
    return re.sub(r"(expires|signature)=[^&]*", "", one) == re.sub(r"(expires|signature)=[^&]*", "", other)
