"""docs/design.md: its file map names the existing modules, and no row imports a row below it."""

from __future__ import annotations

import ast
import re

from tests.packaging.tree import ROOT, module_name, source_modules

_CLIENT = "kafka_remote_client"
_PAGE = (ROOT / "docs" / "design.md").read_text()
_MAP = _PAGE[_PAGE.index("## File map") :].partition("\n## ")[0]
_ROWS = [re.findall(r"`([a-z_]+)(?:\.py|/)`", row.split("|")[1]) for row in _MAP.splitlines() if row.startswith("| `")]
_HEIGHT = {name: number for number, names in enumerate(_ROWS) for name in names}


def _part(module: str) -> str | None:
    """Returns the name on the map: ``kafka_remote_client.records.batch`` is in ``records``."""
    parts = module.split(".")
    if parts[0] == "kafka_remote_fetchers":
        return "fetchers"
    if parts[0] == "pyspark_kafka_remote":
        return parts[0]
    return parts[1] if parts[0] == _CLIENT and len(parts) > 1 else None


def _imports(source: str) -> set[str]:
    """Returns the full names of our modules that a source imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{one.name}" for one in node.names} if node.module == _CLIENT else {node.module}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found


def test_the_file_map_names_each_module_once() -> None:
    there = {_part(module_name(path)) for path in source_modules()} - {None}
    assert sorted(name for names in _ROWS for name in names) == sorted(there)


def test_no_row_of_the_file_map_imports_one_below_it() -> None:
    upwards = []
    for path in source_modules():
        own = _part(module_name(path))
        for imported in _imports((ROOT / path).read_text()) if own else ():
            other = _part(imported)
            if other in _HEIGHT and _HEIGHT[other] > _HEIGHT[str(own)]:
                upwards.append(f"{path} imports {imported}")
    assert upwards == []


def test_the_page_has_at_most_2000_words() -> None:
    """Longer text is next to the code that it describes."""
    assert len(_PAGE.split()) <= 2_000
    assert [path for path in re.findall(r"\]\(\.\./([^)#]+)\)", _PAGE) if not (ROOT / path).is_file()] == []
