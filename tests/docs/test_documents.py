"""The documents agree with the tree: links, generated pages, the format of fragments and decisions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import ROOT, RUN_AS_A_WHOLE, blocks, documents
from tests.packaging.tree import source_modules

_LINK = re.compile(r"\[[^\]]*\]\((?!https?://)(?P<target>[^)#]*)(?:#(?P<anchor>[^)]*))?\)")
_REFERENCE = re.compile(r'([\w/-]+\.md), "([^"]+)"')
_FRAGMENT = re.compile(r"[a-z0-9-]+\.(added|changed|fixed|removed|security)\.md")
_LANGUAGES = {"python", "console", "text", "json", "mermaid", "properties", "toml", ""}


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", documents(), ids=str)
def test_links_lead_to_existing_targets(document: Path) -> None:
    text = (ROOT / document).read_text()
    for link in _LINK.finditer(text):
        target = (ROOT / document).parent / link["target"] if link["target"] else ROOT / document
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in _anchors(target.read_text()), link[0]


@pytest.mark.parametrize("module", [path for path in source_modules() if '.md, "' in (ROOT / path).read_text()], ids=str)
def test_references_of_modules_lead_to_existing_sections(module: Path) -> None:
    for page, section in _REFERENCE.findall((ROOT / module).read_text()):
        assert f"# {section}\n" in (ROOT / page).read_text(), f"{page}: {section}"


def test_blocks_have_a_language_that_is_run_or_listed_as_not_run() -> None:
    fences = {
        match for document in documents() for match in re.findall(r"^```(\w+)", (ROOT / document).read_text(), re.MULTILINE)
    }
    assert fences <= _LANGUAGES
    assert blocks("python")
    assert blocks("console")


@pytest.mark.parametrize(("page", "test"), RUN_AS_A_WHOLE.items(), ids=str)
def test_a_page_that_is_run_as_a_whole_has_a_test_that_names_it(page: Path, test: Path) -> None:
    assert str(page) in (ROOT / test).read_text()


def test_generated_pages_are_current() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr


def _folder(name: str) -> list[Path]:
    return sorted(path for path in (ROOT / "docs" / name).iterdir() if path.name != "README.md")


@pytest.mark.parametrize("fragment", _folder("changes"), ids=lambda path: path.name)
def test_a_change_is_one_paragraph_for_users(fragment: Path) -> None:
    assert _FRAGMENT.fullmatch(fragment.name)
    text = fragment.read_text()
    assert text.strip().endswith(".")
    assert "\n\n" not in text.strip()
    assert 5 <= len(text.split()) <= 120


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(path.name.split("-")[0]) for path in _folder("decisions")]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("record", _folder("decisions"), ids=lambda path: path.name)
def test_a_decision_has_its_context_choice_and_alternatives(record: Path) -> None:
    text = record.read_text()
    assert re.match(rf"# {int(record.name[:4])}\. \S", text)
    for part in ("**Decided.**", "**Why.**", "**Rejected.**"):
        assert part in text
