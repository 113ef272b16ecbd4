"""docs/spark.md: its code runs on the newest PySpark, and its statements are true."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.artifacts import ROOT, MissingPartError, java
from tests.support.spark import NEWEST, environment, pyspark_home
from tests.support.spark_examples import output_of

# The first run downloads PySpark.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

PAGE = (ROOT / "docs" / "spark.md").read_text()
_PREPARED = """
import os
from pyspark.sql import SparkSession
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
builder.config("spark.local.dir", os.getcwd()).config("spark.sql.warehouse.dir", os.getcwd()).master("local[2]").getOrCreate()
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A topic ``orders`` of 2,000 records, most of it tiered."""
    with EmbeddedCluster(tmp_path_factory.mktemp("tier"), segment_bytes=20_000, expire_local=True) as running:
        # Each call produces separate batches: a segment ends between batches.
        for partition, _ in product(range(running.partitions), range(10)):
            running.produce("orders", [(b"key-%d" % n, b"value-%d " % n * 10) for n in range(50)], partition=partition)
        assert running.archive() > 0
        yield running


def test_the_code_runs_and_most_records_come_from_the_store(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    try:
        java()
        home = pyspark_home(NEWEST)
    except MissingPartError as error:
        pytest.skip(f"no Spark: {error}")
    code = _PREPARED + "\n".join(blocks("python"))
    for stand_in, real in {
        "localhost:9092": cluster.bootstrap_servers,
        "localhost:9192": cluster.bootstrap_servers,
        "localhost:9193": urlsplit(cluster.origin_url).netloc,
    }.items():
        code = code.replace(stand_in, real)
    (tmp_path / "page.py").write_text(code)
    printed = output_of([sys.executable, "page.py"], cwd=tmp_path, env=environment(home))
    assert "2000 records" in printed
    assert "value-0 value-0" in printed
    assert re.findall(r"^\|\s+(\d)\|\s+500\|\s+499\|$", printed, re.MULTILINE) == ["0", "1", "2", "3"]
    assert re.search(r"^\|\s+2000\|$", printed, re.MULTILINE)
    assert re.search(r"^gets +\d+ +\d+$", printed, re.MULTILINE), "no line with planned and counted requests"
    assert "2000 records counted" in printed
    assert "50 records are left by the filters" in printed
    assert cluster.metrics()["origin_requests"] > 0


def test_documented_extras_exist() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named = re.findall(r"pip install 'kafka-remote-client\[(.*?)\]'", "".join(blocks("console")))
    assert {extra for names in named for extra in names.split(",")} <= extras
    assert len(named) == 2
