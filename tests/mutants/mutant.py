"""A one-line bug as data, and how it is put into the product while a test runs.

The text of a module is edited and compiled again; each function whose code differs gets the new code in place. So the bug
affects all code that imported the function or has an instance of its class. Changed module constants are
replaced in the module only. The change is permanent: plant it in a child process.
"""

from __future__ import annotations

import importlib
import inspect
import tomllib
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

__all__ = ["CannotPlantError", "Mutant", "plant", "read_mutants"]


_ROOT = Path(__file__).resolve().parents[2]


class CannotPlantError(LookupError):
    """The product changed: the mutant's text, or the code that it changes, no longer exists."""


@attrs.frozen
class Mutant:
    """``old`` occurs once in the source of ``module``. ``killed_by`` names a test that must fail: ``folder/file.py::test``.

    A bug made by the library names none. ``equivalent``: the reason why no test can fail with it.
    """

    name: str
    module: str
    old: str
    new: str
    killed_by: str
    equivalent: str = ""

    @property
    def is_made(self) -> bool:
        """Returns whether the library made it."""
        return not self.killed_by

    @property
    def package(self) -> str:
        """The package of the module; ``kafka_remote_client`` for a top-level module."""
        parts = self.module.split(".")
        if parts[0] == "kafka_remote_fetchers":
            return "fetchers"
        return parts[0] if len(parts) == 2 else parts[1]

    @property
    def tests(self) -> list[Path]:
        """The tests of the package: a folder, or the top-level files."""
        tests = _ROOT / "tests"
        return sorted(tests.glob("test_*.py")) if self.package == "kafka_remote_client" else [tests / self.package]

    @property
    def source(self) -> str:
        """The text of the module."""
        root = _ROOT / "fetchers" if self.package == "fetchers" else _ROOT
        return root.joinpath(*self.module.split(".")).with_suffix(".py").read_text(encoding="utf-8")

    @property
    def paired(self) -> str:
        """The test file of the module's name."""
        *folders, name = self.module.removeprefix("kafka_remote_client.").split(".")
        return "/".join([*folders, f"test_{name.lstrip('_')}.py"])


def read_mutants(folder: Path) -> tuple[Mutant, ...]:
    """Returns the bugs of all ``*.toml`` files in a folder, in the order of the files' names."""
    files = [tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))]
    return tuple(Mutant(**bug) for file in files for bug in file["bug"])


def plant(mutant: Mutant) -> None:
    """Puts the bug into the imported module. Raises CannotPlantError if nothing there would change."""
    module = importlib.import_module(mutant.module)
    source, path = mutant.source, str(module.__file__)
    if source.count(mutant.old) != 1:
        raise CannotPlantError(f"{mutant.name}: the text occurs {source.count(mutant.old)} times in {mutant.module}")
    wrong = types.ModuleType(module.__name__)
    wrong.__file__ = module.__file__
    edited = compile(source.replace(mutant.old, mutant.new), path, "exec")
    exec(edited, vars(wrong))
    if not _replace(module, wrong):
        raise CannotPlantError(f"{mutant.name}: the change reaches no function and no constant of {mutant.module}")


def _replace(module: types.ModuleType, wrong: types.ModuleType) -> bool:
    right, changed = dict(_functions(module, module.__name__)), False
    for name, function in _functions(wrong, module.__name__):
        if name in right and _behaviour(function.__code__) != _behaviour(right[name].__code__):
            right[name].__code__ = function.__code__
            changed = True
        if name in right and _plain(function.__defaults__) != _plain(right[name].__defaults__):
            right[name].__defaults__ = function.__defaults__
            changed = True
    for name, value in vars(wrong).items():
        there = vars(module).get(name)
        if not name.startswith("__") and _plain(value) is not None and _plain(there) != _plain(value):
            setattr(module, name, value)
            changed = True
    return changed


def _functions(owner: object, module: str) -> Iterator[tuple[str, types.FunctionType]]:
    """Returns the functions that the module defines, including methods of its classes, by their qualified names."""
    for value in list(vars(owner).values()):
        if isinstance(value, type) and value.__module__ == module and value is not owner:
            yield from _functions(value, module)
        candidates: list[Any] = [value]
        if isinstance(value, property):
            candidates = [value.fget, value.fset]
        elif isinstance(value, staticmethod | classmethod):
            candidates = [value.__func__]
        for candidate in candidates:
            function = inspect.unwrap(candidate) if callable(candidate) else None
            if isinstance(function, types.FunctionType) and function.__module__ == module:
                yield function.__qualname__, function


def _behaviour(code: types.CodeType) -> tuple[object, ...]:
    """Returns what the code does, without its line numbers."""
    constants = tuple(_behaviour(one) if isinstance(one, types.CodeType) else (type(one), one) for one in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, constants


def _plain(value: object) -> object:
    """Returns the value if it is plain data that can be compared, otherwise ``None``."""
    if isinstance(value, tuple | frozenset):
        return value if all(_plain(one) is not None or one is None for one in value) else None
    return value if isinstance(value, bool | int | float | str | bytes) else None
