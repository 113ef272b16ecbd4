"""The changelog that ``make changelog`` assembles."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.tree import ROOT

_PROGRAM = ROOT / "docs" / "changelog.py"
_MODULE = runpy.run_path(str(_PROGRAM))


def _fragments(folder: Path, **texts: str) -> list[Path]:
    paths = [folder / f"{name.replace('__', '.')}.md" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    return paths


def test_changes_are_grouped_by_kind_in_the_order_of_their_names(tmp_path: Path) -> None:
    found = _fragments(tmp_path, b__fixed="B is\nfixed.\n", c__added="C.\n", a__fixed="See [a](../a.md).\n")
    expected = "## 1.2\n\n### Added\n\n- C.\n\n### Fixed\n\n- See [a](a.md).\n- B is\n  fixed.\n"
    assert _MODULE["section"]("1.2", found) == expected


def test_an_unknown_kind_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.improved\.md: no kind"):
        _MODULE["section"]("1.2", _fragments(tmp_path, a__improved="A."))


def _project(tree: Path) -> Path:
    (tree / "docs" / "changes").mkdir(parents=True)
    (tree / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tree / "docs" / "changes" / "README.md").write_text("# Changes\n")
    _fragments(tree / "docs" / "changes", a__added="A.")
    return Path(shutil.copy(_PROGRAM, tree / "docs"))


def _run(program: Path, *arguments: str) -> str:
    return subprocess.run([sys.executable, str(program), *arguments], capture_output=True, text=True, check=True).stdout


def test_a_release_keeps_older_versions_and_removes_the_fragments(tmp_path: Path) -> None:
    program = _project(tmp_path)
    page = tmp_path / "docs" / "changelog.md"
    page.write_text("# Changelog\n\n## 0.1.0 (2026-01-01)\n\n### Added\n\n- Z.\n")
    older = "## 0.1.0 (2026-01-01)\n\n### Added\n\n- Z.\n"
    assert _run(program) == f"# Changelog\n\n## 0.2.0 (not released)\n\n### Added\n\n- A.\n\n{older}"
    assert page.read_text().startswith("# Changelog\n\n## 0.1.0")
    assert _run(program, "--release", "2026-02-01") == ""
    assert page.read_text() == f"# Changelog\n\n## 0.2.0 (2026-02-01)\n\n### Added\n\n- A.\n\n{older}"
    assert [path.name for path in (tmp_path / "docs" / "changes").iterdir()] == ["README.md"]


def test_each_change_of_the_tree_is_in_the_changelog() -> None:
    text = _run(_PROGRAM)
    fragments = [path for path in (ROOT / "docs" / "changes").iterdir() if path.name != "README.md"]
    assert text.count("\n- ") == len(fragments) > 100
