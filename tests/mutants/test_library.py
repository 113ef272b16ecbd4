"""The bugs that the library makes of a module, and those that a seed selects."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.mutants.library import AREAS, equivalents, made_of, sampled
from tests.mutants.mutant import Mutant

_ROOT = Path(__file__).resolve().parents[2]
_MODULE = "kafka_remote_client.location.lru_cache"


def changes(source: str) -> set[str]:
    return {made.name.partition(" -> ")[2] for made in made_of(_MODULE, source)}


def test_operators_change_the_behaviour_of_a_line() -> None:
    assert changes("def f(a, b):\n    return a < b and not a\n") == {
        "return a <= b and not a",
        "return a < b or not a",
        "return a < b and a",
    }
    assert changes("TABLE = {1: True}\n") == {"TABLE = {2: True}", "TABLE = {1: False}", "TABLE = None"}


@pytest.mark.parametrize(
    "source",
    [
        "def f(a):\n    raise ValueError(f'{a + 1} is not 2')\n",
        "def f(a):\n    _log.warning('%d', a + 1)\n",
        "def f(a):\n    assert a > 1\n",
        "def f(a: dict[str, 1]) -> None: ...\n",
        "class P(Protocol):\n    a: int = 1\n",
        "class P:\n    def __repr__(self):\n        return str(1)\n",
        "if TYPE_CHECKING:\n    import a\n",
        "x = 'a text'\n",
        "Key = tuple[str, 1]\n",
    ],
)
def test_changes_that_only_readers_notice_are_left_out(source: str) -> None:
    assert changes(source) <= {"x = None"}


def test_a_seed_gives_the_same_bugs_each_time() -> None:
    def names(seed: int, count: int) -> list[str]:
        return [f"{made.module} {made.name}" for made in sampled("location", seed, count)]

    first = names(1, 8)
    assert first[:4] == names(1, 4)
    assert first != names(2, 8)


def test_each_area_has_modules_and_no_module_is_in_two() -> None:
    modules = [module for area in AREAS.values() for module in area.modules]
    assert all(area.modules for area in AREAS.values())
    assert len(modules) == len(set(modules))
    assert "kafka_remote_client.remote_log.aiven.manifest" in AREAS["remote_log"].modules
    assert "kafka_remote_client.wire" in AREAS["kafka_remote_client"].modules
    assert "kafka_remote_client.fetch.engine" in AREAS["engine"].modules


def test_each_fully_covered_module_is_in_a_pure_area() -> None:
    pure = {module for area in AREAS.values() if area.aim == max(one.aim for one in AREAS.values()) for module in area.modules}
    gates = runpy.run_path(str(_ROOT / ".ci" / "suites.py"))["GATES"]
    files = [path for globs, percent in gates if percent == 100 for glob in globs.split(",") for path in _ROOT.glob(glob)]
    modules = {".".join(path.relative_to(_ROOT).with_suffix("").parts) for path in files if path.suffix == ".py"}
    assert len(modules) > 10
    assert {module for module in modules - pure if not module.endswith(".__init__")} == set()
    assert not {"kafka_remote_client.protocol.connection", "kafka_remote_client.remote_log.follower"} & pure


def test_excluded_modules_of_an_area_exist() -> None:
    folder = _ROOT / "kafka_remote_client"
    left_out = [folder / area.folder / f"{name}.py" for area in AREAS.values() for name in area.except_for]
    assert [path for path in left_out if not path.is_file()] == []


def test_each_equivalent_change_matches_the_code_and_has_a_reason() -> None:
    stale = [one for one in equivalents() if one.old.splitlines()[0] not in Mutant("", one.module, "", "", "").source]
    assert stale == []
    assert all(one.reason for one in equivalents())
