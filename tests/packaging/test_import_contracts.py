"""The import contracts of pyproject.toml: one forbidden import breaks each of them, and each sentence is true."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.tree import ROOT, source_modules

_TOOL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
_CONTRACTS: list[dict[str, Any]] = _TOOL["importlinter"]["contracts"]
_CLIENT, _FETCHERS, _FOUND_BY_SPARK = "kafka_remote_client", "kafka_remote_fetchers", "pyspark_kafka_remote"

# By the first words of a contract's name: a module that it binds, and a module that it must not import.
_PLANTED = {
    "Dependencies point downwards": (f"{_CLIENT}.errors", f"{_CLIENT}.config"),
    "Records import nothing of ours": (f"{_CLIENT}.records.batch", f"{_CLIENT}.clock"),
    "Protocol imports nothing of ours": (f"{_CLIENT}.protocol.headers", f"{_CLIENT}.metrics"),
    "The tiered cluster imports nothing of ours": (f"{_CLIENT}.tiered_cluster.log", f"{_CLIENT}.records.batch"),
    "The tiered Kafka judges": (f"{_CLIENT}.tiered_kafka.topics", f"{_CLIENT}.records.batch"),
    "Records do no I/O": (f"{_CLIENT}.records.payload", "threading"),
    "The shim never imports": (f"{_CLIENT}.shim.tls", f"{_CLIENT}.fetch.range_sizes"),
    "Fetchers import nothing of ours": (f"{_FETCHERS}.local", f"{_CLIENT}.registry"),
    "The client never imports": (f"{_CLIENT}.location.source", f"{_FETCHERS}.memory"),
    "Nothing imports testing or cli": (f"{_CLIENT}.verify.chain", f"{_CLIENT}.testing.answers"),
    "Nothing but cli imports spark": (f"{_CLIENT}.consumer.damage", f"{_CLIENT}.spark.source.input_partition"),
    "A scan's value and its plan are pure": (f"{_CLIENT}.scanning.pruning", "threading"),
    "A scan stands on the engine": (f"{_CLIENT}.scanning.split_window", f"{_CLIENT}.shim.tls"),
    "Spark stands on the engine": (f"{_CLIENT}.spark.source.input_partition", f"{_CLIENT}.shim.tls"),
    "The scheduler is pure": (f"{_CLIENT}.fetch.range_sizes", "threading"),
}


def _planted(name: str) -> tuple[str, str]:
    (found,) = [pair for begin, pair in _PLANTED.items() if name.startswith(begin)]
    return found


def _source_of(tree: Path, module: str) -> Path:
    return tree / (module.replace(".", "/") + ".py")


def _lint(tree: Path) -> str:
    """Returns import-linter's report on the packages in a directory."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    command += ["--config", str(tree / "pyproject.toml"), "--no-cache"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=240, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns import-linter's report on a copy of the packages with one violation of each contract, without folded lines."""
    tree = tmp_path_factory.mktemp("tree")
    for source in source_modules():
        target = tree / (source.relative_to("fetchers") if source.parts[0] == "fetchers" else source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, target)
    shutil.copy(ROOT / "pyproject.toml", tree)
    for contract in _CONTRACTS:
        module, forbidden = _planted(contract["name"])
        source = _source_of(tree, module)
        source.write_text(f"{source.read_text()}\nimport {forbidden}  # planted\n")
    return _lint(tree)


@pytest.mark.parametrize("contract", _CONTRACTS, ids=lambda contract: contract["name"][:30])
def test_one_forbidden_import_breaks_the_contract(report: str, contract: dict[str, Any]) -> None:
    broken = " ".join(report[report.index("Broken contracts") :].split())
    module, forbidden = _planted(contract["name"])
    begin = broken.index(contract["name"])
    following = [at for other in _CONTRACTS if (at := broken.find(other["name"], begin + 1)) > begin]
    section = broken[begin : min(following, default=len(broken))]
    assert re.search(rf"{re.escape(module)} -> {re.escape(forbidden)}\b", section), section


def _top_level() -> set[str]:
    return {path.stem for path in (ROOT / _CLIENT).iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()} - {
        "__init__",
        "__main__",  # a script: the layers place it above all
    }


def _bound(contract: dict[str, Any], key: str) -> set[str]:
    return {name.removeprefix(f"{_CLIENT}.") for name in contract[key]} - {_FETCHERS}


@pytest.mark.parametrize(
    "contract", [one for one in _CONTRACTS if "nothing of ours but" in one["name"]], ids=lambda contract: contract["name"][:30]
)
def test_a_contract_of_allowed_imports_forbids_all_others(contract: dict[str, Any]) -> None:
    allowed = set(re.findall(r"\w+", contract["name"].partition(" nothing of ours but ")[2])) - {"and"}
    (own,) = {name.removeprefix(f"{_CLIENT}.") for name in contract["source_modules"]}
    assert allowed <= _top_level()
    assert _bound(contract, "forbidden_modules") == _top_level() - allowed - {own}


@pytest.mark.parametrize(
    ("begin", "free"),
    [("Nothing imports testing or cli", {"testing", "cli"}), ("Nothing but cli imports spark", {"cli", "spark"})],
)
def test_a_contract_of_no_importer_forbids_all_modules(begin: str, free: set[str]) -> None:
    (contract,) = [one for one in _CONTRACTS if one["name"].startswith(begin)]
    assert _bound(contract, "source_modules") == _top_level() - free
    assert _FETCHERS in contract["source_modules"]


def test_types_and_contracts_are_checked_for_all_packages() -> None:
    assert set(_TOOL["importlinter"]["root_packages"]) == {_CLIENT, _FETCHERS, _FOUND_BY_SPARK}
    assert _TOOL["mypy"]["files"] == [_CLIENT, "fetchers"]
