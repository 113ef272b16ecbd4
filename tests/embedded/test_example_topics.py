"""Examples that read a topic: one that the cluster does not have is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.artifacts import ROOT
from tests.support.embedded_topics import PATIENCE_SECONDS, small_cluster


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay_from_time.py", "--topic", "oders", "--since", "2023-01-01T00:00:00+00:00"],
        ["asyncio_application.py", "--topics", "oders", "group.id=report"],
    ],
    ids=["replay", "asyncio"],
)
def test_an_example_ends_with_the_error_of_an_unknown_topic(arguments: list[str], tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:
        settings = [f"bootstrap.servers={cluster.bootstrap_servers}", "remote.storage.fetcher.allowed.hosts=localhost"]
        command = [sys.executable, "-W", "ignore", f"examples/{arguments[0]}", *arguments[1:], *settings]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_SECONDS)
    assert (done.returncode, done.stdout) == (1, "")
    assert "UNKNOWN_TOPIC_OR_PART" in done.stderr
