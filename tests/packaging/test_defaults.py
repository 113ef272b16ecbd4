"""Each setting is declared once: no other code, docstring or page writes a default again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import attrs
import pytest
from kafka_remote_fetchers import _settings as fetcher_table

from kafka_remote_client.settings import FETCHER_PREFIX, SETTINGS, Setting
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.settings import SHIM_SETTINGS
from tests.packaging.tree import ROOT, source_modules

_DECLARED_IN = {
    "kafka_remote_client/settings.py",
    "kafka_remote_client/shim/settings.py",
    "fetchers/kafka_remote_fetchers/_settings.py",
}
_GENERATED = {"docs/configs.md", "docs/shim-settings.md", "docs/stores.md", "docs/spark-options.md"}
_RECORDS_OF_THE_PAST = ("docs/changes/", "docs/decisions/", "docs/benchmarks.md")
_OF_ANOTHER_MEANING = {
    ("kafka_remote_client/fetch/broker_log.py", 8 << 20): "what a scan fetches of a broker at a time",
    ("kafka_remote_client/fetch/chunked_fetcher.py", 8 << 20): "memory that a chunk table's word is worth",
    ("kafka_remote_client/protocol/connection.py", 64 << 20): "largest response of a broker",
    ("kafka_remote_client/remote_log/aiven/chunk_table.py", 64 << 20): "largest chunk that a reader takes on",
    ("kafka_remote_client/shim/request_pipeline.py", 100 << 20): "answers that are held for rewriting, not requests",
    ("kafka_remote_client/scanning/export/paths.py", 128 << 20): "row groups of an export",
    ("kafka_remote_client/scanning/export/paths.py", 512 << 20): "files of an export",
    ("kafka_remote_client/scanning/splits.py", 128 << 20): "remote.splitBytes of Spark",
    ("kafka_remote_client/tiered_kafka/server.py", 100 << 20): "largest request that a tiered Kafka takes",
    ("kafka_remote_client/verify/stored_segment.py", 256 << 20): "largest index that verify reads",
}
_LARGE = 1 << 20
_NAMES = re.compile(r"(?:fetch\.remote|remote\.storage)\.[a-z.]*[a-z]")


@cache
def _names() -> dict[str, object]:
    """Defaults by the names of a setting's fields and parameters."""
    fetchers = {
        name.removeprefix(FETCHER_PREFIX).replace(".", "_"): setting.default for name, setting in fetcher_table.SETTINGS.items()
    }
    return (
        fetchers
        | {name: setting.default for name, setting in SHIM_SETTINGS.items()}
        | {setting.attribute: setting.default for setting in SETTINGS}
    )


@cache
def _python() -> dict[str, ast.Module]:
    """The product's modules by path, without the declarations."""
    names = (path.as_posix() for path in source_modules())
    return {name: ast.parse((ROOT / name).read_text()) for name in names if name not in _DECLARED_IN}


