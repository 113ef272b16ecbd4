"""``make faults`` prints a line that matches the cells' lines."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faults.run import counted


def test_failed_cells_are_violations(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(
        json.dumps({"cell": "a", "faults": ["F01", "F02"]}) + "\n" + json.dumps({"cell": "b", "faults": []}) + "\n"
    )
    (tmp_path / "2.jsonl").write_text(json.dumps({"cell": "c", "faults": ["F02"]}) + "\n")
    assert counted(tmp_path, 3, 1) == {"cells": "2/3", "numbers": "2/48", "controls": "1/1", "violations": 1}
