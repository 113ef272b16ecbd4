"""docs/tiered-kafka.md: its test passes with the plugin, and its table names what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kafka_remote_client.tiered_kafka import CrashPoint, TieredCluster

PAGE = (Path(__file__).parents[1] / "docs" / "tiered-kafka.md").read_text()
PLUGIN = "kafka_remote_client.tiered_kafka.pytest_plugin"


def test_page_test_passes_with_the_plugin(tmp_path: Path) -> None:
    (example,) = (
        block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) if "def test" in block
    )
    (tmp_path / "test_example.py").write_text(example)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        PLUGIN,
        "--strict-markers",
        "-W",
        "error",
        "--rootdir",
        str(tmp_path),
    ]
    done = subprocess.run([*command, "test_example.py"], capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_plugin_imports_nothing_heavy() -> None:
    program = f"import sys, pytest; before = {{*sys.modules}}; import {PLUGIN}; print(*({{*sys.modules}} - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("kafka_remote_client.")}
    assert ours == {PLUGIN, "kafka_remote_client.lazy_exports", "kafka_remote_client.tiered_kafka"}
    assert not {"attr", "confluent_kafka", "asyncio", "numpy"} & {*done.stdout.split()}


def test_page_names_the_methods_and_crash_points_there_are() -> None:
    table = PAGE[PAGE.index("## What a test can do") : PAGE.index("## What is different")]
    methods = {name for name in vars(TieredCluster) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)\(", table)) - {"TieredCluster"} == methods - {"start", "close", "bootstrap_servers"}
    assert {point.value for point in CrashPoint} <= set(re.findall(r"`([a-z-]+)`", table))
