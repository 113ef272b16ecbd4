"""An export that is killed by SIGKILL has each record once after the next run, in Parquet files, Iceberg and Delta."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.artifacts import ROOT


def test_an_export_killed_anywhere_has_each_record_once_after_the_next_run() -> None:
    command = [sys.executable, "-X", "dev", "-m", "tests.support.export_kills", "--points", "12", "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["points"], told["broker_connections"], told["failed"]) == (12, 0, [])
    assert set(told["operations"]) == {"local", "objects", "iceberg", "delta"}
    assert min(told["operations"].values()) > 80
    assert told["in_commits"] == 8
