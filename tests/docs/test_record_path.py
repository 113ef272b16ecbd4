"""The page that follows one record from ``assign`` to ``Message`` names few files, and all of them exist."""

from __future__ import annotations

import re

from tests.packaging.tree import ROOT

_MOST = 25
_STEP = re.compile(r"^(\d+)\. `([\w/]+\.py)`: .", re.MULTILINE)


def test_the_path_of_a_record_names_few_files_that_exist() -> None:
    page = (ROOT / "docs" / "design.md").read_text()
    section = page.partition("## One record, file by file")[2].partition("\n## ")[0]
    steps = _STEP.findall(section)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 10 < len(steps) <= _MOST
    assert len({path for _, path in steps}) == len(steps)
    roots = (ROOT, ROOT / "kafka_remote_client")
    assert [path for _, path in steps if not any((root / path).is_file() for root in roots)] == []
