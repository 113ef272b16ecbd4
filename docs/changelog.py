"""Assembles the changelog of the next version from the fragments in docs/changes.

``python docs/changelog.py`` prints the page: the version in pyproject.toml, then the released ones. With ``--release DATE`` it
writes the page to docs/changelog.md and removes the fragments.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path

__all__ = ["KINDS", "changelog", "section"]

HERE = Path(__file__).parent
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed", "security": "Security"}
"""The kinds of changes, in the order of their headings."""
_TITLE = "# Changelog\n"
_LINK = re.compile(r"\]\(\.\./")
"""The changelog is one folder above the fragments."""


def section(heading: str, fragments: list[Path]) -> str:
    """Returns one version: a list for each kind, in the order of the fragments' names.

    Raises ValueError for a file whose name has no kind.
    """
    lists: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for fragment in sorted(fragments):
        kind = fragment.name.removesuffix(".md").rpartition(".")[2]
        if kind not in lists:
            raise ValueError(f"{fragment.name}: no kind; known kinds: {', '.join(KINDS)}")
        lines = _LINK.sub("](", fragment.read_text().strip()).splitlines()
        lists[kind].append("- " + "\n  ".join(lines))
    parts = [f"### {KINDS[kind]}\n\n" + "\n".join(entries) for kind, entries in lists.items() if entries]
    return "\n\n".join([f"## {heading}", *parts]) + "\n"


def changelog(heading: str, fragments: list[Path], released: str) -> str:
    """Returns the whole page. ``released``: the page before, or an empty text."""
    older = released.removeprefix(_TITLE).strip("\n")
    return "\n".join([_TITLE, section(heading, fragments), *([f"{older}\n"] if older else [])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", metavar="DATE")
    arguments = parser.parse_args()
    version = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]
    page = HERE / "changelog.md"
    fragments = [path for path in (HERE / "changes").glob("*.md") if path.name != "README.md"]
    heading = f"{version} ({arguments.release or 'not released'})"
    text = changelog(heading, fragments, page.read_text() if page.exists() else "")
    if not arguments.release:
        sys.stdout.write(text)
        return
    page.write_text(text)
    for fragment in fragments:
        fragment.unlink()


if __name__ == "__main__":
    main()
