"""The page of the public API: each module with its names and the first sentence of their docstrings.

A comment below a name tells ``docs/build_site.py`` where the site puts the whole docstring and the signatures.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["MODULES", "api_page"]

MODULES = (
    "kafka_remote_client",
    "kafka_remote_client.errors",
    "kafka_remote_client.values",
    "kafka_remote_client.records",
    "kafka_remote_client.spark",
    "kafka_remote_client.exporters.prometheus",
    "kafka_remote_client.exporters.opentelemetry",
    "kafka_remote_client.plugin",
    "kafka_remote_client.model",
    "kafka_remote_client.testing",
    "kafka_remote_client.embedded.cluster",
    "kafka_remote_client.tiered_kafka",
)
_HEAD = """\
# API

The public names, by module. All other modules are internal. On the documentation site each name also has its signature, its
methods and its whole docstring. Settings are in [configs.md](configs.md), metrics in [metrics.md](metrics.md). Generated from
the docstrings by `docs/api_page.py`.
"""


def api_page() -> str:
    """Returns the page."""
    lines = [_HEAD]
    for name in MODULES:
        module = importlib.import_module(name)
        lines += [f"## {name}", "", _first_sentence(module), "", *_names(module), ""]
    return "\n".join(lines).rstrip() + "\n"


def _value(module: Any, name: str) -> Any:
    """Returns a public object. For one that the compiled decoder has, its twin in Python: the page is the same without it."""
    value = getattr(module, name)
    if getattr(value, "__module__", "") == "kafka_remote_client.records._kernel":
        return getattr(importlib.import_module("kafka_remote_client.records.message_slice"), name)
    return value


def _names(module: Any) -> Iterator[str]:
    constants = [name for name in module.__all__ if not _has_docstring(getattr(module, name))]
    if constants:
        yield f"Constants: {', '.join(f'`{name}`' for name in constants)}."
        yield ""
    for name in module.__all__:
        value = _value(module, name)
        if name in constants or inspect.ismodule(value):
            continue
        yield f"- `{name}`: {_first_sentence(value)}"
    for name in module.__all__:
        value = _value(module, name)
        if name not in constants and not inspect.ismodule(value):
            yield ""
            yield f"<!-- ::: {value.__module__}.{value.__qualname__} -->"


def _has_docstring(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)


def _first_sentence(value: Any) -> str:
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    if text == "See the module.":
        return _first_sentence(importlib.import_module(value.__module__))
    found = re.match(r".*?\.(?= |$)", text)
    sentence = found[0] if found else text
    sentence = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", sentence)
    return sentence.replace("``", "`").rstrip(":.") + "."
