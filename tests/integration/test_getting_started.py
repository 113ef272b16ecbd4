"""docs/getting-started.md from its top to its bottom, as a new user follows it: each block as it is, in one directory.

Only ports and the directory of the cluster are others. ``pip install`` installs nothing: its extras exist.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.docs.documents import ROOT, Block, blocks_of
from tests.support.artifacts import MissingPartError, java
from tests.support.golden import golden_aiven, read_jsonl
from tests.support.spark import NEWEST, environment, pyspark_home
from tests.support.started_cluster import Running, running

# The first run downloads PySpark.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

PAGE = Path("docs/getting-started.md")
_FROM_STORE = re.compile(r"^(\d+) records came from the store$", re.MULTILINE)
_ANSWER = re.compile(r"^\| `([\w-]+\.properties)` \| (.*) \|$", re.MULTILINE)
_SMALL_SPARK = "--conf spark.ui.enabled=false --conf spark.driver.memory=512m --conf spark.driver.host=127.0.0.1 pyspark-shell"
_EXPECTED: Mapping[str, str] = {
    "ls": "segment",
    "offsets": "tiered",
    "locate": "remote",
    "map": "partitions",
    "verify": "sound: 3 topics, 4 partitions, 44 segments",
    "cost": "advice",
    "doctor": "clock          ok",
    "export --dry-run": "about 446,496 bytes in 23 GETs, 23 of 25 segments",
    "export": "job export: 1958 records",
}
"""By the verb, what its output has."""


class Reader:
    """A user who follows the page in one directory. ``ran`` has what was run, in order."""

    def __init__(self, directory: Path, opened: ExitStack) -> None:
        self._directory, self._opened = directory, opened
        self._cluster: Running | None = None
        self.ran: list[str] = []
        (directory / "tests").symlink_to(ROOT / "tests")  # the user is in a checkout
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path}

    def follow(self, block: Block) -> None:
        """Does what a user does with a block."""
        if block.language == "console":
            for line in block.text.splitlines():
                self._command(line.removeprefix("$ "))
        elif block.language == "properties":
            (self._directory / "consumer.properties").write_text(self._in_place(block.text))
            self.ran.append("consumer.properties")
        elif "pyspark" in block.text:
            self._spark(block.text)
        else:
            self._python(block.text)

    def _command(self, line: str) -> None:
        program, verb, *arguments = shlex.split(line)
        self.ran.append(f"{program} {verb}" if program == "kafka-remote" else program)
        if program == "pip":
            extras = re.findall(r"\[([a-z,0-9]+)\]$", arguments[-1])[0].split(",")
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            assert set(extras) <= set(project["optional-dependencies"])
        elif verb == "cluster":
            assert not arguments
            self._cluster = self._opened.enter_context(running(self._directory / "tier"))
        else:
            status, output = self._run(["/bin/sh", "-c", self._in_place(line)])
            if program == "kafka-remote":
                self._check(verb, arguments, status, output)
            else:
                assert status == 0, output

    def _check(self, verb: str, arguments: list[str], status: int, output: str) -> None:
        answer = dict(_ANSWER.findall((ROOT / PAGE).read_text())).get(arguments[0])
        assert status == (0 if answer is None else 1), output
        if answer is None:
            answer = _EXPECTED[f"{verb} --dry-run" if "--dry-run" in arguments else verb]
        assert self._in_place(answer) in (output if answer in output else " ".join(output.split()))

    def _python(self, text: str) -> None:
        self.ran.append("python")
        status, output = self._run([sys.executable, "-X", "dev", "-c", self._in_place(text)])
        assert status == 0, output
        counted = _FROM_STORE.search(output)
        assert counted is not None, output
        assert int(counted[1]) > 0, output

    def _spark(self, text: str) -> None:
        self.ran.append("spark")
        java()
        self._environment |= environment(pyspark_home(NEWEST)) | {"PYSPARK_SUBMIT_ARGS": _SMALL_SPARK}
        status, output = self._run([sys.executable, "-c", text])
        assert status == 0, output
        assert "1958 of 1958 records are in the files" in output

    def _run(self, command: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        return done.returncode, done.stdout

    def _in_place(self, text: str) -> str:
        return text if self._cluster is None else self._cluster.in_place(text)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with ExitStack() as opened:
        yield Reader(tmp_path, opened)


def test_a_new_user_can_follow_the_page_to_its_end(reader: Reader, tmp_path: Path) -> None:
    missing = None
    for block in blocks_of(PAGE):
        try:
            reader.follow(block)
        except MissingPartError as error:
            missing = error
    verbs = "ls offsets locate map doctor doctor doctor doctor ls locate map verify doctor cost export export"
    assert [one.removeprefix("kafka-remote ") for one in reader.ran if one.startswith("kafka-remote ")] == [
        "cluster",
        *verbs.split(),
    ]
    assert [one for one in reader.ran if not one.startswith("kafka-remote ")] == [
        *("pip", "python", "python", "consumer.properties", "grep", "sed", "sed", "tar", "spark"),
    ]
    for page in ("orders.html", "txn.html"):
        assert "<svg" in (tmp_path / page).read_text()
    committed = [
        record["offset"] for record in read_jsonl(golden_aiven("aiven-zstd") / "expected" / "txn-0.read_committed.jsonl.gz")
    ]
    assert exported(tmp_path / "txn") == committed[:1958]
    if missing is not None:
        pytest.skip(f"the page was followed, but for its last block: no Spark: {missing}")
    assert exported(tmp_path / "txn-by-spark") == committed[:1958]


def exported(folder: Path) -> list[int]:
    """The sorted offsets in all files of a folder."""
    files = folder.rglob("*.parquet")
    return sorted(offset for file in files for offset in pq.read_table(file, columns=["offset"])["offset"].to_pylist())