def _folded(node: ast.AST | None) -> object:
    """Returns the value of a constant expression: 8 << 20, 8 * 1024 * 1024, "text"; None for any other."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.LShift):
        left, right = _folded(node.left), _folded(node.right)
        if isinstance(left, int) and isinstance(right, int):
            return left * right if isinstance(node.op, ast.Mult) else left << right
    return None


def _defaults(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Returns names of fields and parameters with the expressions of their defaults."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            yield node.target.id, node.value
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            positional = [*node.args.posonlyargs, *node.args.args][::-1]
            pairs = [
                *zip(positional, node.args.defaults[::-1], strict=False),
                *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
            ]
            yield from ((one.arg, value) for one, value in pairs if value is not None)


def _telling(value: object) -> bool:
    """Returns whether a default is characteristic, not one that any code could have: off, none, empty, one."""
    return value not in (None, False, True, "", 0, 1) and isinstance(value, int | float | str)


def repeated_by_name(name: str, tree: ast.Module) -> list[str]:
    """Returns fields and parameters that have the name of a setting and repeat its default."""
    found = []
    for target, value in _defaults(tree):
        if _telling(_folded(value)) and _names().get(target) == _folded(value):
            found.append(f"{name}:{value.lineno}: {target}")
    return found


def repeated_by_size(name: str, tree: ast.Module) -> list[str]:
    """Returns sizes that equal the default of a setting and have no meaning of their own."""
    sizes = {value for value in _names().values() if isinstance(value, int) and value > _LARGE}
    found = []
    for node in ast.walk(tree):
        value = _folded(node)
        if isinstance(value, int) and value in sizes and (name, value) not in _OF_ANOTHER_MEANING:
            found.append(f"{name}:{node.lineno}: {value}")
    return found


def repeated_in_a_call(name: str, tree: ast.Module) -> list[str]:
    """Returns calls that read a setting by name and pass their own default."""
    declared = {setting.name for setting in (*SETTINGS, *fetcher_table.SETTINGS.values())}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [_folded(one) for one in (*node.args, *(keyword.value for keyword in node.keywords))]
            if declared & {one for one in given if isinstance(one, str)} and any(
                isinstance(one, int | float) and not isinstance(one, bool) for one in given
            ):
                found.append(f"{name}:{node.lineno}")
    return found


def _written(setting: Setting) -> list[str]:
    """Returns how prose writes a default."""
    value = setting.default
    if not isinstance(value, int) or isinstance(value, bool) or value < 10:
        return []
    texts = [str(value), f"{value:,}"]
    if setting.unit == "ms":
        texts.append(f"{value / 1000:g} s")
    if setting.unit.startswith("bytes"):
        texts += [f"{value / (1 << 20):g} MiB", f"{value / 1024:g} KiB", f"{value / (1 << 30):g} GiB"]
    return texts


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    """Returns patterns by setting: its default in a line that names it, except after a change of unit."""
    return {
        setting.name: re.compile(rf"(?<![\d.,])(?<!/ )(?:{'|'.join(map(re.escape, _written(setting)))})(?![\d\w])")
        for setting in SETTINGS
        if _written(setting)
    }


def repeated_in_text(name: str, text: str) -> list[str]:
    """Returns lines that name a setting and write its default."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for setting_name in _NAMES.findall(line):
            if setting_name in _patterns() and _patterns()[setting_name].search(line):
                found.append(f"{name}:{number}: {line.strip()}")
    return found


def _texts() -> Iterator[tuple[str, str]]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for path in [*pages, *(ROOT / name for name in _python())]:
        name = path.relative_to(ROOT).as_posix()
        if name not in _GENERATED and not name.startswith(_RECORDS_OF_THE_PAST):
            yield name, path.read_text()


@pytest.mark.parametrize("rule", [repeated_by_name, repeated_by_size, repeated_in_a_call], ids=lambda rule: rule.__name__)
def test_no_code_repeats_a_default(rule: object) -> None:
    assert [found for name, tree in _python().items() for found in rule(name, tree)] == []


def test_no_page_or_docstring_repeats_a_default() -> None:
    assert [found for name, text in _texts() for found in repeated_in_text(name, text)] == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (repeated_by_name, "def read(*, read_timeout_ms: int = 5_000): ..."),
        (repeated_by_name, "class Limits:\n    max_connections: int = 10_000"),
        (repeated_by_size, "WINDOW = 4 * (8 << 20)"),
        (repeated_by_size, "LARGEST = 128 * 1024 * 1024"),
        (repeated_in_a_call, 'int_setting(configs, "fetch.remote.max.in.flight", 16, minimum=1)'),
    ],
)
def test_the_rules_find_a_repeated_default(rule: object, code: str) -> None:
    assert rule("planted.py", ast.parse(code))


def test_the_rule_for_texts_finds_a_repeated_default() -> None:
    assert repeated_in_text("page.md", "| `fetch.remote.read.timeout.ms` | 5000 | one range |")
    assert repeated_in_text("page.md", "`fetch.remote.buffer.memory` (128 MiB)")
    assert not repeated_in_text("page.md", "`fetch.remote.read.timeout.ms` bounds 4 MiB")


def test_sizes_with_another_meaning_still_exist() -> None:
    for (name, value), reason in _OF_ANOTHER_MEANING.items():
        assert reason
        assert any(_folded(node) == value for node in ast.walk(_python()[name])), name


def test_the_shims_value_has_the_declared_fields_and_defaults() -> None:
    fields = attrs.fields_dict(ShimConfig)
    assert list(fields) == list(SHIM_SETTINGS)
    value = ShimConfig("broker:9092")
    for name, setting in SHIM_SETTINGS.items():
        assert name == "bootstrap_servers" or getattr(value, name) == setting.default, name
