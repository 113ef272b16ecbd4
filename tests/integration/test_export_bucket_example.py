"""examples/export_bucket.py: it exports all topics of a bucket as tables and names the damaged ones."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds

from tests.support.artifacts import ROOT
from tests.support.golden import golden_local
from tests.support.scanned import expected_rows, rows_of


def exported(store: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "examples/export_bucket.py", "--store", store.as_uri(), "--target", target.as_uri()]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_readable_topics_are_exported_and_the_others_named(tmp_path: Path) -> None:
    store, target = tmp_path / "tier", tmp_path / "tables"
    for folder in (golden_local() / "remote" / "kafka-tiered-storage").iterdir():
        if folder.name.startswith(("logappend-", "epochs-")):
            shutil.copytree(folder, store / "kafka-tiered-storage" / folder.name)
    log = min(store.glob("*/logappend-*/*.log"))
    whole = log.read_bytes()
    middle = len(whole) // 2
    log.write_bytes(whole[:middle] + bytes(200) + whole[middle + 200 :])
    done = exported(store, target)
    assert done.returncode == 1
    assert done.stderr.endswith("not exported: logappend\n")
    assert list((target / "logappend").rglob("*.parquet")) == []
    log.write_bytes(whole)
    done = exported(store, target)
    assert done.returncode == 0, done.stderr
    rows = rows_of(ds.dataset(target / "logappend", format="parquet").to_table())
    assert rows == list(expected_rows("logappend", 0, "read_committed"))[: len(rows)]
    assert f"logappend: {len(rows)} records" in done.stdout
