"""Programs of examples/ end with one line that names the mistake, where a user gave a wrong argument."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.artifacts import ROOT
from tests.support.golden import golden_local
from tests.support.spark import environment

_NO_SPARK = {"pyspark/__init__.py": "SparkConf = None", "pyspark/sql/__init__.py": "DataFrame = SparkSession = None"}
_NO_SPARK["pyspark/sql/streaming.py"] = "StreamingQuery = None"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the modules of PySpark that the programs import before they read their arguments."""
    folder = tmp_path_factory.mktemp("no-spark")
    for name, text in _NO_SPARK.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def ended(home: Path, program: str, *arguments: str) -> tuple[int, list[str]]:
    """The exit status and the lines of the error output."""
    command = [sys.executable, "-W", "ignore", f"examples/{program}", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("replay_from_time.py", ["--topic=orders", "--since=2024-05-01"]),
        ("group_application.py", ["--topic=orders"]),
        ("asyncio_application.py", ["--topics=orders"]),
        ("spark_backfill.py", ["--target=file:///data"]),
        ("spark_live_stream.py", ["--target=/data", "--checkpoint=/data"]),
        ("spark_to_database.py", ["--database=sqlite:///copy.db"]),
    ],
)
@pytest.mark.parametrize("text", ["group.id", "=x"])
def test_a_setting_without_a_name_or_a_value_is_named(home: Path, program: str, arguments: list[str], text: str) -> None:
    status, lines = ended(home, program, *arguments, text)
    assert status == 2
    assert lines[-1] == f"{program}: error: argument NAME=VALUE: {text!r} is not NAME=VALUE"


def test_a_target_that_is_no_url_is_named(home: Path) -> None:
    status, lines = ended(home, "spark_backfill.py", "--target=orders", "subscribe=orders")
    assert status == 2
    assert lines[-1] == "spark_backfill.py: error: argument --target: URI has empty scheme: 'orders'"


def test_an_encryption_key_without_an_id_is_named(home: Path) -> None:
    status, lines = ended(home, "export_bucket.py", "--store=file:///tier", "--target=file:///out", "--encryption-key=key.pem")
    assert status == 2
    assert lines[-1] == "export_bucket.py: error: argument --encryption-key: 'key.pem' is not KEYID=FILE"


@pytest.mark.parametrize(
    ("program", "arguments", "told"),
    [
        ("tier_report.py", ["--topic=order"], "found no segments of topic order; "),
        ("tier_report.py", ["--topic=orders", "--since=today"], "since is not a time in ISO 8601: 'today'"),
        ("export_bucket.py", ["--target=file:///out", "--layout=chunks"], "unknown layout 'chunks'"),
        ("spark_iceberg_backfill.py", ["--topic=a", "--catalog=c", "--table=a"], "the table name 'a' must have"),
        ("audit_bucket.py", ["--topic=order"], "found no topic order"),
    ],
)
def test_a_mistake_about_the_tier_is_one_line(home: Path, program: str, arguments: list[str], told: str) -> None:
    status, lines = ended(home, program, f"--store={(golden_local() / 'remote').as_uri()}", *arguments)
    assert status in (1, 2)
    assert len(lines) == 1
    assert re.match(r"not \w+: ", lines[0])
    assert told in lines[0]


@pytest.mark.parametrize(
    ("program", "arguments", "told"),
    [
        ("replay_from_time.py", ["--topic=orders", "--since=2024-05-01"], "not replayed: "),
        ("group_application.py", ["--topic=orders", "group.id=audit"], "stopped: "),
        ("asyncio_application.py", ["--topics=orders", "group.id=report"], "not reported: "),
    ],
)
def test_an_unknown_setting_of_a_consumer_is_one_line(home: Path, program: str, arguments: list[str], told: str) -> None:
    status, lines = ended(home, program, *arguments, "bootstrap.servers=127.0.0.1:1", "fetch.remote.bufer.memory=1")
    assert status == 1
    assert len(lines) == 1
    assert lines[0].startswith(told)
    assert "fetch.remote.bufer.memory" in lines[0]
