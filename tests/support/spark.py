"""Real Spark: PySpark's own distributions, Spark's Kafka source, and a driver process that runs jobs for tests.

::

    .cache/spark/pyspark-<version>/      what pip fetches, unpacked: Python sources and Spark's jars
    .cache/spark/connector-<digest>/     Spark's Kafka source, by Maven

PySpark is not installed into the environment of the tests, because two versions are needed: a driver is a process of the same
Python that finds one of them first on its path. It lives as long as its standard input, so it ends with the process that
started it.

``python -m tests.support.spark`` fetches all of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.artifacts import CACHE, ROOT, SHORT_LIVED, file_lock, jars_of, java, run_or_missing
from tests.support.processes import end_group
from tests.support.run_directory import leftovers

__all__ = [
    "DEFAULT_JAVA",
    "NEWEST",
    "OLDEST",
    "WITH_CONNECTOR",
    "SparkDriver",
    "SparkJobError",
    "connector_jars",
    "environment",
    "java_variables",
    "pyspark_home",
]

WITH_CONNECTOR = "4.0.1"
"""The newest PySpark with a published Kafka source."""
NEWEST = "4.3.0"
OLDEST = "3.5.8"
"""It has no Python data sources: for ``read_segments`` and exports alone."""
DEFAULT_JAVA = {"JDK_JAVA_OPTIONS": ""}
"""Variables of benchmarks: Java with both compilers and its default collector, as users run it."""
_PATIENCE_SECONDS = 60.0
_SHOWN = 10_000
"""How many characters of a driver's log an error shows."""
_POM = ROOT / "tests" / "support" / "spark-pom.xml"
_HOME = CACHE / "spark"


class SparkJobError(Exception):
    """A job's error, as reported by the driver."""


def pyspark_home(version: str) -> Path:
    """The directory to put on PYTHONPATH; it has ``deps/`` for SPARK_HOME. Raises MissingPartError."""
    target = _HOME / f"pyspark-{version}"
    with file_lock(_HOME / f"{version}.lock"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=_HOME) as made:
                pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
                fetch = [
                    *pip,
                    "download",
                    "--no-deps",
                    "--no-cache-dir",
                    "--no-build-isolation",
                    f"--dest={made}",
                    f"pyspark=={version}",
                ]
                run_or_missing(fetch, f"pip cannot fetch PySpark {version}")
                (archive,) = Path(made).glob("pyspark-*.tar.gz")
                with tarfile.open(archive) as opened:
                    opened.extractall(made, filter="data")
                add = [*pip, "install", "--no-deps", f"--target={made}/pyspark-{version}", _py4j(version)]
                run_or_missing(add, "pip cannot fetch py4j")
                Path(made, f"pyspark-{version}").rename(target)
    return target


def java_variables() -> dict[str, str]:
    """Variables of processes that start Spark. Tests kill some of them, which then leave their temporary files."""
    options = [*SHORT_LIVED, f'"-Djava.io.tmpdir={leftovers()}"']
    return {"JDK_JAVA_OPTIONS": " ".join(options), "TMPDIR": leftovers()}


def environment(home: Path) -> dict[str, str]:
    """The environment of a process that finds that PySpark, and whose workers find this Python and this tree.

    It does not count coverage, because that slows each of Spark's many short processes, and other tests cover the code.
    """
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")},
        **java_variables(),
        "PYTHONPATH": f"{home}:{ROOT}:{ROOT / 'fetchers'}",  # PySpark looks for sources on this path alone
        "SPARK_HOME": str(home / "deps"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def _py4j(version: str) -> str:
    if version == OLDEST:
        return "py4j==0.10.9.7"  # Its classes of Java are of this version.
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith("py4j=="))


def connector_jars() -> list[Path]:
    """Returns Spark's Kafka source and its dependencies. Raises MissingPartError."""
    return sorted(jars_of(_POM, _HOME / "connector", "Maven cannot fetch Spark's Kafka source").glob("*.jar"))


class SparkDriver:
    """A Spark session, by default ``local[2]``, in a separate process; ``directory`` is for its output."""

    def __init__(
        self,
        version: str,
        directory: Path,
        *,
        jars: Sequence[Path] = (),
        settings: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """``variables``: of the environment; they override those of :func:`environment`. Raises MissingPartError if Java or
        PySpark is not available.
        """
        java()
        home = pyspark_home(version)
        self.log_file = directory / "driver.log"
        configuration = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
            "spark.local.dir": str(directory / "local"),
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            **({"spark.jars": ",".join(map(str, jars))} if jars else {}),
            **(settings or {}),
        }
        if "spark.remote" in configuration:  # a session of Spark Connect, which has no master
            del configuration["spark.master"]
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.spark_driver", json.dumps(configuration)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env=environment(home) | dict(variables or {}),
                start_new_session=True,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __call__(self, job: str, **arguments: Any) -> Any:
        """Runs a job of ``spark_driver`` by name. Returns its JSON answer. Raises SparkJobError with its error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([job, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the driver ended: {self._end_of_log()}")
        found = json.loads(answer)
        if "error" in found:
            error = SparkJobError(found["error"])
            error.add_note(f"the end of the driver's log: {self._end_of_log()}")
            raise error
        return found["answer"]

    def _end_of_log(self) -> str:
        return self.log_file.read_text(errors="replace")[-_SHOWN:]

    @property
    def pid(self) -> int:
        """The driver's process, which leads the session of Java and of Python's workers."""
        return self._process.pid

    def stop(self) -> None:
        """Ends the session and its process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            end_group(self._process.pid)
            self._process.wait()
        self._process.stdout.close()


def main() -> None:
    """Fetches all parts."""
    for version in (OLDEST, WITH_CONNECTOR, NEWEST):
        print(pyspark_home(version).relative_to(ROOT))
    print(len(connector_jars()), "jars")


if __name__ == "__main__":
    main()
