"""Which suite a test belongs to: exactly one, by what it needs and where it lies. ``pytest --suite NAME`` runs one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["CAMPAIGNS", "SUITES", "suite_of"]

SUITES = (
    "unit",
    "shim",
    "consumer",
    "faults",
    "state-machine",
    "broker",
    "parity",
    "groups",
    "stores",
    "spark",
    "packaging-docs",
    "fuzz",
)
CAMPAIGNS = frozenset({"state-machine", "groups"})
"""Those that are run for themselves, by a make target of the name."""
_TESTS = Path(__file__).resolve().parent
_SIDE_BY_SIDE = "test_consumer_semantics"
"""How names of files begin in which the real broker serves our consumer and the plain one."""
_GROUPS = frozenset({"test_group_rebalances.py", "test_groups.py"})


def suite_of(item: pytest.Item) -> str:
    """``spark``: needs real Spark. ``stores``: needs a real object store server, with a broker or without. ``broker``: needs
    the real broker alone. ``parity``: the consumer beside the plain one, scenario by scenario, on the real broker.
    ``state-machine``: the same command by command. ``groups``: many members, on the real broker. ``packaging-docs``: about the
    tree, packages and documents. ``shim``: needs the embedded cluster or exercises the shim; ``consumer``: and is about
    the consumer.
    ``faults``: what goes wrong, on the embedded cluster. ``fuzz``: any bytes into the record decoders, for minutes.
    ``unit``: all else.
    """
    folder = item.path.relative_to(_TESTS).parts[0]
    if item.path.name in _GROUPS and folder in {"integration", "state_machine"}:
        return "groups"
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
