"""docs/life-of-a-segment.md: its examples run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "life-of-a-segment.md").read_text()


def test_examples_of_the_page_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 7
    names: dict[str, object] = {}
    try:
        for block in blocks:
            exec(block, names)
    finally:
        names["cluster"].close()
