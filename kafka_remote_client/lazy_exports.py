"""Names of a package that are imported when they are first used, so that a part of it comes without the rest.

References: PEP 562, "Module __getattr__ and __dir__".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_exports"]


def lazy_exports(namespace: dict[str, Any], homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns ``__getattr__`` and ``__dir__`` of the package with these globals. ``homes``: the module that defines each name.

    A name whose home is the module of that name in this package is that module itself.

    ``__getattr__`` raises AttributeError for other names.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        home = import_module(homes[name])
        found = namespace[name] = home if homes[name] == f"{namespace['__name__']}.{name}" else getattr(home, name)
        return found

    def names() -> list[str]:
        return sorted({*namespace, *namespace["__all__"]})

    return get, names
