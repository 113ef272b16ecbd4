"""examples/audit_bucket.py: a tier that a broker wrote is sound; it finds damage, a gap and a stray object where they are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.artifacts import ROOT
from tests.support.golden import golden_local


@pytest.fixture
def tier(tmp_path: Path) -> Path:
    for folder in (golden_local() / "remote" / "kafka-tiered-storage").glob("epochs-0-*"):
        shutil.copytree(folder, tmp_path / "kafka-tiered-storage" / folder.name)
    return tmp_path


def audited(store: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    command = [sys.executable, "examples/audit_bucket.py", "--store", store.as_uri(), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_it_finds_damage_gaps_and_stray_objects(tier: Path) -> None:
    status, (summary,), _ = audited(tier)
    assert (status, summary["verdict"], summary["segments_checked"]) == (0, "sound", summary["segments"])
    first, *_, gone, last = sorted(tier.rglob("*.log"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    stem = gone.name.removesuffix("log")
    for path in gone.parent.glob(f"{stem}*"):
        path.unlink()
    (last.parent / "notes.txt").write_text("remember")
    status, (*findings, summary), _ = audited(tier, "--topic", "epochs")
    assert (status, summary["verdict"]) == (1, "findings")
    found = {finding["kind"]: finding for finding in findings}
    assert sorted(found) == ["batch-damaged", "foreign-object", "offset-gap"]
    assert found["batch-damaged"]["object"].endswith(first.name)
    assert found["foreign-object"]["object"].endswith("/notes.txt")
    assert found["offset-gap"]["partition"] == 0


def test_a_store_without_segments_is_not_sound(tmp_path: Path) -> None:
    status, lines, said = audited(tmp_path)
    assert (status, lines) == (2, [])
    assert said.startswith("not audited: ")
