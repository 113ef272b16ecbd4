"""No module imports itself through others: each can be read and tested with only the modules below it.

Imports at the top of a module count, also those for types only. An import inside a function is made when it is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.packaging.tree import ROOT, module_name, source_modules, tracked_files

Imports = Mapping[str, set[str]]


def _imported(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """Returns the modules that a module imports; a name from a package counts as the module of that name, if it is one."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else str(node.module)
        else:
            yield from _imported(node, modules)


def _circle(imports: Imports) -> list[str]:
    """Returns modules of which each imports the next and the last one the first; empty if there are none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return [str(module) for module in error.args[1]]
    return []


def _imports(sources: Mapping[str, str], compiled: set[str]) -> Imports:
    """Returns the imports of each of ``sources`` (texts by module name). ``compiled`` modules import nothing here."""
    modules = {*sources, *compiled}
    return {name: {one for one in _imported(ast.parse(text), modules) if one in modules} for name, text in sources.items()}


def test_no_module_imports_itself_through_others() -> None:
    sources = {module_name(path): (ROOT / path).read_text() for path in source_modules()}
    compiled = {module_name(path) for path in tracked_files() if path.suffix == ".pyx"}
    imports = _imports(sources, compiled)
    assert len(imports) > 200
    assert sum(map(len, imports.values())) > 1000
    assert _circle(imports) == []


@pytest.mark.parametrize(
    "second",
    [
        "from package.first import Thing",
        "from package import first",
        "import package.first",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package.first import Thing",
        "try:\n    import package.first\nexcept ImportError:\n    pass",
    ],
    ids=["name", "module", "plain", "types", "attempt"],
)
def test_a_circle_is_found(second: str) -> None:
    sources = {"package": "", "package.first": "from package import second", "package.second": second}
    assert set(_circle(_imports(sources, set()))) == {"package.first", "package.second"}


def test_an_import_inside_a_function_closes_no_circle() -> None:
    late = "def make():\n    from package.first import Thing\n    return Thing()"
    assert _circle(_imports({"package": "", "package.first": "import package.second", "package.second": late}, set())) == []
