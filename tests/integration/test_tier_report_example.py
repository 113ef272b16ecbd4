"""examples/tier_report.py: its sums equal those of the records that Kafka's own consumer read."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.artifacts import ROOT
from tests.support.golden import golden_local, read_jsonl
from tests.support.scanned import expected_rows


def test_it_reports_records_of_each_hour_and_partition() -> None:
    store = (golden_local() / "remote").as_uri()
    command = [sys.executable, "examples/tier_report.py", "--store", store, "--topic", "epochs", "--since", "2023-11-14"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = {(line["hour"], line["partition"]): line for line in map(json.loads, done.stdout.splitlines())}
    tiered = {
        line["partition"]: line["latest_tiered"]["offset"]
        for line in read_jsonl(golden_local() / "offsets.jsonl")
        if line["topic"] == "epochs"
    }
    assert sorted(found) == [("2023-11-14T22:00Z", 0), ("2023-11-14T22:00Z", 1)]
    for partition in (0, 1):
        rows = [row for row in expected_rows("epochs", partition, "read_committed") if row["offset"] <= tiered[partition]]
        line = found["2023-11-14T22:00Z", partition]
        assert line["records"] == len(rows)
        keys = sum(len(row["key"] or b"") for row in rows)
        assert line["bytes"] > keys
