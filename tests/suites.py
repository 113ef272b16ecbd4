"""Which suite a test belongs to: exactly one, by what it needs and where it lies. ``pytest --suite NAME`` runs one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["CAMPAIGNS", "SUITES", "is_elsewhere", "place_of", "suite_of"]

SUITES = (
    "unit",
    "shim",
    "consumer",
    "faults",
    "state-machine",
    "broker",
    "parity",
    "groups",
    "plain-groups",
    "stores",
    "spark",
    "packaging-docs",
    "fuzz",
)
CAMPAIGNS = frozenset({"plain-groups"})
"""Those that are run for themselves, by a make target of the name."""
_FOLDERS = {
    "consumer": {"consumer"},
    "faults": {"faults"},
    "fuzz": {"fuzz"},
    "groups": {"integration"},
    "packaging-docs": {"docs", "packaging"},
    "parity": {"integration", "parity"},
    "plain-groups": {"state_machine"},
    "spark": {"integration"},
    "state-machine": {"state_machine"},
}
"""Where all tests of a suite lie, so that a run of it need not import the others. Other suites have theirs anywhere."""
_TESTS = Path(__file__).resolve().parent
_SIDE_BY_SIDE = "test_consumer_semantics"
"""How names of files begin in which the real broker serves our consumer and the plain one."""
_OF_THEIR_OWN = {"integration/test_group_rebalances.py": "groups", "state_machine/test_plain_groups.py": "plain-groups"}
_LONG_FIRST = ("cluster", "scenarios", "rows", "to_database", "page", "batch", "segments", "backfill", "live_stream")
"""Files ``test_spark_<name>`` that run long, by how long: one that a worker takes last leaves the other without work."""


def place_of(item: pytest.Item) -> int:
    """Where its file comes in a run, which is in random order beside that."""
    name = item.path.stem.removeprefix("test_spark_")
    return _LONG_FIRST.index(name) if item.get_closest_marker("spark") and name in _LONG_FIRST else len(_LONG_FIRST)


def is_elsewhere(path: Path, suite: str) -> bool:
    """Whether no test of the suite is at this path."""
    return suite in _FOLDERS and path.is_relative_to(_TESTS) and path != _TESTS and _folder(path) not in _FOLDERS[suite]


def suite_of(item: pytest.Item) -> str:
    """The suite, by the rules below. Raises AssertionError for a test that a run of its suite would not look for."""
    suite = _suite_of(item)
    assert not is_elsewhere(item.path, suite), f"{item.nodeid} is a test of {suite}, which has none in its folder"
    return suite


def _folder(path: Path) -> str:
    return path.relative_to(_TESTS).parts[0]


def _suite_of(item: pytest.Item) -> str:
    """``spark``: needs real Spark. ``stores``: needs a real object store server, with a broker or without. ``broker``: needs
    the real broker alone. ``parity``: the consumer beside the plain one, scenario by scenario, on the real broker.
    ``state-machine``: the same command by command, in random programs. ``groups``: many members, on the real broker;
    ``plain-groups``: none of ours among them. ``packaging-docs``: about the tree, packages and documents. ``shim``: needs
    the embedded cluster or exercises the shim; ``consumer``: and is about the consumer.
    ``faults``: what goes wrong, on the embedded cluster. ``fuzz``: any bytes into the record decoders, for minutes.
    ``unit``: all else.
    """
    path = item.path.relative_to(_TESTS)
    folder = _folder(item.path)
    if path.as_posix() in _OF_THEIR_OWN:
        return _OF_THEIR_OWN[path.as_posix()]
    if folder == "state_machine":
        return "state-machine"
    if item.get_closest_marker("spark"):
        return "spark"
    if item.get_closest_marker("stores"):
        return "stores"
    if item.get_closest_marker("broker"):
        return "parity" if folder == "parity" or item.path.name.startswith(_SIDE_BY_SIDE) else "broker"
    if folder in {"packaging", "docs"}:
        return "packaging-docs"
    if folder in {"faults", "fuzz"}:
        return folder
    if folder == "shim" or item.get_closest_marker("embedded"):
        return "consumer" if folder == "consumer" else "shim"
    return "unit"
