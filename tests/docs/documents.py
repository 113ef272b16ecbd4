"""The documents of the tree and the fenced blocks in them."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

__all__ = ["ROOT", "RUN_AS_A_WHOLE", "Block", "blocks", "blocks_of", "documents"]

ROOT = Path(__file__).resolve().parents[2]
RUN_AS_A_WHOLE = {
    Path("docs/aiven.md"): Path("tests/test_aiven_page.py"),
    Path("docs/extending.md"): Path("tests/test_extending_page.py"),
    Path("docs/getting-started.md"): Path("tests/integration/test_getting_started.py"),
    Path("docs/life-of-a-segment.md"): Path("tests/test_segment_page.py"),
    Path("docs/operating-the-shim.md"): Path("tests/integration/test_operating_page.py"),
    Path("docs/plugins.md"): Path("tests/test_plugins_page.py"),
    Path("docs/spark.md"): Path("tests/integration/test_spark_page.py"),
    Path("docs/stores.md"): Path("tests/test_stores_page.py"),
}
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@attrs.frozen
class Block:
    """A fenced block: its document relative to the root, its first line there, its language and text."""

    document: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def documents() -> list[Path]:
    """README.md and all of docs/, relative to the root."""
    return [Path("README.md"), *sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))]


def blocks(*languages: str) -> list[Block]:
    """All fenced blocks in some languages, except on pages whose blocks belong together and have their own test."""
    pages = [document for document in documents() if document not in RUN_AS_A_WHOLE]
    return [block for document in pages for block in blocks_of(document) if block.language in languages]


def blocks_of(document: Path) -> list[Block]:
    """All fenced blocks of a document, in order."""
    text = (ROOT / document).read_text()
    return [
        Block(document, text.count("\n", 0, match.start()) + 1, match["language"], match["text"])
        for match in _BLOCK.finditer(text)
    ]
